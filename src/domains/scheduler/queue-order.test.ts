/** The rows define the order of a queue: two independent processes that insert them in different orders agree. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { proofSize } from '#test/proof-size'

const program = new URL('../../../test/support/scheduler/queue-order.ts', import.meta.url).pathname
const QUEUES = proofSize(500, 10_000)

async function orderedBy(seed: string, name: string): Promise<{ differing: number; orders: string }> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, seed, name, String(QUEUES)])
  return JSON.parse(stdout) as { differing: number; orders: string }
}

test(`[SCH-001] [SCH-122] ${QUEUES} random queues, listed and dispatched alike by two processes`, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'queues'
  t.diagnostic(`seed ${seed}`)
  const [one, two] = await Promise.all([orderedBy(seed, 'one'), orderedBy(seed, 'two')])
  assert.deepEqual([one.differing, two.differing], [0, 0])
  assert.equal(one.orders, two.orders)
})
