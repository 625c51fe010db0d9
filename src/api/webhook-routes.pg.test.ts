/** Webhooks over HTTP: signed, fresh, once; what each delivery leaves behind; a flood of refused ones; and the three areas of the API. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { signDelivery } from '#domains/commands'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openRoomOn, type TestRoom } from '#test/commands'
import type { Api } from './api.ts'

type Json = Record<string, unknown>
type Delivery = {
  readonly id?: string
  readonly at?: string
  readonly signature?: string
  readonly source?: string
  readonly headers?: Readonly<Record<string, string>>
}
type Left = { readonly commands: number; readonly events: number; readonly rejections: number }

describe('webhooks over HTTP', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  const secret = new Uint8Array(32).fill(3)
  const sourceOf = (name: string) => ({
    name,
    workspace: api.ours.workspace.id,
    secret,
    map: (event: Json) => {
      if (event['type'] === 'broken') throw new TypeError(`no place for ${String(event['id'])}`)
      if (event['type'] === 'booking') return { taskName: 'Booking', payload: { subject: String(event['id']) } }
      return event['type'] === 'order'
        ? { taskName: event['id'] === 'none' ? 'Wrok' : 'Work', payload: { subject: String(event['id']) } }
        : undefined
    },
  })

  before(async () => {
    api = await openTestApi()
    room = openRoomOn(api.world, api.ours)
    const webhooks = ['shop', 'noisy'].map(sourceOf)
    app = api.with({
      work: { commands: room.world, approvals: room.approvals, webhooks },
    })
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const seconds = (shift = 0) => String(Math.floor(api.world.now().getTime() / 1_000) + shift)
  const order = { type: 'order', id: 7 }
  const deliver = (body: Json | string, { id = 'evt-1', at = seconds(), ...more }: Delivery = {}) => {
    const bytes = new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body))
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': at,
      'webhook-signature': more.signature ?? signDelivery(secret, id, at, bytes),
      ...more.headers,
    }
    return call(app, `/webhooks/${more.source ?? 'shop'}`, { method: 'POST', body: bytes, headers })
  }
  const left = async (): Promise<Left> => {
    const [row] = await room.rows<Left>(
      `select (select count(*) from concord.commands)::integer as commands,
              (select count(*) from concord.domain_events where event_type = 'webhook_received')::integer as events,
              (select count(*) from concord.domain_events where event_type = 'command_rejected')::integer as rejections`,
    )
    assert.ok(row)
    return row
  }
  /** The answer, and what was left behind by it. */
  async function leaves(send: () => Promise<Response>): Promise<[string, number, number, number]> {
    const before = await left()
    const outcome = await outcomeOf(await send())
    const now = await left()
    return [outcome, now.commands - before.commands, now.events - before.events, now.rejections - before.rejections]
  }

  test('[API-06] [CMD-06] signed, fresh, once: six concurrent deliveries of one event are one command', async () => {
    const deliveries = await Promise.all(Array.from({ length: 6 }, () => deliver(order)))
    assert.deepEqual(
      deliveries.map(({ status }) => status).sort((a, b) => a - b),
      [200, 200, 200, 200, 200, 202],
    )
    const made = await room.rows(`select 1 from concord.commands where ingress = 'webhook'`)
    assert.equal(made.length, 1)
  })

  test('[API-06] [PRM-12] [EVT-13] each delivery leaves one row of one kind: a command, an event, or an audited rejection', async () => {
    const right = signDelivery(secret, 'evt-3', seconds(), new TextEncoder().encode(JSON.stringify(order)))
    const cases: [string, () => Promise<Response>, [string, number, number, number]][] = [
      ['a known type', () => deliver({ type: 'order', id: 8 }, { id: 'evt-2' }), ['202 ok', 1, 0, 0]],
      ['the same again', () => deliver({ type: 'order', id: 8 }, { id: 'evt-2' }), ['200 ok', 0, 0, 0]],
      ['an unknown type', () => deliver({ type: 'other' }, { id: 'evt-4' }), ['202 ok', 0, 1, 0]],
      ['the same unknown one again', () => deliver({ type: 'other' }, { id: 'evt-4' }), ['200 ok', 0, 0, 0]],
      ['no signature', () => deliver(order, { id: 'evt-3', signature: '' }), ['401 signature', 0, 0, 1]],
      ['a short one', () => deliver(order, { id: 'evt-3', signature: 'v1=00' }), ['401 signature', 0, 0, 1]],
      ['upper case', () => deliver(order, { id: 'evt-3', signature: right.toUpperCase() }), ['401 signature', 0, 0, 1]],
      [
        'another version',
        () => deliver(order, { id: 'evt-3', signature: right.replace('v1=', 'v2=') }),
        ['401 signature', 0, 0, 1],
      ],
      [
        'of another body',
        () => deliver(order, { id: 'evt-3', signature: signDelivery(secret, 'evt-3', seconds(), new Uint8Array([1])) }),
        ['401 signature', 0, 0, 1],
      ],
      ['too old', () => deliver(order, { id: 'evt-5', at: seconds(-361) }), ['401 timestamp', 0, 0, 1]],
      ['from the future', () => deliver(order, { id: 'evt-5', at: seconds(361) }), ['401 timestamp', 0, 0, 1]],
      ['a broken body', () => deliver('{"type":', { id: 'evt-6' }), ['400 json_syntax', 0, 0, 1]],
      ['no object', () => deliver('[1]', { id: 'evt-6' }), ['400 json_not_object', 0, 0, 1]],
      [
        'a packing that is not read',
        () => deliver(order, { id: 'evt-6', headers: { 'content-encoding': 'br' } }),
        ['415 encoding_unsupported', 0, 0, 1],
      ],
      [
        'an event that its mapping fails on',
        () => deliver({ type: 'broken', id: 'x' }, { id: 'evt-8' }),
        ['422 commands.payload.malformed', 0, 0, 1],
      ],
      [
        'a task that is not there',
        () => deliver({ type: 'order', id: 'none' }, { id: 'evt-7' }),
        ['404 task_unknown', 0, 0, 1],
      ],
      [
        'the same id with another body',
        () => deliver({ type: 'order', id: 9 }, { id: 'evt-2' }),
        ['422 key_reused', 0, 0, 1],
      ],
      // Without a workspace there is no table for a row. The log has the request.
      ['no such source', () => deliver(order, { source: 'nobody' }), ['404 commands.webhook.source_unknown', 0, 0, 0]],
    ]
    const ask = (path: string, body: Json) =>
      call(app, path, { method: 'POST', key: api.ours.people.writer.key, body, headers: { 'x-workspace': 'main' } })
    cases.push(
      ['a person asks', () => ask('/commands', { task_name: 'Work', payload: { subject: 's' } }), ['202 ok', 1, 0, 0]],
      ['a person asks for nothing', () => ask('/commands', { task_name: 'Wrok' }), ['404 task_unknown', 0, 0, 1]],
      [
        'an agent asks for what is not open to agents',
        () => ask('/agent-actions', { tool_name: 'Work', payload: {}, reason: 'r' }),
        ['403 commands.tool.forbidden', 0, 0, 1],
      ],
    )
    for (const [name, send, expected] of cases) assert.deepEqual(await leaves(send), expected, name)
    const headers = { 'x-workspace': 'main' }
    const { admin } = api.ours.people
    const audit = await call(app, '/audit?event_type=command_rejected&limit=500', { key: admin.key, headers })
    const { items } = (await audit.json()) as {
      items: { command_id: string | null; actor: string; payload: Json }[]
    }
    const refused = items.filter(({ payload }) => payload['source'] === 'shop')
    assert.deepEqual(
      refused
        .map(({ command_id, actor, payload }) => [command_id, actor, payload['code'], payload['provider_event_id']])
        .reverse(),
      [
        ...Array.from({ length: 5 }, () => [null, 'webhook:shop', 'signature', 'evt-3']),
        [null, 'webhook:shop', 'timestamp', 'evt-5'],
        [null, 'webhook:shop', 'timestamp', 'evt-5'],
        [null, 'webhook:shop', 'json_syntax', 'evt-6'],
        [null, 'webhook:shop', 'json_not_object', 'evt-6'],
        [null, 'webhook:shop', 'encoding_unsupported', 'evt-6'],
        [null, 'webhook:shop', 'commands.payload.malformed', 'evt-8'],
      ],
    )
    const [event] = await room.rows<{ payload: Json; purpose: string }>(
      `select payload, purpose from concord.domain_events where event_type = 'webhook_received'`,
    )
    assert.deepEqual(event, {
      purpose: 'audit',
      payload: {
        source: 'shop',
        provider_event_id: 'evt-4',
        type: 'other',
        target_type: 'webhook',
        target_id: 'evt-4',
      },
    })
  })

  test('[CMD-07] an event id that was used for another body is refused, and the answer reveals nothing about the command', async () => {
    assert.equal((await deliver({ type: 'order', id: 'the first' }, { id: 'evt-8' })).status, 202)
    const refused = await deliver({ type: 'order', id: 'the second' }, { id: 'evt-8' })
    assert.equal(refused.status, 422)
    const text = await refused.text()
    assert.match(text, /"code":"key_reused"/)
    assert.doesNotMatch(text, /cmd_|the first|created|user[_:]/)
  })

  test('a flood of refused deliveries is bounded: thirty rows a minute, then one a minute for each code, and no body in any', async () => {
    const canary = 'canary-of-a-body'
    const flood = async (count: number) => {
      for (let sent = 0; sent < count; sent++) {
        const id = sent === 0 ? 'x'.repeat(4_000) : `evt-${sent}`
        assert.equal((await deliver({ canary }, { source: 'noisy', id, signature: 'v1=00' })).status, 401)
      }
      await deliver({ canary }, { source: 'noisy', id: 'old', at: seconds(-3_600) })
    }
    const rows = () =>
      room.rows<{ payload: Json }>(
        `select payload from concord.domain_events where event_type = 'command_rejected' and payload->>'source' = 'noisy' order by seq`,
      )
    await flood(100)
    const first = await rows()
    assert.deepEqual(
      first.slice(29).map(({ payload }) => [payload['code'], payload['is_flood']]),
      [
        ['signature', false],
        ['signature', true],
        ['timestamp', true],
      ],
    )
    assert.ok(first.every(({ payload }) => JSON.stringify(payload).length < 1_000))
    assert.equal(JSON.stringify(first).includes(canary), false)
    // Another process of the same installation writes the same row about the flood; one that is right goes through all the while.
    const other = api.with({
      work: { commands: room.world, approvals: room.approvals, webhooks: [sourceOf('noisy')] },
    })
    const own = app
    app = other
    await flood(31)
    app = own
    assert.equal((await rows()).length, 32 + 30)
    assert.equal((await deliver(order, { source: 'noisy', id: 'right' })).status, 202)
    api.world.travel(60_000)
    await flood(1)
    assert.equal((await rows()).length, 62 + 2)
  })

  test('[L14] [API-06] administration needs an administrator, work needs a credential, and webhooks need only a signature', async () => {
    const { writer, admin } = api.ours.people
    const headers = { 'x-workspace': 'main' }
    const document = (await (await call(app, '/openapi.json')).json()) as {
      paths: Record<string, Record<string, { 'x-role'?: string | null; security?: unknown[] }>>
    }
    const areas = { admin: 0, runtime: 0, open: [] as string[] }
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        const to = path.replaceAll(/\{[^}]+\}/g, 'x')
        const send = (key?: string) =>
          call(app, to, { method: method.toUpperCase(), key, headers, ...(method === 'get' ? {} : { body: {} }) })
        const role = operation['x-role']
        if (role === null) {
          areas.open.push(path)
          continue
        }
        assert.equal(await outcomeOf(await send()), '401 unauthenticated', `${method} ${path}`)
        if (role !== 'admin') {
          areas.runtime += 1
          continue
        }
        areas.admin += 1
        assert.equal(await outcomeOf(await send(writer.key)), '403 identity.role.insufficient', `${method} ${path}`)
      }
    }
    assert.ok(areas.admin >= 5 && areas.runtime >= 20, JSON.stringify(areas))
    assert.deepEqual(areas.open.toSorted(), [
      '/',
      '/health',
      '/invitations/redeem',
      '/openapi.json',
      '/reference',
      '/webhooks/{source}',
    ])
    // No credential takes the place of the signature, and the signature needs none.
    const forged = await deliver(order, {
      id: 'evt-9',
      signature: 'v1=00',
      headers: { authorization: `Bearer ${admin.key}` },
    })
    assert.equal(await outcomeOf(forged), '401 signature')
    assert.equal(await outcomeOf(await deliver(order, { id: 'evt-9' })), '202 ok')
  })

  test('[L2] a path that a route has exactly is never read as an id: another method is a 405', async () => {
    const { key } = api.ours.people.admin
    const preview = await call(app, '/commands/preview', { key })
    assert.equal(await outcomeOf(preview), '405 api.method.not_allowed')
    assert.equal(preview.headers.get('allow'), 'POST')
  })

  test('[L5] an id with a dot is refused: the border between id and time is signed once', async () => {
    const body = `${seconds()}.${JSON.stringify({ type: 'order', id: 'moved' })}`
    assert.equal((await deliver(body, { id: 'p.q' })).status, 401)
    assert.equal((await deliver({ type: 'order', id: 'plain' }, { id: 'p:q-r_s' })).status, 202)
  })

  test('a workspace that is archived receives nothing from then on', async () => {
    const archive = (at: Date | null) =>
      api.world.db.query('update identity.workspaces set archived_at = $2 where slug = $1', ['main', at])
    const other = { type: 'other' }
    assert.equal(await outcomeOf(await deliver(other, { id: 'evt-a1' })), '202 ok')
    await archive(api.world.now())
    assert.equal(await outcomeOf(await deliver(other, { id: 'evt-a2' })), '404 commands.webhook.source_unknown')
    await archive(null)
    assert.equal(await outcomeOf(await deliver(other, { id: 'evt-a2' })), '202 ok')
  })

  test('[H1] two events about one thing: the second is on record as refused, and the sender need not repeat it', async () => {
    const booking = { type: 'booking', id: 'b-1' }
    const [first, second] = [await deliver(booking, { id: 'evt-b1' }), await deliver(booking, { id: 'evt-b2' })]
    assert.deepEqual([first.status, second.status], [202, 200])
    const [made] = await room.rows<{ count: number }>(
      `select count(*)::int as count from concord.commands where contract_key = 'booking:b-1'`,
    )
    const [refused] = await room.rows<{ code: string }>(
      `select payload->>'code' as code from concord.domain_events where event_type = 'command_rejected' order by seq desc limit 1`,
    )
    assert.deepEqual([made?.count, refused?.code], [1, 'commands.contract_key.taken'])
  })
})
