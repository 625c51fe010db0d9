/** `concord jobs`: the jobs of one machine, on one file; added, looked at, reordered, cancelled and done again. */
import type { Command } from 'commander'
import type { JobReport, Scheduler, StoredJob } from '#app/scheduler'
import { describeDuration } from '#kernel/duration'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { fieldsOf } from './ask-server.ts'
import { findTemplate } from './job-templates.ts'
import {
  answer,
  type FileFlag,
  fileOption,
  type Jobs,
  parseTime,
  parseWhole,
  readId,
  showJobId,
  withJobs,
  type WorkFlags,
  workOf,
  workText,
} from './jobs-file.ts'
import { addJobsLogs } from './jobs-logs.ts'
import { addJobsRunDirect } from './jobs-run-direct.ts'
import { addJobsWatch } from './jobs-watch.ts'
import { type Cli, formatTable, type Outcome } from './terminal.ts'

type AddFlags = FileFlag & WorkFlags & { template?: string; priority?: number; notBefore?: string; group?: string }
type ListFlags = FileFlag & { all?: true; state?: string; type?: string; limit?: number }
type MoveFlags = FileFlag & { front?: true; back?: true; before?: string; after?: string; priority?: number }

export function addJobs(program: Command, cli: Cli): void {
  const jobs = program.command('jobs').description('jobs on this machine, on one file, without a server')
  addAdd(jobs, program, cli)
  addList(jobs, program, cli)
  addShow(jobs, program, cli)
  addMove(jobs, program, cli)
  addCancel(jobs, program, cli)
  addRetry(jobs, program, cli)
  addJobsLogs(jobs, program, cli)
  addJobsRunDirect(jobs, program, cli)
  addJobsWatch(jobs, program, cli)
}

function addAdd(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('add [command...]'))
    .description('put a job into the queue: a command, or a type with its params')
    .option('--type <type>', 'a registered job type (default: command, or story without a command)')
    .option('--params <json>', 'the params, as a JSON object')
    .option('--template <template>', 'the name or id of a template that brings type, params and priority')
    .option('--priority <number>', 'higher comes first (default: 0)', parseWhole)
    .option('--not-before <time>', 'not earlier than this, like 2026-05-01T10:00:00Z')
    .option('--timeout <duration>', 'end the command after this, like 30s or 2h', parseTime)
    .option('--group <id>', 'a group that the job joins')
    .addHelpText(
      'after',
      '\nExamples:\n  $ concord jobs add -- node report.mjs --month 2026-05\n  $ concord jobs add --type story --params \'{"title":"x"}\' --priority 10\n',
    )
    .action(
      cli.handle((words: string[], flags: AddFlags) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const isTemplate = flags.template !== undefined && words.length === 0 && flags.params === undefined
          const work = isTemplate ? accept({}) : workOf(cli.terminal, words, flags)
          if (!work.ok) return work
          const template = flags.template === undefined ? undefined : findTemplate(scheduler, jobs, flags.template)
          if (template && !template.ok) return template
          const template_id = template?.value.template_id
          const { priority, notBefore: not_before, group: group_id } = flags
          const body = { ...work.value, ...fieldsOf({ template_id, priority, not_before, group_id }) }
          return answer(cli, program, jobs.submitJob(scheduler, body), jobs.toJobView, (job) => {
            cli.terminal.out(`${showJobId(job.job_id)}\n`)
            cli.terminal.err('queued; `concord scheduler run` does it, `concord jobs watch` shows it\n')
          })
        }),
      ),
    )
}

function addList(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('list'))
    .description('what runs and what waits, in the order of dispatch; or all jobs, or those of a state, newest first')
    .option('--all', 'whatever their state')
    .option('--state <state>', 'queued, running, finished, completed, failed, skipped or cancelled')
    .option('--type <type>', 'only this job type')
    .option('--limit <count>', 'how many at most (default: 50)', parseWhole)
    .addHelpText('after', '\nExample:\n  $ concord jobs list --state failed --limit 5\n')
    .action(
      cli.handle((flags: ListFlags) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const listed = listWanted(scheduler, jobs, flags)
          return answer(
            cli,
            program,
            listed,
            (rows) => ({ jobs: rows.map(jobs.toJobReportView) }),
            (rows) => cli.terminal.out(rows.length === 0 ? 'no jobs\n' : tableOf(rows, jobs)),
          )
        }),
      ),
    )
}

function listWanted(scheduler: Scheduler, jobs: Jobs, flags: ListFlags): Decision<readonly JobReport[]> {
  const state = jobs.jobFilters.find((each) => each === flags.state)
  if (flags.all === true && flags.state !== undefined) {
    return refuse('cli.usage', 'all jobs or those of a state, not both', {
      path: '--state',
      hint: 'Leave one of them out.',
    })
  }
  if (flags.state !== undefined && state === undefined) {
    return refuse('cli.usage', `there is no state ${quote(flags.state)}`, {
      path: '--state',
      hint: `Use ${jobs.jobFilters.join(', ')}.`,
      ...didYouMean(flags.state, jobs.jobFilters),
    })
  }
  const page = fieldsOf({ limit: flags.limit }) as { limit?: number }
  const filter = { ...page, ...(flags.type === undefined ? {} : { jobType: flags.type }) }
  const found: StoredJob[] = []
  if (flags.all === true || state !== undefined || flags.type !== undefined) {
    const listed = jobs.listJobs(scheduler, { ...filter, ...(state === undefined ? {} : { state }) })
    if (!listed.ok) return listed
    found.push(...listed.value)
  } else {
    const running = jobs.listJobs(scheduler, { ...page, state: 'running' })
    if (!running.ok) return running
    const queue = jobs.listQueue(scheduler, page)
    if (!queue.ok) return queue
    found.push(...running.value, ...queue.value.jobs)
  }
  return reportsOf(scheduler, jobs, found)
}

function reportsOf(scheduler: Scheduler, jobs: Jobs, found: readonly StoredJob[]): Decision<readonly JobReport[]> {
  const reports: JobReport[] = []
  for (const { job_id } of found) {
    const report = jobs.readJob(scheduler, job_id)
    if (!report.ok) return report
    reports.push(report.value)
  }
  return accept(reports)
}

function tableOf(rows: readonly JobReport[], { toJobView }: Jobs): string {
  return formatTable(
    ['job', 'type', 'state', 'priority', 'created', 'work'],
    rows.map(({ job, run }) => {
      const view = toJobView(job)
      const state = run?.status?.toLowerCase() ?? (view.hold === null ? view.state : `${view.state} (${view.hold})`)
      return [view.job_id, view.job_type, state, String(view.priority), view.created_at, showLine(workText(job))]
    }),
  )
}

function addShow(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('show <job>'))
    .description('one job, its run, and the chain of its retries')
    .addHelpText('after', '\nExample:\n  $ concord jobs show job_0197f3b2c4d57a8e9b0c1d2e3f405161 --json\n')
    .action(
      cli.handle((id: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, { readJob, readRetryChain, toJobReportView }) => {
          const jobId = readId('job', id)
          if (!jobId.ok) return jobId
          const report = readJob(scheduler, jobId.value)
          const chain = readRetryChain(scheduler, jobId.value)
          const both =
            report.ok && chain.ok ? accept({ ...report.value, chain: chain.value }) : report.ok ? chain : report
          return answer(
            cli,
            program,
            both as Decision<JobReport & { chain: readonly JobReport[] }>,
            (found) => ({ ...toJobReportView(found), chain: found.chain.map(toJobReportView) }),
            (found) => cli.terminal.out(describe(toJobReportView(found), found.chain)),
          )
        }),
      ),
    )
}

type ReportView = ReturnType<Jobs['toJobReportView']>

function describe({ job, run }: ReportView, chain: readonly JobReport[]): string {
  const lines: [string, string | null | undefined][] = [
    ['job', job.job_id],
    ['type', job.job_type],
    ['state', job.hold === null ? job.state : `${job.state}, held back: ${job.hold}`],
    ['not before', job.not_before],
    ['priority', `${job.priority} (position ${job.position})`],
    ['params', JSON.stringify(job.params)],
    ['created', job.created_at],
    ['started', run?.started_at],
    ['finished', run?.finished_at],
    ['outcome', run?.status],
    ['exit code', run?.exit_code == null ? null : String(run.exit_code)],
    ['error', run?.error],
    ['retry', run?.retry_decided],
    ['artifacts', run && run.artifacts.length > 0 ? run.artifacts.join(', ') : null],
    ['log', run?.log_path],
    ['took', tookOf(chain.find((each) => showJobId(each.job.job_id) === job.job_id))],
    ['chain', chain.length > 1 ? chain.map((each) => showJobId(each.job.job_id)).join(' → ') : null],
  ]
  return lines.flatMap(([name, value]) => (value == null ? [] : [`${name.padEnd(11)} ${showLine(value)}\n`])).join('')
}

function tookOf(report: JobReport | undefined): string | null {
  const run = report?.run
  return run?.finished_at == null ? null : describeDuration(run.finished_at - run.started_at)
}

function addMove(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('move <job>'))
    .description('change the place of a job that waits')
    .option('--front', 'before all others of its priority')
    .option('--back', 'behind all others of its priority')
    .option('--before <job>', 'directly before this job')
    .option('--after <job>', 'directly behind this job')
    .option('--priority <number>', 'to the end of another priority', parseWhole)
    .addHelpText('after', '\nExample:\n  $ concord jobs move job_0197… --front\n')
    .action(
      cli.handle((id: string, flags: MoveFlags) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const jobId = readId('job', id)
          if (!jobId.ok) return jobId
          const moved = move(scheduler, jobs, jobId.value, flags)
          return answer(cli, program, moved, jobs.toJobView, ({ priority, position }) =>
            cli.terminal.out(`priority ${priority}, position ${position}\n`),
          )
        }),
      ),
    )
}

function move(scheduler: Scheduler, jobs: Jobs, jobId: string, flags: MoveFlags): Decision<StoredJob> {
  const { front, back, before, after, priority } = flags
  const ways = [front, back, before, after, priority].filter((way) => way !== undefined)
  if (ways.length !== 1) {
    return refuse('cli.usage', 'a job moves in one way at a time', {
      hint: 'Give one of --front, --back, --before, --after and --priority.',
    })
  }
  if (priority !== undefined) return jobs.changeJob(scheduler, jobId, { priority })
  if (before !== undefined) return jobs.moveJob(scheduler, jobId, { before })
  if (after !== undefined) return jobs.moveJob(scheduler, jobId, { after })
  return jobs.moveJob(scheduler, jobId, { to: front ? 'front' : 'back' })
}

function addCancel(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('cancel <job>'))
    .description('take a job out of the queue, or end it if it runs; it is not repeated')
    .addHelpText('after', '\nExample:\n  $ concord jobs cancel job_0197…\n')
    .action(
      cli.handle((id: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs): Outcome => {
          const jobId = readId('job', id)
          if (!jobId.ok) return jobId
          const cancelled = jobs.cancelJob(scheduler, jobId.value)
          if (cancelled.ok || cancelled.code !== 'scheduler.job.not_queued') {
            return answer(cli, program, cancelled, jobs.toJobView, () => cli.terminal.out('cancelled\n'))
          }
          const asked = jobs.requestStop(scheduler, jobId.value)
          return answer(cli, program, asked, jobs.toJobRunView, () =>
            cli.terminal.out('it runs; the scheduler was asked to end it\n'),
          )
        }),
      ),
    )
}

function addRetry(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('retry <job>'))
    .description('do a failed, skipped or cancelled job once more, as a new job')
    .addHelpText('after', '\nExample:\n  $ concord jobs retry job_0197…\n')
    .action(
      cli.handle((id: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const jobId = readId('job', id)
          if (!jobId.ok) return jobId
          return answer(cli, program, jobs.retryJob(scheduler, jobId.value), jobs.toJobView, (job) =>
            cli.terminal.out(`${showJobId(job.job_id)}\n`),
          )
        }),
      ),
    )
}
