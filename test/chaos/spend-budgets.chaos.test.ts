/** kill -9 of agents that spend from shared budgets: no account above its limit, and every sum exact. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { spendBudgets } from './spend-budgets.ts'

test('sixteen agents on one tree of budgets, killed at random: overshoot 0, sums exact, no call twice', async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'budgets'
  const report = await spendBudgets({ rounds: 4, seed, spends: 200 })
  t.diagnostic(JSON.stringify({ seed, ...report }))
  assert.deepEqual([report.overshoot, report.inexact, report.doubled], [[], [], []])
  assert.ok(report.kills >= 4 && report.atWorst >= 1 && report.refused >= 1, 'kills, dead calls and the limit were met')
})
