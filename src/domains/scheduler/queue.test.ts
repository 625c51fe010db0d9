/** The order of the queue: where new jobs go, how jobs are moved, and that nothing else changes the order. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { cancelJob, changeJob, moveJob, normalizeQueue, swapJobs } from './change-job.ts'
import { claimJobs } from './claim-next.ts'
import { finishRun } from './finish-run.ts'
import { listJobs, listQueue, readJob } from './job-views.ts'
import { planPosition } from './queue.ts'
import { aFile, aScheduler, codeOf, must, type TestScheduler } from '#test/scheduler/fixture'
import { query } from './database.ts'
import { submitJob } from './submit-job.ts'

const submit = (scheduler: TestScheduler, priority = 0) =>
  must(submitJob(scheduler, { job_type: 'story', priority })).job_id
const order = (scheduler: TestScheduler) => must(listQueue(scheduler, { limit: 500 })).jobs.map((job) => job.job_id)
const positions = (scheduler: TestScheduler) =>
  must(listQueue(scheduler, { limit: 500 })).jobs.map((job) => job.position)

describe('new jobs', () => {
  test('[SCH-063] [SCH-092] go to the end of their priority: 100, 200, 300, and 100 where there is none', () => {
    const scheduler = aScheduler()
    for (const priority of [0, 0, 5, 0, 5]) submit(scheduler, priority)
    assert.deepEqual(positions(scheduler), [100, 200, 100, 200, 300])
    assert.deepEqual(
      must(listQueue(scheduler)).jobs.map((job) => job.status),
      Array(5).fill('QUEUED'),
    )
  })

  test('[SCH-092] the highest position counts, also below zero and with gaps', () => {
    const scheduler = aScheduler()
    const [first, second] = [submit(scheduler), submit(scheduler)]
    must(moveJob(scheduler, second, { to: 'front' }))
    must(cancelJob(scheduler, first))
    assert.deepEqual(positions(scheduler), [0])
    submit(scheduler)
    assert.deepEqual(positions(scheduler), [0, 100])
  })

  test('[SCH-092] a delayed job counts for the next position', () => {
    const scheduler = aScheduler()
    must(submitJob(scheduler, { job_type: 'story', not_before: '2026-05-02T00:00:00Z' }))
    assert.equal(must(submitJob(scheduler, { job_type: 'story' })).position, 200)
  })

  test('[SCH-104] a job that cannot be stored is refused and leaves nothing', () => {
    const scheduler = aScheduler()
    for (const [body, code] of [
      [{ job_type: 'poem' }, 'scheduler.job_type.unknown'],
      [{ job_type: 'stroy' }, 'scheduler.job_type.unknown'],
      [{}, 'api.field.missing'],
      [{ job_type: 'story', params: { a: '\0' } }, 'nul_character'],
      [{ job_type: 'story', params: [1] }, 'json_not_object'],
      [{ job_type: 'story', priority: 1.5 }, 'api.field.type'],
      [{ job_type: 'story', priority: 1e9 }, 'api.field.value'],
      [{ job_type: 'story', prioritiy: 1 }, 'unknown_field'],
      [{ job_type: 'story', not_before: '2026-02-30T00:00:00Z' }, 'date_invalid'],
      [{ job_type: 'story', group_id: 'x' }, 'id_format'],
      [{ job_type: 'story', group_id: '00000000-0000-7000-8000-00000000dead' }, 'scheduler.group.not_found'],
      [{ template_id: '00000000-0000-7000-8000-00000000dead' }, 'scheduler.template.not_found'],
    ] as const) {
      assert.equal(codeOf(submitJob(scheduler, body as never)), code)
    }
    assert.deepEqual(must(listJobs(scheduler)), [])
  })

  test('[SCH-021] an unregistered type is refused with the nearest name', () => {
    const refused = submitJob(aScheduler(), { job_type: 'stroy' })
    assert.match(refused.ok ? '' : (refused.hint ?? ''), /story/)
  })
})

describe('order', () => {
  test('[SCH-091] priority first, then position, then time, then id', () => {
    const scheduler = aScheduler()
    const [low, high, highLater] = [submit(scheduler, -1), submit(scheduler, 9), submit(scheduler, 9)]
    assert.deepEqual(order(scheduler), [high, highLater, low])
    // Only a foreign write can put two jobs in one place, and the order is still total.
    const place = query<never>(`update jobs set priority = 9, position = 100 where status = 'QUEUED'`)
    scheduler.db.write((tx) => ({ ok: true, value: tx.run(place) }))
    assert.deepEqual(order(scheduler), [low, high, highLater].toSorted())
  })

  test('[SCH-093] a move between two jobs uses the gap and shifts no other job', () => {
    const scheduler = aScheduler()
    const [a, b, c, d] = [submit(scheduler), submit(scheduler), submit(scheduler), submit(scheduler)]
    assert.equal(must(moveJob(scheduler, d, { before: b })).position, 150)
    assert.equal(must(moveJob(scheduler, a, { after: c })).position, 400)
    assert.equal(must(moveJob(scheduler, c, { to: 'front' })).position, 50)
    assert.equal(must(moveJob(scheduler, c, { to: 'back' })).position, 500)
    assert.deepEqual(order(scheduler), [d, b, a, c])
    assert.deepEqual(positions(scheduler), [150, 200, 400, 500])
  })

  test('[SCH-093] a reorder is a swap of two places', () => {
    const scheduler = aScheduler()
    const [a, b, c] = [submit(scheduler), submit(scheduler, 7), submit(scheduler)]
    must(swapJobs(scheduler, a, c))
    assert.deepEqual(order(scheduler), [b, c, a])
    must(swapJobs(scheduler, a, b))
    assert.deepEqual(order(scheduler), [a, c, b])
    assert.deepEqual(positions(scheduler), [100, 100, 200])
  })

  test('[SCH-094] a used-up gap is renumbered, and the order stays', () => {
    const scheduler = aScheduler()
    const jobs = Array.from({ length: 12 }, () => submit(scheduler))
    const [first = '', ...rest] = jobs
    // Each goes right behind the first: 150, 125, 112 … until the gap is used up.
    for (const job of rest) must(moveJob(scheduler, job, { after: first }))
    assert.deepEqual(order(scheduler), [first, ...rest.toReversed()])
    assert.equal(new Set(positions(scheduler)).size, 12)
  })

  test('planPosition: half way, the ends, and undefined where nothing is left', () => {
    assert.equal(planPosition({ above: undefined, below: undefined }), 100)
    assert.equal(planPosition({ above: 100, below: undefined }), 200)
    assert.equal(planPosition({ above: undefined, below: 100 }), 0)
    assert.equal(planPosition({ above: 100, below: 200 }), 150)
    assert.equal(planPosition({ above: 100, below: 102 }), 101)
    assert.equal(planPosition({ above: 100, below: 101 }), undefined)
    assert.equal(planPosition({ above: -3, below: -2 }), undefined)
  })

  test('a move across priorities, of itself, of a running or an unknown job', () => {
    const scheduler = aScheduler()
    const [a, b] = [submit(scheduler), submit(scheduler, 1)]
    assert.equal(codeOf(moveJob(scheduler, a, { before: b })), 'scheduler.queue.other_priority')
    assert.equal(must(moveJob(scheduler, a, { before: a })).position, 100)
    must(claimJobs(scheduler))
    assert.equal(codeOf(moveJob(scheduler, b, { to: 'back' })), 'scheduler.job.not_queued')
    assert.equal(codeOf(moveJob(scheduler, a, { before: b })), 'scheduler.job.not_queued')
    assert.equal(codeOf(moveJob(scheduler, 'nobody', { to: 'back' })), 'scheduler.job.not_found')
    assert.equal(codeOf(moveJob(scheduler, a, { to: 'top' } as never)), 'api.field.value')
  })

  test('[SCH-095] [SCH-096] normalising gives 100, 200, 300 per priority, and the order is the same', () => {
    const scheduler = aScheduler()
    const jobs = [0, 0, 0, 5, 5, -2].map((priority) => submit(scheduler, priority))
    must(moveJob(scheduler, jobs[2] ?? '', { before: jobs[1] ?? '' }))
    must(moveJob(scheduler, jobs[4] ?? '', { to: 'front' }))
    const before = order(scheduler)
    must(normalizeQueue(scheduler))
    assert.deepEqual(order(scheduler), before)
    assert.deepEqual(positions(scheduler), [100, 200, 100, 200, 300, 100])
    assert.equal(must(normalizeQueue(scheduler)).changed, 0)
  })
})

describe('changes', () => {
  test('[SCH-022] [SCH-024] params and priority change while QUEUED, and a new priority puts the job at its end', () => {
    const scheduler = aScheduler()
    const [a, b] = [submit(scheduler), submit(scheduler, 4)]
    const changed = must(changeJob(scheduler, a, { params: { x: 1 }, priority: 4 }))
    assert.deepEqual([changed.params, changed.priority, changed.position], ['{"x":1}', 4, 200])
    assert.deepEqual(order(scheduler), [b, a])
    must(claimJobs(scheduler))
    for (const body of [{ params: {} }, { priority: 1 }])
      assert.equal(codeOf(changeJob(scheduler, b, body)), 'scheduler.job.not_queued')
  })

  test('[SCH-066] a queued job is cancelled once; a running one is not', () => {
    const scheduler = aScheduler()
    const [a, b] = [submit(scheduler), submit(scheduler)]
    assert.equal(must(cancelJob(scheduler, b)).status, 'CANCELLED')
    assert.equal(codeOf(cancelJob(scheduler, b)), 'scheduler.job.not_queued')
    must(claimJobs(scheduler))
    const refused = cancelJob(scheduler, a)
    assert.equal(codeOf(refused), 'scheduler.job.not_queued')
    assert.match(refused.ok ? '' : (refused.hint ?? ''), /End its run/)
    assert.equal(must(readJob(scheduler, a)).job.status, 'RUNNING')
    assert.equal(codeOf(cancelJob(scheduler, 'nobody')), 'scheduler.job.not_found')
  })
})

describe('lists', () => {
  test('the pages together are the queue, and every job is on one page', () => {
    const scheduler = aScheduler()
    for (let count = 0; count < 25; count++) submit(scheduler, count % 3)
    must(submitJob(scheduler, { job_type: 'story', priority: 1, not_before: '2026-05-02T00:00:00Z' }))
    const whole = order(scheduler)
    const pages: string[] = []
    for (let after: string | undefined; ; after = pages.at(-1)) {
      const page = must(listQueue(scheduler, { limit: 4, ...(after && { after }) })).jobs
      if (page.length === 0) break
      pages.push(...page.map((job) => job.job_id))
    }
    assert.deepEqual(pages, whole)
    const { ready, held } = must(listQueue(scheduler))
    assert.deepEqual([ready, held], [25, 1])
    assert.equal(codeOf(listQueue(scheduler, { limit: 501 })), 'limit_range')
  })

  test('jobs by state and type, newest first', () => {
    const scheduler = aScheduler({ settings: { workers: 5 } })
    const jobs = [1, 2, 3, 4].map(() => submit(scheduler))
    must(submitJob(scheduler, { job_type: 'research' }))
    const [run] = must(claimJobs(scheduler, 2)).runs
    must(finishRun(scheduler, run?.runId ?? '', { outcome: 'completed' }))
    must(cancelJob(scheduler, jobs[3] ?? ''))
    const ids = (filter: Parameters<typeof listJobs>[1]) => must(listJobs(scheduler, filter)).map((job) => job.job_id)
    assert.deepEqual(ids({ status: 'finished' }), [jobs[0]])
    assert.deepEqual(ids({ status: 'running' }), [jobs[1]])
    assert.deepEqual(ids({ status: 'cancelled' }), [jobs[3]])
    assert.deepEqual(ids({ status: 'queued', jobType: 'story' }), [jobs[2]])
    assert.deepEqual(ids({ before: jobs[2] ?? '', limit: 1 }), [jobs[1]])
  })
})

test('[SCH-001] [SCH-122] two processes read the same order from the same file, and it follows the rule', () => {
  const file = aFile()
  const scheduler = aScheduler({ file })
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  const jobs = Array.from({ length: 60 }, () => submit(scheduler, random(4)))
  for (let count = 0; count < 60; count++) {
    const [a = '', b = ''] = [jobs[random(60)], jobs[random(60)]]
    if (random(3) === 0) must(swapJobs(scheduler, a, b))
    else moveJob(scheduler, a, random(2) === 0 ? { before: b } : { to: 'front' })
  }
  const child = execFileSync(
    process.execPath,
    [new URL('../../../test/support/scheduler/list-queue.ts', import.meta.url).pathname, file],
    {
      encoding: 'utf8',
    },
  )
  assert.deepEqual(JSON.parse(child), order(scheduler))
  const rows = must(listQueue(scheduler, { limit: 500 })).jobs
  const byRule = rows.toSorted(
    (x, y) =>
      y.priority - x.priority ||
      x.position - y.position ||
      x.created_at - y.created_at ||
      (x.job_id < y.job_id ? -1 : 1),
  )
  assert.deepEqual(rows, byRule)
  scheduler.close()
})
