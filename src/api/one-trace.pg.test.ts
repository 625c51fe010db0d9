/** One trace id over HTTP: the request, its command, children, effects and connector calls, in every row and event they leave. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import {
  connectorDefinitions,
  defineCommandType,
  defineEffect,
  defineFunction,
  defineTask,
  EffectPending,
} from '#domains/commands'
import { type Connectors, openConnectors, openSecrets } from '#domains/connectors'
import { errorClasses } from '#kernel/error-classes'
import { decodeId } from '#kernel/ids'
import { call, openTestApi, type TestApi } from '#test/api'
import { openRoomOn, type TestRoom } from '#test/commands'
import { realSleep } from '#test/connectors'
import { Desk } from '#test/fake-providers'
import { deskCatalog, deskConnector } from '#test/projects/connectors'
import { isFailed, openTestSpans, sayOf } from '#test/spans'
import { accepted } from '#test/tenant'
import type { Api } from './api.ts'

const OPEN = 'connector.desk.open_ticket'
const DELEGATE = 'family.delegate'

const contract = {
  error_classes: errorClasses,
  cancellable_by: ['requester'] as const,
  audit: ['command_created'],
}

describe('one trace through a request tree', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  let connectors: Connectors
  const desk = new Desk()
  const ask = (path: string, body: object, traceparent: string) =>
    call(app, path, {
      method: 'POST',
      key: api.ours.people.writer.key,
      body,
      headers: { 'x-workspace': 'main', traceparent },
    })

  before(async () => {
    api = await openTestApi()
    /** The handler of a project: it asks for another command over HTTP, under the trace that it was called with. */
    const delegate = defineEffect({
      effect_type: DELEGATE,
      class: 'keyed',
      do: async ({ payload, traceId, idempotencyKey }) => {
        const asked = await ask(
          '/commands',
          { task_name: 'Family', payload: payload['child'] ?? {}, idempotency_key: idempotencyKey },
          `00-${traceId.replace('trace_', '')}-00f067aa0ba902b7-01`,
        )
        const { command_id } = (await asked.json()) as { command_id: string }
        throw new EffectPending(accepted(decodeId('command', command_id)))
      },
    })
    const family = [
      delegate,
      defineFunction({
        name: 'family',
        plan: ({ title, child }) => [
          { effect_type: OPEN, payload: { title: title ?? null } },
          ...(child === undefined ? [] : [{ effect_type: DELEGATE, payload: { child } }]),
        ],
      }),
      defineCommandType({
        name: 'family',
        description: 'Opens a ticket and delegates the rest.',
        payload: z.strictObject({ title: z.string(), child: z.looseObject({}).optional() }),
        side_effects: [OPEN, DELEGATE],
        ...contract,
      }),
      defineTask({
        name: 'Family',
        description: 'A tree of commands.',
        command_type: 'family',
        function_name: 'family',
        ingress_types: ['user_request', 'agent_action'],
        async_required: true,
        connector_requirements: ['desk'],
        policy_checks: ['permission', 'data_safety'],
      }),
    ]
    room = openRoomOn(api.world, api.ours, undefined, ({ db, now, newId }) => {
      const deps = { db, now, newId, sleep: realSleep, secrets: openSecrets({}) }
      connectors = accepted(openConnectors([deskConnector(desk)], deps))
      return [...connectorDefinitions(connectors), ...deskCatalog(), ...family]
    })
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
  })
  after(async () => {
    await connectors.close()
    await room.close()
    await api.close()
  })

  /** The call without an answer is looked up again when its time limit has passed. */
  async function settle(root: string): Promise<void> {
    await room.settle(root)
    room.clock.travel(60_000)
    await room.settle(root)
    await room.settleWoken()
    assert.equal(await room.statusOf(root), 'succeeded')
  }

  /** Each kind of row with the traces that it has, for the commands that came into being since. */
  async function tracesOf(commands: readonly string[]): Promise<Record<string, string[]>> {
    const rows = await room.rows<{ kind: string; trace: string | null }>(
      `select distinct 'command' as kind, context->>'trace_id' as trace from concord.commands where command_id = any($1)
       union select distinct 'event ' || event_type, trace_id from concord.domain_events where command_id = any($1)
       union select distinct 'call ' || operation, trace_id from concord.connector_invocations where command_id = any($1)
       order by 1, 2`,
      [commands],
    )
    const found: Record<string, string[]> = {}
    for (const { kind, trace } of rows) (found[kind] ??= []).push(trace ?? 'none')
    return found
  }

  test('[EVT-04] a request, its command, its child and grandchild, their effects and their connector calls share one trace', async () => {
    const hex = '4bf92f3577b34da6a3ce929d0e0e4736'
    desk.troubles.push('lost_before')
    const body = {
      task_name: 'Family',
      payload: { title: 'one', child: { title: 'two', child: { title: 'three' } } },
    }
    const answer = await ask('/commands', body, `00-${hex}-00f067aa0ba902b7-01`)
    const view = (await answer.json()) as { command_id: string; trace_id: string }
    assert.deepEqual(
      [answer.status, view.trace_id, answer.headers.get('x-trace-id')],
      [202, `trace_${hex}`, `trace_${hex}`],
    )
    const root = accepted(decodeId('command', view.command_id))
    await settle(root)
    const tree = await room.rows<{ command_id: string }>(
      `select command_id from concord.commands where task_name = 'Family' order by created_at, command_id`,
    )
    assert.equal(tree.length, 3)
    const one = [`trace_${hex}`]
    assert.deepEqual(await tracesOf(tree.map(({ command_id }) => command_id)), {
      'call find_ticket': one,
      'call open_ticket': one,
      command: one,
      'event command_created': one,
      'event connector_called': one,
      'event effect_executed': one,
      'event effect_planned': one,
      'event plan_created': one,
      'event policy_evaluated': one,
      'event retry_scheduled': one,
      'event status_changed': one,
    })
    // The provider gets it with each call, so that both sides can be joined.
    assert.deepEqual([...new Set(desk.seen.map(({ context }) => context.trace_id))], one)
    const [empty] = await room.rows<{ count: number }>(
      `select count(*)::integer as count from concord.domain_events where trim(actor) = '' or trim(trace_id) = ''`,
    )
    assert.equal(empty?.count, 0)
  })

  test('[EVT-04] what an agent asks for stays under the trace of its request, and another request has another one', async () => {
    const hex = '0af7651916cd43dd8448eb211c80319c'
    const known = new Set(
      (await room.rows<{ command_id: string }>('select command_id from concord.commands')).map(
        ({ command_id }) => command_id,
      ),
    )
    const asked = ask(
      '/agent-actions',
      { tool_name: 'Family', payload: { title: 'four' }, reason: 'asked' },
      `00-${hex}-00f067aa0ba902b7-01`,
    )
    let isAnswered = false
    void asked.finally(() => (isAnswered = true))
    while (!isAnswered) {
      await room.settleWoken()
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    assert.equal((await asked).status, 202)
    const made = (await room.rows<{ command_id: string }>('select command_id from concord.commands'))
      .map(({ command_id }) => command_id)
      .filter((id) => !known.has(id))
    assert.equal(made.length, 1)
    await room.settle(made[0] ?? '')
    const traces = await tracesOf(made)
    assert.equal(traces['call open_ticket']?.length, 1)
    assert.deepEqual([...new Set(Object.values(traces).flat())], [`trace_${hex}`])
  })

  test('[EVT-04] a request, its submit, its turns, effects and connector calls are spans, each below its cause', async () => {
    const hex = '7bf92f3577b34da6a3ce929d0e0e4736'
    desk.troubles.push('lost_before')
    const earlier = desk.seen.length
    const spans = openTestSpans()
    try {
      const payload = { title: 'private words', child: { title: 'more private words' } }
      const answer = await ask('/commands', { task_name: 'Family', payload }, `00-${hex}-00f067aa0ba902b7-01`)
      assert.equal(answer.headers.get('x-trace-id'), `trace_${hex}`)
      const { command_id } = (await answer.json()) as { command_id: string }
      const root = accepted(decodeId('command', command_id))
      await settle(root)
      const all = spans.finished()
      const byId = new Map(all.map((span) => [span.spanContext().spanId, span]))
      const below = (span: (typeof all)[number]) => {
        const parent = byId.get(span.parentSpanContext?.spanId ?? '')
        return `${sayOf(span)} < ${parent ? sayOf(parent) : span.parentSpanContext?.spanId}`
      }
      assert.deepEqual([...new Set(all.map(below))].toSorted(), [
        'CLIENT call desk.find_ticket < INTERNAL effect connector.desk.open_ticket',
        'CLIENT call desk.open_ticket < INTERNAL effect connector.desk.open_ticket',
        'CONSUMER turn family < PRODUCER submit family',
        'INTERNAL command family < PRODUCER submit family',
        'INTERNAL effect connector.desk.open_ticket < CONSUMER turn family',
        'INTERNAL effect family.delegate < CONSUMER turn family',
        'PRODUCER submit family < SERVER POST /commands',
        'SERVER POST /commands < 00f067aa0ba902b7',
        'SERVER POST /commands < INTERNAL effect family.delegate',
      ])
      assert.deepEqual([...new Set(all.map((span) => span.spanContext().traceId))], [hex])
      const [life] = all.filter(
        (span) => span.attributes['concord.command.id'] === command_id && span.name === 'command family',
      )
      assert.equal(life?.attributes['concord.command.status'], 'succeeded')
      // The first call failed: its class is on the span, and nothing of what was said.
      const failed = all.filter(isFailed)
      assert.deepEqual(
        new Set(failed.map(({ attributes }) => attributes['error.type'])),
        new Set(['transient_connector_error']),
      )
      assert.deepEqual(new Set(all.map(({ status }) => status.message)), new Set([undefined]))
      const shown = JSON.stringify(all.map(({ name, attributes, events, links }) => [name, attributes, events, links]))
      assert.doesNotMatch(shown, /private words/)
      // The provider gets the span of its call.
      const calls = new Set(all.filter(({ name }) => name.startsWith('call ')).map((span) => span.spanContext().spanId))
      const sent = desk.seen.slice(earlier).map(({ context }) => context.traceparent?.split('-')[2] ?? '')
      assert.deepEqual(new Set(sent), calls)
    } finally {
      await spans.close()
    }
    // Without a provider no request stores a span.
    const [first] = await room.rows<{ context: object }>(
      'select context from concord.commands order by created_at limit 1',
    )
    assert.ok(first && !('traceparent' in first.context))
  })
})
