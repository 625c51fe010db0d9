import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { findMove, statesOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { missionTaskMachine as task } from './mission.ts'

const of = (from: string, to: string) => [findMove(task, from, to)?.by, findMove(task, from, to)?.emits]

describe('mission task', () => {
  test('[MIS-021] the twelve task states', () => {
    const twelve =
      'pending queued awaiting_retry assigned running continuing verifying awaiting_human completed failed cancelled skipped'
    assert.equal(statesOf(task).join(' '), twelve)
  })

  test('[MIS-022] each task state has its type', () => {
    assert.deepEqual(task.states, {
      pending: 'pending',
      queued: 'pending',
      awaiting_retry: 'pending',
      assigned: 'running',
      running: 'running',
      continuing: 'running',
      verifying: 'paused',
      awaiting_human: 'paused',
      completed: 'terminal',
      failed: 'terminal',
      cancelled: 'terminal',
      skipped: 'terminal',
    })
  })

  test('[MIS-184] all 12 × 12 pairs: 26 are legal, every other is refused', () => {
    const legal = {
      pending: ['queued', 'skipped', 'cancelled'],
      queued: ['assigned', 'cancelled'],
      awaiting_retry: ['assigned', 'cancelled'],
      assigned: ['running', 'queued', 'cancelled'],
      running: ['continuing', 'verifying', 'failed', 'awaiting_retry', 'cancelled'],
      continuing: ['running', 'cancelled'],
      verifying: ['completed', 'awaiting_human', 'awaiting_retry', 'failed', 'cancelled'],
      awaiting_human: ['completed', 'awaiting_retry', 'failed', 'cancelled'],
      completed: [],
      failed: [],
      cancelled: [],
      skipped: [],
    }
    assert.deepEqual(differingPairs(task, legal), [])
    assert.equal(task.moves.length, 26)
  })

  test('[MIS-165] pending → queued is the dependency resolver’s and says task_queued', () => {
    assert.deepEqual(of('pending', 'queued'), [['coordinator'], ['task_queued']])
  })
  test('[MIS-177] awaiting_human → awaiting_retry is a person’s and says task_human_rejected', () => {
    assert.deepEqual(of('awaiting_human', 'awaiting_retry'), [['human'], ['task_human_rejected']])
  })
  test('[MIS-199] the event is chosen per move, not built from the state: three ways into failed, three answers', () => {
    assert.deepEqual(findMove(task, 'running', 'failed')?.emits, ['task_crashed'])
    assert.deepEqual(findMove(task, 'verifying', 'failed')?.emits, ['task_failed'])
    assert.deepEqual(findMove(task, 'awaiting_human', 'failed')?.emits, ['task_human_rejected', 'task_failed'])
  })

  // Actors and events of the other rows; what such a move does beside them (rows, cards, counters) is proven with the store.
  const cancellable = [
    'pending',
    'queued',
    'awaiting_retry',
    'assigned',
    'running',
    'continuing',
    'verifying',
    'awaiting_human',
  ]
  const table: readonly (readonly [
    half: string,
    from: string,
    to: string,
    by: readonly string[],
    emits: readonly string[],
  ])[] = [
    ['166', 'pending', 'skipped', ['coordinator'], ['task_skipped']],
    ['167', 'queued', 'assigned', ['coordinator'], ['task_assigned']],
    ['168', 'assigned', 'running', ['agent'], ['task_started']],
    ['169', 'running', 'continuing', ['agent'], ['task_continuing']],
    ['170', 'continuing', 'running', ['system'], ['task_resumed']],
    ['171', 'running', 'verifying', ['agent'], ['task_output_submitted']],
    ['172', 'verifying', 'completed', ['verifier'], ['task_verification_passed']],
    ['173', 'verifying', 'awaiting_human', ['verifier', 'reconciler'], ['task_human_review_requested']],
    ['174', 'verifying', 'awaiting_retry', ['verifier'], ['task_verification_failed']],
    ['175', 'verifying', 'failed', ['verifier'], ['task_failed']],
    ['176', 'awaiting_human', 'completed', ['human'], ['task_human_approved']],
    ['178', 'awaiting_human', 'failed', ['human'], ['task_human_rejected', 'task_failed']],
    ['179', 'awaiting_retry', 'assigned', ['system'], ['task_retrying']],
    ['180', 'running', 'failed', ['reconciler', 'system'], ['task_crashed']],
    ['181', 'running', 'awaiting_retry', ['reconciler', 'system'], ['task_crashed']],
    ...cancellable.map((from) => ['182', from, 'cancelled', ['human', 'coordinator'], ['task_cancelled']] as const),
    ['183', 'assigned', 'queued', ['reconciler'], ['stall_detected', 'task_queued']],
  ]
  for (const [half, from, to, by, emits] of table) {
    test(`${from} → ${to} by ${by.join(', ')}: ${emits.join(', ')} (the table’s half of mission row ${half})`, () => {
      assert.deepEqual(of(from, to), [by, emits])
    })
  }

  test('a task is created pending with task_created (the table’s half of mission row 164)', () => {
    assert.equal(task.initial, 'pending')
    assert.deepEqual(task.creation?.emits, ['task_created'])
  })

  test('started_at is kept from the first start, completed_at is set on every end, a re-queue forgets the agent', () => {
    assert.deepEqual(task.stamps, [
      { column: 'started_at', on: ['running'], once: true },
      { column: 'completed_at', on: ['completed', 'failed', 'cancelled', 'skipped'] },
    ])
    const cleared = task.clears?.filter((clear) => clear.on.includes('queued')).map((clear) => clear.column)
    assert.deepEqual(cleared, ['agent_id', 'agent_type'])
  })
})
