/** What the governed path does with rows that make no sense, keys whose owner hangs, and payloads of the wrong shape. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestRoom, type TestRoom } from '#test/commands'
import type { FakeProvider } from '#test/fake-providers'
import { testDefinitions } from '#test/projects/commands'
import { openLogin } from '#test/login'
import { accepted, TRACE } from '#test/tenant'
import { defineRetryPolicy } from '#kernel/retry-policy'
import { cancelCommand } from './cancel-command.ts'
import { registerRetry } from './catalog/definitions.ts'
import type { UndoCall } from './catalog/effect-definition.ts'
import { anyHost, openCatalog } from './catalog/open-catalog.ts'
import { submitCommand } from './submit.ts'
import { compensateCommand } from './change-command.ts'
import { actingFor } from './deps.ts'

const BOOK_A = 'connector.hotel.book_a'

describe('rows that make no sense', () => {
  let room: TestRoom
  let login: Awaited<ReturnType<typeof openLogin>>
  before(async () => {
    room = await openTestRoom()
    login = await openLogin(room.db.config.url)
  })
  after(async () => {
    await login.end()
    await room.close()
  })

  const events = (id: string) =>
    room.rows<{ payload: Record<string, unknown> }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'command_quarantined' and purpose = 'audit'`,
      [id],
    )
  const goesOn = async () => assert.equal(await room.settle(await room.submit({ subject: 's' })), 'succeeded')

  test('[PER-10] the database lets none of them in: unknown states, endless times, budgets that are no number', async () => {
    const id = await room.submit({ subject: 's' })
    for (const [change, constraint] of [
      [`update concord.commands set status = 'zombie' where command_id = $1`, /command_status_ck/],
      [`update concord.commands set run_after = 'infinity' where command_id = $1`, /finite_time_ck/],
    ] as const) {
      await assert.rejects(
        login.query(change, [id]),
        ({ code, constraint: name }: { code?: string; constraint?: string }) => {
          assert.equal(code, '23514')
          assert.match(name ?? '', constraint)
          return true
        },
      )
    }
  })

  test('a state that nobody knows, planted past the rules: put aside with an event, and all others go on', async () => {
    const id = await room.submit({ subject: 's' })
    await login.query('alter domain concord.command_status drop constraint command_status_ck')
    await login.query(`update concord.commands set status = 'zombie' where command_id = $1`, [id])
    assert.deepEqual(await room.turn(id), { t: 'wait', until: null })
    const [event] = await events(id)
    assert.equal(event?.payload['status'], 'zombie')
    const [row] = await room.rows<{ run_after: Date | null; turn_token: string | null }>(
      'select run_after, turn_token from concord.commands where command_id = $1',
      [id],
    )
    assert.deepEqual(row, { run_after: null, turn_token: null })
    await goesOn()
  })

  test('a payload of 10,000 levels, planted past the door: the command ends or is put aside, and all others go on', async () => {
    const id = await room.submit({ subject: 's' })
    const deep = `{"subject":"s","steps":${'['.repeat(10_000)}${']'.repeat(10_000)}}`
    await login.query('update concord.commands set payload = $2::jsonb where command_id = $1', [id, deep])
    const next = await room.turn(id)
    const told = await events(id)
    assert.ok(next.t === 'done' ? (await room.statusOf(id)) === 'failed' : told.length === 1, JSON.stringify(next))
    await goesOn()
  })
})

describe('a key whose first request hangs', () => {
  let room: TestRoom
  before(async () => {
    room = await openTestRoom()
  })
  after(() => room.close())

  test('same key while the first is being written: key_in_progress, and known once it is there', async () => {
    const by = actingFor(room.tenant.people.writer.principal, TRACE)
    const ask = (key: string, dependsOn?: readonly { commandId: string }[]) =>
      submitCommand(room.world, by, {
        workspaceId: room.tenant.workspace.id,
        taskName: 'Work',
        payload: { subject: 's' },
        ingress: 'user_request',
        requestId: 'req_test',
        idempotencyKey: key,
        ...(dependsOn === undefined ? {} : { dependsOn }),
      })
    const template = accepted(await ask('template')).command
    const parent = [{ commandId: template.command_id }]
    const other = await openLogin(room.db.config.url)
    try {
      await other.query('begin')
      // Another process, between its insert and its commit.
      await other.query(
        `insert into concord.commands select (jsonb_populate_record(c, jsonb_build_object('command_id', $2::text, 'idempotency_key', 'hung', 'runtime_workflow_id', null))).*
           from concord.commands c where c.command_id = $1`,
        [template.command_id, room.clock.newId()],
      )
      for (const answer of [await ask('hung'), await ask('hung', parent)]) {
        assert.equal(answer.ok ? 'accepted' : answer.code, 'key_in_progress')
        assert.ok(!answer.ok && answer.facts?.['retry_after_s'] === 1)
      }
      assert.ok((await ask('free')).ok, 'others are not kept')
      await other.query('commit')
      const known = accepted(await ask('hung'))
      assert.equal(known.isNew, false)
    } finally {
      await other.end()
    }
  })
})

describe('an undo', () => {
  test('[EFF-22] is tried as the catalog’s policy for compensation says, and knows the key of the deed', async () => {
    const seen: UndoCall[] = []
    const policy = defineRetryPolicy({
      operation: 'compensation',
      retryable: ['timeout'],
      max_attempts: 2,
      backoff_seconds: [5],
    })
    const room = await openTestRoom((world, provider: FakeProvider) => {
      const definitions = testDefinitions(provider, () => () => Promise.reject(new Error('no children here')))
      const catalog = accepted(openCatalog([...definitions, registerRetry(policy)], anyHost))
      const known = catalog.undos.get('hotel.cancel_a')
      assert.ok(known)
      const { undo } = known
      const watched = { ...undo, do: (call: UndoCall) => (seen.push(call), undo.do(call)) }
      const undos = new Map([...catalog.undos, ['hotel.cancel_a', { ...known, undo: watched }]])
      return { ...world, catalog: { ...catalog, undos } }
    })
    try {
      const id = await room.submit({ subject: 's', steps: [BOOK_A, 'connector.ticket.open'] })
      room.provider.modes.push('ok', 'refuse')
      assert.equal(await room.settle(id), 'failed')
      const operator = actingFor(room.tenant.people.admin.principal, TRACE)
      const workspaceId = room.tenant.workspace.id
      accepted(await compensateCommand(room.world, operator, { workspaceId, commandId: id }))
      assert.equal(await room.settle(id), 'compensated')
      const effects = await room.rows<{
        idempotency_key: string
        max_attempts: number
        compensates_effect_id: string | null
      }>(
        'select idempotency_key, max_attempts, compensates_effect_id from concord.domain_effects where command_id = $1 order by declaration_order',
        [id],
      )
      const undone = effects.find(({ compensates_effect_id }) => compensates_effect_id !== null)
      assert.equal(undone?.max_attempts, 2)
      assert.equal(seen[0]?.undone.idempotencyKey, effects[0]?.idempotency_key)
    } finally {
      await room.close()
    }
  })
})

describe('a payload of the wrong shape', () => {
  let room: TestRoom
  before(async () => {
    room = await openTestRoom()
  })
  after(() => room.close())

  for (const taskName of ['Work', 'Echo']) {
    test(`[CMD-12] [API-01] ${taskName}: the answer to the request itself says that it has failed`, async () => {
      const by = actingFor(room.tenant.people.writer.principal, TRACE)
      const asked = { workspaceId: room.tenant.workspace.id, ingress: 'user_request', requestId: 'req_test' } as const
      const submitted = await submitCommand(room.world, by, { ...asked, taskName, payload: { subject: 7 } })
      const { command, isNew } = accepted(submitted)
      assert.deepEqual([command.status, command.error_class, isNew], ['failed', 'malformed_payload', true])
      assert.match(command.error ?? '', /subject/)
      assert.deepEqual(await room.turn(command.command_id), { t: 'done' })
      const [last] = await room.rows<{ to: string }>(
        `select payload->>'to' as to from concord.domain_events where command_id = $1 order by seq desc limit 1`,
        [command.command_id],
      )
      assert.equal(last?.to, 'failed')
      const again = await cancelCommand(room.world, by, {
        workspaceId: asked.workspaceId,
        commandId: command.command_id,
      })
      assert.ok(again.ok)
    })
  }
})
