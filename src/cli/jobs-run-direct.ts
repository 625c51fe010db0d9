/** `concord jobs run-direct`: one job here and now, before everything that waits, on the record like any other. */
import process from 'node:process'
import type { Command } from 'commander'
import type { FinishedRun } from '#app/scheduler'
import { accept, type Decision, refuse } from '#kernel/refusal'
import {
  answer,
  type FileFlag,
  fileOption,
  jobsFile,
  parseTime,
  showJobId,
  type WorkBody,
  type WorkFlags,
  workOf,
} from './jobs-file.ts'
import type { Cli, Outcome } from './program.ts'

type DirectFlags = FileFlag & WorkFlags & { wait: number }
const WAIT_MS = 10_000

export function addJobsRunDirect(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('run-direct [command...]'))
    .description('run one job now, while no scheduler runs on the file; exits 0 if it completed')
    .option('--type <type>', 'a registered job type (default: command, or story without a command)')
    .option('--params <json>', 'the params, as a JSON object')
    .option('--timeout <duration>', 'end the command after this, like 30s or 2h', parseTime)
    .option('--wait <duration>', 'how long to wait for the slot (default: 10s)', parseTime, WAIT_MS)
    .addHelpText('after', '\nExample:\n  $ concord jobs run-direct -- node report.mjs --now\n')
    .action(
      cli.handle(async (words: string[], flags: DirectFlags): Promise<Outcome> => {
        const work = workOf(cli.terminal, words, flags)
        if (!work.ok) return work
        const finished = await runHere(cli, flags, work.value)
        const { toJobReportView } = await import('#app/scheduler')
        const said = answer(cli, program, finished, toJobReportView, ({ job, run }) => {
          cli.terminal.out(`${showJobId(job.job_id)}\n`)
          cli.terminal.err(`${run.status?.toLowerCase() ?? 'open'}${run.error === null ? '' : `: ${run.error}`}\n`)
        })
        return said.ok && finished.ok ? judge(finished.value) : said
      }),
    )
}

async function runHere(cli: Cli, flags: DirectFlags, body: WorkBody): Promise<Decision<FinishedRun>> {
  const { terminal } = cli
  const file = jobsFile(terminal, flags.file)
  if (!file.ok) return file
  const jobs = await import('#app/scheduler')
  const opened = jobs.openJobs({ file: file.value, role: 'owner' })
  if (!opened.ok) return opened
  const scheduler = opened.value
  try {
    const { environment, folder, stop } = terminal
    const world = jobs.realJobWorld(scheduler, environment, folder)
    const sleep = (ms: number) => jobs.realWait(ms, new AbortController().signal)
    const recovered = await jobs.recover(scheduler, jobs.openOrphanEnder({ sleep }))
    if (!recovered.ok) return recovered
    return await jobs.runDirect(scheduler, body, {
      world,
      reservedBy: `run-direct of process ${process.pid}`,
      timeoutMs: flags.wait,
      stop,
      onStart: (job) => jobs.killAtExit(job.killNow),
      alert: ({ runId }) => terminal.err(`the outcome of ${runId} could not be written\n`),
    })
  } finally {
    scheduler.close()
  }
}

function judge({ run }: FinishedRun): Outcome {
  if (run.status !== 'FAILED') return accept(undefined)
  return refuse('scheduler.job.failed', run.error ?? 'the job failed', {
    hint: '`concord jobs logs` shows what it printed.',
    facts: { exitCode: run.exit_code },
  })
}
