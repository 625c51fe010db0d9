/** What the commands about jobs share: the file they work on, opened beside a running scheduler, and the ids people type. */
import { resolve, join } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { readConfig } from '#app/config'
import type { Scheduler, StoredJob } from '#app/scheduler'
import { MAX_TIMER_MS, parseDuration } from '#kernel/duration'
import { decodeId, encodeId, type IdKind } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { isJson } from './ask-server.ts'
import { parseNamed } from './json-source.ts'
import type { Cli, Outcome, Terminal } from './terminal.ts'

export type Jobs = typeof import('#app/scheduler')
export type FileFlag = { readonly file?: string }

export function fileOption(command: Command): Command {
  return command.option(
    '--file <file>',
    'the scheduler file (default: CONCORD_SCHEDULER_FILE, or CONCORD_HOME/jobs.db)',
  )
}

export function jobsFile(terminal: Terminal, file: string | undefined): Decision<string> {
  if (file !== undefined) return accept(resolve(terminal.folder, file))
  const config = readConfig(terminal.environment, terminal.folder)
  if (!config.ok) return config
  return accept(config.value.schedulerFile ?? join(config.value.home, 'jobs.db'))
}

/** As a guest: a scheduler that is running goes on beside it. */
export async function withJobs(
  cli: Cli,
  { file }: FileFlag,
  work: (scheduler: Scheduler, jobs: Jobs) => Promise<Outcome> | Outcome,
): Promise<Outcome> {
  const path = jobsFile(cli.terminal, file)
  if (!path.ok) return path
  const jobs = await import('#app/scheduler')
  const opened = jobs.openJobs({ file: path.value, role: 'guest' })
  if (!opened.ok) return opened
  try {
    return await work(opened.value, jobs)
  } finally {
    opened.value.close()
  }
}

const WHERE: Partial<Record<IdKind, string>> = {
  job: '`concord jobs list` shows the ids of jobs.',
  schedule: '`concord schedules list` shows the ids and names of schedules.',
  job_group: '`concord job-groups list` shows the ids of groups.',
  job_template: '`concord job-templates list` shows the ids and names of templates.',
  reservation: '`concord reservations list` shows the ids of reservations.',
}

/** The id as the file has it. */
export function readId(kind: IdKind, text: string): Decision<string> {
  const decoded = decodeId(kind, text)
  if (decoded.ok) return decoded
  const hint = WHERE[kind]
  return { ...decoded, path: '<id>', ...(hint === undefined ? {} : { hint }) }
}

export function showJobId(uuid: string): string {
  return encodeId('job', uuid)
}

const WORK_CHARS_MAX = 60

/** What a job does, in a few words. */
export function workText({ params }: StoredJob): string {
  const { command, args } = JSON.parse(params) as { command?: unknown; args?: unknown }
  const text = typeof command === 'string' ? [command, ...(Array.isArray(args) ? args : [])].join(' ') : params
  return text.length > WORK_CHARS_MAX ? `${text.slice(0, WORK_CHARS_MAX - 1)}…` : text
}

/** For people a sentence, for machines the document. */
export function answer<T>(
  cli: Cli,
  program: Command,
  decision: Decision<T>,
  document: (value: T) => unknown,
  say: (value: T) => void,
): Outcome {
  if (!decision.ok) return decision
  if (isJson(program)) cli.terminal.out(`${JSON.stringify(document(decision.value))}\n`)
  else say(decision.value)
  return accept(undefined)
}

export type WorkFlags = { readonly type?: string; readonly params?: string; readonly timeout?: number }
export type WorkBody = { readonly job_type: string; readonly params: Record<string, unknown> }

/** Words of a command make a job of type `command`, in the folder where it was typed; otherwise a type and its params. */
export function workOf(
  terminal: Terminal,
  words: readonly string[],
  { type, params, timeout }: WorkFlags,
): Decision<WorkBody> {
  const given = params === undefined ? accept({}) : parseNamed('--params', params)
  if (!given.ok) return given
  const [command, ...args] = words
  if (command === undefined && type === undefined && params === undefined) {
    return refuse('cli.usage', 'it does not say what is to be done', {
      hint: 'Name a command, like `concord jobs add -- node report.mjs`, or a --type with its --params, or a --template.',
    })
  }
  if (command === undefined) return accept({ job_type: type ?? 'story', params: given.value })
  const limit = timeout === undefined ? {} : { timeout: `${timeout}ms` }
  return accept({
    job_type: type ?? 'command',
    params: { command, args, cwd: terminal.folder, ...limit, ...given.value },
  })
}

export function parseWhole(text: string): number {
  if (!/^-?\d{1,9}$/.test(text)) throw new InvalidArgumentError('it is a whole number')
  return Number(text)
}

export function parseTime(text: string): number {
  const duration = parseDuration(text)
  if (!duration.ok) throw new InvalidArgumentError(duration.reason)
  if (duration.value > MAX_TIMER_MS) throw new InvalidArgumentError('it is at most 24d')
  return duration.value
}

/** Longer than a timer may be: nothing waits for it. */
export function parseKeep(text: string): number {
  const duration = parseDuration(text)
  if (!duration.ok) throw new InvalidArgumentError(duration.reason)
  return duration.value
}
