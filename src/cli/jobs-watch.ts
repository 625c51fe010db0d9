/** `concord jobs watch`: a live table of running, queued and ended jobs; without a terminal, one table per change. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { JobReport, QueueCache, QueuePage, Scheduler } from '#app/scheduler'
import { describeDuration } from '#kernel/duration'
import { encodeId } from '#kernel/ids'
import { accept, type Decision } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { fileVerb, type Jobs, reportsOf, workText, type OnFile } from './jobs-file.ts'
import { type Add, parseTime } from './noun.ts'
import { formatTable } from './layout.ts'
import { type Cli, colorsOf, type VerbResult } from './terminal.ts'

type WatchFlags = { every: number; once?: true; untilIdle?: true }
type Picture = {
  readonly running: readonly JobReport[]
  readonly queue: QueuePage
  readonly ended: readonly JobReport[]
}

const EVERY_MS = 500
const ROWS = 10
const TAIL_BYTES = 512
const TO_TOP = '\u001b[H\u001b[J'

export const watch = (cli: Cli): Add =>
  fileVerb({
    description: 'show a live table of running, queued and ended jobs',
    options: [
      ['--every <duration>', 'how often to refresh (default: 500ms)', parseTime, EVERY_MS],
      ['--once', 'print one table and exit'],
      ['--until-idle', 'exit when nothing runs and nothing is queued'],
    ],
    examples: ['concord jobs watch --file jobs.db'],
    ask: ({ scheduler, jobs }: OnFile, flags: WatchFlags) => follow(cli, scheduler, jobs, flags),
    say: () => '',
  })

async function follow(cli: Cli, scheduler: Scheduler, jobs: Jobs, flags: WatchFlags): Promise<VerbResult> {
  const { terminal } = cli
  const json = cli.isJson()
  const cache = jobs.openQueueCache(scheduler)
  let shown = ''
  while (!terminal.stop.aborted) {
    const picture = look(cache, jobs)
    if (!picture.ok) return picture
    const drawn = json ? documentOf(picture.value, jobs) : draw(cli, scheduler, jobs, picture.value)
    if (drawn !== shown) terminal.out(terminal.isTty && !json ? TO_TOP + drawn : drawn)
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

function listReports(scheduler: Scheduler, jobs: Jobs, status: 'running' | 'finished'): Decision<readonly JobReport[]> {
  const listed = jobs.listJobs(scheduler, { status, limit: status === 'running' ? 100 : 5 })
  return listed.ok ? reportsOf(scheduler, jobs, listed.value) : listed
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

/** Shows elapsed time on a terminal only; in a file it would make every table differ. */
function draw({ terminal }: Cli, scheduler: Scheduler, jobs: Jobs, { running, queue, ended }: Picture): string {
  const color = colorsOf(terminal)
  const nowMs = scheduler.deps.now().getTime()
  const rows = [
    ...running.map(({ job, run }) => [
      encodeId('job', job.job_id),
      'running',
      terminal.isTty && run ? describeDuration(nowMs - run.started_at) : '',
      showLine(workText(jobs.toJobView(job))),
      run?.log_path == null ? '' : showLine(lastLineOf(run.log_path)),
    ]),
    ...queue.jobs.map((job) => [
      encodeId('job', job.job_id),
      job.hold ?? 'queued',
      '',
      showLine(workText(jobs.toJobView(job))),
      '',
    ]),
    ...ended.map(({ job, run }) => [
      encodeId('job', job.job_id),
      run?.status?.toLowerCase() ?? 'ended',
      run?.finished_at == null ? '' : describeDuration(run.finished_at - run.started_at),
      showLine(workText(jobs.toJobView(job))),
      showLine(run?.error ?? ''),
    ]),
  ]
  const head = `${running.length} running, ${queue.ready} queued, ${queue.held} held back`
  return `${color.bold(head)}\n${formatTable(terminal, ['job', 'status', 'time', 'work', 'progress'], rows)}\n`
}

/** The last line that a job printed, as its progress. */
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
