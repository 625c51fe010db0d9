/** `concord scheduler check`: asks a scheduler file every question whose answer must be empty, also while somebody runs it. */
import type { Command } from 'commander'
import type { Execution, SelfCheck } from '#app/scheduler'
import { decodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { answer, type FileFlag, fileOption, withJobs } from './jobs-file.ts'
import { readJsonFlags } from './json-source.ts'
import type { Cli, Outcome } from './terminal.ts'

type CheckFlags = FileFlag & { executions?: string }

export function addSchedulerCheck(scheduler: Command, program: Command, cli: Cli): void {
  fileOption(scheduler.command('check'))
    .description('check every rule that a scheduler file must keep; exits 65 when one is broken')
    .option(
      '--executions <file>',
      'what the jobs themselves wrote down, for S10 and S11: {"executions": [{"job_id": …, "run_id": …}]}',
    )
    .addHelpText(
      'after',
      '\nExamples:\n  $ concord scheduler check\n  $ concord scheduler check --executions ran.json --json\n',
    )
    .action(
      cli.handle(async (flags: CheckFlags): Promise<Outcome> => {
        const executions = await readExecutions(cli, flags.executions)
        if (!executions.ok) return executions
        return withJobs(cli, flags, (file, jobs) => {
          const checked = jobs.checkInvariants(file, executions.value)
          const said = answer(cli, program, checked, jobs.toSelfCheckView, (found) =>
            cli.terminal.out(`${jobs.describeSelfCheck(found)}\n`),
          )
          return said.ok && checked.ok ? judge(checked.value) : said
        })
      }),
    )
}

function judge({ violations }: SelfCheck): Outcome {
  const [first] = violations
  if (!first) return accept(undefined)
  return refuse('scheduler.check.broken', `${violations.length} rules are broken, the first is ${first.invariant}`, {
    hint: 'Keep a copy of the file. The next start of its scheduler repairs what can be repaired; rows are never deleted.',
    facts: { broken: violations.map((each) => each.invariant) },
  })
}

/** Undefined when nothing was given: then S10 and S11 are left out. */
async function readExecutions(cli: Cli, file: string | undefined): Promise<Decision<readonly Execution[] | undefined>> {
  if (file === undefined) return accept(undefined)
  const read = await readJsonFlags(cli.terminal, { file }, undefined)
  if (!read.ok) return read
  const list = read.value?.['executions']
  if (!Array.isArray(list)) {
    return refuse('cli.file.invalid', 'the file holds no list `executions`', { path: '--executions' })
  }
  const executions: Execution[] = []
  for (const [index, each] of list.entries()) {
    const { job_id, run_id } = (each ?? {}) as { job_id?: unknown; run_id?: unknown }
    const jobId = decodeId('job', String(job_id))
    const runId = decodeId('job_run', String(run_id))
    const wrong = jobId.ok ? runId : jobId
    if (!wrong.ok) return { ...wrong, path: `executions[${index}]` }
    if (jobId.ok && runId.ok) executions.push({ jobId: jobId.value, runId: runId.value })
  }
  return accept(executions)
}
