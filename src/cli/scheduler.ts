/** `concord scheduler`: runs the jobs of a file until it is stopped, and checks the invariants of a file. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Execution, JobTypeBody, RunEvent, Scheduler } from '#app/scheduler'
import { decodeId, encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { type FileFlag, fileOption, fileVerb, type Jobs, jobsFile, type OnFile } from './jobs-file.ts'
import { readJsonFlags, refuseUnreadable } from './json-source.ts'
import { action, noun, parseKeep, parseTime, parseWhole } from './noun.ts'
import { type Cli, colorsOf, counted, type Terminal, type VerbResult } from './terminal.ts'

type RunFlags = FileFlag & {
  workers: number
  grace: number
  keep: number
  keepMib: number
  types?: string
  webhook?: string
  webhookSecret?: string
  untilIdle?: true
}

const GRACE_MS = 30_000
const KEEP_MS = 30 * 86_400_000
const MIB = 1_048_576

const showJobId = (uuid: string) => encodeId('job', uuid)

export const scheduler = noun('run the jobs of a file on this machine', (cli) => ({
  run: action({
    description: 'run the jobs of a file until it is stopped',
    options: [
      fileOption,
      ['--workers <count>', 'how many jobs at once; one keeps strict order', parseWhole, 1],
      [
        '--grace <duration>',
        'how long running jobs may continue after the first signal (default: 30s)',
        parseTime,
        GRACE_MS,
      ],
      ['--keep <duration>', 'how long logs and sent notifications are kept (default: 30d)', parseKeep, KEEP_MS],
      ['--keep-mib <count>', 'how much space old logs may use, in MiB', parseWhole, 1_024],
      ['--types <file>', 'job types to register: {"job_types": [{"job_type": …, "runner": {"command": …}}]}'],
      ['--webhook <url>', 'notify this address when a job ends'],
      ['--webhook-secret <file>', 'a file with the secret that signs the notifications'],
      ['--until-idle', 'exit when nothing runs and nothing is queued'],
    ],
    examples: ['concord scheduler run --file jobs.db', 'concord scheduler run --workers 4 --types job-types.json'],
    run: (flags: RunFlags) => run(cli, flags, cli.isJson()),
  }),
  check: fileVerb({
    description: 'check every invariant of a scheduler file; exits 65 if one is broken',
    options: [
      [
        '--executions <file>',
        'what the jobs themselves recorded, for S10 and S11: {"executions": [{"job_id": …, "run_id": …}]}',
      ],
    ],
    examples: ['concord scheduler check', 'concord scheduler check --executions ran.json --json'],
    async ask({ scheduler: file, jobs }: OnFile, flags: { executions?: string }) {
      const executions = await readExecutions(cli, flags.executions)
      if (!executions.ok) return executions
      return jobs.checkInvariants(file, executions.value)
    },
    async say(found) {
      const { describeSelfCheck } = await import('#app/scheduler')
      return `${describeSelfCheck(found)}\n`
    },
    judge: ({ violations }) => judge(violations),
  }),
}))

async function run(cli: Cli, flags: RunFlags, json: boolean): Promise<VerbResult> {
  const { terminal } = cli
  const file = jobsFile(terminal, flags.file)
  if (!file.ok) return file
  const types = await readTypes(terminal, flags.types)
  if (!types.ok) return types
  const jobs = await import('#app/scheduler')
  const deliver = readWebhook(terminal, jobs, flags)
  if (!deliver.ok) return deliver
  const settings = { workers: flags.workers, keepMs: flags.keep, logBytesMax: flags.keepMib * MIB }
  const opened = jobs.openJobs({ file: file.value, role: 'owner', settings })
  if (!opened.ok) return opened
  try {
    return await work(cli, jobs, opened.value, { flags, json, types: types.value, deliver: deliver.value })
  } finally {
    opened.value.close()
  }
}

type Prepared = {
  readonly flags: RunFlags
  readonly json: boolean
  readonly types: readonly JobTypeBody[]
  readonly deliver: ReturnType<Jobs['webhookDeliver']> | undefined
}

async function work(cli: Cli, jobs: Jobs, scheduler: Scheduler, prepared: Prepared): Promise<VerbResult> {
  const { flags, json, types, deliver } = prepared
  const { terminal } = cli
  for (const type of types) {
    const registered = jobs.registerJobType(scheduler, type)
    if (!registered.ok) return registered
  }
  const { file } = scheduler.db
  if (json) terminal.out(`${JSON.stringify({ ready: true, file, workers: flags.workers })}\n`)
  else terminal.out(`Running the jobs of ${file}. Ctrl-C stops the scheduler after the running jobs.\n`)
  const done = await jobs.runScheduler(scheduler, {
    wait: jobs.realWait,
    stop: terminal.stop,
    environment: terminal.environment,
    folder: terminal.folder,
    graceMs: flags.grace,
    untilIdle: flags.untilIdle === true,
    ...(deliver && { deliver }),
    atExit: jobs.killAtExit,
    onEvent: (event) => tell(terminal, jobs, event, json),
  })
  if (!done.ok) return done
  if (json) terminal.out(`${JSON.stringify({ stopped: true, ...done.value })}\n`)
  return accept(undefined)
}

async function readTypes(terminal: Terminal, file: string | undefined): Promise<Decision<readonly JobTypeBody[]>> {
  if (file === undefined) return accept([])
  const read = await readJsonFlags(terminal, { file }, undefined)
  if (!read.ok) return read
  const list = read.value?.['job_types']
  // Each type is checked when it is registered.
  if (Array.isArray(list)) return accept(list as JobTypeBody[])
  return refuse('cli.file.invalid', 'The file has no list `job_types`.', { path: '--types' })
}

function readWebhook(terminal: Terminal, jobs: Jobs, flags: RunFlags): Decision<Prepared['deliver']> {
  const { webhook, webhookSecret } = flags
  if (webhook === undefined && webhookSecret === undefined) return accept(undefined)
  if (webhook === undefined || webhookSecret === undefined || !/^https?:$/.test(protocolOf(webhook))) {
    return refuse('cli.usage', 'A webhook needs an HTTP address and a file with its secret.', {
      path: '--webhook',
      hint: 'Give --webhook https://… and --webhook-secret <file>.',
    })
  }
  try {
    const secret = readFileSync(resolve(terminal.folder, webhookSecret), 'utf8').trim()
    if (secret !== '') return accept(jobs.webhookDeliver(jobs.realWebhook(webhook, secret)))
    return refuse('cli.file.invalid', 'The file with the secret is empty.', { path: '--webhook-secret' })
  } catch (error) {
    return refuseUnreadable(webhookSecret, (error as NodeJS.ErrnoException).code ?? String(error))
  }
}

function protocolOf(address: string): string {
  return URL.canParse(address) ? new URL(address).protocol : ''
}

/** Prints one line per event: a sentence, or JSON. */
function tell(terminal: Terminal, jobs: Jobs, event: RunEvent, json: boolean): void {
  const line = json ? JSON.stringify(documentOf(jobs, event)) : sentenceOf(terminal, event)
  if (line !== undefined) terminal.out(`${line}\n`)
}

function documentOf(jobs: Jobs, event: RunEvent): Record<string, unknown> {
  switch (event.kind) {
    case 'started':
      return { event: 'started', attempt: event.run.attempt, job: jobs.toJobView(event.run.job) }
    case 'ended':
      return event.finished.ok
        ? { event: 'ended', ...jobs.toJobReportView(event.finished.value) }
        : { event: 'ended', job_id: showJobId(event.run.job.job_id), error: event.finished.code }
    case 'fired':
      return { event: 'fired', ...jobs.toFiringView(event.firing) }
    case 'alert':
      return { event: 'alert', run_id: event.alert.runId, error: event.alert.refusal.code }
    case 'waiting':
      return { event: 'waiting', error: event.refusal.code }
    case 'pruned': {
      const { logs, logBytes, notifications } = event.pruned
      return { event: 'pruned', logs, log_bytes: logBytes, notifications }
    }
    case 'recovered':
    case 'undelivered':
    case 'stopping': {
      const { kind, ...rest } = event
      return { event: kind, ...rest }
    }
  }
}

function sentenceOf(terminal: Terminal, event: RunEvent): string | undefined {
  const color = colorsOf(terminal)
  switch (event.kind) {
    case 'recovered':
      return event.actions.length === 0 ? undefined : `recovered: ${event.actions.map((each) => each.did).join(', ')}`
    case 'fired':
      return `schedule ${event.firing.outcome}`
    case 'started':
      return `${showJobId(event.run.job.job_id)} started (${event.run.job.job_type}, attempt ${event.run.attempt})`
    case 'ended': {
      const { outcome } = event.end
      const error = 'error' in event.end && event.end.error !== undefined ? `: ${showLine(event.end.error)}` : ''
      const shown = outcome === 'completed' ? color.green(outcome) : outcome === 'failed' ? color.red(outcome) : outcome
      return `${showJobId(event.run.job.job_id)} ${shown}${error}`
    }
    case 'undelivered':
      return `${color.yellow('not sent')} ${event.notificationId}: ${showLine(event.error)} (${event.next})`
    case 'alert':
      return `${color.red('alert')} the outcome of run ${event.alert.runId} could not be written: ${event.alert.refusal.reason}`
    case 'waiting':
      return `${color.yellow('waiting')} ${event.refusal.reason}`
    case 'pruned':
      return `pruned ${event.pruned.logs} old logs and ${event.pruned.notifications} old notifications`
    case 'stopping':
      return `stopping; waiting for ${event.running} running jobs, a second signal ends them immediately`
  }
}

function judge(violations: readonly { readonly invariant: string }[]): VerbResult {
  const [first] = violations
  if (!first) return accept(undefined)
  return refuse(
    'scheduler.check.broken',
    `${counted(violations.length, 'invariant')} broken, first ${first.invariant}.`,
    {
      hint: 'Keep a copy of the file. The next start of its scheduler repairs what can be repaired; rows are never deleted.',
      facts: { broken: violations.map((each) => each.invariant) },
    },
  )
}

/** Returns undefined without a file. S10 and S11 are then not checked. */
async function readExecutions(cli: Cli, file: string | undefined): Promise<Decision<readonly Execution[] | undefined>> {
  if (file === undefined) return accept(undefined)
  const read = await readJsonFlags(cli.terminal, { file }, undefined)
  if (!read.ok) return read
  const list = read.value?.['executions']
  if (!Array.isArray(list)) {
    return refuse('cli.file.invalid', 'The file has no list `executions`.', { path: '--executions' })
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
