import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Decision } from '#kernel/refusal'
import { openTestDb, type TestDb } from '#test/database'
import { accepted, aPerson, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from '#test/tenant'
import { createApiKey, listApiKeys, revokeApiKey } from './api-key.ts'
import { byPerson } from '#kernel/actor'

const code = (decision: Decision<unknown>) => (decision.ok ? 'accepted' : decision.code)

describe('API keys', () => {
  let opened: TestDb
  let world: TestWorld
  let ours: Tenant
  let theirs: Tenant

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    world = aWorld(opened.db)
    ours = await aTenant(world)
    theirs = await aTenant(world)
  })
  after(() => opened.close())

  test('[SEC-06] the key is in no table and in no event: only its hash and its prefix are', async () => {
    const { key, stored } = accepted(
      await createApiKey(world, byPerson(ours.people.admin.principal, TRACE), { name: 'ci', role: 'writer' }),
    )
    const secret = key.slice(16)
    const [found] = await opened.db.query<{ everything: string }>(
      `select (select string_agg(k::text, '') from identity.api_keys k) || (select string_agg(e::text, '') from concord.domain_events e) as everything`,
    )
    assert.ok(found && found.everything.includes(stored.prefix))
    assert.equal(found.everything.includes(secret), false)
    assert.equal(found.everything.includes(Buffer.from(secret, 'base64url').toString('hex')), false)
  })

  test('the list never carries the hash, and is newest first', async () => {
    const keys = await listApiKeys(world, ours.people.admin.principal, { beforeId: null, limit: 100 })
    assert.ok(keys.length >= 3)
    for (const key of keys) assert.equal('key_hash' in key, false)
    assert.deepEqual(
      keys.map(({ id }) => id),
      keys
        .map(({ id }) => id)
        .sort()
        .reverse(),
    )
    const [first, second] = keys
    const rest = await listApiKeys(world, ours.people.admin.principal, { beforeId: first?.id ?? null, limit: 1 })
    assert.equal(rest[0]?.id, second?.id)
  })

  /** A key is always its maker's own; the cell is the highest role it may get. */
  for (const creator of ['reader', 'writer', 'admin'] as const) {
    const rank = { reader: 0, writer: 1, admin: 2 } as const
    for (const role of ['reader', 'writer', 'admin'] as const) {
      const allowed = rank[role] <= rank[creator]
      test(`[FLOW-003] a ${creator} makes a ${role} key: ${allowed ? 'made' : 'refused'}`, async () => {
        const { principal } = ours.people[creator]
        const made = await createApiKey(world, byPerson(principal, TRACE), { name: 'k', role })
        assert.equal(code(made), allowed ? 'accepted' : 'identity.key.role_too_high')
        if (made.ok) assert.equal(made.value.stored.user_id, principal.userId)
      })
    }
  }

  test('[FLOW-108] workspaces and keys of another organisation do not exist here', async () => {
    const creator = ours.people.admin.principal
    const before = await opened.db.query('select id, revoked_at from identity.api_keys order by id')
    const foreignWorkspace = { name: 'k', role: 'reader', workspaceId: theirs.workspace.id } as const
    assert.equal(code(await createApiKey(world, byPerson(creator, TRACE), foreignWorkspace)), 'workspace_unknown')
    const foreign = await revokeApiKey(world, byPerson(creator, TRACE), theirs.people.reader.keyId)
    const absent = await revokeApiKey(world, byPerson(creator, TRACE), world.newId())
    assert.equal(code(foreign), 'identity.key.not_found')
    assert.deepEqual(foreign, absent)
    const listed = await listApiKeys(world, creator, { beforeId: null, limit: 500 })
    assert.ok(listed.every((key) => key.org_id === ours.orgId))
    assert.deepEqual(await opened.db.query('select id, revoked_at from identity.api_keys order by id'), before)
  })

  test('a bound key hands on its own workspace alone, and sees the keys of that one only', async () => {
    const bound = { ...ours.people.admin.principal, workspaceId: ours.workspace.id }
    assert.equal(
      code(await createApiKey(world, byPerson(bound, TRACE), { name: 'k', role: 'reader' })),
      'identity.key.workspace_bound',
    )
    const made = accepted(
      await createApiKey(world, byPerson(bound, TRACE), {
        name: 'k',
        role: 'reader',
        workspaceId: ours.workspace.id,
      }),
    )
    const listed = await listApiKeys(world, bound, { beforeId: null, limit: 500 })
    assert.deepEqual(
      listed.map(({ id }) => id),
      [made.stored.id],
    )
    assert.equal(
      code(await revokeApiKey(world, byPerson(bound, TRACE), ours.people.reader.keyId)),
      'identity.key.not_found',
    )
  })

  test('a key expires in the future and within ten years', async () => {
    const at = (ms: number) => new Date(world.now().getTime() + ms)
    const make = (expiresAt: Date) =>
      createApiKey(world, byPerson(ours.people.admin.principal, TRACE), { name: 'k', role: 'reader', expiresAt })
    assert.equal(code(await make(at(0))), 'time_range')
    assert.equal(code(await make(at(-1))), 'time_range')
    assert.equal(code(await make(at(3_654 * 86_400_000))), 'time_range')
    assert.equal(code(await make(new Date(Number.NaN))), 'time_range')
    assert.equal(code(await make(at(1))), 'accepted')
  })

  test('revoking twice keeps the first time and is recorded once', async () => {
    const { keyId } = await aPerson(world, ours, 'reader', 'twice')
    const first = accepted(await revokeApiKey(world, byPerson(ours.people.admin.principal, TRACE), keyId))
    world.travel(1_000)
    const again = accepted(await revokeApiKey(world, byPerson(ours.people.admin.principal, TRACE), keyId))
    assert.deepEqual(again.revoked_at, first.revoked_at)
    const [count] = await opened.db.query<{ n: number }>(
      `select count(*)::int as n from concord.domain_events where event_type = 'api_key_revoked' and payload->>'key_id' = $1`,
      [keyId],
    )
    assert.equal(count?.n, 1)
  })

  test('eight callers revoke one key at once: it is recorded once', async () => {
    const { keyId } = await aPerson(world, ours, 'reader', 'raced')
    await Promise.all(
      Array.from({ length: 8 }, () => revokeApiKey(world, byPerson(ours.people.admin.principal, TRACE), keyId)),
    )
    const events = await opened.db.query(
      `select 1 from concord.domain_events where event_type = 'api_key_revoked' and payload->>'key_id' = $1`,
      [keyId],
    )
    assert.equal(events.length, 1)
  })

  test('every change of keys names who did it and under which trace', async () => {
    const rows = await opened.db.query<{ actor: string; trace_id: string; purpose: string }>(
      `select distinct actor, trace_id, purpose from concord.domain_events where event_type = 'api_key_revoked'`,
    )
    assert.deepEqual(rows, [{ actor: `user:${ours.people.admin.principal.userId}`, trace_id: TRACE, purpose: 'audit' }])
  })
})
