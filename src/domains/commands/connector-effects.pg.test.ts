/** Connector operations as effects of commands, end to end: policy, approval, key, look-up, undo, and the rows they leave. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import { type Connectors, failed, httpConnector, openConnectors, openSecrets } from '#domains/connectors'
import type { Db } from '#store'
import { decider, nextFence, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { realSleep } from '#test/connectors'
import { Desk } from '#test/fake-providers'
import { deskCatalog, deskConnector } from '#test/projects/connectors'
import { openMisbehavingApi } from '#test/misbehaving-api'
import { accepted, TRACE } from '#test/tenant'
import { connectorDefinitions } from './catalog/connector-effects.ts'
import type { EffectCall } from './catalog/effect-definition.ts'
import { withoutArtifacts } from './call-effect.ts'
import { compensateCommand } from './change-command.ts'
import { openDrive } from './drive.ts'
import { byPerson } from '#kernel/actor'

describe('connector operations as effects', () => {
  let room: TestRoom
  let connectors: Connectors
  const desk = new Desk()
  /** Runs once, before the next call begins. */
  let atGate: (() => Promise<unknown>) | undefined

  const gated = (db: Db): Db =>
    new Proxy(db, {
      get(target, name) {
        if (name !== 'run') return Reflect.get(target, name, target)
        return async (...asked: Parameters<Db['run']>) => {
          const meanwhile = asked[0].name === 'connectors_begin_invocation' ? atGate : undefined
          if (meanwhile) atGate = undefined
          await meanwhile?.()
          return target.run(...asked)
        }
      },
    })

  before(async () => {
    room = await openTestRoom(undefined, ({ db, now, newId }) => {
      const world = { db: gated(db), now, newId, sleep: realSleep, secrets: openSecrets({}) }
      connectors = accepted(openConnectors([deskConnector(desk)], world))
      return [...connectorDefinitions(connectors), ...deskCatalog()]
    })
  })
  after(async () => {
    await connectors.close()
    await room.close()
  })

  const open = (title: string) => ({ effect_type: 'connector.desk.open_ticket', payload: { title } })
  const submit = (...steps: object[]) => room.submit({ steps }, { taskName: 'Help' })
  const rowsOf = (commandId: string) =>
    room.rows<{
      operation: string
      status: string
      attempt: number
      idempotency_key: string
      error_class: string | null
    }>(
      `select operation, status, attempt, idempotency_key, error_class from concord.connector_invocations
        where command_id = $1 order by connector_invocation_id`,
      [commandId],
    )

  test('[CON-10] [CON-11] [OQ-05] a command calls an operation under policy; its key comes from the template and reaches the provider', async () => {
    const id = await submit(open('printer'))
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal(desk.seen.at(-1)?.context.idempotency_key, 'ticket:printer')
    assert.deepEqual(await rowsOf(id), [
      {
        operation: 'open_ticket',
        status: 'succeeded',
        attempt: 1,

        idempotency_key: 'ticket:printer',
        error_class: null,
      },
    ])
    const [command] = await room.rows<{ result: unknown }>(
      'select result from concord.commands where command_id = $1',
      [id],
    )
    assert.deepEqual(command?.result, { id: 'T1' })
    const effects = await room.rows<{ idempotency_key: string }>(
      'select idempotency_key from concord.domain_effects where command_id = $1',
      [id],
    )
    assert.deepEqual(effects, [{ idempotency_key: 'ticket:printer' }], 'the effect and the call have one key')
  })

  test('[CON-10] an operation that requires approval is called only after a person agreed', async () => {
    const id = await submit({ effect_type: 'connector.desk.delete_ticket', payload: { id: 'T1' } })
    assert.equal(await room.settle(id), 'waiting_for_approval')
    assert.deepEqual(await rowsOf(id), [])
    const before = desk.seen.length
    const approvalId = await pendingOf(room, id)
    const { userId, externalId, orgRoles } = decider(room)
    accepted(
      await decideApproval(
        room.approvals,
        byPerson({ ...room.tenant.people.admin.principal, userId, externalId, orgRoles }, TRACE),
        { workspaceId: room.tenant.workspace.id, approvalId, decision: 'approved' },
      ),
    )
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal(desk.seen.length, before + 1)
    assert.deepEqual(
      (await rowsOf(id)).map(({ operation, status }) => [operation, status]),
      [['delete_ticket', 'succeeded']],
    )
  })

  test('an answer that was lost is looked up by the key and not asked for twice', async () => {
    desk.troubles.push('lost_after')
    const id = await submit(open('screen'))
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal([...desk.tickets.keys()].filter((key) => key === 'ticket:screen').length, 1)
    assert.deepEqual(
      (await rowsOf(id)).map(({ operation, status }) => [operation, status]),
      [
        ['open_ticket', 'failed'],
        ['find_ticket', 'succeeded'],
      ],
    )
    desk.troubles.push('lost_before')
    const again = await submit(open('mouse'))
    assert.equal(await room.settle(again), 'running')
    room.clock.travel(60_000)
    assert.equal(await room.settle(again), 'succeeded')
    assert.deepEqual(
      (await rowsOf(again)).map(({ operation, status, attempt }) => [operation, status, attempt]),
      [
        ['open_ticket', 'failed', 1],
        ['find_ticket', 'succeeded', 1],
        ['find_ticket', 'succeeded', 1],
        ['find_ticket', 'succeeded', 2],
        ['open_ticket', 'succeeded', 2],
      ],
    )
  })

  test('[EFF-06] a driver that loses its turn on the way to the gate does not call', async () => {
    const id = await submit(open('keyboard'))
    const [calling, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let heir: Promise<string> | undefined
    atGate = async () => {
      const taken = await openDrive(room.world)(id, nextFence())
      assert.ok(taken.t === 'wait' && taken.until, 'the call may still arrive')
      room.clock.travel(taken.until.getTime() - room.clock.now().getTime())
      desk.meanwhile = () => {
        calling.resolve()
        return answered.promise
      }
      heir = room.settle(id)
      await calling.promise
    }
    assert.deepEqual(await openDrive(room.world)(id, nextFence()), { t: 'done' })
    answered.resolve()
    assert.equal(await heir, 'succeeded')
    assert.deepEqual(
      (await rowsOf(id)).filter(({ operation }) => operation === 'open_ticket').map(({ attempt }) => attempt),
      [2],
    )
  })

  test('[CON-12] a refusal of the provider ends the command with its class, and an operator has what was done before undone', async () => {
    desk.troubles.length = 0
    const id = await submit(open('lamp'), open('chair'))
    // The second of them is refused.
    const before = desk.seen.length
    desk.refusedTitle = 'chair'
    assert.equal(await room.settle(id), 'failed')
    const [command] = await room.rows<{ error_class: string }>(
      'select error_class from concord.commands where command_id = $1',
      [id],
    )
    assert.equal(command?.error_class, 'validation_error')
    assert.equal(desk.tickets.get('ticket:lamp')?.open, true)
    const operator = {
      id: 'user:operator',
      kind: 'operator' as const,
      traceId: TRACE,
      principal: room.tenant.people.admin.principal,
    }
    accepted(await compensateCommand(room.world, operator, { workspaceId: room.tenant.workspace.id, commandId: id }))
    assert.equal(await room.settle(id), 'compensated')
    assert.equal(desk.tickets.get('ticket:lamp')?.open, false)
    assert.deepEqual(
      desk.seen.slice(before).map(({ capability }) => capability),
      ['open_ticket', 'open_ticket', 'close_ticket'],
    )
    const drift = await room.rows(
      `select 1 from concord.domain_events where event_type = 'compensation_drift' and command_id = $1`,
      [id],
    )
    assert.equal(drift.length, 0)
  })

  test('[CON-19] [ERR-06] an HTTP connector with the same contract takes the place of the one in memory: nothing above it changes', async (t) => {
    const api = await openMisbehavingApi()
    const over = { input: z.strictObject({ id: z.string() }), output: z.looseObject({}) }
    const real = httpConnector({
      name: 'desk',
      description: 'The help desk, over HTTP.',
      base_url: api.url,
      reach: { allow_http: true, private_networks: ['127.0.0.1'] },
      operations: [
        {
          name: 'open_ticket',
          description: 'Opens a ticket.',
          method: 'POST',
          path: '/tickets',
          input: z.strictObject({ title: z.string() }),
          output: z.looseObject({ id: z.string() }),
          side_effect_class: 'keyed',
          idempotency: { required: true, key_template: 'ticket:{title}' },
          backoff_seconds: [0],
        },
        {
          ...over,
          name: 'delete_ticket',
          description: 'Deletes.',
          method: 'DELETE',
          path: '/tickets/{id}',
          side_effect_class: 'opaque',
          approval_required: true,
        },
      ],
    })
    const other = await openTestRoom(undefined, ({ db, now, newId }) => {
      const world = { db, now, newId, sleep: realSleep, secrets: openSecrets({}) }
      return [...connectorDefinitions(accepted(openConnectors([real], world))), ...deskCatalog()]
    })
    t.after(async () => {
      await other.close()
      await api.close()
    })
    const id = await other.submit({ steps: [open('phone')] }, { taskName: 'Help' })
    assert.equal(await other.settle(id), 'succeeded')
    assert.deepEqual([...api.done.keys()], ['ticket:phone'])
    // Asked to wait by an answer of the provider, the next attempt waits as long, although the policy would come back at once.
    for (const [mode, waitS] of [
      ['rate_limited', 7],
      ['overloaded', 120],
    ] as const) {
      api.mode = mode
      const slowed = await other.submit({ steps: [open(mode)] }, { taskName: 'Help' })
      const from = other.clock.now().getTime()
      assert.equal(await other.settle(slowed), 'running')
      const [effect] = await other.rows<{ run_after: Date }>(
        'select run_after from concord.domain_effects where command_id = $1',
        [slowed],
      )
      const [told] = await other.rows<{ asked: number }>(
        `select (payload->'asked_to_wait_ms')::int as asked from concord.domain_events
         where command_id = $1 and event_type = 'retry_scheduled'`,
        [slowed],
      )
      assert.ok((effect?.run_after.getTime() ?? 0) >= from + waitS * 1_000)
      assert.equal(told?.asked, waitS * 1_000)
    }
  })
})

test('a look-up that fails leaves open whether the deed was done', async () => {
  const connectors = {
    definitions: [deskConnector(new Desk())],
    // As the gate says it of an operation that changes nothing.
    call: async () => failed({ error_class: 'permission_denied', message: 'no', happened: 'no' }),
    sync: () => assert.fail('nobody syncs'),
    settleAbandoned: () => assert.fail('nobody settles'),
    isOpen: () => false,
    check: () => assert.fail('nobody checks'),
    close: async () => {},
  } satisfies Connectors
  const effect = connectorDefinitions(connectors).find(
    (each) => each.kind === 'effect' && each.effect_type === 'connector.desk.open_ticket',
  )
  assert.ok(effect?.kind === 'effect' && effect.find)
  const call: EffectCall = {
    commandId: 'c',
    workspaceId: 'w',
    effectId: 'e',
    effectType: 'connector.desk.open_ticket',
    payload: { title: 'x' },
    idempotencyKey: 'ticket:x',
    attempt: 2,
    dueAt: null,
    memory: { find: () => Promise.reject(new Error('unused')), read: () => Promise.reject(new Error('unused')) },
    traceId: TRACE,
    requestedBy: 'user:ada',
    signal: new AbortController().signal,
    emit: () => {},
    alongside: () => {},
    artifacts: withoutArtifacts('none here'),
  }
  await assert.rejects(effect.find(call), { errorClass: 'permission_denied', happened: 'unknown' })
  await assert.rejects(effect.do(call), { errorClass: 'permission_denied', happened: 'no' })
})
