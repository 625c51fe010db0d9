/** Shared by the verbs for local jobs: the scheduler file, ids, and the work that flags describe. */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { readConfig } from '#app/config'
import type { JobReport, Scheduler, StoredJob, StoredSchedule, toJobView } from '#app/scheduler'
import { decodeId, type IdKind } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { parseNamed } from './json-source.ts'
import { type Add, type Help, type Option, type Promised, type Said, verb } from './noun.ts'
import type { VerbResult, Terminal } from './terminal.ts'

export type Jobs = typeof import('#app/scheduler')
type JobView = ReturnType<typeof toJobView>
export type FileFlag = { readonly file?: string }

export const fileOption: Option = [
  '--file <file>',
  'the scheduler file (default: CONCORD_SCHEDULER_FILE, or CONCORD_HOME/jobs.db)',
]
export const workOptions: readonly Option[] = [
  ['--type <type>', 'a registered job type (default: command, or story without a command)'],
  ['--params <json>', 'the params, as a JSON object'],
]

export function jobsFile(terminal: Terminal, file: string | undefined): Decision<string> {
  if (file !== undefined) return accept(resolve(terminal.folder, file))
  const config = readConfig(terminal.environment, terminal.folder)
  if (!config.ok) return config
  return accept(config.value.schedulerFile ?? join(config.value.home, 'jobs.db'))
}

export type OnFile = { readonly scheduler: Scheduler; readonly jobs: Jobs }

/** A verb on the scheduler file. It opens the file as a guest, so a running scheduler keeps running. */
export function fileVerb<Args extends unknown[], Answer>(
  help: Help & {
    ask(on: OnFile, ...args: Args): Promised<Decision<Answer>>
    say(answer: Answer, ...args: Args): Promised<Said>
    judge?(answer: Answer): VerbResult
  },
): Add {
  return (command, cli) =>
    verb<Args, Answer>({
      ...help,
      options: [fileOption, ...(help.options ?? [])],
      async ask(...args) {
        const file = jobsFile(cli.terminal, command.opts<FileFlag>().file)
        if (!file.ok) return file
        const jobs = await import('#app/scheduler')
        const opened = jobs.openJobs({ file: file.value, role: 'guest' })
        if (!opened.ok) return opened
        try {
          return await help.ask({ scheduler: opened.value, jobs }, ...args)
        } finally {
          opened.value.close()
        }
      },
    })(command, cli)
}

const WHERE = {
  job: '`concord jobs list` shows the ids of jobs.',
  schedule: '`concord jobs schedules list` shows the ids and names of schedules.',
  job_group: '`concord job-groups list` shows the ids of groups.',
  job_template: '`concord job-templates list` shows the ids and names of templates.',
  reservation: '`concord reservations list` shows the ids of reservations.',
} satisfies Partial<Record<IdKind, string>>

type LocalKind = keyof typeof WHERE

/** Decodes an id and passes it to `work`. */
export function withId<Answer, More>(
  kind: LocalKind,
  text: string,
  work: (id: string) => Decision<Answer> | More,
): Decision<Answer> | More {
  const id = readId(kind, text)
  return id.ok ? work(id.value) : id
}

export function readId(kind: LocalKind, text: string): Decision<string> {
  const decoded = decodeId(kind, text)
  return decoded.ok ? decoded : { ...decoded, path: '<id>', hint: WHERE[kind] }
}

/** Finds a schedule of local jobs by name or id. */
export function findJobSchedule({ scheduler, jobs }: OnFile, named: string): Decision<StoredSchedule> {
  const plans = jobs.readPlans(scheduler)
  if (!plans.ok) return plans
  const id = decodeId('schedule', named)
  const found =
    plans.value.schedules.find(({ name }) => name === named) ??
    plans.value.schedules.find(({ schedule_id }) => id.ok && schedule_id === id.value)
  if (found) return accept(found)
  return refuse('scheduler.schedule.not_found', `There is no schedule ${quote(named)} of local jobs.`, {
    path: '<schedule>',
    hint: WHERE.schedule,
  })
}

/** Whether the scheduler file of this folder has such a schedule. False without a file, or with one that cannot be opened. */
export async function hasJobSchedule(terminal: Terminal, named: string): Promise<boolean> {
  const file = jobsFile(terminal, undefined)
  if (!file.ok || !existsSync(file.value)) return false
  const jobs = await import('#app/scheduler')
  const opened = jobs.openJobs({ file: file.value, role: 'guest' })
  if (!opened.ok) return false
  try {
    return findJobSchedule({ scheduler: opened.value, jobs }, named).ok
  } finally {
    opened.value.close()
  }
}

/** Each job with its run. */
export function reportsOf(
  scheduler: Scheduler,
  jobs: Jobs,
  found: readonly StoredJob[],
): Decision<readonly JobReport[]> {
  const reports: JobReport[] = []
  for (const { job_id } of found) {
    const report = jobs.readJob(scheduler, job_id)
    if (!report.ok) return report
    reports.push(report.value)
  }
  return accept(reports)
}

const WORK_CHARS_MAX = 60

/** Returns the command of a job, or its params, as a short text. */
export function workText({ params }: Pick<JobView, 'params'>): string {
  const { command, args } = params as { command?: unknown; args?: unknown }
  const words = typeof command === 'string' ? [command, ...(Array.isArray(args) ? args : [])] : undefined
  const text = words?.join(' ') ?? JSON.stringify(params)
  return text.length > WORK_CHARS_MAX ? `${text.slice(0, WORK_CHARS_MAX - 1)}…` : text
}

export type WorkFlags = { readonly type?: string; readonly params?: string; readonly timeout?: number }
export type WorkBody = { readonly job_type: string; readonly params: Record<string, unknown> }

/** The words of a command become a job of the type `command` in the current folder. Without them, `--type` and `--params` describe the job. */
export function workOf(
  terminal: Terminal,
  words: readonly string[],
  { type, params, timeout }: WorkFlags,
): Decision<WorkBody> {
  const given = params === undefined ? accept({}) : parseNamed('--params', params)
  if (!given.ok) return given
  const [command, ...args] = words
  if (command === undefined && type === undefined && params === undefined) {
    return refuse('cli.usage', 'The job has no work.', {
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
