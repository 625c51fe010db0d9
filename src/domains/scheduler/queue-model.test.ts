/** 10,000 random histories of one queue, compared with a simple list after each step. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { cancelJob, changeJob, moveJob, normalizeQueue, swapJobs } from './change-job.ts'
import { checkInvariants } from './check-invariants.ts'
import { claimJobs } from './claim-next.ts'
import { finishRun } from './finish-run.ts'
import { listQueue } from './job-views.ts'
import { releaseReservation, reserve } from './reservations.ts'
import { aScheduler, must, type TestScheduler } from '#test/scheduler/fixture'
import { submitJob } from './submit-job.ts'

const PRIORITIES = [2, 1, 0] as const
type Story = {
  readonly scheduler: TestScheduler
  readonly queues: Map<number, string[]>
  reservation: string | undefined
}

const whole = ({ queues }: Story) => PRIORITIES.flatMap((priority) => queues.get(priority) ?? [])
const homeOf = ({ queues }: Story, job: string) =>
  [...queues.entries()].find(([, jobs]) => jobs.includes(job)) ?? [0, []]

function drop(story: Story, job: string): number {
  const [priority, jobs] = homeOf(story, job)
  story.queues.set(
    priority,
    jobs.filter((each) => each !== job),
  )
  return priority
}

function insertAt(story: Story, priority: number, job: string, index: number): void {
  const jobs = story.queues.get(priority) ?? []
  story.queues.set(priority, [...jobs.slice(0, index), job, ...jobs.slice(index)])
}

/** Three numbers define a step; a step without a job to act on is skipped. */
const steps: readonly ((story: Story, x: number, y: number) => void)[] = [
  function submit(story, x) {
    const priority = PRIORITIES[x % 3] ?? 0
    const job = must(submitJob(story.scheduler, { job_type: 'story', priority })).job_id
    insertAt(story, priority, job, story.queues.get(priority)?.length ?? 0)
  },
  function move(story, x, y) {
    const job = whole(story)[x % whole(story).length]
    if (job === undefined) return
    const others = homeOf(story, job)[1].filter((each) => each !== job)
    const anchor = others[y % Math.max(1, others.length)]
    const kind = (x + y) % 4
    if (anchor === undefined || kind < 2) {
      must(moveJob(story.scheduler, job, { to: kind === 0 ? 'front' : 'back' }))
      const priority = drop(story, job)
      insertAt(story, priority, job, kind === 0 ? 0 : (story.queues.get(priority)?.length ?? 0))
      return
    }
    must(moveJob(story.scheduler, job, kind === 2 ? { before: anchor } : { after: anchor }))
    const priority = drop(story, job)
    insertAt(story, priority, job, (story.queues.get(priority) ?? []).indexOf(anchor) + (kind === 2 ? 0 : 1))
  },
  function swap(story, x, y) {
    const [a, b] = [whole(story)[x % whole(story).length], whole(story)[y % whole(story).length]]
    if (a === undefined || b === undefined) return
    must(swapJobs(story.scheduler, a, b))
    for (const [priority, jobs] of story.queues)
      story.queues.set(
        priority,
        jobs.map((job) => (job === a ? b : job === b ? a : job)),
      )
  },
  function cancel(story, x) {
    const job = whole(story)[x % whole(story).length]
    if (job === undefined) return
    must(cancelJob(story.scheduler, job))
    drop(story, job)
  },
  function changePriority(story, x, y) {
    const job = whole(story)[x % whole(story).length]
    const priority = PRIORITIES[y % 3] ?? 0
    if (job === undefined || homeOf(story, job)[0] === priority) return
    must(changeJob(story.scheduler, job, { priority }))
    drop(story, job)
    insertAt(story, priority, job, story.queues.get(priority)?.length ?? 0)
  },
  function normalise(story) {
    must(normalizeQueue(story.scheduler))
  },
  function dispatch(story) {
    const { runs, waiting } = must(claimJobs(story.scheduler))
    if (story.reservation !== undefined) {
      assert.equal(waiting?.reason, 'reserved')
      return
    }
    const [first] = whole(story)
    assert.equal(runs[0]?.job.job_id, first)
    if (first === undefined) return
    drop(story, first)
    must(finishRun(story.scheduler, runs[0]?.runId ?? '', { outcome: 'completed' }))
  },
  function reserveOrRelease(story) {
    if (story.reservation === undefined)
      story.reservation = must(reserve(story.scheduler, { reserved_by: 'story' })).reservation_id
    else {
      must(releaseReservation(story.scheduler, story.reservation))
      story.reservation = undefined
    }
  },
]

describe('the queue and its model', () => {
  test('[SCH-001] [SCH-091] [SCH-093] [SCH-095] [SCH-096] [SCH-098] [SCH-122] agree after every step of 10,000 histories', () => {
    const scheduler = aScheduler()
    const step = fc.tuple(fc.nat({ max: steps.length - 1 }), fc.nat({ max: 50 }), fc.nat({ max: 50 }))
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 14 }), (told) => {
        const story: Story = { scheduler, queues: new Map(), reservation: undefined }
        try {
          for (const [which, x, y] of told) {
            steps[which]?.(story, x, y)
            assert.deepEqual(
              must(listQueue(scheduler, { limit: 500 })).jobs.map((job) => job.job_id),
              whole(story),
            )
          }
        } finally {
          // The next history begins with an empty queue in the same file.
          if (story.reservation !== undefined) must(releaseReservation(scheduler, story.reservation))
          for (const job of must(listQueue(scheduler, { limit: 500 })).jobs) must(cancelJob(scheduler, job.job_id))
        }
      }),
      { numRuns: 10_000 },
    )
    assert.deepEqual(must(checkInvariants(scheduler)).violations, [])
  })

  test('[SCH-095] 300 moves into one gap never lose the order, and never put two jobs in one place', () => {
    const scheduler = aScheduler()
    const jobs = Array.from({ length: 300 }, () => must(submitJob(scheduler, { job_type: 'story' })).job_id)
    const [anchor = '', ...rest] = jobs
    for (const job of rest) must(moveJob(scheduler, job, { after: anchor }))
    assert.deepEqual(
      must(listQueue(scheduler, { limit: 500 })).jobs.map((job) => job.job_id),
      [anchor, ...rest.toReversed()],
    )
    assert.deepEqual(must(checkInvariants(scheduler)).violations, [])
  })
})
