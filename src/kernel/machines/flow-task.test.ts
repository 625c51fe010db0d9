import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decideMove, findMove, statesOf, typeOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { flowTaskMachine as task } from './flow.ts'

const due = { next_retry_at: new Date(0) }
const final = { next_retry_at: null }

describe('flow task', () => {
  test('[FLOW-072] all 5 × 5 pairs: four moves of work and three into Canceled', () => {
    const legal = {
      Queued: ['Running', 'Canceled'],
      Running: ['Completed', 'Failed', 'Canceled'],
      Completed: [],
      Failed: ['Queued', 'Canceled'],
      Canceled: [],
    }
    assert.deepEqual(differingPairs(task, legal), [])
    assert.equal(task.moves.length, 7)
    assert.deepEqual([...statesOf(task)], ['Queued', 'Running', 'Completed', 'Failed', 'Canceled'])
  })

  test('[FLOW-071] Canceled is final and entered from Queued, Running, and Failed with a pending retry only', () => {
    const cancel = (from: string, facts = {}) => decideMove(task, from, 'Canceled', 'operator', facts).ok
    assert.equal(cancel('Queued'), true)
    assert.equal(cancel('Running'), true)
    assert.equal(cancel('Failed', due), true)
    assert.equal(cancel('Failed', final), false)
    assert.equal(cancel('Completed'), false)
    for (const to of statesOf(task)) assert.equal(decideMove(task, 'Canceled', to, 'operator').ok, false)
    // The token becomes invalid: it is gone from the row.
    assert.ok(task.clears?.some((clear) => clear.column === 'lease_token' && clear.on.includes('Canceled')))
  })

  test('Failed waits while next_retry_at is set and has ended when it is NULL (the table’s half of flow row 070)', () => {
    assert.equal(typeOf(task, 'Failed', due), 'pending')
    assert.equal(typeOf(task, 'Failed', final), 'terminal')
    // A row read without the column is not taken for finished.
    assert.equal(typeOf(task, 'Failed', {}), 'pending')
    assert.equal(decideMove(task, 'Failed', 'Queued', 'sweeper', due).ok, true)
    assert.equal(decideMove(task, 'Failed', 'Queued', 'sweeper', final).ok, false)
  })

  // What else these moves write is proven with the store.
  const table: readonly (readonly [
    half: string,
    from: string,
    to: string,
    by: readonly string[],
    emits: readonly string[],
  ])[] = [
    ['065', 'Queued', 'Running', ['worker', 'dispatcher'], []],
    ['066', 'Running', 'Completed', ['worker'], ['route_event']],
    ['067 and 068', 'Running', 'Failed', ['worker', 'reaper'], []],
    ['069', 'Failed', 'Queued', ['sweeper'], ['enqueue_task']],
  ]
  for (const [half, from, to, by, emits] of table) {
    test(`${from} → ${to} by ${by.join(', ')} (the table’s half of flow row ${half})`, () => {
      assert.deepEqual([findMove(task, from, to)?.by, findMove(task, from, to)?.emits], [by, emits])
    })
  }

  test('a retry forgets the lease; Completed keeps its token', () => {
    const clearedOn = (state: string) =>
      task.clears?.filter((clear) => clear.on.some((on) => on === state)).map((clear) => clear.column)
    const lease = ['worker_id', 'lease_token', 'lease_expires_at', 'last_heartbeat', 'next_retry_at']
    assert.deepEqual(clearedOn('Queued'), lease)
    assert.deepEqual(clearedOn('Completed'), [])
    assert.equal(task.lock, 'lease')
  })
})
