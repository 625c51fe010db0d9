import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Sql } from '#store'
import { openKeyUse } from './authenticate.ts'

const at = (ms: number) => new Date(Date.UTC(2026, 4, 1) + ms)

/** A database that answers on request. */
function aDatabase(answer: () => Promise<unknown[]>) {
  const writes: unknown[][] = []
  const run = (_: unknown, values: readonly unknown[] = []) => {
    writes.push([...values])
    return answer()
  }
  // Only `run` is asked here.
  return { db: { run } as unknown as Sql, writes }
}

test('a crowd of requests with one key is one write, and a note within the minute is none', async () => {
  const { db, writes } = aDatabase(() => new Promise((resolve) => setImmediate(resolve, [])))
  const use = openKeyUse(db, (error) => assert.fail(String(error)))
  for (let request = 0; request < 100; request++) use.note('k1', null, at(0))
  use.note('k2', at(0), at(59_999))
  use.note('k3', at(0), at(60_000))
  assert.deepEqual(writes, [
    ['k1', at(0)],
    ['k3', at(60_000)],
  ])
  await use.settle()
  use.note('k1', at(0), at(60_000))
  assert.equal(writes.length, 3)
  await use.settle()
})

test('a note that cannot be written is reported and hurts nobody', async () => {
  const { db } = aDatabase(() => Promise.reject(new Error('down')))
  const errors: unknown[] = []
  const use = openKeyUse(db, (error) => errors.push(error))
  use.note('k1', null, at(0))
  await use.settle()
  assert.equal(String(errors[0]), 'Error: down')
})
