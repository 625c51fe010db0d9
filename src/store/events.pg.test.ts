/** Appending: closed types, nothing empty, order, replays that add nothing, and logs of another shape. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aCommand, aWorkspace, by, type CommandRow, events } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { openDb } from './db.ts'
import { appendEvents, defineEventLog, type EventDraft, eventIdOf } from './events.ts'

type Draft = EventDraft<(typeof events.types)[number]>

describe('appendEvents', () => {
  let opened: TestDb
  let command: CommandRow

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    command = await aCommand(opened.db, await aWorkspace(opened.db))
  })
  after(() => opened.close())

  const anEvent = (more: Partial<Draft> = {}): Draft => ({
    ...by('system'),
    eventId: by('system').newId(),
    type: 'plan_created',
    payload: {},
    links: { workspace_id: command.workspace_id, command_id: command.command_id },
    ...more,
  })

  const countOf = async (eventId: string) =>
    (
      await opened.db.query<{ count: number }>(
        'select count(*)::int as count from concord.domain_events where event_id = $1',
        [eventId],
      )
    )[0]?.count

  test('[EVT-12] a step that is replayed finds its events written and adds none', async () => {
    const step = () =>
      ['artifact_created', 'plan_created'].map((type, index) =>
        anEvent({ type: type as Draft['type'], eventId: eventIdOf(command.command_id, 'step-1', String(index)) }),
      )
    const write = () => opened.db.transaction((tx) => appendEvents(tx, events, step(), { once: true }))
    assert.deepEqual([await write(), await write(), await write()], [2, 0, 0])
    for (const { eventId } of step()) assert.equal(await countOf(eventId), 1)
  })

  test('[EVT-12] twenty replays at once write each event once', async () => {
    const eventId = eventIdOf(command.command_id, 'parallel')
    const counts = await Promise.all(
      Array.from({ length: 20 }, () => appendEvents(opened.db, events, [anEvent({ eventId })], { once: true })),
    )
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      1,
    )
    assert.equal(await countOf(eventId), 1)
  })

  test('other parts give another id, and parts do not run together', () => {
    assert.notEqual(eventIdOf('a', 'bc'), eventIdOf('ab', 'c'))
    assert.equal(eventIdOf('a', 'bc'), eventIdOf('a', 'bc'))
    assert.match(eventIdOf('a'), /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })

  test('an event without actor or trace, or of an unknown type, is a fault and takes its transaction along', async () => {
    const wrong: [Partial<Draft>, string][] = [
      [{ actor: ' ' }, 'event.actor.missing'],
      [{ traceId: '' }, 'event.trace.missing'],
      [{ type: 'made_up' as Draft['type'] }, 'event.type.unknown'],
      [{ links: { made_up: 1 } }, 'event.link.unknown'],
    ]
    for (const [more, code] of wrong) {
      await assert.rejects(
        opened.db.transaction(async (tx) => {
          await tx.query(`update concord.commands set error = 'changed' where command_id = $1`, [command.command_id])
          await appendEvents(tx, events, [anEvent(), anEvent(more)])
        }),
        { code },
      )
    }
    const [row] = await opened.db.query<{ error: string | null }>(
      'select error from concord.commands where command_id = $1',
      [command.command_id],
    )
    assert.equal(row?.error, null)
  })

  test('many events get their numbers in the order of the list', async () => {
    const list = Array.from({ length: 300 }, (_, index) => anEvent({ payload: { index }, traceId: 'trace_order' }))
    assert.equal(await appendEvents(opened.db, events, list), 300)
    const rows = await opened.db.query<{ index: number }>(
      `select (payload->>'index')::int as index from concord.domain_events where trace_id = 'trace_order' order by seq`,
    )
    assert.deepEqual(
      rows.map(({ index }) => index),
      list.map((_, index) => index),
    )
  })

  test('a log with other columns and no ids of its own takes the same drafts', async (t) => {
    const owner = openDb({ url: opened.url, poolMax: 1 })
    t.after(() => owner.close())
    await owner.query(
      `create table public.orchestration_events (id bigserial primary key, run_id uuid not null, event_type varchar(50) not null,
         payload jsonb not null default '{}', actor_type varchar(20) not null, actor_id varchar(255), created_at timestamptz not null)`,
    )
    const log = defineEventLog({
      table: 'public.orchestration_events',
      types: ['run_started'],
      time: 'created_at',
      columns: [
        { name: 'event_type', type: 'text', valueOf: (event) => event.type },
        { name: 'payload', type: 'jsonb', valueOf: (event) => event.payload },
        { name: 'actor_type', type: 'text', valueOf: (event) => event.actorKind },
        { name: 'actor_id', type: 'text', valueOf: (event) => event.actor },
        { name: 'created_at', type: 'timestamptz', valueOf: (event) => event.at },
      ],
      links: { run_id: 'uuid' },
      checkPayload: (_type, payload) => assert.ok(Object.hasOwn(payload, 'goal')),
    })
    const draft = {
      ...anEvent(),
      type: 'run_started' as const,
      payload: { goal: 'g' },
      links: { run_id: command.command_id },
    }
    assert.equal(await appendEvents(owner, log, [draft, draft]), 2)
    await assert.rejects(appendEvents(owner, log, [draft], { once: true }), { code: 'event.log.no_id' })
    await assert.rejects(appendEvents(owner, log, [{ ...draft, payload: {} }]), assert.AssertionError)
    const rows = await owner.query('select event_type, payload, actor_type, actor_id from public.orchestration_events')
    assert.deepEqual(rows[0], {
      event_type: 'run_started',
      payload: { goal: 'g' },
      actor_type: 'system',
      actor_id: 'system:1',
    })
  })
})
