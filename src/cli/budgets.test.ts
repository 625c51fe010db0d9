/** Budgets on a terminal: by the id of the budget and by that of its run. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { COMMAND_ID, runAgainst } from '#test/recorded-server'

const DIGITS = '0197f3b2c4d57a8e9b0c1d2e3f405181'
const child = {
  budget_id: `budget_${'1'.repeat(32)}`,
  status: 'closed',
  limit_units: '20.000000',
  reserved_units: '0.000000',
  spent_units: '4.250000',
  carved_units: '0.000000',
  excess_units: '0.000000',
  free_units: '0.000000',
  created_at: '2026-05-01T10:00:00.000Z',
  closed_at: '2026-05-01T11:00:00.000Z',
}
const budget = {
  ...child,
  budget_id: `budget_${DIGITS}`,
  status: 'breached',
  limit_units: '50.000000',
  excess_units: '1.500000',
  free_units: '44.250000',
  closed_at: null,
  command_id: COMMAND_ID,
  parent_budget_id: null,
  children: [child],
}

describe('budgets show', () => {
  for (const id of [`budget_${DIGITS}`, `agent_${DIGITS}`, `swarm_${DIGITS}`]) {
    test(`shows ${id}`, async () => {
      const { out, heard } = await runAgainst({ [`GET /budgets/budget_${DIGITS}`]: budget }, ['budgets', 'show', id])
      assert.equal(heard.length, 1)
      for (const text of ['breached', '50.000000', '1.500000 above', '44.250000', child.budget_id, '4.250000'])
        assert.ok(out.includes(text), out)
      assert.ok(!/0\.000000\s*$/m.test(out.slice(out.indexOf(child.budget_id))), 'a closed budget shows no free units')
    })
  }

  test('lists models in quarantine and lifts one', async () => {
    const quarantine = {
      model: 'a/b',
      budget_id: child.budget_id,
      command_id: COMMAND_ID,
      excess_units: '0.500000',
      created_at: child.created_at,
      lifted_at: null,
    }
    const listed = await runAgainst({ 'GET /model-quarantines': { items: [quarantine] } }, ['budgets', 'quarantines'])
    assert.ok(listed.out.includes('a/b') && listed.out.includes('0.500000'), listed.out)
    const route = 'POST /model-quarantines/lift'
    const lifted = await runAgainst({ [route]: quarantine }, ['budgets', 'lift', 'a/b', '--reason', 'corrected'])
    assert.deepEqual(
      lifted.heard.map(({ line, body }) => [line, body]),
      [[route, { model: 'a/b', reason: 'corrected' }]],
    )
    assert.equal(lifted.out, 'a/b may be called again\n')
  })

  test('another id is refused without a request', async () => {
    const { err, heard } = await runAgainst({}, ['budgets', 'show', COMMAND_ID])
    assert.deepEqual(heard, [])
    assert.match(err, /is not the id of a budget/)
  })
})
