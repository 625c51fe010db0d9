/** The scope of the scheduler: one SQLite file, one machine, one owner, and one job at a time by default. */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { claimJobs } from './claim-next.ts'
import { cancelJob } from './change-job.ts'
import { checkPlace } from './open-scheduler.ts'
import { finishRun } from './finish-run.ts'
import { registerJobType } from './job-types.ts'
import { listJobs, listQueue, readJob } from './job-views.ts'
import { openQueueCache } from './queue.ts'
import { openRaw } from '#test/scheduler/raw-file'
import { aFile, aRun, aScheduler, codeOf, fail, must, openTest, rowsOf } from '#test/scheduler/fixture'
import { submitJob } from './submit-job.ts'

test('[SCH-005] the storage is one SQLite file, and one worker runs one job at a time', () => {
  const scheduler = aScheduler({ file: aFile() })
  for (let n = 0; n < 3; n++) must(submitJob(scheduler, { job_type: 'story' }))
  assert.equal(scheduler.settings.workers, 1)
  assert.equal(must(claimJobs(scheduler, 10)).runs.length, 1)
  assert.deepEqual(must(claimJobs(scheduler, 10)), { runs: [], waiting: { reason: 'busy', until: null } })
  assert.equal(readFileSync(scheduler.db.file).subarray(0, 15).toString(), 'SQLite format 3')
  scheduler.close()
})

test('[SCH-126] [SCH-005] no second owner and no shared disk: work is not distributed', () => {
  const scheduler = aScheduler({ file: aFile() })
  assert.equal(codeOf(openTest({ file: scheduler.db.file })), 'scheduler.file.locked')
  const guest = must(openTest({ file: scheduler.db.file, role: 'guest' }))
  guest.recovery.isDone = true
  must(submitJob(guest, { job_type: 'story' }))
  assert.equal(codeOf(claimJobs(guest)), 'scheduler.not_owner')
  const NFS = 0x6969
  assert.equal(codeOf(checkPlace(aFile(), () => NFS)), 'scheduler.file.network_mount')
  guest.close()
  scheduler.close()
})

test('[SCH-125] types have no limit by default, and worker_id stays empty', () => {
  const scheduler = aScheduler({ settings: { workers: 50 } })
  must(registerJobType(scheduler, { job_type: 'narrow', concurrency_limit: 2 }))
  for (let n = 0; n < 20; n++) {
    must(submitJob(scheduler, { job_type: 'story' }))
    must(submitJob(scheduler, { job_type: 'narrow' }))
  }
  const types = must(claimJobs(scheduler, 50)).runs.map(({ job }) => job.job_type)
  assert.equal(types.filter((type) => type === 'story').length, 20)
  assert.equal(types.filter((type) => type === 'narrow').length, 2)
  assert.ok(rowsOf(scheduler, 'jobs').every((row) => row['worker_id'] === null))
})

describe('the file is the truth', () => {
  test('[SCH-008] a copy of the file holds the whole state', () => {
    const scheduler = aScheduler({ file: aFile(), settings: { workers: 2 } })
    must(finishRun(scheduler, aRun(scheduler).runId, { outcome: 'completed', exitCode: 0 }))
    fail(scheduler, aRun(scheduler).runId)
    must(cancelJob(scheduler, must(submitJob(scheduler, { job_type: 'story' })).job_id))
    must(submitJob(scheduler, { job_type: 'research', priority: 5, params: { a: 1 } }))
    const copy = aFile()
    const raw = openRaw(scheduler.db.file)
    raw.exec('pragma wal_checkpoint(truncate)')
    raw.close()
    copyFileSync(scheduler.db.file, copy)
    assert.equal(existsSync(`${copy}-wal`), false)
    const other = aScheduler({ file: copy, settings: { workers: 2 } })
    for (const look of [listJobs, listQueue])
      assert.deepEqual(must<unknown>(look(other)), must<unknown>(look(scheduler)))
    for (const { job_id } of must(listJobs(scheduler))) {
      assert.deepEqual(must(readJob(other, job_id)), must(readJob(scheduler, job_id)))
    }
    const next = (which: typeof scheduler) => must(claimJobs(which)).runs.map(({ job }) => job.job_id)
    assert.deepEqual(next(other), next(scheduler))
    other.close()
    scheduler.close()
  })

  test('[SCH-008] services see rows that another program writes', () => {
    const scheduler = aScheduler({ file: aFile() })
    const cache = openQueueCache(scheduler)
    const ids = [1, 2].map(() => must(submitJob(scheduler, { job_type: 'story' })).job_id)
    const first = () => must(cache.get('queue', (file) => listQueue(file))).jobs[0]?.job_id
    assert.equal(first(), ids[0])
    const raw = openRaw(scheduler.db.file)
    raw.prepare('update jobs set priority = 9 where job_id = ?').run(ids[1] ?? '')
    raw.close()
    assert.equal(first(), ids[1])
    assert.equal(must(claimJobs(scheduler)).runs[0]?.job.job_id, ids[1])
    scheduler.close()
  })
})

test('[SCH-128] every tick of the checklist names tests that are there', () => {
  const here = (name: string) => readFileSync(new URL(`./${name}`, import.meta.url), 'utf8')
  const table = (here('README.md').split('## The checklist')[1] ?? '').split('\n## ')[0] ?? ''
  const ticks = table.split('\n').filter((line) => line.startsWith('| ') && !/^\| (Tick|Item|---)/.test(line))
  assert.equal(ticks.length, 8)
  for (const tick of ticks) {
    const named = [...tick.matchAll(/`([a-z.-]+\.test\.ts)`(?: "([^"]+)"| (SCH-\d{3}))?/g)]
    assert.ok(named.length > 0, tick)
    for (const [, file = '', title, row] of named) {
      const source = here(file)
      assert.ok(source.includes('test('), file)
      if (title !== undefined) assert.ok(source.includes(title), `${file}: ${title}`)
      if (row !== undefined) assert.ok(source.includes(`[${row}]`), `${file}: ${row}`)
    }
  }
})
