/** The cache holds derived values only: writes and restarts empty it, and without it nothing changes. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { claimJobs } from './claim-next.ts'
import { listQueue } from './job-views.ts'
import { openQueueCache, type QueueCache } from './queue.ts'
import { aFile, aScheduler, must, openTest } from '#test/scheduler/fixture'
import { submitJob } from './submit-job.ts'

function aCountingLook() {
  let reads = 0
  const look = (cache: QueueCache) =>
    must(
      cache.get('queue', (scheduler) => {
        reads += 1
        return listQueue(scheduler)
      }),
    ).jobs.map((job) => job.job_id)
  return { look, reads: () => reads }
}

describe('the cache', () => {
  test('[SCH-013] without a write in between the file is read once', () => {
    const scheduler = aScheduler({ file: aFile() })
    must(submitJob(scheduler, { job_type: 'story' }))
    const cache = openQueueCache(scheduler)
    const { look, reads } = aCountingLook()
    assert.deepEqual(look(cache), look(cache))
    assert.equal(reads(), 1)
  })

  test('[SCH-015] a write of any process is visible immediately, and a restart reads again', () => {
    const file = aFile()
    const scheduler = aScheduler({ file })
    const guest = must(openTest({ file, role: 'guest' }))
    const cache = openQueueCache(scheduler)
    const { look } = aCountingLook()
    assert.deepEqual(look(cache), [])
    const first = must(submitJob(scheduler, { job_type: 'story' })).job_id
    assert.deepEqual(look(cache), [first])
    const second = must(submitJob(guest, { job_type: 'story' })).job_id
    assert.deepEqual(look(cache), [first, second])
    must(claimJobs(scheduler))
    assert.deepEqual(look(cache), [second])
    scheduler.close()
    const reopened = must(openTest({ file }))
    assert.deepEqual(look(openQueueCache(reopened)), [second])
  })

  test('[SCH-014] [SCH-016] clearing it at any moment changes neither reads nor dispatches', () => {
    const live = (isDeleted: boolean) => {
      const scheduler = aScheduler({ file: aFile() })
      const cache = openQueueCache(scheduler)
      const { look } = aCountingLook()
      const seen: unknown[] = []
      const order: number[] = []
      const numbers = new Map<string, number>()
      for (let round = 0; round < 12; round++) {
        const { job_id } = must(submitJob(scheduler, { job_type: 'story', priority: round % 3 }))
        numbers.set(job_id, round)
        if (isDeleted) cache.clear()
        seen.push(look(cache).map((id) => numbers.get(id)))
        if (round % 2 === 1) order.push(...dispatchOne(scheduler).map((id) => numbers.get(id) ?? -1))
      }
      return { seen, order }
    }
    assert.deepEqual(live(true), live(false))
  })
})

function dispatchOne(scheduler: ReturnType<typeof aScheduler>): string[] {
  return must(claimJobs(scheduler)).runs.map((run) => run.job.job_id)
}
