/**
 * Run as a child process by `queue-order.test.ts`: builds random queues from a seed, inserts their rows in another order, and
 * prints the order in which each is listed and dispatched. Every queue is rolled back.
 */
import { createHash } from 'node:crypto'
import { openChance } from '#test/chance'
import { refuse } from '#kernel/refusal'
import { listQueued } from '../../../src/domains/scheduler/queue.ts'
import { aScheduler } from './fixture.ts'
import { claimNextJob } from '../../../src/domains/scheduler/claim-next.ts'
import { query } from '../../../src/domains/scheduler/database.ts'

type NewRow = { job_id: string; priority: number; position: number; created_at: number }
const insert = query<never, NewRow>(`
   insert into jobs (job_id, job_type, params, priority, position, created_at, queued_at)
   values ($job_id, 'story', '{}', $priority, $position, $created_at, $created_at)`)

const [seed = '', own = '', count = '0'] = process.argv.slice(2)
const chance = openChance(seed)
const shuffle = openChance(`${seed}/${own}`)
const scheduler = aScheduler()
const orders = createHash('sha256')
let differing = 0
for (let queue = 0; queue < Number(count); queue++) {
  const rows = Array.from({ length: 2 + chance.whole(14) }, (_, index) => ({
    // Few values per column, so that every column decides sometimes; the last one is never the order of insertion.
    priority: chance.whole(3) - 1,
    position: chance.whole(3) * 100,
    created_at: 1_000 + chance.whole(2),
    job_id: `${chance.whole(0xff_ff_ff).toString(16).padStart(8, '0')}-0000-7000-8000-${index.toString(16).padStart(12, '0')}`,
  }))
  const expected = rows
    .toSorted(
      (a, b) =>
        b.priority - a.priority ||
        a.position - b.position ||
        a.created_at - b.created_at ||
        (a.job_id < b.job_id ? -1 : 1),
    )
    .map((row) => row.job_id)
  scheduler.db.write((tx) => {
    while (rows.length > 0) for (const row of rows.splice(shuffle.whole(rows.length), 1)) tx.run(insert, row)
    const listed = listQueued(tx, 500).map((job) => job.job_id)
    const dispatched = expected.map(() => tx.one(claimNextJob, { now: 2_000 })?.job_id)
    if (listed.join() !== expected.join() || dispatched.join() !== expected.join()) differing += 1
    orders.update(`${listed.join()} ${dispatched.join()}\n`)
    return refuse('row.conflict', 'undone')
  })
}
process.stdout.write(JSON.stringify({ differing, orders: orders.digest('hex') }))
