/** Metrics of the store, as `/metrics` shows them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDb } from '#store'
import { openTestDb } from '#test/database'
import { openConflictCount } from './metrics.ts'
import { openTelemetry } from './telemetry.ts'

test('[MIS-338] a transaction that conflicts with another one runs again by itself, and is counted', async (t) => {
  const opened = await openTestDb({ migrated: false })
  const telemetry = await openTelemetry({}, '0.0.0')
  const db = openDb({ url: opened.url, onConflict: openConflictCount(telemetry.metrics.meter) })
  t.after(async () => {
    await db.close()
    await telemetry.close()
    await opened.close()
  })
  const counted = async () =>
    /concord_transaction_conflicts_total(?:\{[^}]*\})? (\d+)/.exec(await telemetry.metrics.render())?.[1]
  await db.query('create table facts (n int)')
  await db.query('insert into facts values (1)')
  assert.equal(await counted(), '0')
  let runs = 0
  await db.transaction(async (tx) => {
    runs += 1
    await tx.query('select n from facts')
    if (runs === 1) await db.query('update facts set n = n * 10')
    await tx.query('update facts set n = n + 1')
  }, 'begin isolation level repeatable read')
  assert.deepEqual([runs, await db.query('select n from facts'), await counted()], [2, [{ n: 11 }], '1'])
})
