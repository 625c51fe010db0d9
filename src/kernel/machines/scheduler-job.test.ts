import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideMove, typeOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { schedulerJobMachine as job } from './scheduler.ts'

test('[SCH-067] scheduler job: all 3 × 3 pairs, 2 legal; no way back to QUEUED, no exit from CANCELLED', () => {
  assert.deepEqual(differingPairs(job, { QUEUED: ['RUNNING', 'CANCELLED'], RUNNING: [], CANCELLED: [] }), [])
  assert.equal(job.moves.length, 2)
})

test('a job is cancelled from QUEUED only; after dispatch the cancel is refused (the table’s half of scheduler row 066)', () => {
  assert.equal(decideMove(job, 'QUEUED', 'CANCELLED', 'operator').ok, true)
  const refused = decideMove(job, 'RUNNING', 'CANCELLED', 'operator')
  assert.equal(refused.ok ? undefined : refused.code, 'machine.move.illegal')
})

test('scheduler job: RUNNING is in flight until finished_at is set', () => {
  assert.equal(typeOf(job, 'RUNNING', { finished_at: null }), 'running')
  assert.equal(typeOf(job, 'RUNNING', {}), 'running')
  assert.equal(typeOf(job, 'RUNNING', { finished_at: '2026-01-01T00:00:00Z' }), 'terminal')
  assert.equal(typeOf(job, 'QUEUED', { finished_at: '2026-01-01T00:00:00Z' }), 'pending')
})
