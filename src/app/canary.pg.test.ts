/**
 * Canaries: secrets planted wherever a careless caller, provider or person might leave one, and then looked for in every row of
 * every table and in every line of the log.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { createApi } from '#api'
import { EffectFailure, signDelivery } from '#domains/commands'
import { call, openTestApi, type TestApi } from '#test/api'
import { everyRow } from '#test/login'
import { decider, openRoomOn, pendingOf, type TestRoom } from '#test/commands'
import { proofSize } from '#test/proof-size'
import { secretCanaries } from '#test/secret-canaries'
import { aPerson, anOrgRole, type TestPerson } from '#test/tenant'
import { encodeId } from '#kernel/ids'
import { openLog } from './log.ts'

type Json = Record<string, unknown>
const BOOK = 'connector.hotel.book_a'
const SEED = 20261116

describe('canaries', () => {
  let api: TestApi
  let app: ReturnType<typeof createApi>
  let room: TestRoom
  let owner: TestPerson
  const lines: string[] = []
  const planted = new Map<string, string>()
  const signingKey = new Uint8Array(32).fill(9)

  /** One secret of each shape in turn, remembered by the place it is planted in. */
  const shapes: readonly ((value: string) => string)[] = [
    (value) => `sk_live_${value}`,
    (value) => `Bearer a1${value}`,
    (value) => `ck_abcdef012345_${value}${value}`,
    (value) => `ghp_${value}`,
    (value) => `postgres://app:${value}@db.example.com:5432/x`,
    (value) => `eyJhbGciOiJI.${value}.${value}`,
    (value) => `xoxb-${value}`,
  ]
  const plant = (place: string): string => {
    const value = `${randomBytes(12).toString('hex')}9a`
    planted.set(place, value)
    return (shapes[planted.size % shapes.length] ?? String)(value)
  }

  before(async () => {
    api = await openTestApi()
    room = openRoomOn(api.world, api.ours)
    const source = {
      name: 'shop',
      workspace: api.ours.workspace.id,
      secret: signingKey,
      map: (event: Json) => ({ taskName: 'Work', payload: { subject: String(event['id']) } }),
    }
    const log = openLog('trace', { write: (line: string) => void lines.push(line) })
    const work = { commands: room.world, approvals: room.approvals, webhooks: [source] }
    app = api.with({ work, log })
    owner = await aPerson(api.world, api.ours, 'writer', 'canary-owner')
    await anOrgRole(api.world, api.ours.orgId, 'owner', [owner])
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const headers = { 'x-workspace': 'main' }
  const post = (path: string, body: unknown, { key = api.ours.people.writer.key, more = {} } = {}) =>
    call(app, path, { method: 'POST', key, body, headers: { ...headers, ...more } })
  const submit = async (payload: Json) => {
    const answer = await post('/commands', { task_name: 'Work', payload })
    assert.equal(answer.status, 202, await answer.clone().text())
    return ((await answer.json()) as { command_id: string }).command_id
  }
  const uuidOf = (id: string) => {
    const hex = id.slice(id.indexOf('_') + 1)
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  }
  const refusedWith = async (answer: Response, code: string, place: string) => {
    const text = await answer.text()
    assert.equal((JSON.parse(text) as Json)['code'], code, `${place}: ${text}`)
    assert.equal(text.includes(planted.get(place) ?? '?'), false, `${place} is repeated in the answer`)
  }

  test('[SEC-06] a payload with a secret in any field is refused, and the answer does not repeat it', async () => {
    for (const [place, payload] of [
      ['a plain field', { subject: plant('a plain field') }],
      ['a secret field', { subject: 's', api_key: plant('a secret field') }],
      ['inside a list', { subject: 's', steps: ['x', plant('inside a list')] }],
      ['a field name', { subject: 's', [plant('a field name')]: 1 }],
    ] as const)
      await refusedWith(await post('/commands', { task_name: 'Work', payload }), 'commands.payload.secret', place)
    const key = { task_name: 'Work', payload: { subject: 's' }, idempotency_key: plant('the key').replaceAll(' ', '') }
    await refusedWith(await post('/commands', key), 'api.field.secret', 'the key')
    const name = { task_name: plant('the task name'), payload: {} }
    await refusedWith(await post('/commands', name), 'api.field.secret', 'the task name')
  })

  test('[SEC-06] headers, queries and bad credentials', async () => {
    const query = await call(app, `/commands?cursor=${encodeURIComponent(plant('a query'))}`, {
      key: api.ours.people.writer.key,
      headers,
    })
    const bad = await call(app, '/me', { key: plant('a bad credential').replaceAll(' ', '') })
    const more = {
      'x-request-id': plant('a request id').replaceAll(/[^\w.:-]/g, ''),
      cookie: plant('a cookie'),
      'x-workspace': plant('a workspace name'),
      'user-agent': plant('an agent'),
    }
    const named = await post('/commands', { task_name: 'Work', payload: { subject: 's' } }, { more })
    const asked = await post(
      '/commands',
      { task_name: 'Work', payload: { subject: 's' } },
      { more: { 'x-request-id': more['x-request-id'] } },
    )
    assert.deepEqual(
      [query, bad, named, asked].map(({ status }) => status),
      [400, 401, 404, 202],
    )
    for (const [place, answer] of [
      ['a query', query],
      ['a bad credential', bad],
      ['a workspace name', named],
    ] as const)
      assert.equal(
        (await answer.text()).includes(planted.get(place) ?? '?'),
        false,
        `${place} is repeated in the answer`,
      )
  })

  test('[SEC-06] errors and outputs of providers', async () => {
    const real = room.provider.call.bind(room.provider)
    for (const [place, behave] of [
      [
        'a refusal',
        (secret: string) => Promise.reject(new EffectFailure('validation_error', `the key ${secret} is wrong`)),
      ],
      ['a crash', (secret: string) => Promise.reject(new Error(`cannot connect to ${secret}`))],
      ['an output', (secret: string) => Promise.resolve({ ok: true, session: { token: secret, list: [secret] } })],
    ] as const) {
      const secret = plant(place)
      room.provider.call = () => behave(secret)
      await room.settle(uuidOf(await submit({ subject: place, steps: [BOOK] })))
    }
    room.provider.call = real
  })

  test('[SEC-06] the words of people: input, reasons, edits', async () => {
    const waiting = await submit({ steps: [] })
    await room.settle(uuidOf(waiting))
    const input = { input: { subject: plant('an input') } }
    await refusedWith(await post(`/commands/${waiting}/input`, input), 'commands.payload.secret', 'an input')
    await post(`/commands/${waiting}/cancel`, { reason: `because of ${plant('a cancel reason')}` })
    for (const place of ['edits', 'a decision reason']) {
      const id = await submit({ subject: place, decide: 'require_approval' })
      await room.settle(uuidOf(id))
      const approval = encodeId('approval', await pendingOf(room, uuidOf(id)))
      const body =
        place === 'edits'
          ? { decision: 'approved', edits: { subject: plant(place) } }
          : { decision: 'rejected', reason: `I saw ${plant(place)}` }
      const answer = await post(`/approvals/${approval}/resolve`, body, { key: owner.key })
      assert.equal(answer.status, place === 'edits' ? 422 : 200, await answer.clone().text())
    }
    assert.ok(decider(room).orgRoles.includes('owner'))
  })

  const deliver = (id: string, event: Json) => {
    const body = Buffer.from(JSON.stringify(event))
    const timestamp = String(Math.floor(api.world.now().getTime() / 1_000))
    return call(app, '/webhooks/shop', {
      method: 'POST',
      body: new Uint8Array(body),
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': signDelivery(signingKey, id, timestamp, body),
      },
    })
  }

  test('[SEC-06] deliveries of outside systems', async () => {
    const answer = await deliver('evt-1', { id: plant('a webhook'), type: 'order' })
    assert.equal(answer.status, 422, await answer.text())
  })

  test('[M5] [L15] [SEC-06] a secret of every known shape is refused at every door', async () => {
    const waiting = await submit({ steps: [] })
    const gated = await submit({ subject: 'gated', decide: 'require_approval' })
    await room.settle(uuidOf(waiting))
    await room.settle(uuidOf(gated))
    const approval = encodeId('approval', await pendingOf(room, uuidOf(gated)))
    const { key: admin } = api.ours.people.admin
    const work = (payload: Json) => post('/commands', { task_name: 'Work', payload })
    const doors: Readonly<Record<string, (text: string, at: number) => Promise<Response>>> = {
      'a field': (text) => work({ subject: `See ${text}. Thanks!` }),
      'a list': (text) => work({ subject: 's', steps: ['x', text] }),
      'the name of a field': (text) => work({ subject: 's', [text]: 1 }),
      'an idempotency key': (text) => post('/commands', { task_name: 'Work', payload: {}, idempotency_key: text }),
      'a preview': (text) => post('/commands/preview', { task_name: 'Work', payload: { subject: text } }),
      'an input': (text) => post(`/commands/${waiting}/input`, { input: { subject: text } }),
      'an edit': (text) =>
        post(`/approvals/${approval}/resolve`, { decision: 'approved', edits: { subject: text } }, { key: owner.key }),
      'the name of a tool': (text) => post('/agent-actions', { tool_name: text, payload: {}, reason: 'r' }),
      'a delivery': (text, at) => deliver(`evt-many-${at}`, { id: text, type: 'order' }),
      'the name of a key': (text) => post('/keys', { name: text, role: 'reader' }, { key: admin }),
      'the name of a workspace': (text) => post('/workspaces', { slug: 'w', name: text }, { key: admin }),
      'the name of a role': (text) => post('/org-roles', { slug: 'r', name: text }, { key: admin }),
      'the name of a person': (text) => post('/people', { external_id: text, role: 'reader' }, { key: admin }),
    }
    const canaries = secretCanaries(SEED)
    assert.ok(canaries.length >= 220, String(canaries.length))
    // The quick tier sends every tenth secret to a door, and all of them to some door.
    const every = proofSize(1, 10) === 1 ? 10 : 1
    for (const [number, [door, send]] of Object.entries(doors).entries()) {
      for (const [at, { name, text, core }] of canaries.entries()) {
        if ((at + number) % every !== 0) continue
        planted.set(`${name} in ${door}`, core)
        const answer = await send(text, at)
        const shown = await answer.text()
        assert.match(shown, /"code":"[a-z.]+[.]secret"/, `${name} in ${door}: ${shown}`)
        assert.equal(shown.includes(core), false, `${name} in ${door} is repeated in the answer`)
      }
    }
  })

  test('[M5] [SEC-06] the value of a field with the name of a secret is refused, unless the contract declares it', async () => {
    for (const name of 'password PASSWD db_password passwordConfirmation secret clientSecret token accessToken x-api-key apikey cvv pin authorization private_key credentials'.split(
      ' ',
    )) {
      for (const payload of [
        { subject: 's', [name]: plant(`named ${name}`).slice(-24) },
        { subject: 's', note: 'n', extra: { list: [{ [name]: plant(`nested ${name}`).slice(-24) }] } },
        { subject: 's', [name]: { value: plant(`inside ${name}`).slice(-24) } },
      ]) {
        const answer = await post('/commands', { task_name: 'Work', payload })
        assert.equal(((await answer.json()) as Json)['code'], 'commands.payload.secret', name)
      }
    }
    for (const [name, value] of [
      ['token_count', 5],
      ['page_token', 'p2'],
      ['secret_santa', 'Ada'],
      ['api_key', 'vault://team/key'],
    ] as const) {
      const answer = await post('/commands', { task_name: 'Work', payload: { subject: 's', [name]: value } })
      assert.equal(answer.status, 202, name)
    }
  })

  test('[M5] [SEC-06] the value of an undeclared field is not kept, however deep it is and whatever it looks like', async () => {
    const value = (place: string) => {
      const hex = `plain${randomBytes(8).toString('hex')}`
      planted.set(place, hex)
      return hex
    }
    for (const payload of [
      { subject: 's', other: value('an undeclared field') },
      { subject: 's', other: { deep: [{ deeper: value('a nested one') }] } },
      { subject: 's', other: [value('an undeclared list')] },
      { subject: 's', other: { [`a${randomBytes(2).toString('hex')}`]: value('under another name') } },
      { subject: { inner: value('inside a declared text') } },
      { subject: 's', note: [{ inner: value('inside a list instead of a text') }] },
    ]) {
      const answer = await post('/commands', { task_name: 'Work', payload })
      const id = uuidOf(((await answer.json()) as { command_id: string }).command_id)
      await room.settle(id)
      const [row] = await room.rows<{ status: string; error_class: string; names: string[] }>(
        `select status, error_class, array(select jsonb_object_keys(payload)) as names from concord.commands where command_id = '${id}'`,
      )
      // The names stay: they say what was wrong.
      assert.deepEqual([row?.status, row?.error_class], ['failed', 'malformed_payload'])
      assert.deepEqual(row?.names.toSorted(), Object.keys(payload).toSorted())
    }
    const delivered = await deliver('evt-undeclared', { id: 'x', type: 'order', token: value('a delivery') })
    assert.equal(delivered.status, 202)
  })

  test('[SEC-06] keys and invitations that were just made', async () => {
    const { key: admin } = api.ours.people.admin
    for (const [place, path, body, field] of [
      ['a new key', '/keys', { name: 'canary', role: 'reader' }, 'key'],
      ['an invitation', '/people', { external_id: 'local:canary', role: 'reader' }, 'invitation'],
    ] as const) {
      const made = (await (await post(path, body, { key: admin })).json()) as Json
      const secret = made[field]
      assert.ok(typeof secret === 'string' && secret.length > 32, `${place}: ${JSON.stringify(made)}`)
      planted.set(place, secret.slice(16))
    }
  })

  test('[SEC-06] none of them is in any row of any table, or in any line of the log', async () => {
    // Two that must be found, or the search itself is blind.
    const control = randomBytes(12).toString('hex')
    await submit({ subject: control })
    api.deps.log.info({}, 'not this log')
    const { rows, tables } = await everyRow(api.url)
    assert.ok(tables > 10 && rows.includes(control), 'the search sees the rows')
    const log = lines.join('')
    assert.ok(lines.length > 10 && log.includes('/commands'), 'the search sees the log')
    assert.ok(planted.size >= 18)
    for (const [place, value] of planted) {
      const forms = [
        value,
        Buffer.from(value).toString('hex'),
        Buffer.from(value).toString('base64').replaceAll('=', ''),
      ]
      for (const form of forms) {
        assert.equal(rows.includes(form), false, `${place} is in the database`)
        assert.equal(log.includes(form), false, `${place} is in the log`)
      }
    }
  })
})
