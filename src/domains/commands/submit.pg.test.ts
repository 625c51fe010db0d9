/** Taking requests in: once per key, whatever arrives together; the audit row with it or neither; nothing started twice. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { canonicalJson } from '#kernel/canonical-json'
import { errorClasses } from '#kernel/error-classes'
import { openDb } from '#store'
import { openRoomOn, openTestRoom, randomKey, type TestRoom } from '#test/commands'
import { accepted, aTenant, TRACE } from '#test/tenant'
import { defineCommandType, defineFunction, defineTask } from './catalog/definitions.ts'
import { fireSchedule } from './scheduled-commands.ts'
import { reconcileCommands } from './drive.ts'
import { submitCommand, type SubmitCommand } from './submit.ts'
import { actingFor } from './deps.ts'

describe('submit', () => {
  let room: TestRoom
  before(async () => {
    room = await openTestRoom()
  })
  after(() => room.close())

  const request = (more: Partial<SubmitCommand> = {}): SubmitCommand => ({
    workspaceId: room.tenant.workspace.id,
    taskName: 'Work',
    payload: { subject: 's' },
    ingress: 'user_request',
    requestId: 'req_1',
    ...more,
  })
  const send = (more: Partial<SubmitCommand> = {}) =>
    submitCommand(room.world, actingFor(room.tenant.people.writer.principal, TRACE), request(more))

  test('[CMD-03] [CMD-04] twenty at once with one key: one row, one event, one command for all', async () => {
    const idempotencyKey = randomKey()
    const all = (await Promise.all(Array.from({ length: 20 }, () => send({ idempotencyKey })))).map(accepted)
    assert.equal(new Set(all.map(({ command }) => command.command_id)).size, 1)
    assert.equal(all.filter(({ isNew }) => isNew).length, 1)
    const events = await room.rows(
      `select 1 from concord.domain_events where command_id = $1 and event_type = 'command_created'`,
      [all[0]?.command.command_id],
    )
    assert.equal(events.length, 1)
  })

  test('[CMD-05] without a key always new; the same key with another payload is refused and recorded', async () => {
    const [one, two] = [accepted(await send()), accepted(await send())]
    assert.notEqual(one.command.command_id, two.command.command_id)
    const idempotencyKey = randomKey()
    const first = accepted(await send({ idempotencyKey }))
    const other = await send({ idempotencyKey, payload: { subject: 'other' } })
    assert.ok(!other.ok)
    assert.equal(other.code, 'key_reused')
    assert.equal(other.facts?.['command_id'], `cmd_${first.command.command_id.replaceAll('-', '')}`)
    const [audit] = await room.rows<{ payload: { code: string } }>(
      `select payload from concord.domain_events where event_type = 'command_rejected' order by seq desc limit 1`,
    )
    assert.equal(audit?.payload.code, 'key_reused')
  })

  test('the fingerprint is that of the canonical task, payload and terms: rows from before must be found again', async () => {
    const payload = { subject: 'é "quoted"', steps: [], decide: 'allow' }
    const { command } = accepted(await send({ idempotencyKey: randomKey(), payload, cancellationMode: 'graceful' }))
    const terms = { cancellation_mode: 'graceful', depends_on: [] }
    assert.equal(command.request_fingerprint, hash('sha256', canonicalJson(['Work', payload, terms])))
  })

  test('[SEC-08] the same key in another workspace is another command and tells nothing', async () => {
    const idempotencyKey = randomKey()
    const mine = accepted(await send({ idempotencyKey }))
    const other = await aTenant(room.clock)
    const theirs = await submitCommand(
      room.world,
      actingFor(other.people.writer.principal, TRACE),
      request({ idempotencyKey, workspaceId: other.workspace.id, payload: { subject: 'x' } }),
    )
    assert.ok(accepted(theirs).isNew)
    assert.notEqual(accepted(theirs).command.command_id, mine.command.command_id)
  })

  test('[CMD-21] [CMD-13] a required key that cannot be made, an ingress that is not open: refused, audited, no row', async () => {
    const [before] = await room.rows<{ n: number }>('select count(*)::int as n from concord.commands')
    for (const [more, code] of [
      [{ taskName: 'Booking', payload: {} }, 'idempotency.field.missing'],
      [{ taskName: 'Echo', ingress: 'webhook' as const }, 'ingress_not_allowed'],
    ] as const) {
      const refused = await send(more)
      assert.equal(refused.ok ? '' : refused.code, code)
    }
    const [now] = await room.rows<{ n: number }>('select count(*)::int as n from concord.commands')
    assert.deepEqual(now, before)
    const rejected = await room.rows<{ command_id: null }>(
      `select command_id from concord.domain_events where event_type = 'command_rejected' order by seq desc limit 2`,
    )
    assert.deepEqual(rejected, [{ command_id: null }, { command_id: null }])
  })

  test('[EVT-11] [PER-02] when the audit row cannot be written there is no command either', async () => {
    const owner = openDb({ url: room.db.config.url, poolMax: 1 })
    await owner.query(`alter table concord.journal add constraint no_more check (trace_id <> 'trace_broken')`)
    const by = { ...actingFor(room.tenant.people.writer.principal, TRACE), traceId: 'trace_broken' }
    const idempotencyKey = randomKey()
    await assert.rejects(submitCommand(room.world, by, request({ idempotencyKey })), /no_more/)
    await owner.query('alter table concord.journal drop constraint no_more')
    await owner.close()
    assert.deepEqual(await room.rows('select 1 from concord.commands where idempotency_key = $1', [idempotencyKey]), [])
  })

  test('[EVT-11] [POL-09] every event of a life: when it cannot be written, its change is not there', async (t) => {
    const owner = openDb({ url: room.db.config.url, poolMax: 1 })
    t.after(() => owner.close())
    const steps = ['connector.hotel.book_a', 'connector.hotel.book_b']
    for (const type of ['policy_evaluated', 'plan_created', 'effect_planned', 'effect_executed', 'status_changed']) {
      const { command } = accepted(await send({ payload: { subject: 's', steps } }))
      await owner.query(
        `alter table concord.journal add constraint no_more check (strpos(events::text, '"type":"${type}"') = 0 or created_at < '2026-05-01T09:00:00Z') not valid`,
      )
      const before = await room.rows('select status, plan from concord.commands where command_id = $1', [
        command.command_id,
      ])
      await assert.rejects(room.settle(command.command_id), /no_more/)
      const [row] = await room.rows<{ status: string }>(
        'select status, plan from concord.commands where command_id = $1',
        [command.command_id],
      )
      if (type !== 'effect_executed') assert.deepEqual([row], before)
      else assert.equal(row?.status, 'running')
      await owner.query('alter table concord.journal drop constraint no_more')
      assert.equal(await room.settle(command.command_id), 'succeeded')
    }
  })

  test('[CMD-09] [PRM-03] committed but never started: found when it is overdue, and only then', async () => {
    const { command } = accepted(await send())
    room.woken.length = 0
    assert.equal(await reconcileCommands(room.world), 0)
    room.clock.travel(2_500)
    await reconcileCommands(room.world)
    assert.ok(room.woken.includes(command.command_id))
    assert.equal(await room.statusOf(command.command_id), 'created')
    await room.settle(command.command_id)
    room.woken.length = 0
    room.clock.travel(60_000)
    await reconcileCommands(room.world)
    assert.ok(!room.woken.includes(command.command_id))
  })

  test('[PRM-03] a runtime that refuses to start leaves the command and its audit row, and the answer stands', async () => {
    const world = { ...room.world, wake: () => Promise.reject(new Error('no')) }
    const submitted = await submitCommand(world, actingFor(room.tenant.people.writer.principal, TRACE), request())
    assert.equal(accepted(submitted).command.status, 'created')
  })

  test('[PRM-03] [PLN-06] a short way that breaks after the commit: the answer stands, and the driver records why', async () => {
    const broken = openRoomOn(room.clock, room.tenant, undefined, () => [
      defineFunction({
        name: 'broken_echo',
        plan: ({ subject }) => [{ effect_type: 'work.echo', payload: { subject: subject ?? null } }],
        result: () => {
          throw new Error('no words for it')
        },
      }),
      defineCommandType({
        name: 'broken_echo',
        description: 'Cannot say what came of it.',
        payload: z.strictObject({ subject: z.string() }),
        side_effects: ['work.echo'],
        error_classes: errorClasses,
        cancellable_by: ['requester'],
        audit: ['command_created'],
      }),
      defineTask({
        name: 'Broken Echo',
        description: 'Fast work.',
        command_type: 'broken_echo',
        function_name: 'broken_echo',
        ingress_types: ['user_request'],
        required_inputs: ['subject'],
        sync_allowed: true,
        policy_checks: ['permission'],
      }),
    ])
    try {
      const id = await broken.submit({ subject: 's' }, { taskName: 'Broken Echo' })
      assert.ok(broken.woken.includes(id))
      assert.equal(await broken.settle(id), 'failed')
      const [row] = await broken.rows<{ error: string }>('select error from concord.commands where command_id = $1', [
        id,
      ])
      assert.match(row?.error ?? '', /no words for it/)
    } finally {
      await broken.close()
    }
  })

  test('[SCD-05] nobody takes the key of a due time before it comes, nor that of a webhook or an agent', async () => {
    for (const idempotencyKey of ['schedule:hourly:2026-05-02T03:00:00.000Z', 'webhook:stripe:evt_1', 'agent:run:1']) {
      const sent = await send({ idempotencyKey })
      assert.equal(sent.ok ? 'accepted' : `${sent.code} ${sent.path}`, 'key_reserved idempotency_key')
    }
    const spec = { name: 'hourly', command_type: 'work', cron: '0 * * * *', queue: 'scheduled_maintenance' }
    const firing = { workspaceId: room.tenant.workspace.id, traceId: TRACE, requestId: 'req_1' }
    const fired = accepted(await fireSchedule(room.world, spec, { ...firing, dueAt: new Date('2026-05-02T03:00:00Z') }))
    assert.equal(fired.isNew, true)
  })

  test('what makes no sense takes no key that the contract would make of it; a key that was sent stays taken', async () => {
    const subject = randomKey()
    const wrong = { subject, steps: 'no list' }
    const first = accepted(await send({ taskName: 'Booking', payload: wrong }))
    assert.deepEqual([first.command.status, first.command.contract_key], ['failed', null])
    const meant = accepted(await send({ taskName: 'Booking', payload: { subject } }))
    assert.deepEqual([meant.isNew, meant.command.contract_key], [true, `booking:${subject}`])
    const idempotencyKey = randomKey()
    accepted(await send({ taskName: 'Booking', payload: wrong, idempotencyKey }))
    const again = await send({ taskName: 'Booking', payload: { subject }, idempotencyKey })
    assert.equal(again.ok ? '' : again.code, 'key_reused')
  })

  test('[H1] [SCD-05] a schedule whose payload always makes the same key of the contract does the thing once', async () => {
    const payload = { subject: randomKey() }
    const spec = { name: 'weekly', command_type: 'booking', cron: '0 3 * * 1', queue: 'scheduled_maintenance', payload }
    const firing = { workspaceId: room.tenant.workspace.id, traceId: TRACE, requestId: 'req_1' }
    const fire = (dueAt: string) => fireSchedule(room.world, spec, { ...firing, dueAt: new Date(dueAt) })
    assert.ok(accepted(await fire('2026-05-04T03:00:00Z')).isNew)
    assert.ok(!accepted(await fire('2026-05-04T03:00:00Z')).isNew)
    const later = await fire('2026-05-11T03:00:00Z')
    assert.equal(later.ok ? '' : later.code, 'commands.contract_key.taken')
  })

  test('[SCD-05] a schedule that fires twice makes one command', async () => {
    const spec = { name: 'nightly', command_type: 'work', cron: '0 3 * * *', queue: 'scheduled_maintenance' }
    const firing = {
      workspaceId: room.tenant.workspace.id,
      dueAt: new Date('2026-05-02T03:00:00Z'),
      traceId: TRACE,
      requestId: 'req_1',
    }
    const [one, two] = [
      accepted(await fireSchedule(room.world, spec, firing)),
      accepted(await fireSchedule(room.world, spec, firing)),
    ]
    assert.equal(one.command.command_id, two.command.command_id)
    assert.deepEqual(
      [one.command.ingress, one.command.idempotency_key],
      ['scheduled_trigger', 'schedule:nightly:2026-05-02T03:00:00.000Z'],
    )
  })
})
