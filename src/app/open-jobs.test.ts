import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkJobsAside } from './open-jobs.ts'
import { openJobs } from './scheduler.ts'

test('two concurrent checks share one thread; the next check starts another', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'concord-check-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'jobs.db')
  const opened = openJobs({ file, role: 'owner' })
  assert.ok(opened.ok)
  t.after(() => opened.value.close())
  const [one, two] = [checkJobsAside(file), checkJobsAside(file)]
  assert.equal(one, two)
  const checked = await one
  assert.deepEqual(checked.ok && checked.value.violations, [])
  const next = checkJobsAside(file)
  assert.notEqual(next, one)
  assert.ok((await next).ok)
})
