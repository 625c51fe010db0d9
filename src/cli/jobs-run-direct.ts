/** `concord jobs run-direct`: one job here and now, before everything that waits, on the record like any other. */
import process from 'node:process'
import type { Command } from 'commander'
import type { JobReport, Scheduler } from '#app/scheduler'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { isJson } from './ask-server.ts'
import {
  answer,
  type FileFlag,
  fileOption,
  type Jobs,
  jobsFile,
  parseTime,
  showJobId,
  type WorkBody,
  type WorkFlags,
  workOf,
} from './jobs-file.ts'
import { printLog } from './jobs-logs.ts'
import type { Cli, Outcome } from './terminal.ts'

type DirectFlags = FileFlag & WorkFlags & { wait: number }
const WAIT_MS = 10_000
/** Between two looks whether the file has become free. */
const ASK_MS = 500

export function addJobsRunDirect(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('run-direct [command...]'))
    .description(
      'run one job now, before all that waits; beside a running scheduler, that one runs it; prints its output, exits 0 if it completed',
    )
    .option('--type <type>', 'a registered job type (default: command, or story without a command)')
    .option('--params <json>', 'the params, as a JSON object')
    .option('--timeout <duration>', 'end the command after this, like 30s or 2h', parseTime)
    .option('--wait <duration>', 'how long to wait for the slot (default: 10s)', parseTime, WAIT_MS)
    .addHelpText('after', '\nExample:\n  $ concord jobs run-direct -- node report.mjs --now\n')
    .action(
      cli.handle(async (words: string[], flags: DirectFlags): Promise<Outcome> => {
        const work = workOf(cli.terminal, words, flags)
        if (!work.ok) return work
        const finished = await run(cli, flags, work.value, isJson(program))
        const { toJobReportView } = await import('#app/scheduler')
        const said = answer(cli, program, finished, toJobReportView, ({ job, run }) => {
          cli.terminal.err(
            `${showJobId(job.job_id)} ${run?.status?.toLowerCase() ?? job.status.toLowerCase()}${run?.error == null ? '' : `: ${run.error}`}\n`,
          )
        })
        return said.ok && finished.ok ? judge(finished.value) : said
      }),
    )
}

/** As the owner where there is none; otherwise the running scheduler is asked, through the file that both have open. */
async function run(cli: Cli, flags: DirectFlags, body: WorkBody, isQuiet: boolean): Promise<Decision<JobReport>> {
  const file = jobsFile(cli.terminal, flags.file)
  if (!file.ok) return file
  const jobs = await import('#app/scheduler')
  const untilMs = performance.now() + flags.wait
  for (;;) {
    const leftMs = Math.max(1, untilMs - performance.now())
    const opened = jobs.openJobs({ file: file.value, role: 'owner' })
    if (opened.ok) return runHere(cli, jobs, opened.value, { body, leftMs, isQuiet })
    if (opened.code !== 'scheduler.file.locked') return opened
    const asked = await askOwner(cli, jobs, file.value, { body, leftMs, isQuiet })
    // The owner went away, or was one that only does its own direct execution: then the file may be free now.
    const isFree = !asked.ok && asked.code === 'scheduler.not_running' && asked.facts?.['started'] === false
    const isBusy = !asked.ok && asked.code === 'scheduler.reservation.busy'
    if (!(isFree || isBusy) || performance.now() >= untilMs || cli.terminal.stop.aborted) return asked
  }
}

type Wanted = { readonly body: WorkBody; readonly leftMs: number; readonly isQuiet: boolean }

/** What the job printed is what was asked for; a document has its own place for it, and a job that left nothing has none. */
async function showOutput(
  cli: Cli,
  jobs: Jobs,
  scheduler: Scheduler,
  done: Decision<JobReport>,
  isQuiet: boolean,
): Promise<void> {
  if (isQuiet || !done.ok || done.value.run?.log_path == null) return
  await printLog(cli, scheduler, jobs, { jobId: done.value.job.job_id, isFollowed: false, json: false })
}

async function runHere(
  cli: Cli,
  jobs: Jobs,
  scheduler: Scheduler,
  { body, leftMs, isQuiet }: Wanted,
): Promise<Decision<JobReport>> {
  try {
    const { environment, folder, stop, err } = cli.terminal
    const sleep = (ms: number) => jobs.realWait(ms, new AbortController().signal)
    const recovered = await jobs.recover(scheduler, jobs.openOrphanEnder({ sleep }))
    if (!recovered.ok) return recovered
    const done = await jobs.runDirect(scheduler, body, {
      deps: jobs.realJobDeps(scheduler, environment, folder),
      reservedBy: `run-direct of process ${process.pid}`,
      timeoutMs: leftMs,
      stop,
      onStart: (job) => jobs.killAtExit(job.killNow),
      alert: ({ runId }) => err(`the outcome of ${runId} could not be written\n`),
    })
    await showOutput(cli, jobs, scheduler, done, isQuiet)
    return done
  } finally {
    scheduler.close()
  }
}

async function askOwner(
  cli: Cli,
  jobs: Jobs,
  file: string,
  { body, leftMs, isQuiet }: Wanted,
): Promise<Decision<JobReport>> {
  const opened = jobs.openJobs({ file, role: 'guest' })
  if (!opened.ok) return opened
  const scheduler = opened.value
  try {
    const { stop } = cli.terminal
    const sleep = (ms: number) => jobs.realWait(ms, stop)
    const startByMs = scheduler.deps.now().getTime() + leftMs
    const asked = await jobs.askForDirect(scheduler, body, {
      reservedBy: `run-direct of process ${process.pid}`,
      timeoutMs: Math.min(leftMs, ASK_MS),
      sleep,
      stop,
    })
    if (!asked.ok) return asked
    const isOwned = () => jobs.isOwned(scheduler.db.file)
    const done = await jobs.followDirect(scheduler, asked.value, {
      wait: jobs.realWait,
      startByMs,
      cancel: stop,
      isOwned,
    })
    await showOutput(cli, jobs, scheduler, done, isQuiet)
    return done
  } finally {
    scheduler.close()
  }
}

function judge({ job, run }: JobReport): Outcome {
  if (job.status === 'CANCELLED') return refuse('scheduler.job.failed', 'it was cancelled before it started')
  if (run?.status !== 'FAILED') return accept(undefined)
  return refuse('scheduler.job.failed', run.error ?? 'the job failed', {
    hint: '`concord jobs logs` shows what it printed.',
    facts: { exitCode: run.exit_code },
  })
}
