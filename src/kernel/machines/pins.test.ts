import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Machine, statesOf } from '../machine.ts'
import { allMachines } from './index.ts'

// pending | running | paused | terminal, by the name of the state alone.
const types: Record<string, string> = {
  command:
    'created validated approved queued | running compensating compensated cancelling | waiting_for_input waiting_for_approval blocked | succeeded failed cancelled expired',
  approval: ' |  | pending | approved rejected changes_requested expired cancelled',
  effect: 'planned | executing |  | succeeded failed',
  artifact: 'draft ready | published | unpublished | superseded cancelled archived',
  'memory-candidate': 'proposed |  | awaiting_approval | accepted rejected expired',
  'memory-record': ' | active |  | superseded expired deleted',
  'connector-invocation': ' | started |  | succeeded failed',
  'swarm-run':
    'created | running joining cancelling | waiting_for_approval | succeeded partially_succeeded failed cancelled expired',
  'agent-run':
    'created queued | running cancelling | waiting_for_tool waiting_for_approval waiting_for_input waiting_for_children | succeeded failed cancelled expired',
  'agent-invocation': 'created | running |  | succeeded failed cancelled expired',
  'registry-entity': ' | active | archived | ',
  'registry-version': 'draft validated approved | published deprecated | pending_approval | retired rejected',
  'registry-binding': ' | active | disabled | superseded',
  'registry-evaluation': 'pending | running |  | passed failed error',
  'mission-run': 'pending planning awaiting_approval | running | paused budget_exceeded | completed failed cancelled',
  'mission-task':
    'pending queued awaiting_retry | assigned running continuing | verifying awaiting_human | completed failed cancelled skipped',
  'colony-mission':
    'accepted | planning packaging retrieving executing aggregating reviewing | awaiting_approval | completed failed rejected',
  'colony-task': 'pending ready | running |  | completed failed skipped',
  'colony-review': 'not_required |  | pending | approved rejected',
  'colony-proposal': ' |  | pending | approved rejected expired superseded',
  'flow-task': 'Queued Failed | Running |  | Completed Canceled',
  'flow-outbox': 'Pending | Processing |  | Done Failed',
  'scheduler-job': 'QUEUED | RUNNING |  | CANCELLED',
  'scheduler-job-run': ' | OPEN |  | COMPLETED FAILED SKIPPED',
  'scheduler-reservation': ' | ACTIVE |  | RELEASED EXPIRED',
}

// lock; what is set (! once) and emptied (-) on entering which states; what a fact decides.
const rest: Record<string, string> = {
  command:
    'from-state; completed_at: succeeded failed cancelled expired compensated; -completed_at: queued compensating; compensated with cancellation_requested false: terminal',
  approval: 'from-state; decided_at: approved rejected changes_requested',
  effect: 'from-state; completed_at: succeeded failed',
  artifact: 'from-state',
  'memory-candidate': 'from-state; decided_at: accepted rejected',
  'memory-record': 'from-state',
  'connector-invocation': 'from-state; completed_at: succeeded failed',
  'swarm-run':
    'from-state; !started_at: running; completed_at: succeeded partially_succeeded failed cancelled expired; cancelled_at: cancelled',
  'agent-run':
    'from-state; !started_at: running; completed_at: succeeded failed cancelled expired; cancelled_at: cancelled',
  'agent-invocation': 'from-state; completed_at: succeeded failed cancelled expired',
  'registry-entity': 'from-state',
  'registry-version':
    'from-state; validated_at: validated; approved_at: approved; !published_at: published; deprecated_at: deprecated; retired_at: retired; -validated_at: draft; -deprecated_at: published',
  'registry-binding': 'from-state',
  'registry-evaluation': 'from-state; completed_at: passed failed error',
  'mission-run': 'version; completed_at: completed failed cancelled',
  'mission-task':
    'version; !started_at: running; completed_at: completed failed cancelled skipped; -agent_id: queued; -agent_type: queued; -due_at: assigned running cancelled',
  'colony-mission': 'version; completed_at: completed failed rejected',
  'colony-task': 'from-state; completed_at: completed failed skipped',
  'colony-review': 'version',
  'colony-proposal': 'from-state; resolved_at: approved rejected expired superseded',
  'flow-task':
    'lease; started_at: Running; last_heartbeat: Running; completed_at: Completed Canceled; -worker_id: Queued Canceled; -lease_token: Queued Canceled; -lease_expires_at: Queued Canceled; -last_heartbeat: Queued; -next_retry_at: Queued Canceled; Failed with next_retry_at empty: terminal',
  'flow-outbox': 'from-state; processed_at: Done',
  'scheduler-job': 'from-state; !started_at: RUNNING; RUNNING with finished_at set: terminal',
  'scheduler-job-run': 'from-state; !finished_at: COMPLETED FAILED SKIPPED',
  'scheduler-reservation': 'from-state',
}

function typesOf(machine: Machine): string {
  const named = (type: string) => statesOf(machine).filter((state) => machine.states[state] === type)
  return ['pending', 'running', 'paused', 'terminal'].map((type) => named(type).join(' ')).join(' | ')
}

function restOf({ lock, stamps = [], clears = [], byFact = [] }: Machine): string {
  return [
    lock,
    ...stamps.map(({ column, on, once }) => `${once ? '!' : ''}${column}: ${on.join(' ')}`),
    ...clears.map(({ column, on }) => `-${column}: ${on.join(' ')}`),
    ...byFact.map(({ state, column, is, type }) => `${state} with ${column} ${is}: ${type}`),
  ].join('; ')
}

/** The machines that were here before their pages in docs/machines were checked; a newer one is pinned by its page. */
function pinned(by: Record<string, string>, tell: (machine: Machine) => string): Record<string, string> {
  return Object.fromEntries(
    allMachines.filter(({ name }) => name in by).map((machine) => [machine.name, tell(machine)]),
  )
}

test('pinned: the type of every state of every machine', () => {
  assert.deepEqual(pinned(types, typesOf), types)
})

test('pinned: the lock, the stamps and the facts of every machine', () => {
  assert.deepEqual(pinned(rest, restOf), rest)
})
