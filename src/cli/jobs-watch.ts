/** `concord jobs watch`: a table of what runs and what waits that follows the file; without a terminal one table per change. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { Command } from 'commander'
import type { JobReport, QueueCache, QueuePage, Scheduler } from '#app/scheduler'
import { describeDuration } from '#kernel/duration'
import { accept, type Decision } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { isJson } from './ask-server.ts'
import { type FileFlag, fileOption, type Jobs, parseTime, showJobId, withJobs, workText } from './jobs-file.ts'
import { type Cli, colorsOf, formatTable, type Outcome } from './terminal.ts'

type WatchFlags = FileFlag & { every: number; once?: true; untilIdle?: true }
type Picture = {
  readonly running: readonly JobReport[]
  readonly queue: QueuePage
  readonly ended: readonly JobReport[]
}

const EVERY_MS = 500
const ROWS = 10
const TAIL_BYTES = 512
const TO_TOP = '\u001b[H\u001b[J'

export function addJobsWatch(jobs: Command, program: Command, cli: Cli): void {
  fileOption(jobs.command('watch'))
    .description('a live table of what runs, waits and has ended')
    .option('--every <duration>', 'how often to look (default: 500ms)', parseTime, EVERY_MS)
    .option('--once', 'one table, then end')
    .option('--until-idle', 'end when nothing runs and nothing waits')
    .addHelpText('after', '\nExample:\n  $ concord jobs watch --file jobs.db\n')
    .action(
      cli.handle((flags: WatchFlags) =>
        withJobs(cli, flags, (scheduler, jobs) => watch(cli, scheduler, jobs, { ...flags, json: isJson(program) })),
      ),
    )
}

async function watch(
  cli: Cli,
  scheduler: Scheduler,
  jobs: Jobs,
  flags: WatchFlags & { json: boolean },
): Promise<Outcome> {
  const { terminal } = cli
  const cache = jobs.openQueueCache(scheduler)
  let shown = ''
  while (!terminal.stop.aborted) {
    const picture = look(cache, jobs)
    if (!picture.ok) return picture
    const drawn = flags.json ? documentOf(picture.value, jobs) : draw(cli, scheduler, picture.value)
    if (drawn !== shown) terminal.out(terminal.isTty && !flags.json ? TO_TOP + drawn : drawn)
    shown = drawn
    const { running, queue } = picture.value
    const isIdle = running.length + queue.ready + queue.held === 0
    if (flags.once === true || (flags.untilIdle === true && isIdle)) break
    await jobs.realWait(flags.every, terminal.stop)
  }
  return accept(undefined)
}

function look(cache: QueueCache, jobs: Jobs): Decision<Picture> {
  return cache.get('picture', (scheduler) => {
    const running = listReports(scheduler, jobs, 'running')
    if (!running.ok) return running
    const ended = listReports(scheduler, jobs, 'finished')
    if (!ended.ok) return ended
    const queue = jobs.listQueue(scheduler, { limit: ROWS })
    return queue.ok ? accept({ running: running.value, queue: queue.value, ended: ended.value }) : queue
  })
}

function listReports(scheduler: Scheduler, jobs: Jobs, state: 'running' | 'finished'): Decision<readonly JobReport[]> {
  const listed = jobs.listJobs(scheduler, { state, limit: state === 'running' ? 100 : 5 })
  if (!listed.ok) return listed
  const reports: JobReport[] = []
  for (const { job_id } of listed.value) {
    const report = jobs.readJob(scheduler, job_id)
    if (!report.ok) return report
    reports.push(report.value)
  }
  return accept(reports)
}

function documentOf({ running, queue, ended }: Picture, { toJobReportView, toJobView }: Jobs): string {
  const { ready, held } = queue
  const document = {
    ready,
    held,
    running: running.map(toJobReportView),
    queue: queue.jobs.map(toJobView),
    ended: ended.map(toJobReportView),
  }
  return `${JSON.stringify(document)}\n`
}

/** The time that runs is for a screen; in a file every second would be a change. */
function draw({ terminal }: Cli, scheduler: Scheduler, { running, queue, ended }: Picture): string {
  const color = colorsOf(terminal)
  const nowMs = scheduler.deps.now().getTime()
  const rows = [
    ...running.map(({ job, run }) => [
      showJobId(job.job_id),
      'running',
      terminal.isTty && run ? describeDuration(nowMs - run.started_at) : '',
      showLine(workText(job)),
      run?.log_path == null ? '' : showLine(lastLineOf(run.log_path)),
    ]),
    ...queue.jobs.map((job) => [showJobId(job.job_id), job.hold ?? 'queued', '', showLine(workText(job)), '']),
    ...ended.map(({ job, run }) => [
      showJobId(job.job_id),
      run?.status?.toLowerCase() ?? 'ended',
      run?.finished_at == null ? '' : describeDuration(run.finished_at - run.started_at),
      showLine(workText(job)),
      showLine(run?.error ?? ''),
    ]),
  ]
  const head = `${running.length} running, ${queue.ready} queued, ${queue.held} held back`
  return `${color.bold(head)}\n${formatTable(['job', 'state', 'time', 'work', 'progress'], rows)}\n`
}

/** What a job printed last is how far it says it is. */
function lastLineOf(path: string): string {
  try {
    const fd = openSync(path, 'r')
    try {
      const bytes = Buffer.alloc(TAIL_BYTES)
      const { size } = fstatSync(fd)
      const count = readSync(fd, bytes, 0, TAIL_BYTES, Math.max(0, size - TAIL_BYTES))
      const lines = bytes
        .subarray(0, count)
        .toString()
        .split(/[\r\n]/)
      return lines.findLast((line) => line.trim() !== '')?.slice(-60) ?? ''
    } finally {
      closeSync(fd)
    }
  } catch {
    return ''
  }
}
