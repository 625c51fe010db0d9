/** What callers see of a command: its status, its step and what it waits for, and nothing of the runtime behind it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { statesOf } from '#kernel/machine'
import { commandMachine, type CommandState } from '#kernel/machines/command'
import { FakeProvider } from '#test/fake-providers'
import { testDefinitions } from '#test/projects/commands'
import { accepted } from '#test/tenant'
import { anyHost, openCatalog } from './catalog/open-catalog.ts'
import type { CommandWithEffects, StoredCommand, StoredEffect } from './command-table.ts'
import { commandView, effectView, toCommandView, toEffectView } from './contract.ts'
import { describeProgress } from './progress.ts'

const AT = new Date('2026-05-01T10:00:00.000Z')
const ID = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170'
const RUNTIME = ['command:secret-workflow', 'secret-token', 'secret-turn']

function aCommand(status: CommandState): StoredCommand {
  const isOver = commandMachine.stamps?.some(({ on }) => (on as readonly string[]).includes(status)) ?? false
  // Only the fields that the view and the standing read.
  return {
    command_id: ID,
    workspace_id: ID,
    command_type: 'work',
    task_name: 'Work',
    requested_by: `user:${ID}`,
    ingress: 'user_request',
    payload: { subject: 's', api_key: 'vault://a/b' },
    context: { trace_id: 'trace_1', metadata: {} },
    status,
    cancellation_mode: 'graceful',
    cancellation_requested: false,
    attempt: 1,
    result: null,
    error: null,
    error_class: null,
    plan: null,
    runtime_workflow_id: RUNTIME[0],
    turn_token: RUNTIME[1],
    created_at: AT,
    updated_at: AT,
    completed_at: isOver ? AT : null,
    run_after: null,
  } as unknown as StoredCommand
}

function anEffect(more: Partial<StoredEffect>): StoredEffect {
  return {
    domain_effect_id: ID,
    effect_type: 'connector.hotel.book_a',
    effect_payload: {},
    idempotency_key: 'k',
    status: 'planned',
    executed_by_runtime_workflow_id: RUNTIME[2],
    result: null,
    error: null,
    error_class: null,
    compensates_effect_id: null,
    declared_compensation: null,
    declaration_order: 0,
    attempt: 0,
    max_attempts: 3,
    run_after: null,
    read_back: null,
    turn_token: RUNTIME[1],
    reversibility: null,
    created_at: AT,
    completed_at: null,
    ...more,
  } as StoredEffect
}

const catalog = accepted(
  openCatalog(
    testDefinitions(new FakeProvider(), () => () => Promise.resolve('')),
    anyHost,
  ),
)

test('[CMD-23] [SUP-11] no view has a field or a value of the runtime, in any status, and one word for the status', () => {
  for (const status of statesOf(commandMachine)) {
    const found: CommandWithEffects = { command: aCommand(status), effects: [anEffect({ status: 'executing' })] }
    const view = toCommandView(catalog, found, { at: AT })
    assert.ok(commandView.safeParse(view).success)
    assert.deepEqual([view.status, 'state' in view], [status, false])
    assert.deepEqual([view.command_id, view.task_name], [encodeId('command', ID), 'Work'])
    assert.equal(view.payload['api_key'], '[secret]')
    const text = JSON.stringify([view, toEffectView(anEffect({}))])
    for (const secret of RUNTIME) assert.equal(text.includes(secret), false, secret)
  }
  for (const shape of [commandView, effectView])
    for (const field of Object.keys(shape.shape))
      assert.equal(/runtime|workflow|turn|token|lease/.test(field), false, field)
})

test('[OQ-09] the step it is at and what it waits for, in words', () => {
  const standing = (status: CommandState, ...effects: StoredEffect[]) =>
    Object.values(describeProgress({ command: aCommand(status), effects }))
  const input = anEffect({
    effect_type: 'user.request_input',
    status: 'succeeded',
    effect_payload: { missing_fields: ['a', 'b'] },
  })
  assert.deepEqual(standing('waiting_for_input', input), [null, 'input: a, b'])
  assert.deepEqual(standing('waiting_for_approval'), [null, 'the decision of a person'])
  const done = anEffect({ effect_type: 'first', status: 'succeeded' })
  assert.deepEqual(standing('running', done, anEffect({ effect_type: 'second' })), ['second', null])
  assert.deepEqual(standing('running', anEffect({}), anEffect({ effect_type: 'now', status: 'executing' })), [
    'now',
    null,
  ])
  assert.deepEqual(standing('running', anEffect({ status: 'executing', run_after: AT })), [
    'connector.hotel.book_a',
    'the next attempt at 2026-05-01T10:00:00.000Z',
  ])
  const unknown = anEffect({ status: 'executing', read_back: { outcome: 'unknown', asked: true } })
  assert.match(String(standing('blocked', unknown)[1]), /a person who says whether/)
  const child = anEffect({ status: 'executing', read_back: { outcome: 'waiting', command_id: ID } })
  assert.equal(standing('blocked', child)[1], 'another command')
  assert.match(String(standing('blocked', anEffect({}))[1]), /an operator who says whether it continues/)
  assert.deepEqual(standing('succeeded', anEffect({})), [null, null])
})
