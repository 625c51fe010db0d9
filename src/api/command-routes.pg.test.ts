/** Commands over HTTP: submit, repeat, look, answer, stop, explain; bad inputs; foreign ids. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openRoomOn, type TestRoom } from '#test/commands'
import { anOrgRole, aPerson } from '#test/tenant'
import type { Api } from './api.ts'
import { auditRoutes } from './audit-routes.ts'
import { commandRoutes } from './command-routes.ts'
import { openPageCursors } from './page-cursor.ts'

type Json = Record<string, unknown>

describe('commands over HTTP', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  let key: string

  before(async () => {
    api = await openTestApi()
    room = openRoomOn(api.world, api.ours)
    app = api.with({
      extraRoutes: (router) => {
        const [deps, cursors] = [{ ...api.deps, commands: room.world }, openPageCursors(api.deps.cursorKey)]
        router.route('/', commandRoutes.mount(deps, cursors))
        router.route('/', auditRoutes.mount(deps, cursors))
      },
    })
    key = api.ours.people.writer.key
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  // Everybody's workspace is called main; whose it is, the credential says.
  const headers = { 'x-workspace': 'main' }
  const post = (path: string, body: unknown, who = key) => call(app, path, { method: 'POST', key: who, body, headers })
  const get = async (path: string, who = key) => (await call(app, path, { key: who, headers })).json() as Promise<Json>
  const submit = async (body: Json) =>
    (await (await post('/commands', body)).json()) as {
      command_id: string
      status: string
      trace_id: string
    }
  const uuidOf = (id: string) => id.slice(4).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')

  test('a preview shows the policy decision, approvers and effects of a request, and records nothing', async () => {
    const rows = async () =>
      api.world.db.query('select (select count(*) from concord.commands), (select count(*) from concord.domain_events)')
    const before = await rows()
    const preview = async (body: Json) => (await (await post('/commands/preview', body)).json()) as Json
    const steps = ['connector.hotel.book_a']
    const runs = await preview({ task_name: 'Work', payload: { subject: 's', steps } })
    assert.deepEqual(
      [runs['status'], (runs['policy'] as Json)['decision'], runs['approvals'], runs['error']],
      ['running', 'allow', [], null],
    )
    assert.deepEqual([runs['contract_key'], runs['cancellation_mode']], [null, 'graceful'])
    const books = await preview({ task_name: 'Booking', payload: { subject: 's', steps } })
    assert.deepEqual([books['contract_key'], books['cancellation_mode']], ['booking:s', 'compensate_then_stop'])
    assert.deepEqual(runs['effects'], [
      { effect_type: steps[0], effect_class: 'keyed', reversibility: 'compensatable', undone_by: 'hotel.cancel_a' },
    ])
    const asks = await preview({ task_name: 'Work', payload: { subject: 's', steps, decide: 'require_approval' } })
    const [approval] = asks['approvals'] as [{ approver: string; blocked_by: { code: string } | null }]
    assert.deepEqual([asks['status'], approval.blocked_by?.code], ['waiting_for_approval', 'role_without_members'])
    assert.equal((asks['effects'] as Json[]).length, 1)
    const lacks = await preview({ task_name: 'Work', payload: { steps } })
    assert.deepEqual(
      [lacks['status'], lacks['missing_fields'], lacks['policy']],
      ['waiting_for_input', ['subject'], null],
    )
    const wrong = await preview({ task_name: 'Work', payload: { subject: 5 } })
    assert.deepEqual([wrong['status'], wrong['error_class']], ['failed', 'malformed_payload'])
    assert.equal((await post('/commands/preview', { task_name: 'None' })).status, 404)
    assert.equal((await post('/commands/preview', { task_name: 'Work' }, api.ours.people.reader.key)).status, 403)
    assert.deepEqual(await rows(), before)
  })

  test('[API-01] [API-02] [API-07] [CMD-03] 202 for a new command, 200 for a known key, and the result afterwards', async () => {
    const body = {
      task_name: 'Work',
      payload: { subject: 's', steps: ['connector.hotel.book_a'] },
      idempotency_key: 'may',
    }
    const first = await post('/commands', body)
    assert.equal(first.status, 202)
    const view = (await first.json()) as Json
    assert.deepEqual(Object.keys(view), ['command_id', 'status', 'trace_id'])
    const again = await post('/commands', body)
    assert.equal(again.status, 200)
    assert.equal(((await again.json()) as Json)['command_id'], view['command_id'])
    await room.settle(uuidOf(String(view['command_id'])))
    const seen = await get(`/commands/${String(view['command_id'])}`)
    assert.deepEqual([seen['state'], seen['status'], seen['command_type']], [undefined, 'succeeded', 'work'])
    assert.deepEqual(
      Object.keys(seen).filter((name) => name.includes('runtime') || name.includes('turn')),
      [],
    )
  })

  test('[CMD-13] [EVT-13] bad requests get their code and leave an audit row without a command', async () => {
    const cases: [Json, string][] = [
      [{ task_name: 'Wrok' }, '404 task_unknown'],
      [{ task_name: 'Work', payload: {}, cancellation_mode: 'immediate' }, '422 mode_reserved'],
      [{ task_name: 'Work', payload: { subject: 's', api_key: 'sk_live_value' } }, '422 commands.payload.secret'],
      [{ task_name: 'Booking', payload: {} }, '422 idempotency.field.missing'],
      [{ task_name: 'Work', payload: {}, idempotency_key: 'k'.repeat(256) }, '422 key_too_long'],
      [{ task_name: 'Work', payload: {}, idempotency_key: 'a\u200bb' }, '422 key_characters'],
      [{ task_name: 'Work', payload: { subject: 'other' }, idempotency_key: 'may' }, '422 key_reused'],
    ]
    for (const [body, expected] of cases) assert.equal(await outcomeOf(await post('/commands', body)), expected)
    assert.equal(await outcomeOf(await post('/commands', { task_name: 'Work', paylod: {} })), '422 unknown_field')
    assert.equal(
      await outcomeOf(await post('/commands', { task_name: 'Work', requested_by: 'user:1' })),
      '422 field_not_allowed',
    )
    const audit = (await get('/audit?event_type=command_rejected')) as {
      items: { command_id: string | null; payload: Json }[]
    }
    assert.deepEqual(
      audit.items.map(({ command_id, payload }) => [command_id, payload['code']]),
      cases.map(([, expected]) => [null, expected.split(' ')[1]]).reverse(),
    )
    assert.equal(JSON.stringify(audit).includes('sk_live_value'), false)
  })

  test('[CMD-07] a key with another payload is refused and audited; only callers who may read the command see its id, and another workspace sees nothing', async () => {
    const body = (subject: string) => ({ task_name: 'Work', payload: { subject }, idempotency_key: 'seven' })
    const first = await submit(body('the first'))
    const same = await post('/commands', body('the first'), api.ours.people.admin.key)
    assert.deepEqual([same.status, ((await same.json()) as Json)['command_id']], [200, first.command_id])
    const refused = await post('/commands', body('the second'), api.ours.people.admin.key)
    assert.equal(refused.status, 422)
    const { code, facts, ...rest } = (await refused.json()) as Json
    assert.deepEqual([code, facts], ['key_reused', { command_id: first.command_id }])
    assert.doesNotMatch(JSON.stringify(rest), /cmd_|the first|created|user[_:]/)
    const [audit] = (
      (await get('/audit?event_type=command_rejected&limit=1')) as { items: { payload: Json; actor: string }[] }
    ).items
    assert.deepEqual(
      [audit?.payload['code'], audit?.actor],
      ['key_reused', `user_${api.ours.people.admin.principal.userId.replaceAll('-', '')}`],
    )
    const stored = await room.rows<{ subject: string }>(
      `select payload->>'subject' as subject from concord.commands where idempotency_key = 'seven'`,
    )
    assert.deepEqual(stored, [{ subject: 'the first' }])
    const foreign = await post('/commands', body('theirs'), api.theirs.people.writer.key)
    assert.equal(foreign.status, 202)
    assert.notEqual(((await foreign.json()) as Json)['command_id'], first.command_id)
  })

  test('[L13] cancel, input and retry over HTTP; 34: cancelling what has succeeded is refused', async () => {
    const { command_id } = await submit({ task_name: 'Work', payload: {} })
    await room.settle(uuidOf(command_id))
    const waiting = await get(`/commands/${command_id}`)
    assert.deepEqual(
      (waiting['next'] as { action: string }[]).map(({ action }) => action),
      ['supply_input', 'cancel'],
    )
    assert.equal(
      await outcomeOf(await post(`/commands/${command_id}/input`, { input: { subject: 1 } })),
      '422 commands.payload.malformed',
    )
    assert.equal((await post(`/commands/${command_id}/input`, { input: { subject: 'now' } })).status, 200)
    await room.settle(uuidOf(command_id))
    const late = await post(`/commands/${command_id}/cancel`, { reason: 'too late' })
    assert.equal(await outcomeOf(late), '409 commands.cancel.succeeded')
    assert.equal(
      await outcomeOf(await post(`/commands/${command_id}/cancel`, { cancellation_mode: 'immediate' })),
      '422 mode_reserved',
    )
    assert.equal(await outcomeOf(await post(`/commands/${command_id}/retry`, {})), '409 commands.command.not_failed')
  })

  test('[DEP-02] [DEP-03] [DEP-09] a command waits for an added dependency; a cycle, a foreign command and a started command are refused', async () => {
    const [child, parent] = [
      await submit({ task_name: 'Work', payload: { subject: 'child' } }),
      await submit({ task_name: 'Work', payload: { subject: 'parent', steps: ['connector.hotel.book_a'] } }),
    ]
    const depend = (id: string, body: unknown, who = key) => post(`/commands/${id}/dependencies`, body, who)
    const on = (id: string, more: Json = {}) => ({ command_id: id, ...more })
    assert.equal(await outcomeOf(await depend(child.command_id, on(child.command_id))), '422 dag_cycle')
    const added = await depend(child.command_id, on(parent.command_id, { propagate_cancellation: false }))
    assert.equal(added.status, 200)
    assert.equal(((await added.json()) as Json)['command_id'], child.command_id)
    assert.equal(await outcomeOf(await depend(parent.command_id, on(child.command_id))), '422 dag_cycle')
    assert.equal(
      await outcomeOf(await depend(child.command_id, on(parent.command_id))),
      '404 commands.dependency.not_found',
    )
    assert.equal(
      await outcomeOf(await depend(child.command_id, on(parent.command_id, { required_status: 'finished' }))),
      '422 api.field.value',
    )
    assert.equal(await outcomeOf(await depend(child.command_id, {})), '422 api.field.missing')
    const { reader } = api.ours.people
    const other = await aPerson(api.world, api.ours, 'writer')
    assert.equal(
      await outcomeOf(await depend(child.command_id, on(parent.command_id), reader.key)),
      '403 identity.role.insufficient',
    )
    assert.equal(
      await outcomeOf(await depend(child.command_id, on(parent.command_id), other.key)),
      '403 commands.action.not_allowed',
    )
    assert.equal(
      await outcomeOf(await depend(child.command_id, on(parent.command_id), api.theirs.people.admin.key)),
      '404 commands.command.not_found',
    )
    await room.settle(uuidOf(child.command_id))
    assert.equal((await get(`/commands/${child.command_id}`))['status'], 'queued')
    assert.equal(await room.settle(uuidOf(parent.command_id)), 'succeeded')
    assert.equal(await room.settle(uuidOf(child.command_id)), 'succeeded')
    assert.equal(await outcomeOf(await depend(parent.command_id, on(child.command_id))), '409 commands.command.moved')
  })

  test('a command type selects its only task; the same key is the same command by either name', async () => {
    const body = { payload: { subject: 'either' }, idempotency_key: 'either' }
    const first = await submit({ task_name: 'Work', ...body })
    const again = await submit({ task_name: 'work', ...body })
    assert.equal(again.command_id, first.command_id)
  })

  test('the explanation is the chain from trigger to outcome; events and effects page', async () => {
    // There is an eligible approver, or the explanation would report that there is none.
    await anOrgRole(api.world, api.ours.orgId, 'owner', [api.ours.people.admin])
    const { command_id } = await submit({
      task_name: 'Work',
      payload: { subject: 's', steps: ['connector.hotel.book_a'], decide: 'require_approval' },
    })
    await room.settle(uuidOf(command_id))
    const { chain, summary } = (await get(`/commands/${command_id}/explanation`)) as {
      summary: string
      chain: { kind: string; text: string }[]
    }
    assert.equal(summary, 'Work is waiting for approval.')
    assert.deepEqual(
      chain.map(({ kind }) => kind),
      ['trigger', 'policy', 'approval'],
    )
    assert.match(chain[1]?.text ?? '', /^Policy said require approval by scripted, because: Somebody must agree\.$/)
    const first = (await get(`/commands/${command_id}/events?limit=2`)) as { items: Json[]; next_cursor: string }
    const second = (await get(`/commands/${command_id}/events?limit=200&cursor=${first.next_cursor}`)) as {
      items: Json[]
    }
    const types = [...first.items, ...second.items].map(({ event_type }) => event_type)
    assert.deepEqual(types.slice(0, 3), ['command_created', 'status_changed', 'policy_evaluated'])
    assert.equal(new Set([...first.items, ...second.items].map(({ event_id }) => event_id)).size, types.length)
    const effects = (await get(`/commands/${command_id}/effects`)) as { items: { effect_type: string }[] }
    assert.deepEqual(
      effects.items.map(({ effect_type }) => effect_type),
      ['approval.request'],
    )
  })

  test('[SEC-08] a foreign id gets the same answer as an absent one', async () => {
    const { command_id } = await submit({ task_name: 'Work', payload: { subject: 's' } })
    const theirs = api.theirs.people.admin.key
    const nothing = 'cmd_0197f3b2c4d57a8e9b0c1d2e3f405199'
    for (const path of ['', '/events', '/effects', '/explanation']) {
      const [foreign, absent] = [
        await call(app, `/commands/${command_id}${path}`, { key: theirs, headers }),
        await call(app, `/commands/${nothing}${path}`, { key: theirs, headers }),
      ]
      assert.equal(foreign.status, 404)
      assert.equal(((await foreign.json()) as Json)['detail'], ((await absent.json()) as Json)['detail'])
    }
    for (const verb of ['cancel', 'retry'])
      assert.equal(
        await outcomeOf(await post(`/commands/${command_id}/${verb}`, {}, theirs)),
        '404 commands.command.not_found',
      )
    assert.equal(
      await outcomeOf(await post(`/commands/${command_id}/input`, { input: {} }, theirs)),
      '404 commands.command.not_found',
    )
    const squat = await post(
      '/commands',
      { task_name: 'Work', payload: { subject: 'x' }, idempotency_key: 'may' },
      api.theirs.people.writer.key,
    )
    assert.equal(squat.status, 202)
    assert.equal(
      await outcomeOf(await call(app, `/commands/${uuidOf(command_id).toUpperCase()}`, { key, headers })),
      '400 id_format',
    )
    assert.equal(
      await outcomeOf(await post('/commands', { task_name: 'Work', payload: {} }, api.ours.people.reader.key)),
      '403 identity.role.insufficient',
    )
  })

  test('the task types show their contract and the schema of their payload; stats count; lists page and filter', async () => {
    const { items } = (await get('/task-types')) as { items: Json[] }
    assert.deepEqual(
      items.map((item) => item['task_name']),
      ['Booking', 'Echo', 'Fragile', 'Work'],
    )
    assert.deepEqual(
      items.map((item) => item['on_failure']),
      ['keep', 'keep', 'undo', 'keep'],
    )
    const schema = items[3]?.['payload_schema'] as { properties: Json } | undefined
    assert.ok(schema?.properties['subject'])
    const stats = (await get('/stats')) as { commands: Record<string, number> }
    assert.ok((stats.commands['succeeded'] ?? 0) >= 2)
    const page = (await get('/commands?limit=2&status=succeeded')) as { items: Json[]; next_cursor: string | null }
    assert.ok(page.items.every(({ status }) => status === 'succeeded'))
    const { people } = api.ours
    for (const [{ principal }, isFound] of [
      [people.writer, true],
      [people.reader, false],
    ] as const) {
      const of = `user_${principal.userId.replaceAll('-', '')}`
      const { items } = (await get(`/commands?limit=2&requested_by=${of}&status=succeeded`)) as { items: Json[] }
      assert.equal(items.length > 0, isFound)
    }
    assert.equal(await outcomeOf(await call(app, '/commands?limit=0', { key, headers })), '422 limit_range')
    assert.equal(await outcomeOf(await call(app, '/commands?cursor=abc', { key, headers })), '400 cursor_invalid')
  })

  test('commands are filtered by time, ingress and trace, and without housekeeping; a cursor keeps its filters', async () => {
    type Item = { command_id: string; created_at: string; ingress: string; trace_id: string; command_type: string }
    type Listed = { items: Item[]; next_cursor: string | null }
    const read = async (query: string) => (await get(`/commands?${query}`)) as unknown as Listed
    const { command_id } = await submit({ task_name: 'Work', payload: { subject: 'housekeeping' } })
    await api.world.db.query(
      `update concord.commands set command_type = 'expire_approvals', ingress = 'scheduled_trigger' where command_id = $1`,
      [uuidOf(command_id)],
    )
    api.world.travel(60_000)
    await submit({ task_name: 'Work', payload: { subject: 'later' } })
    await submit({ task_name: 'Work', payload: { subject: 'later' } })
    const { items: all } = await read('limit=500')
    const middle = all[1]
    assert.ok(middle && all.at(-1)?.created_at !== middle.created_at)
    const filters: readonly (readonly [query: string, isIn: (item: Item) => boolean])[] = [
      [`created_after=${middle.created_at}`, ({ created_at }) => created_at >= middle.created_at],
      [`created_before=${middle.created_at}`, ({ created_at }) => created_at < middle.created_at],
      ['ingress=scheduled_trigger', ({ ingress }) => ingress === 'scheduled_trigger'],
      [`trace_id=${middle.trace_id}`, ({ trace_id }) => trace_id === middle.trace_id],
      ['housekeeping=false', ({ command_type }) => command_type !== 'expire_approvals'],
      [
        `ingress=user_request&created_after=${middle.created_at}&task_name=Work`,
        (item) => item.ingress === 'user_request' && item.created_at >= middle.created_at,
      ],
    ]
    for (const [query, isIn] of filters) {
      const found: Item[] = []
      let cursor: string | null = ''
      while (cursor !== null) {
        const page: Listed = await read(`${query}&limit=3${cursor === '' ? '' : `&cursor=${cursor}`}`)
        found.push(...page.items)
        cursor = page.next_cursor
      }
      const isTask = ({ command_id: id }: Item) => !query.includes('task_name') || works.has(id)
      const works = new Set((await read('limit=500&task_name=Work')).items.map((item) => item.command_id))
      assert.deepEqual(
        found.map((item) => item.command_id),
        all.filter((item) => isIn(item) && isTask(item)).map((item) => item.command_id),
        query,
      )
      assert.ok(found.length > 0 && found.length < all.length, query)
    }
    // Ids begin in 1970.
    assert.equal((await read('limit=500&created_after=1969-12-31T23:59:59Z')).items.length, all.length)
    assert.deepEqual((await read('created_before=1969-12-31T23:59:59Z')).items, [])
    const stream = await call(api.app, `/events?after=start&until=now&command_id=${command_id}`, { key, headers })
    const told = [...(await stream.text()).matchAll(/^data: (\{.*\})$/gm)].map(
      ([, data = '']) => JSON.parse(data) as Item,
    )
    assert.ok(told.length > 0 && told.every((event) => event.command_id === command_id), String(told.length))
    const { next_cursor: other } = await read('limit=1')
    for (const [query, expected] of [
      [`housekeeping=false&cursor=${other}`, '400 cursor_invalid'],
      ['trace_id=4bf9', '400 id_format'],
      ['created_after=yesterday', '422 date_invalid'],
      ['ingress=post', '422 api.field.value'],
    ] as const)
      assert.equal(await outcomeOf(await call(app, `/commands?${query}`, { key, headers })), expected, query)
  })

  test('[PRM-13] the answer comes before the work: no other system has been called', async () => {
    const before = room.provider.calls.length
    const { status, command_id } = await submit({
      task_name: 'Work',
      payload: { subject: 'slow', steps: ['connector.hotel.book_a'] },
    })
    assert.deepEqual([status, room.provider.calls.length], ['created', before])
    const hex = command_id.slice(4)
    const uuid = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
    assert.equal(await room.settle(uuid), 'succeeded')
    assert.equal(room.provider.calls.length, before + 1)
  })
})
