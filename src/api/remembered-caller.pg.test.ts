/** Callers that a server remembers: what it saves, and that no change of rights is overlooked by another server on the same database. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import {
  createApiKey,
  createWorkspace,
  grantOrgRole,
  openAuthenticator,
  revokeOrgRole,
  setPlatformRole,
} from '#domains/identity'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { type Db, openDb } from '#store'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openRoomOn, type TestRoom } from '#test/commands'
import { countRoundTrips } from '#test/round-trips'
import { accepted, anOrgRole, aPerson, type TestPerson, TRACE } from '#test/tenant'
import type { Api } from './api.ts'
import { commandRoutes } from './command-routes.ts'
import { openPageCursors } from './page-cursor.ts'

describe('remembered callers', () => {
  let api: TestApi
  let room: TestRoom
  let db: Db
  /** Another server on the same database, with its own memory and its own pool. */
  let other: Api
  let person: TestPerson
  let slug = 'main'
  let atMs = 0

  before(async () => {
    api = await openTestApi()
    room = openRoomOn(api.world, api.ours)
    db = openDb({ url: api.url, role: 'concord_engine', poolMax: 2 })
    const { authenticate, callers } = openAuthenticator({ db, now: api.world.now, elapsedMs: () => atMs })
    other = api.with({
      db,
      authenticate,
      callers,
      extraRoutes: (router) => {
        const deps = { ...api.deps, db, commands: room.world }
        router.route('/', commandRoutes.mount(deps, openPageCursors(api.deps.cursorKey)))
      },
    })
    await anOrgRole(api.world, api.ours.orgId, 'crew')
    await anOrgRole(api.world, api.ours.orgId, 'others')
  })
  after(async () => {
    await room.close()
    await db.close()
    await api.close()
  })
  beforeEach(async () => {
    person = await aPerson(api.world, api.ours, 'writer')
    slug = 'main'
    atMs += 10_000
  })

  const echo = { task_name: 'Echo', payload: { subject: 's', steps: [] } }
  const post = async (body: unknown = echo, { key } = person) =>
    outcomeOf(await call(other, '/commands', { method: 'POST', key, body, headers: { 'x-workspace': slug } }))
  const admin = () => byPerson(api.ours.people.admin.principal, TRACE)
  const asAdmin = async (path: string, method: string, body?: unknown) => {
    const { key } = api.ours.people.admin
    const answer = await call(api.app, path, { method, key, ...(body === undefined ? {} : { body }) })
    assert.ok(answer.ok, await answer.text())
  }
  const remembered = async () => {
    assert.equal(await post(), '202 ok')
    assert.equal(await countRoundTrips(db, post), 0, 'the caller is not remembered')
  }
  const count = async () => {
    const [row] = await api.world.db.query<{ n: string }>('select count(*) as n from concord.commands')
    const [events] = await api.world.db.query<{ n: string }>('select count(*) as n from concord.journal')
    return [row?.n, events?.n]
  }

  test('the first request looks the caller and the workspace up in one statement, the next ones in none', async () => {
    // The first use of a key is noted in the background.
    await post()
    atMs += 2_000
    assert.equal(await countRoundTrips(db, post), 1)
    assert.equal(await countRoundTrips(db, post), 0)
    atMs += 1_999
    assert.equal(await countRoundTrips(db, post), 0)
    atMs += 1
    assert.equal(await countRoundTrips(db, post), 1)
  })

  test('a key that is revoked through one server is refused by the other on the very next request', async () => {
    await remembered()
    await asAdmin(`/keys/${encodeId('api_key', person.keyId)}`, 'DELETE')
    const before = await count()
    assert.equal(await post(), '401 unauthenticated')
    assert.equal(await post(), '401 unauthenticated')
    assert.deepEqual(await count(), before)
  })

  test('a revoked key gets no other answer than that, whatever it sends', async () => {
    const taken = { ...echo, idempotency_key: 'taken-once' }
    const bodies = [taken, { ...taken, payload: {} }, { ...echo, task_name: 'Nothing' }, { ...echo, no: 1 }, '{', {}]
    for (const body of bodies) {
      person = await aPerson(api.world, api.ours, 'writer')
      assert.match(await post(taken), /ok$/)
      await remembered()
      await asAdmin(`/keys/${encodeId('api_key', person.keyId)}`, 'DELETE')
      const before = await count()
      assert.equal(await post(body), '401 unauthenticated', JSON.stringify(body))
      assert.deepEqual(await count(), before)
    }
  })

  test('a remembered caller gets the same answers as any other', async () => {
    const cases = [
      [{ ...echo, idempotency_key: 'same' }, '202 ok'],
      [{ ...echo, idempotency_key: 'same' }, '200 ok'],
      [{ ...echo, idempotency_key: 'same', payload: { subject: 't', steps: [] } }, '422 key_reused'],
      [{ ...echo, task_name: 'Nothing' }, '404 task_unknown'],
      [{ ...echo, no: 1 }, '422 unknown_field'],
    ] as const
    for (const [body, outcome] of cases) {
      await remembered()
      assert.equal(await post(body), outcome)
    }
    const rejected = await api.world.db.query(
      `select 1 from concord.domain_events where event_type = 'command_rejected' and actor = $1`,
      [`user:${person.principal.userId}`],
    )
    assert.equal(rejected.length, 2, 'each refusal is recorded once')
  })

  test('every change of rights counts at once', async () => {
    const { world, ours } = api
    const userId = () => person.principal.userId
    const role = (to: 'reader' | 'writer') => setPlatformRole(world, admin(), { userId: userId(), role: to })
    const change = (text: string, value: string) => world.db.query(text, [value])
    const changes: readonly (readonly [name: string, change: () => Promise<unknown>, outcome: string])[] = [
      ['demoted', () => role('reader'), '403 identity.role.insufficient'],
      [
        'deactivated',
        () => asAdmin(`/people/${encodeId('user', userId())}/deactivate`, 'POST', {}),
        '401 unauthenticated',
      ],
      [
        'a lower role of the key',
        () => change(`update identity.api_keys set role = 'reader' where id = $1`, person.keyId),
        '403 identity.role.insufficient',
      ],
      [
        'an end in the past',
        () => change('update identity.api_keys set expires_at = now() where id = $1', person.keyId),
        '401 unauthenticated',
      ],
      [
        'a member no longer',
        () => revokeOrgRole(world, admin(), { orgId: ours.orgId, userId: userId(), role: 'crew' }),
        '404 workspace_unknown',
      ],
      [
        'an archived workspace',
        () => change('update identity.workspaces set archived_at = now() where slug = $1', slug),
        '404 workspace_unknown',
      ],
      [
        'a workspace of others',
        () =>
          change(
            `update identity.workspaces as w set access_role_id = r.id from identity.org_roles as r
              where r.org_id = w.org_id and r.slug = 'others' and w.slug = $1`,
            slug,
          ),
        '404 workspace_unknown',
      ],
    ]
    for (const [at, [name, make, outcome]] of changes.entries()) {
      person = await aPerson(world, ours, 'writer')
      slug = `room-${at}`
      accepted(await grantOrgRole(world, admin(), { orgId: ours.orgId, userId: userId(), role: 'crew' }))
      const named = { orgId: ours.orgId, slug, name: slug, ownerUserId: null, accessRole: 'crew' }
      accepted(await createWorkspace(world, admin(), named))
      await remembered()
      await make()
      assert.equal(await post(), outcome, name)
    }
  })

  test('a refusal is not remembered: more rights count at once too', async () => {
    await setPlatformRole(api.world, admin(), { userId: person.principal.userId, role: 'reader' })
    assert.equal(await post(), '403 identity.role.insufficient')
    await setPlatformRole(api.world, admin(), { userId: person.principal.userId, role: 'writer' })
    assert.equal(await post(), '202 ok')
  })

  test('the version grows with every change of rights, and not with the use of a key', async () => {
    const version = async () =>
      (await api.world.db.query<{ version: string }>('select version from identity.access_version'))[0]?.version
    const before = await version()
    await createApiKey(api.world, byPerson(person.principal, TRACE), { name: 'more', role: 'reader' })
    await api.world.db.query('update identity.api_keys set last_used_at = now()')
    assert.equal(await version(), before)
    const tables = ['orgs', 'users', 'org_roles', 'org_role_memberships', 'workspaces', 'api_keys']
    // The role of requests may not update memberships or delete anything; an operator may.
    const login = openDb({ url: api.url, poolMax: 1 })
    for (const table of tables) {
      const from = await version()
      const column = table === 'api_keys' ? 'revoked_at' : 'org_id'
      const same = table === 'orgs' ? 'slug' : column
      await login.query(`update identity.${table} set ${same} = ${same}`)
      assert.notEqual(await version(), from, table)
    }
    await login.close()
  })
})
