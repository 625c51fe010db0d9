/** `concord jobs`: adds, lists, reorders, cancels and retries local jobs of one file, without a server. */
import type { JobReport, Scheduler, StoredJob } from '#app/scheduler'
import { describeDuration } from '#kernel/duration'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { fieldsOf } from './client.ts'
import { jobSchedules } from './job-schedules.ts'
import { findTemplate } from './job-templates.ts'
import {
  fileVerb,
  type Jobs,
  readId,
  reportsOf,
  withId,
  type WorkFlags,
  workOf,
  workOptions,
  workText,
  type OnFile,
} from './jobs-file.ts'
import { logs, directVerb } from './jobs-run.ts'
import { watch } from './jobs-watch.ts'
import { formatFacts } from './layout.ts'
import { mapAnswer, noun, parseTime, parseWhole, table, type When } from './noun.ts'
import { type Terminal, tint } from './terminal.ts'
import { sayTime } from './times.ts'

type AddFlags = WorkFlags & { template?: string; priority?: number; notBefore?: string; group?: string }
type ListFlags = { all?: true; status?: string; type?: string; limit?: number }
type MoveFlags = { front?: true; back?: true; before?: string; after?: string; priority?: number }
type ReportView = ReturnType<Jobs['toJobReportView']>
type JobView = ReturnType<Jobs['toJobView']>
type RunView = ReturnType<Jobs['toJobRunView']>

export const jobs = noun('local jobs of one file, without a server', (cli) => ({
  'add [command...]': fileVerb({
    description: 'queue a job: a command, or a type with its params',
    options: [
      ...workOptions,
      ['--template <template>', 'the name or id of a template with type, params and priority'],
      ['--priority <number>', 'higher runs first (default: 0)', parseWhole],
      ['--not-before <time>', 'not earlier than this, like 2026-05-01T10:00:00Z'],
      ['--timeout <duration>', 'stop the command after this, like 30s or 2h', parseTime],
      ['--group <id>', 'the group that the job joins'],
    ],
    examples: [
      'concord jobs add -- node report.mjs --month 2026-05',
      `concord jobs add --type story --params '{"title":"x"}' --priority 10`,
    ],
    ask({ scheduler, jobs }: OnFile, words: string[], flags: AddFlags) {
      const isTemplate = flags.template !== undefined && words.length === 0 && flags.params === undefined
      const work = isTemplate ? accept({}) : workOf(cli.terminal, words, flags)
      if (!work.ok) return work
      const template = flags.template === undefined ? undefined : findTemplate(scheduler, jobs, flags.template)
      if (template && !template.ok) return template
      const template_id = template?.value.template_id
      const { priority, notBefore: not_before, group: group_id } = flags
      const body = { ...work.value, ...fieldsOf({ template_id, priority, not_before, group_id }) }
      return mapAnswer(jobs.submitJob(scheduler, body), jobs.toJobView)
    },
    say: ({ job_id }) => [`${job_id}\n`, 'queued; `concord scheduler run` runs it, `concord jobs watch` shows it\n'],
  }),
  list: fileVerb({
    description: 'list running and queued jobs in dispatch order; or all jobs, or those of a status, newest first',
    options: [
      ['--all', 'jobs of every status'],
      ['--status <status>', 'queued, running, finished, completed, failed, skipped or cancelled'],
      ['--type <type>', 'only this job type'],
      ['--limit <count>', 'maximum number of results (default: 50)', parseWhole],
    ],
    examples: ['concord jobs list --status failed --limit 5'],
    ask: ({ scheduler, jobs }: OnFile, flags: ListFlags) =>
      mapAnswer(listWanted(scheduler, jobs, flags), (rows) => ({ jobs: rows.map(jobs.toJobReportView) })),
    say: ({ jobs: rows }) => (rows.length === 0 ? 'no jobs\n' : table(cli.terminal, columns, rows)),
  }),
  'show <job>': fileVerb({
    description: 'show one job, its run, and the chain of its retries',
    examples: ['concord jobs show job_0197f3b2c4d57a8e9b0c1d2e3f405161 --json'],
    ask: ({ scheduler, jobs }: OnFile, id: string) =>
      withId('job', id, (jobId) => {
        const report = jobs.readJob(scheduler, jobId)
        if (!report.ok) return report
        return mapAnswer(jobs.readRetryChain(scheduler, jobId), (chain) => ({
          ...jobs.toJobReportView(report.value),
          chain: chain.map(jobs.toJobReportView),
        }))
      }),
    say: (found) => describe(cli.terminal, found),
  }),
  'move <job>': fileVerb({
    description: 'change the position of a queued job',
    options: [
      ['--front', 'before all others of its priority'],
      ['--back', 'after all others of its priority'],
      ['--before <job>', 'directly before this job'],
      ['--after <job>', 'directly after this job'],
      ['--priority <number>', 'to the end of another priority', parseWhole],
    ],
    examples: ['concord jobs move job_0197… --front'],
    ask: ({ scheduler, jobs }: OnFile, id: string, flags: MoveFlags) =>
      withId('job', id, (jobId) => mapAnswer(move(scheduler, jobs, jobId, flags), jobs.toJobView)),
    say: ({ priority, position }) => `priority ${priority}, position ${position}\n`,
  }),
  'cancel <job>': fileVerb({
    description: 'remove a job from the queue, or stop it if it runs; it is not retried',
    examples: ['concord jobs cancel job_0197…'],
    ask({ scheduler, jobs }: OnFile, id: string): Decision<JobView | RunView> {
      const jobId = readId('job', id)
      if (!jobId.ok) return jobId
      const cancelled = jobs.cancelJob(scheduler, jobId.value)
      if (cancelled.ok || cancelled.code !== 'scheduler.job.not_queued') return mapAnswer(cancelled, jobs.toJobView)
      return mapAnswer(jobs.requestStop(scheduler, jobId.value), jobs.toJobRunView)
    },
    say: (found) => ('run_id' in found ? 'it is running; the scheduler was asked to stop it\n' : 'cancelled\n'),
  }),
  'retry <job>': fileVerb({
    description: 'run a failed, skipped or cancelled job again, as a new job',
    examples: ['concord jobs retry job_0197…'],
    ask: ({ scheduler, jobs }: OnFile, id: string) =>
      withId('job', id, (jobId) => mapAnswer(jobs.retryJob(scheduler, jobId), jobs.toJobView)),
    say: ({ job_id }) => `${job_id}\n`,
  }),
  'logs <job>': logs(cli),
  'run-direct [command...]': directVerb(cli),
  watch: watch(cli),
  schedules: jobSchedules,
}))

const columns = {
  job: ({ job }: ReportView) => job.job_id,
  type: ({ job }: ReportView) => job.job_type,
  status: ({ job, run }: ReportView) =>
    run?.status?.toLowerCase() ?? (job.hold === null ? job.status : `${job.status} (${job.hold})`),
  priority: ({ job }: ReportView) => String(job.priority),
  created: ({ job }: ReportView, when: When) => when(job.created_at),
  work: ({ job }: ReportView) => workText(job),
}

function listWanted(scheduler: Scheduler, jobs: Jobs, flags: ListFlags): Decision<readonly JobReport[]> {
  const status = jobs.jobFilters.find((each) => each === flags.status)
  if (flags.all === true && flags.status !== undefined) {
    return refuse('cli.usage', '--all and --status cannot be combined.', { path: '--status', hint: 'Leave one out.' })
  }
  if (flags.status !== undefined && status === undefined) {
    return refuse('cli.usage', `There is no status ${quote(flags.status)}.`, {
      path: '--status',
      hint: `Use ${jobs.jobFilters.join(', ')}.`,
      ...didYouMean(flags.status, jobs.jobFilters),
    })
  }
  const page = fieldsOf({ limit: flags.limit }) as { limit?: number }
  const filter = { ...page, ...(flags.type === undefined ? {} : { jobType: flags.type }) }
  if (flags.all === true || status !== undefined || flags.type !== undefined) {
    const listed = jobs.listJobs(scheduler, { ...filter, ...(status === undefined ? {} : { status }) })
    return listed.ok ? reportsOf(scheduler, jobs, listed.value) : listed
  }
  const running = jobs.listJobs(scheduler, { ...page, status: 'running' })
  if (!running.ok) return running
  const queue = jobs.listQueue(scheduler, page)
  return queue.ok ? reportsOf(scheduler, jobs, [...running.value, ...queue.value.jobs]) : queue
}

function describe(terminal: Terminal, { job, run, chain }: ReportView & { chain: readonly ReportView[] }): string {
  const when = (instant: string | null | undefined) => instant && sayTime(terminal, instant)
  const status = tint(terminal, job.status)
  return formatFacts(terminal, 10, [
    ['job', job.job_id],
    ['type', showLine(job.job_type)],
    ['status', job.hold === null ? status : `${status}, held back: ${job.hold}`],
    ['not before', when(job.not_before)],
    ['priority', `${job.priority} (position ${job.position})`],
    ['params', showLine(JSON.stringify(job.params))],
    ['created', when(job.created_at)],
    ['started', when(run?.started_at)],
    ['finished', when(run?.finished_at)],
    ['outcome', run?.status],
    ['exit code', run?.exit_code == null ? null : String(run.exit_code)],
    ['error', run?.error && showLine(run.error)],
    ['retry', run?.retry_decided],
    ['artifacts', run && run.artifacts.length > 0 ? run.artifacts.map(showLine).join(', ') : null],
    ['log', run?.log_path && showLine(run.log_path)],
    [
      'took',
      run?.finished_at == null ? null : describeDuration(Date.parse(run.finished_at) - Date.parse(run.started_at)),
    ],
    ['chain', chain.length > 1 ? chain.map((each) => each.job.job_id).join(' → ') : null],
  ])
}

function move(scheduler: Scheduler, jobs: Jobs, jobId: string, flags: MoveFlags): Decision<StoredJob> {
  const { front, back, before, after, priority } = flags
  const ways = [front, back, before, after, priority].filter((way) => way !== undefined)
  if (ways.length !== 1) {
    return refuse('cli.usage', 'A job can be moved in only one way at a time.', {
      hint: 'Give one of --front, --back, --before, --after and --priority.',
    })
  }
  if (priority !== undefined) return jobs.changeJob(scheduler, jobId, { priority })
  if (before !== undefined) return jobs.moveJob(scheduler, jobId, { before })
  if (after !== undefined) return jobs.moveJob(scheduler, jobId, { after })
  return jobs.moveJob(scheduler, jobId, { to: front ? 'front' : 'back' })
}
