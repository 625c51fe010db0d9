/** The life of a command as a pure function: the same rows, the same `seen`, the same time and the same ids give the same step. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type CommandState, commandMachine } from '#kernel/machines/command'
import { statesOf } from '#kernel/machine'
import { accept } from '#kernel/refusal'
import { FakeProvider } from '#test/fake-providers'
import { testDefinitions } from '#test/projects/commands'
import { accepted } from '#test/tenant'
import { advance, fold } from './advance.ts'
import { anyHost, openCatalog } from './catalog/open-catalog.ts'
import { openDraft, type Seen } from './change.ts'
import type { CommandWithEffects, StoredCommand, StoredEffect } from './command-table.ts'
import type { CallResult } from './tasks.ts'

const AT = new Date('2026-05-01T10:00:00.000Z')
const catalog = accepted(
  openCatalog(
    testDefinitions(new FakeProvider(), () => () => Promise.resolve('')),
    anyHost,
  ),
)
const ids = () => {
  let count = 0
  return () => `0197f3b2-c4d5-7a8e-9b0c-${String(++count).padStart(12, '0')}`
}
const seen: Seen = { catalog, random: () => 0.5, turn: { token: 't', name: 'turn:command:c:1' }, hasParents: false }

function aCommand(status: CommandState, more: Partial<StoredCommand> = {}): StoredCommand {
  return {
    command_id: '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170',
    workspace_id: '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405171',
    command_type: 'work',
    task_name: 'Work',
    requested_by: 'user:u',
    ingress: 'user_request',
    payload: { subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] },
    payload_hash: 'h',
    agent_run_id: null,
    context: {
      user_id: 'u',
      workspace_id: null,
      app_id: null,
      run_as: 'user',
      trace_id: 'trace_1',
      request_id: 'req_1',
      metadata: { role: 'writer', org_roles: [] },
    },
    status,
    cancellation_mode: 'graceful',
    cancellation_requested: false,
    idempotency_key: null,
    contract_key: null,
    request_fingerprint: null,
    runtime_workflow_id: null,
    plan: null,
    result: null,
    error: null,
    error_class: null,
    attempt: 1,
    run_after: null,
    turn_token: 't',
    turn_until: null,
    created_at: AT,
    updated_at: AT,
    completed_at: null,
    ...more,
  }
}

/** Folded from its request to its first call: a running command with one effect begun and one planned. */
function running(): CommandWithEffects {
  const found = { command: aCommand('created'), effects: [] }
  const { draft, next } = fold(openDraft(found, 'any', AT), { ...seen, facts: {} }, AT, ids())
  assert.equal(next.t, 'call')
  return draft.now
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value) && !(value instanceof Map)) {
    Object.freeze(value)
    for (const each of Object.values(value)) freeze(each)
  }
  return value
}

const withEffects = (status: CommandState, change: Partial<StoredEffect>): CommandWithEffects => {
  const { command, effects } = running()
  return {
    command: { ...command, status },
    effects: effects.map((each, at) => (at === 0 ? { ...each, ...change } : each)),
  }
}
const results: readonly CallResult[] = [
  { t: 'done', result: { id: 1 }, emitted: [] },
  { t: 'failed', failure: { errorClass: 'rate_limited', message: 'later', happened: 'no' }, emitted: [] },
  { t: 'failed', failure: { errorClass: 'timeout', message: 'late', happened: 'unknown' }, emitted: [] },
  { t: 'failed', failure: { errorClass: 'validation_error', message: 'no', happened: 'no' }, emitted: [] },
  { t: 'pending', awaits: { commandId: '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405179', wanted: 'succeeded' } },
  { t: 'pending', awaits: { process: { kind: 'agent_run', id: 'r1' } } },
  { t: 'found', result: {} },
  { t: 'missing' },
]

describe('a step of a command', () => {
  const everySeen: Seen = { ...seen, facts: {}, parents: [], approved: accept([]) }
  const firstId = () => running().effects[0]?.domain_effect_id ?? ''
  const stories: readonly (readonly [string, CommandWithEffects, Seen])[] = [
    ...statesOf(commandMachine).flatMap((status) => [
      [`${status}, bare`, { command: aCommand(status), effects: [] }, seen] as const,
      [`${status}, seen`, withEffects(status, {}), everySeen] as const,
      [
        `${status}, retry due`,
        withEffects(status, { run_after: AT, read_back: { outcome: 'not_done' } }),
        everySeen,
      ] as const,
      [
        `${status}, waits`,
        withEffects(status, { read_back: { outcome: 'waiting', command_id: 'x' } }),
        everySeen,
      ] as const,
    ]),
    ...['connector.ticket.open', 'connector.mail.send'].map(
      (effect_type) => [`in doubt, ${effect_type}`, withEffects('running', { effect_type }), everySeen] as const,
    ),
    ...(['running', 'cancelling', 'compensating'] as const).flatMap((status) =>
      results.map(
        (result) =>
          [
            `${status}, ${result.t}`,
            withEffects(status, {}),
            { ...everySeen, outcome: { effectId: firstId(), attempt: 1, result } },
          ] as const,
      ),
    ),
  ]

  test('[DET-01] [DET-05] [CMD-17] it depends on its arguments alone, in every state and after every outcome, and changes none of them', () => {
    const outcome = (found: CommandWithEffects, known: Seen) => {
      try {
        return advance(found, known, AT, ids())
      } catch (error) {
        return String(error)
      }
    }
    const seenSteps = new Set<string>()
    for (const [name, found, known] of stories) {
      const frozen = freeze(structuredClone(found))
      const { catalog: _catalog, random: _random, ...rest } = known
      freeze(rest)
      const step = outcome(frozen, known)
      assert.deepEqual(outcome(frozen, known), step, name)
      assert.deepEqual(outcome(structuredClone(found), known), step, name)
      if (typeof step !== 'string') seenSteps.add(step.next.t)
    }
    assert.deepEqual([...seenSteps].toSorted(), ['ask', 'call', 'end', 'follow', 'look_up', 'need', 'proceed', 'wait'])
  })

  test('[DET-01] a fold from the same rows, with the same ids, is the same write', () => {
    assert.deepEqual(running(), running())
  })

  test('[SUP-02] [RUN-13] a failed attempt is never repeated by the driver itself: it waits, with its time on the row', () => {
    const found = running()
    const failure = { errorClass: 'rate_limited', message: 'later', happened: 'no' } as const
    const outcome = { effectId: firstId(), attempt: 1, result: { t: 'failed', failure, emitted: [] } } as const
    const { draft, next } = fold(openDraft(found, 'any', AT), { ...seen, outcome }, AT, ids())
    assert.ok(next.t === 'wait' && next.until !== null && next.until > AT)
    const [effect] = draft.now.effects
    assert.deepEqual(
      [effect?.status, effect?.run_after, draft.now.command.run_after],
      ['executing', next.until, next.until],
    )
    assert.equal(draft.write.releases, true)
  })

  test('the failure or wait of an earlier attempt changes nothing once a later attempt has the effect', () => {
    const later = withEffects('blocked', {
      attempt: 2,
      read_back: { outcome: 'waiting', command_id: '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405179' },
    })
    const scheduled = withEffects('running', { run_after: new Date(AT.getTime() + 30_000) })
    for (const found of [later, scheduled])
      for (const result of results) {
        const outcome = { effectId: firstId(), attempt: 1, result }
        const { changes } = advance(found, { ...seen, outcome }, AT, ids())
        assert.equal(changes.length > 0, result.t === 'done' || result.t === 'found', result.t)
      }
  })

  test('a rule that routes to sync does not make the request call what is opaque or more than one effect', () => {
    const work = catalog.tasks.get('Work')
    assert.ok(work)
    const spec = { ...work.spec, sync_allowed: true, async_required: false, risk_level: 'low' as const }
    const tasks = new Map(catalog.tasks).set('Work', { ...work, spec })
    for (const steps of [['connector.mail.send'], ['work.echo', 'work.echo']]) {
      const payload = { subject: 's', decide: 'route_sync', steps }
      const found = { command: aCommand('created', { payload, turn_token: null }), effects: [] }
      const inRequest = { ...seen, catalog: { ...catalog, tasks }, turn: null, facts: {} }
      const { command } = fold(openDraft(found, 'free', AT), inRequest, AT, ids()).draft.now
      assert.equal(command.plan?.execution_mode, 'sync')
      assert.notEqual(command.runtime_workflow_id, null, 'planned for the driver')
    }
  })

  test('what a call came to is folded even where the steps after it cannot be decided', () => {
    const found = running()
    const torn = { command: found.command, effects: found.effects.slice(0, 1) }
    const outcome = { effectId: firstId(), attempt: 1, result: { t: 'done', result: {}, emitted: [] } } as const
    const { draft, next } = fold(openDraft(torn, 'any', AT), { ...seen, outcome }, AT, ids())
    assert.deepEqual([next, draft.now.effects[0]?.status], [{ t: 'proceed' }, 'succeeded'])
    assert.throws(() => fold(openDraft(draft.now, 'any', AT), seen, AT, ids()), { code: 'commands.plan.torn' })
  })
})
