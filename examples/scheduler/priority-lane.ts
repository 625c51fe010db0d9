/**
 * Ten slow jobs are queued when an urgent one arrives: its higher priority puts it first, and the others keep their order.
 *
 *   npm run example examples/scheduler/priority-lane.ts
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { moveJob, submitJob, toJobView } from '@concordhq/concord/scheduler'
import { openExample } from './open-example.ts'

const script = `require('node:fs').appendFileSync('done', JSON.parse(require('node:fs').readFileSync(0, 'utf8')).name + '\\n')`
using example = openExample([{ job_type: 'build', runner: { command: process.execPath, args: ['-e', script] } }])
const { scheduler, folder } = example

const add = (name: string, priority = 0) => {
  const job = submitJob(scheduler, { job_type: 'build', params: { name }, priority })
  assert.ok(job.ok)
  return job.value
}
const normal = Array.from({ length: 10 }, (_, index) => add(`normal ${index + 1}`))
add('urgent', 10)
const [, , , , fifth] = normal
assert.ok(fifth)
// Reorders two jobs within a priority.
assert.ok(moveJob(scheduler, fifth.job_id, { to: 'front' }).ok)
assert.equal(toJobView(fifth).status, 'queued')
await example.run()

const rest = [1, 2, 3, 4, 6, 7, 8, 9, 10].map((number) => `normal ${number}`)
assert.deepEqual(readFileSync(join(folder, 'done'), 'utf8').trim().split('\n'), ['urgent', 'normal 5', ...rest])
console.log('the urgent job ran first, and the others kept their order')
