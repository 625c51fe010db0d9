/** A child that ends badly, and what becomes of those above it: a failure of one step, or a cancel of the whole. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { errorClasses } from '#kernel/error-classes'
import { openTestRoom, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { cancelCommand } from './cancel-command.ts'
import { defineCommandType, defineFunction, defineTask, type Definition } from './catalog/definitions.ts'
import { defineEffect, EffectPending } from './catalog/effect-definition.ts'
import { actingFor } from './deps.ts'
import { findBrokenInvariants } from './invariants/find-broken-invariants.ts'

const BOOK = 'connector.hotel.book_a'
const LATER = 'connector.hotel.book_b'

/** Books, has a child do something, books again; `levels` children deep. */
function parents(room: () => TestRoom): readonly Definition[] {
  const payload = z.strictObject({ levels: z.int(), marked: z.boolean(), child: z.string() })
  const typeOf = (name: string, cancellation_mode: 'graceful' | 'compensate_then_stop') => [
    defineCommandType({
      name,
      description: 'Has a child.',
      payload,
      side_effects: [BOOK, LATER, 'command.child'],
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created'],
      cancellation_mode,
    }),
    defineTask({
      name: name === 'undoing_parent' ? 'Undoing Parent' : 'Parent',
      description: 'Has a child.',
      command_type: name,
      function_name: 'parent',
      ingress_types: ['user_request'],
      async_required: true,
      connector_requirements: ['hotel'],
      policy_checks: ['permission'],
    }),
  ]
  return [
    defineEffect({
      effect_type: 'command.child',
      class: 'keyed',
      do: async ({ payload: { levels, marked, child }, effectId }) => {
        const key = { idempotencyKey: `child:${effectId}` }
        const isLast = levels === 1
        const made = isLast
          ? await room().submit({ subject: 's', decide: child }, key)
          : await room().submit({ levels: Number(levels) - 1, marked, child }, { ...key, taskName: 'Parent' })
        throw new EffectPending(made)
      },
    }),
    defineFunction({
      name: 'parent',
      plan: ({ levels = 1, marked = false, child = 'allow' }) => [
        { effect_type: BOOK, payload: { subject: 's' } },
        {
          effect_type: 'command.child',
          payload: { levels, marked, child },
          metadata: { terminal_on_child_failure: marked === true },
        },
        { effect_type: LATER, payload: { subject: 's' } },
      ],
    }),
    ...typeOf('parent', 'graceful'),
    ...typeOf('undoing_parent', 'compensate_then_stop'),
  ]
}

describe('a child that ends badly', () => {
  let room: TestRoom
  before(async () => {
    room = await openTestRoom(undefined, () => parents(() => room))
  })
  after(() => room.close())

  async function run(taskName: string, payload: { levels: number; marked: boolean; child: string }) {
    room.woken.length = 0
    const id = await room.submit(payload, { taskName })
    await room.settle(id)
    // Children are woken, end, and wake those who wait for them.
    for (let rounds = 0; rounds < 10; rounds++) await room.settleWoken()
    return id
  }
  const pathOf = async (id: string) =>
    (
      await room.rows<{ to: string }>(
        `select payload->>'to' as to from concord.domain_events where command_id = $1 and event_type = 'status_changed'
           and payload->>'target_type' = 'command' order by seq`,
        [id],
      )
    )
      .map(({ to }) => to)
      .join(' ')
  const effectsOf = async (id: string) =>
    (
      await room.rows<{ said: string }>(
        `select effect_type || ' ' || status as said from concord.domain_effects where command_id = $1 order by declaration_order`,
        [id],
      )
    ).map(({ said }) => said)

  test('a step that is marked cancels its command when its child fails; one that is not fails it', async () => {
    const marked = await run('Parent', { levels: 1, marked: true, child: 'deny' })
    assert.equal(await pathOf(marked), 'validated queued running blocked cancelling cancelled')
    assert.deepEqual(await effectsOf(marked), [`${BOOK} succeeded`, 'command.child failed', `${LATER} planned`])
    const [told] = await room.rows<{ payload: Record<string, unknown>; actor: string }>(
      `select payload, actor from concord.domain_events where command_id = $1 and event_type = 'cancellation_requested'`,
      [marked],
    )
    assert.equal(told?.actor, 'system')
    assert.deepEqual([told?.payload['cancellation_mode'], told?.payload['cancelled_by']], ['graceful', 'system'])
    assert.match(String(told?.payload['cancel_reason']), /the awaited command has failed/)
    const skipped = await room.rows(
      `select 1 from concord.domain_events where command_id = $1 and event_type = 'effect_skipped'`,
      [marked],
    )
    assert.equal(skipped.length, 1, 'what was still to come is left out, on record')
    const plain = await run('Parent', { levels: 1, marked: false, child: 'deny' })
    assert.equal(await pathOf(plain), 'validated queued running blocked failed')
    const good = await run('Parent', { levels: 1, marked: true, child: 'allow' })
    assert.match(await pathOf(good), /blocked running succeeded$/)
  })

  test('under compensate_then_stop what the command had done is undone on its way out', async () => {
    const id = await run('Undoing Parent', { levels: 1, marked: true, child: 'deny' })
    assert.equal(await pathOf(id), 'validated queued running blocked cancelling compensating compensated cancelled')
    assert.ok((await effectsOf(id)).includes('compensation.hotel.cancel_a succeeded'))
  })

  test('it climbs as far as the steps are marked: three levels are cancelled by the failure of the lowest', async () => {
    const top = await run('Parent', { levels: 3, marked: true, child: 'deny' })
    assert.equal(await room.statusOf(top), 'cancelled')
    const below = await room.rows<{ status: string }>(
      `with recursive chain as (
         select d.parent_command_id as id from concord.command_dependencies d where d.child_command_id = $1
         union all select d.parent_command_id from concord.command_dependencies d join chain on d.child_command_id = chain.id)
       select c.status from chain join concord.commands c on c.command_id = chain.id order by c.created_at, c.command_id`,
      [top],
    )
    assert.deepEqual(
      below.map(({ status }) => status),
      ['cancelled', 'cancelled', 'failed'],
    )
  })

  test('a child that a person cancels takes its marked parent with it', async () => {
    room.woken.length = 0
    const id = await room.submit({ levels: 1, marked: true, child: 'require_approval' }, { taskName: 'Parent' })
    assert.equal(await room.settle(id), 'blocked')
    const [child] = await room.rows<{ id: string }>(
      'select parent_command_id as id from concord.command_dependencies where child_command_id = $1',
      [id],
    )
    await room.settle(child?.id ?? '')
    const by = actingFor(room.tenant.people.writer.principal, TRACE)
    const asked = { workspaceId: room.tenant.workspace.id, commandId: child?.id ?? '' }
    assert.ok(accepted(await cancelCommand(room.world, by, asked)).changed)
    for (let rounds = 0; rounds < 5; rounds++) await room.settleWoken()
    assert.equal(await room.statusOf(id), 'cancelled')
  })

  test('a parent that an operator ends by force takes the child that it waits for with it', async () => {
    const id = await room.submit({ levels: 1, marked: false, child: 'require_approval' }, { taskName: 'Parent' })
    assert.equal(await room.settle(id), 'blocked')
    const [child] = await room.rows<{ id: string }>(
      'select parent_command_id as id from concord.command_dependencies where child_command_id = $1',
      [id],
    )
    await room.settle(child?.id ?? '')
    const operator = { id: 'operator:root', kind: 'operator', traceId: TRACE } as const
    const asked = { workspaceId: room.tenant.workspace.id, commandId: id, force: true }
    assert.ok(accepted(await cancelCommand(room.world, operator, asked)).changed)
    assert.equal(await room.statusOf(child?.id ?? ''), 'cancelled')
    for (let rounds = 0; rounds < 5; rounds++) await room.settleWoken()
    assert.equal(await room.statusOf(id), 'cancelled')
  })

  test('what became of them breaks no promise of the room', async () => {
    assert.deepEqual(await findBrokenInvariants(room.db), [])
  })
})
