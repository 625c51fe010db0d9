/** `concord jobs run-direct` and `concord jobs logs`: runs one job ahead of the queue, and prints the output of a job. */
import process from 'node:process'
import type { JobReport, Scheduler } from '#app/scheduler'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { hintOf } from '#refusals'
import { showText } from '#kernel/visible-text'
import {
  type FileFlag,
  fileOption,
  fileVerb,
  type Jobs,
  jobsFile,
  withId,
  type WorkBody,
  type WorkFlags,
  workOf,
  workOptions,
  type OnFile,
} from './jobs-file.ts'
import { action, type Add, mapAnswer, parseTime, showAnswer } from './noun.ts'
import type { Cli, VerbResult } from './terminal.ts'

type DirectFlags = FileFlag & WorkFlags & { wait: number }
const WAIT_MS = 10_000
/** Between two attempts to open the file as its owner. */
const ASK_MS = 500

export const logs = (cli: Cli): Add =>
  fileVerb({
    description: 'print the output of a job',
    options: [['--follow', 'continue until the job has ended']],
    examples: ['concord jobs logs job_0197… --follow'],
    ask: ({ scheduler, jobs }: OnFile, id: string, { follow }: { follow?: true }) =>
      withId('job', id, (jobId) =>
        printLog(cli, scheduler, jobs, { jobId, isFollowed: follow === true, json: cli.isJson() }),
      ),
    say: () => '',
  })

export const directVerb = (cli: Cli): Add =>
  action({
    description: 'run one job ahead of the queue, print its output and exit 0 if it completed',
    options: [
      fileOption,
      ...workOptions,
      ['--timeout <duration>', 'stop the command after this, like 30s or 2h', parseTime],
      ['--wait <duration>', 'how long to wait for the slot (default: 10s)', parseTime, WAIT_MS],
    ],
    examples: ['concord jobs run-direct -- node report.mjs --now'],
    async run(words: string[], flags: DirectFlags): Promise<VerbResult> {
      const work = workOf(cli.terminal, words, flags)
      if (!work.ok) return work
      const finished = await run(cli, flags, work.value, cli.isJson())
      const { toJobReportView } = await import('#app/scheduler')
      const said = await showAnswer(cli, mapAnswer(finished, toJobReportView), ({ job, run }) => [
        '',
        `${job.job_id} ${(run?.status ?? job.status).toLowerCase()}${run?.error == null ? '' : `: ${run.error}`}\n`,
      ])
      return said.ok && finished.ok ? judge(finished.value) : said
    },
  })

/** Runs the job as owner of the file. If a scheduler owns it, asks that scheduler through the file. */
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
    // The owner has stopped, or only ran its own direct job; the file may be free now.
    const isFree = !asked.ok && asked.code === 'scheduler.not_running' && asked.facts?.['started'] === false
    const isBusy = !asked.ok && asked.code === 'scheduler.reservation.busy'
    if (!(isFree || isBusy) || performance.now() >= untilMs || cli.terminal.stop.aborted) return asked
  }
}

type DirectRequest = { readonly body: WorkBody; readonly leftMs: number; readonly isQuiet: boolean }

/** Prints the output of the job, except with `--json`. */
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
  { body, leftMs, isQuiet }: DirectRequest,
): Promise<Decision<JobReport>> {
  try {
    const { environment, folder, stop, err } = cli.terminal
    const recovered = await jobs.recover(scheduler, jobs.openOrphanEnder({ wait: jobs.realWait }))
    if (!recovered.ok) return recovered
    const done = await jobs.runDirect(scheduler, body, {
      deps: jobs.realJobDeps(scheduler, environment, folder),
      reservedBy: `run-direct of process ${process.pid}`,
      timeoutMs: leftMs,
      stop,
      onStart: (job) => jobs.killAtExit(job.killNow),
      alert: ({ runId }) => err(`The outcome of ${runId} could not be written.\n`),
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
  { body, leftMs, isQuiet }: DirectRequest,
): Promise<Decision<JobReport>> {
  const opened = jobs.openJobs({ file, role: 'guest' })
  if (!opened.ok) return opened
  const scheduler = opened.value
  try {
    const { stop } = cli.terminal
    const startByMs = scheduler.deps.now().getTime() + leftMs
    const asked = await jobs.askForDirect(scheduler, body, {
      reservedBy: `run-direct of process ${process.pid}`,
      timeoutMs: Math.min(leftMs, ASK_MS),
      wait: jobs.realWait,
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

function judge({ job, run }: JobReport): VerbResult {
  if (job.status === 'CANCELLED') return refuse('scheduler.job.failed', 'The job was cancelled before it started.')
  if (run?.status !== 'FAILED') return accept(undefined)
  return refuse('scheduler.job.failed', run.error ?? 'The job failed.', {
    hint: '`concord jobs logs` shows what it printed.',
    facts: { exitCode: run.exit_code },
  })
}

type LogRequest = { readonly jobId: string; readonly isFollowed: boolean; readonly json: boolean }

async function printLog(cli: Cli, scheduler: Scheduler, jobs: Jobs, wanted: LogRequest): Promise<VerbResult> {
  const { terminal } = cli
  const { jobId, isFollowed: follow, json } = wanted
  const decoder = new TextDecoder()
  const say = (bytes: Uint8Array, stream: boolean) => {
    const text = decoder.decode(bytes, { stream })
    if (text === '') return
    // A terminal does not get foreign escape sequences; a file gets every byte.
    terminal.out(json ? `${JSON.stringify({ text })}\n` : terminal.isTty ? showText(text) : text)
  }
  const log = jobs.readLog(scheduler, jobId, { follow, wait: jobs.realWait, stop: terminal.stop })
  if (!log.ok) return hinted(log)
  for await (const bytes of log.value) say(bytes, true)
  say(new Uint8Array(), false)
  return accept(undefined)
}

function hinted(refusal: Refusal): Refusal {
  if (refusal.code !== 'scheduler.log.not_found') return refusal
  return { ...refusal, hint: `${hintOf(refusal)} (\`concord jobs show\`, or --follow)` }
}
