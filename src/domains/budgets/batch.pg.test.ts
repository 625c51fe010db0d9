/** Reservations of many at once by callers that wait for each other. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { bySystem } from '#kernel/actor'
import { aBudgetPlace, assertSound, units } from '#test/budgets'
import { openTestDb } from '#test/database'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { openAccount, readAccount } from './account.ts'
import { reserveCosts, settleCosts } from './batch.ts'

test('callers that wait for an account take only what is left after the wait, and settlements beside them stay exact', async () => {
  const { db, close } = await openTestDb({ role: 'concord_engine', poolMax: 8 })
  try {
    const place = await aBudgetPlace(db)
    const [accountId, at] = [randomUUID(), new Date('2026-05-01T10:00:00.000Z')]
    accepted(await openAccount(db, { ...place, accountId, parentId: null, limit: units('10'), at }))
    const amounts = (name: string, amount: string) =>
      [0, 1, 2].map((n) => ({ key: `${name}:${n}`, amount: units(amount) }))
    const take = (name: string) =>
      db.transaction((tx) => reserveCosts(tx, { ...place, accountId, at, amounts: amounts(name, '2') }))
    const waits =
      'select 1 from pg_locks join pg_stat_activity using (pid) where datname = current_database() and not granted'
    const asked = await db.transaction(async (tx) => {
      const first = await reserveCosts(tx, { ...place, accountId, at, amounts: amounts('a', '2') })
      assert.equal(first.size, 3)
      const others = ['b', 'c', 'd'].map(take)
      await until(async () => (await db.query(waits)).length >= 2)
      return { others }
    })
    const taken = (await Promise.all(asked.others)).map(({ size }) => size)
    assert.deepEqual(
      taken.toSorted((a, b) => a - b),
      [0, 0, 2],
    )
    // Each pays less than it reserved, and others take what that leaves.
    await Promise.all([
      settleCosts(db, bySystem(TRACE), { ...place, accountId, at, amounts: amounts('a', '0.5') }),
      ...['e', 'f', 'g'].map(take),
    ])
    await assertSound(db, place)
    const { reserved_units, spent_units } = accepted(await readAccount(db, place.workspaceId, accountId))
    assert.ok(Number(reserved_units) + Number(spent_units) <= 10)
    assert.equal(Number(spent_units), 1.5)
  } finally {
    await close()
  }
})
