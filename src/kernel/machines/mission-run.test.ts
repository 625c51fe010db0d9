import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decideMove, findMove, stateTypes, statesOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { missionRunMachine as run } from './mission.ts'

describe('mission run', () => {
  test('[MIS-018] there are exactly four state types, in lower case', () => {
    assert.deepEqual([...stateTypes], ['pending', 'running', 'paused', 'terminal'])
  })

  test('[MIS-019] the nine run states', () => {
    const nine = [
      'pending',
      'planning',
      'awaiting_approval',
      'running',
      'paused',
      'budget_exceeded',
      'completed',
      'failed',
      'cancelled',
    ]
    assert.deepEqual([...statesOf(run)], nine)
  })

  test('[MIS-020] each run state has its type', () => {
    assert.deepEqual(run.states, {
      pending: 'pending',
      planning: 'pending',
      awaiting_approval: 'pending',
      running: 'running',
      paused: 'paused',
      budget_exceeded: 'paused',
      completed: 'terminal',
      failed: 'terminal',
      cancelled: 'terminal',
    })
  })

  test('[MIS-160] all 9 × 9 pairs: 19 are legal, every other is refused, terminal states have no exit', () => {
    const legal = {
      pending: ['planning', 'failed', 'cancelled'],
      planning: ['awaiting_approval', 'running', 'failed', 'cancelled'],
      awaiting_approval: ['running', 'failed', 'cancelled'],
      running: ['completed', 'failed', 'paused', 'budget_exceeded', 'cancelled'],
      paused: ['running', 'cancelled'],
      budget_exceeded: ['running', 'cancelled'],
      completed: [],
      failed: [],
      cancelled: [],
    }
    assert.deepEqual(differingPairs(run, legal), [])
    assert.equal(run.moves.length, 19)
  })

  test('[MIS-146] pending → planning is the coordinator’s and says run_planning_started', () => {
    const move = findMove(run, 'pending', 'planning')
    assert.deepEqual([move?.by, move?.emits], [['coordinator'], ['run_planning_started']])
    for (const other of ['human', 'system', 'agent', 'verifier', 'reconciler']) {
      assert.equal(decideMove(run, 'pending', 'planning', other).ok, false)
    }
  })

  // Actors and events of the other rows; what such a move does beside them (rows, cards, tasks) is proven with the store.
  const table: readonly (readonly [half: string, from: string, to: string, by: string, emits: readonly string[]])[] = [
    ['147', 'planning', 'awaiting_approval', 'coordinator', ['run_plan_ready']],
    ['148', 'planning', 'running', 'coordinator', ['run_plan_ready', 'run_approved']],
    ['149', 'awaiting_approval', 'running', 'human', ['run_approved']],
    ['150', 'awaiting_approval', 'failed', 'human', ['run_rejected']],
    ['151', 'running', 'completed', 'coordinator', ['run_completed']],
    ['152', 'running', 'failed', 'coordinator', ['run_failed']],
    ['153', 'running', 'paused', 'human', ['run_paused']],
    ['154', 'running', 'budget_exceeded', 'system', ['run_budget_exceeded']],
    ['155', 'paused', 'running', 'human', ['run_resumed']],
    ['156', 'budget_exceeded', 'running', 'human', ['run_budget_increased']],
    ['157', 'budget_exceeded', 'cancelled', 'human', ['run_cancelled']],
    ['158', 'pending', 'cancelled', 'human', ['run_cancelled']],
    ['158', 'planning', 'cancelled', 'human', ['run_cancelled']],
    ['158', 'awaiting_approval', 'cancelled', 'human', ['run_cancelled']],
    ['158', 'running', 'cancelled', 'human', ['run_cancelled']],
    ['158', 'paused', 'cancelled', 'human', ['run_cancelled']],
    ['159', 'pending', 'failed', 'coordinator', ['run_failed']],
    ['159', 'planning', 'failed', 'coordinator', ['run_failed']],
  ]
  for (const [half, from, to, by, emits] of table) {
    test(`${from} → ${to} by ${by}: ${emits.join(', ')} (the table’s half of mission row ${half})`, () => {
      assert.deepEqual(findMove(run, from, to)?.by, [by])
      assert.deepEqual(findMove(run, from, to)?.emits, emits)
    })
  }

  test('a run is created pending by the system or a person with run_created (the table’s half of mission row 145)', () => {
    assert.equal(run.initial, 'pending')
    assert.deepEqual(run.creation, { by: ['system', 'human'], emits: ['run_created'] })
  })

  test('completed_at is set on every end; started_at belongs to the first task', () => {
    assert.deepEqual(run.stamps, [{ column: 'completed_at', on: ['completed', 'failed', 'cancelled'] }])
  })
})
