/** A raise is new money, but never more than the command of an account may cost. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { bySystem } from '#kernel/actor'
import type { Decision } from '#kernel/refusal'
import { aBudgetPlace, assertSound, type BudgetPlace, units } from '#test/budgets'
import { openTestDb, type TestDb } from '#test/database'
import { accepted, TRACE } from '#test/tenant'
import { openAccount, raiseLimit, readAccount, type StoredAccount } from './account.ts'

const at = new Date('2026-05-01T10:00:00.000Z')
const codeOf = (decision: Decision<unknown>) => (decision.ok ? 'accepted' : decision.code)

describe('a raise of a limit', () => {
  let opened: TestDb
  let place: BudgetPlace
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    place = await aBudgetPlace(opened.db)
  })
  after(() => opened.close())

  const idOf = async (limit: string, parentId: string | null = null) => {
    const account = { ...place, accountId: randomUUID(), parentId, limit: units(limit), at }
    return accepted(await opened.db.transaction((tx) => openAccount(tx, account))).account_id
  }
  const add = (accountId: string, key: string, amount: string) => {
    const more = { workspaceId: place.workspaceId, accountId, key, amount: units(amount), at }
    return opened.db.transaction((tx) => raiseLimit(tx, bySystem(TRACE), more))
  }
  const look = async (id: string) => accepted(await readAccount(opened.db, place.workspaceId, id))
  const balances = ({ limit_units, carved_units }: StoredAccount) => [limit_units, carved_units].map(Number).join(' ')

  test('[OPS-05] a raise does not lift an account, or one above it, over what its command may cost', async () => {
    const command = (most: string) =>
      opened.db.query(`update concord.commands set context = $2 where command_id = $1`, [
        place.commandId,
        { metadata: { max_cost: most } },
      ])
    await command('3')
    const id = await idOf('5')
    assert.equal(balances(await look(id)), '3 0')
    const refused = await add(id, 'raise:1', '5')
    assert.ok(!refused.ok)
    assert.deepEqual(
      [refused.code, refused.reason],
      ['budgets.account.capped', 'The work may cost 3.000000 units at most, and its limit is 3.000000.'],
    )
    const child = await idOf('1', id)
    assert.equal(codeOf(await add(child, 'raise:2', '1')), 'budgets.account.capped')
    assert.deepEqual([balances(await look(id)), balances(await look(child))], ['3 1', '1 0'])
    await command('4')
    assert.equal(balances(accepted(await add(child, 'raise:2', '1'))), '2 0')
    assert.equal(codeOf(await add(child, 'raise:3', '0.000001')), 'budgets.account.capped')
    await assertSound(opened.db, place)
  })
})
