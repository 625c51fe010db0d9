import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findMove, type Move } from '../machine.ts'
import { actorTypes } from '../actor.ts'
import { missionRunMachine as run, missionTaskMachine as task } from './mission.ts'

// The taxonomy by hand; the five that change no state are missing on purpose, run_started goes with a task's first start.
const taxonomy = `
  run_created run_planning_started run_plan_ready run_approved run_rejected run_paused run_resumed
  run_budget_exceeded run_budget_increased run_completed run_failed run_cancelled
  task_created task_queued task_assigned task_started task_continuing task_resumed task_output_submitted
  task_verification_passed task_verification_failed task_human_review_requested task_human_approved task_human_rejected
  task_retrying task_crashed task_failed task_skipped task_cancelled
  stall_detected`
  .trim()
  .split(/\s+/u)
const moves: readonly Move[] = [...run.moves, ...task.moves]

test('mission moves and creations emit exactly the events of the taxonomy that change a state', () => {
  const emitted = [
    ...(run.creation?.emits ?? []),
    ...(task.creation?.emits ?? []),
    ...moves.flatMap((move) => move.emits),
  ]
  assert.deepEqual([...new Set<string>(emitted)].sort(), taxonomy.sort())
})

test('[MIS-028] the six actor types', () => {
  assert.deepEqual([...actorTypes], ['system', 'coordinator', 'agent', 'verifier', 'human', 'reconciler'])
})

test('[MIS-029] resolver is coordinator, timers and budget are system, a cascade keeps its actor, no other actor occurs', () => {
  const known: readonly string[] = actorTypes
  for (const move of moves) {
    assert.ok(move.by.length > 0 && move.by.every((actor) => known.includes(actor)), `${move.from} → ${move.to}`)
  }
  for (const to of ['queued', 'skipped']) assert.deepEqual(findMove(task, 'pending', to)?.by, ['coordinator'])
  assert.deepEqual(findMove(task, 'continuing', 'running')?.by, ['system'])
  assert.deepEqual(findMove(task, 'awaiting_retry', 'assigned')?.by, ['system'])
  assert.deepEqual(findMove(run, 'running', 'budget_exceeded')?.by, ['system'])
  // A run ends its tasks when a person cancels it or the coordinator fails it; the task move accepts both.
  const cascading = [findMove(run, 'running', 'cancelled'), findMove(run, 'running', 'failed')].flatMap(
    (move) => move?.by ?? [],
  )
  assert.deepEqual(findMove(task, 'running', 'cancelled')?.by, cascading)
})
