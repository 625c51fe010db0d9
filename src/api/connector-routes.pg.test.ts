/** Connectors over HTTP: the list, the contracts, and the calls of the caller's workspace. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { type Connectors, defineConnector, openConnectors, openSecrets, succeeded } from '#domains/connectors'
import { encodeId } from '#kernel/ids'
import { call, openTestApi, type TestApi } from '#test/api'
import { aCommand } from '#test/concord-rows'
import { realSleep } from '#test/connectors'
import { insertRow } from '#test/store-rows'
import { accepted } from '#test/tenant'
import type { Api } from './api.ts'
import { connectorRoutes } from './connector-routes.ts'
import { notificationRoutes } from './notification-routes.ts'
import { openPageCursors } from './page-cursor.ts'

const desk = defineConnector({
  connector_id: 'help-desk',
  connector_type: 'desk',
  name: 'desk',
  description: 'A help desk.',
  auth: { mode: 'bearer', secret_ref: 'vault://team/desk-token', scopes: ['tickets'] },
  rate_limits: { requests_per_minute: 60 },
  operations: [
    {
      name: 'open_ticket',
      description: 'Opens a ticket.',
      input: z.strictObject({ title: z.string() }),
      output: z.looseObject({}),
      side_effect_class: 'keyed',
    },
  ],
  open: () => ({
    name: 'desk',
    connector_type: 'desk',
    capabilities: () => ['open_ticket'],
    call: () => Promise.resolve(succeeded({})),
  }),
})

type Page = {
  items: { connector_invocation_id: string; status: string; request_payload: object }[]
  next_cursor: string | null
}

describe('the routes of the connectors room', () => {
  let api: TestApi
  let app: Api
  let connectors: Connectors

  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
    const { db, now, newId } = api.world
    connectors = accepted(openConnectors([desk], { db, now, newId, sleep: realSleep, secrets: openSecrets({}) }))
    const cursors = openPageCursors(api.deps.cursorKey)
    const mount = connectorRoutes.mount({ db, now, newId, connectors }, cursors)
    const inbox = notificationRoutes.mount({ db, now }, cursors)
    app = api.with({ extraRoutes: (other) => void other.route('/', mount).route('/', inbox) })
    for (const { workspace } of [api.ours, api.theirs]) {
      const { command_id } = await aCommand(db, workspace.id, 'running')
      for (let count = 0; count < 3; count += 1)
        await insertRow(db, 'concord.connector_invocations', {
          connector_invocation_id: newId(),
          workspace_id: workspace.id,
          command_id,
          connector_name: 'desk',
          operation: 'open_ticket',
          status: count === 0 ? 'failed' : 'started',
          ...(count === 0 ? { error_class: 'timeout', error: 'no answer', completed_at: now() } : {}),
          request_payload: { title: `${workspace.id} ${count}` },
        })
    }
  })
  after(() => api.close())

  const get = (path: string) => call(app, path, { key: api.ours.people.reader.key })

  test('[CON-01] a connector shows its contracts and not the location of its secret', async () => {
    const listed = await get('/connectors')
    assert.equal(listed.status, 200)
    const { items } = (await listed.json()) as { items: Record<string, unknown>[] }
    assert.deepEqual(
      items.map(({ connector_id, connector_type, capabilities, auth, rate_limits, is_open }) => ({
        connector_id,
        connector_type,
        capabilities,
        auth,
        rate_limits,
        is_open,
      })),
      [
        {
          connector_id: 'help-desk',
          connector_type: 'desk',
          capabilities: ['open_ticket'],
          auth: { mode: 'bearer', scopes: ['tickets'] },
          rate_limits: { requests_per_minute: 60, concurrent: null },
          is_open: true,
        },
      ],
    )
    const shown = await (await get('/connectors/help-desk')).text()
    assert.match(shown, /"side_effect_class":"keyed"/)
    assert.match(shown, /"function_name":"connector\.desk\.open_ticket"/)
    assert.doesNotMatch(shown, /vault|desk-token/)
  })

  test('[SEC-08] lists the calls of one workspace only, newest first, in pages', async () => {
    const first = (await (await get('/connectors/help-desk/invocations?limit=2')).json()) as Page
    assert.equal(first.items.length, 2)
    const second = (await (
      await get(`/connectors/help-desk/invocations?limit=2&cursor=${first.next_cursor}`)
    ).json()) as Page
    assert.deepEqual([second.items.length, second.next_cursor], [1, null])
    const all = [...first.items, ...second.items]
    assert.ok(all.every(({ request_payload }) => JSON.stringify(request_payload).includes(api.ours.workspace.id)))
    assert.deepEqual(
      all.map((each) => each.connector_invocation_id),
      all
        .map((each) => each.connector_invocation_id)
        .toSorted()
        .reverse(),
    )
    const failed = (await (await get('/connectors/help-desk/invocations?status=failed')).json()) as Page
    assert.deepEqual(
      failed.items.map(({ status }) => status),
      ['failed'],
    )
  })

  test('missing and invalid input is refused with its code', async () => {
    const cases: [string, number, string][] = [
      ['/connectors/help-dsk', 404, 'connectors.connector.not_found'],
      ['/connectors/help-dsk/invocations', 404, 'connectors.connector.not_found'],
      ['/connectors/help-desk/invocations?status=odd', 422, 'api.field.value'],
      ['/connectors/help-desk/invocations?cursor=x', 400, 'cursor_invalid'],
      ['/connectors/help-desk/invocations?limit=0', 422, 'limit_range'],
      ['/connectors?odd=1', 422, 'unknown_field'],
      ['/connectors/help-dsk/definitions', 404, 'connectors.connector.not_found'],
      ['/notifications?limit=0', 422, 'limit_range'],
    ]
    for (const [path, status, code] of cases) {
      const answer = await get(path)
      assert.deepEqual([answer.status, ((await answer.json()) as { code: string }).code], [status, code], path)
    }
    assert.equal((await call(app, '/connectors', {})).status, 401)
  })

  test('only an administrator checks and approves the definitions of a provider', async () => {
    const path = '/connectors/help-desk/definitions'
    const post = (key: string, to: string, body?: object) =>
      call(app, to, { method: 'POST', key, ...(body ? { body } : {}) })
    const { writer, admin } = api.ours.people
    for (const [to, body] of [
      ['/connectors/help-desk/definitions/check', undefined],
      ['/connectors/help-desk/definitions/open_ticket/approve', { hash: 'sha256:1' }],
    ] as const) {
      assert.equal((await post(writer.key, to, body)).status, 403, to)
      const answer = await post(admin.key, to, body)
      assert.deepEqual(
        [answer.status, ((await answer.json()) as { code: string }).code],
        [404, 'connectors.definition.not_found'],
        to,
      )
    }
    assert.deepEqual(await (await get(path)).json(), { items: [] })
  })

  /** In both workspaces, to the same person; the id of ours. */
  async function sendToReader(): Promise<{ readonly ours: string; readonly theirs: string }> {
    const ids: string[] = []
    for (const { workspace } of [api.ours, api.theirs]) {
      const { command_id } = await aCommand(api.world.db, workspace.id, 'running')
      const connector_invocation_id = api.world.newId()
      await insertRow(api.world.db, 'concord.connector_invocations', {
        connector_invocation_id,
        workspace_id: workspace.id,
        command_id,
        connector_name: 'notification',
        operation: 'send_app_notification',
        status: 'succeeded',
        completed_at: api.world.now(),
        request_payload: {
          recipient: `user:${api.ours.people.reader.principal.userId}`,
          subject: workspace.id,
          text: 'Hello',
        },
      })
      ids.push(encodeId('connector_invocation', connector_invocation_id))
    }
    const [ours = '', theirs = ''] = ids
    return { ours, theirs }
  }
  type Notice = { notification_id: string; subject: string; read_at: string | null }
  const inbox = async (query = '') =>
    ((await (await get(`/notifications${query}`)).json()) as { items: Notice[] }).items

  test('[CON-05] an app notification is in the inbox of its recipient, in its workspace, and in no other', async () => {
    const { ours } = await sendToReader()
    const items = await inbox()
    assert.deepEqual(
      items.map(({ notification_id, subject, read_at }) => [notification_id, subject, read_at]),
      [[ours, api.ours.workspace.id, null]],
    )
    assert.deepEqual(await (await call(app, '/notifications', { key: api.ours.people.writer.key })).json(), {
      items: [],
      next_cursor: null,
    })
  })

  test('an inbox is paged: every message once, and a cursor opens no other list', async () => {
    for (let sent = 0; sent < 3; sent++) await sendToReader()
    const whole = (await inbox()).map(({ notification_id }) => notification_id)
    assert.ok(whole.length >= 3)
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const query: string = cursor === null ? '' : `&cursor=${cursor}`
      const answer = await get(`/notifications?limit=2${query}`)
      const page = (await answer.json()) as { items: Notice[]; next_cursor: string | null }
      assert.ok(page.items.length <= 2)
      seen.push(...page.items.map(({ notification_id }) => notification_id))
      if (page.next_cursor !== null) {
        const borrowed = [
          get(`/notifications?limit=2&unread=true&cursor=${page.next_cursor}`),
          call(app, `/notifications?cursor=${page.next_cursor}`, { key: api.ours.people.writer.key }),
        ]
        for (const refused of await Promise.all(borrowed)) assert.equal(refused.status, 400)
      }
      cursor = page.next_cursor
    } while (cursor !== null)
    assert.deepEqual(seen, whole)
  })

  test('[L9] [CON-05] reading marks a message once, for its reader alone, and never one of another workspace', async () => {
    const { reader, writer } = api.ours.people
    const { ours, theirs } = await sendToReader()
    const read = (id: string, key = reader.key) => call(app, `/notifications/${id}/read`, { key, method: 'POST' })
    for (const [id, key] of [
      [theirs, reader.key],
      [ours, writer.key],
    ] as const) {
      const refused = await read(id, key)
      assert.deepEqual(
        [refused.status, ((await refused.json()) as { code: string }).code],
        [404, 'connectors.notification.not_found'],
      )
    }
    const wrong = (await (await read('inv_nonsense')).json()) as { status: number; detail: string }
    assert.deepEqual([wrong.status, wrong.detail], [400, '"inv_nonsense" is not the id of a notification.'])
    const answers = await Promise.all([read(ours), read(ours), read(ours)])
    const times = await Promise.all(answers.map(async (answer) => ((await answer.json()) as Notice).read_at))
    assert.ok(times[0])
    assert.deepEqual(new Set(times), new Set([times[0]]))
    const unread = async () => (await inbox('?unread=true')).map(({ notification_id }) => notification_id)
    assert.ok(!(await unread()).includes(ours))
    assert.equal((await inbox()).find(({ notification_id }) => notification_id === ours)?.read_at, times[0])

    const more = await sendToReader()
    const before = (await unread()).length
    assert.ok((await unread()).includes(more.ours))
    const all = () => call(app, '/notifications/read', { key: reader.key, method: 'POST' })
    assert.deepEqual(await (await all()).json(), { marked: before })
    assert.deepEqual(await (await all()).json(), { marked: 0 })
    assert.deepEqual(await unread(), [])
    const [stored] = await api.world.db.query<{ count: string }>(
      'select count(*) from concord.notification_reads where workspace_id = $1',
      [api.theirs.workspace.id],
    )
    assert.equal(stored?.count, '0')
  })
})
