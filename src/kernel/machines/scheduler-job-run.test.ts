import assert from 'node:assert/strict'
import { test } from 'node:test'
import { columnOfState, stateOfColumn, statesOf } from '../machine.ts'
import { differingPairs, sqlCheckList } from '../machine-graph.ts'
import { openJobRun, schedulerJobRunMachine as run } from './scheduler.ts'

test('scheduler job run: open, then one of three outcomes, once; all 4 × 4 pairs', () => {
  const legal = { OPEN: ['COMPLETED', 'FAILED', 'SKIPPED'], COMPLETED: [], FAILED: [], SKIPPED: [] }
  assert.deepEqual(differingPairs(run, legal), [])
})

test('scheduler job run: an open run is NULL in its column, and the word for it is never stored', () => {
  assert.equal(columnOfState(run, openJobRun), null)
  assert.equal(stateOfColumn(run, null), openJobRun)
  assert.equal(stateOfColumn(run, openJobRun), undefined)
  assert.equal(sqlCheckList(run), "'COMPLETED', 'FAILED', 'SKIPPED'")
  for (const state of statesOf(run)) assert.equal(stateOfColumn(run, columnOfState(run, state)), state)
})
