import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { proofSize } from '#test/proof-size'
import { accepted, anOrgRole, aPerson, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from '#test/tenant'
import { createApiKey, mintKey, revokeApiKey } from './api-key.ts'
import { type Authenticator, openAuthenticator } from './authenticate.ts'
import { byPerson } from '#kernel/actor'

const DAY_MS = 86_400_000

describe('authenticating with an API key', () => {
  let opened: TestDb
  let world: TestWorld
  let tenant: Tenant
  let authenticator: Authenticator

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    world = aWorld(opened.db)
    tenant = await aTenant(world)
    authenticator = openAuthenticator({ db: opened.db, now: world.now, onError: (error) => assert.fail(String(error)) })
  })
  after(async () => {
    await authenticator.close()
    await opened.close()
  })

  const authenticate = (bearer: string) => authenticator.authenticate(bearer)

  test('[API-07] a live key gives its user, org and roles from the database', async () => {
    const person = await aPerson(world, tenant, 'writer', 'live')
    await anOrgRole(world, tenant.orgId, 'finance', [person])
    await anOrgRole(world, tenant.orgId, 'audit', [person])
    const principal = accepted(await authenticate(person.key))
    assert.deepEqual(principal, { ...person.principal, orgRoles: ['audit', 'finance'] })
  })

  test('unknown, wrong, expired, revoked and malformed credentials get one and the same answer', async () => {
    const creator = tenant.people.admin.principal
    const expiresAt = new Date(world.now().getTime() + DAY_MS)
    const expiring = accepted(
      await createApiKey(world, byPerson(creator, TRACE), { name: 'expiring', role: 'reader', expiresAt }),
    )
    const revoked = accepted(await createApiKey(world, byPerson(creator, TRACE), { name: 'revoked', role: 'reader' }))
    // The clock of the database decides, so the end is moved and not the clock.
    const endsIn = (interval: string) =>
      world.db.query('update identity.api_keys set expires_at = now() + $2::interval where id = $1', [
        expiring.stored.id,
        interval,
      ])
    await endsIn('1 hour')
    assert.equal((await authenticate(expiring.key)).ok, true)
    assert.equal((await authenticate(revoked.key)).ok, true)
    accepted(await revokeApiKey(world, byPerson(creator, TRACE), revoked.stored.id))
    await endsIn('-1 second')
    const live = tenant.people.admin.key
    const credentials = {
      unknown: mintKey((count) => randomBytes(count)).key,
      wrongTail: live.slice(0, 16) + mintKey((count) => randomBytes(count)).key.slice(16),
      expired: expiring.key,
      revoked: revoked.key,
      cut: live.slice(0, -1),
      longer: `${live}A`,
      empty: '',
      huge: `ck_${'a'.repeat(100_000)}`,
      nul: `${live}\u0000`,
      jwtWithoutProvider: 'eyJhbGciOiJub25lIn0.e30.',
    }
    const answers = await Promise.all(Object.values(credentials).map(authenticate))
    for (const answer of answers) assert.deepEqual(answer, answers[0])
    assert.equal(answers[0]?.ok === false && answers[0].code, 'unauthenticated')
  })

  test('revoking acts on the very next request', async () => {
    const { key, keyId } = await aPerson(world, tenant, 'reader', 'dismissed')
    assert.equal((await authenticate(key)).ok, true)
    accepted(await revokeApiKey(world, byPerson(tenant.people.admin.principal, TRACE), keyId))
    assert.equal((await authenticate(key)).ok, false)
  })

  test('a key of a demoted user is demoted with it, and a key below its user stays below', async () => {
    const person = await aPerson(world, tenant, 'admin', 'demoted')
    const low = accepted(await createApiKey(world, byPerson(person.principal, TRACE), { name: 'low', role: 'reader' }))
    assert.equal(accepted(await authenticate(low.key)).role, 'reader')
    assert.equal(accepted(await authenticate(person.key)).role, 'admin')
    await opened.db.query("update identity.users set role = 'writer' where id = $1", [person.principal.userId])
    assert.equal(accepted(await authenticate(person.key)).role, 'writer')
    assert.equal(accepted(await authenticate(low.key)).role, 'reader')
  })

  test('a key bound to a workspace says so', async () => {
    const input = { name: 'bound', role: 'reader', workspaceId: tenant.workspace.id } as const
    const { key } = accepted(await createApiKey(world, byPerson(tenant.people.admin.principal, TRACE), input))
    assert.equal(accepted(await authenticate(key)).workspaceId, tenant.workspace.id)
  })

  test('the last use is noted once a minute, behind the request', async () => {
    const { key, keyId } = await aPerson(world, tenant, 'reader', 'used')
    const lastUse = async () => {
      await authenticator.close()
      const [row] = await opened.db.query<{ last_used_at: Date | null }>(
        'select last_used_at from identity.api_keys where id = $1',
        [keyId],
      )
      return row?.last_used_at?.getTime()
    }
    assert.equal(await lastUse(), undefined)
    const first = world.now().getTime()
    await Promise.all(Array.from({ length: 20 }, () => authenticate(key)))
    assert.equal(await lastUse(), first)
    world.travel(59_000)
    await authenticate(key)
    assert.equal(await lastUse(), first)
    world.travel(1_000)
    await authenticate(key)
    assert.equal(await lastUse(), first + 60_000)
    await authenticate(`${key.slice(0, -2)}zz`)
    world.travel(60_000)
    await authenticate(`${key.slice(0, -2)}zz`)
    assert.equal(await lastUse(), first + 60_000, 'a wrong tail is no use of the key')
  })
})

describe('forged keys', () => {
  const FORGED = proofSize(20_000, 200_000)
  test(`0 of ${FORGED} random and altered keys are accepted`, async () => {
    const opened = await openTestDb({ role: 'concord_engine' })
    try {
      const world = aWorld(opened.db)
      const tenant = await aTenant(world)
      const live = Object.values(tenant.people).map(({ key }) => key)
      // The database is asked for real once per live prefix; its answer is then given again and again, so that the
      // comparison and not the connection is what 200,000 keys are tried on.
      const rows = new Map<string, readonly unknown[]>()
      const counting = {
        ...opened.db,
        async run<Row>(statement: Parameters<typeof opened.db.run<Row>>[0], values: readonly unknown[] = []) {
          const prefix = String(values[0])
          const known =
            rows.get(prefix) ?? (live.some((key) => key.includes(prefix)) ? await opened.db.run(statement, values) : [])
          rows.set(prefix, known)
          return known as Row[]
        },
      }
      const { authenticate, close } = openAuthenticator({ db: counting, now: world.now })
      for (const key of live) assert.equal((await authenticate(key)).ok, true)
      await close()
      let accepted = 0
      const noise = randomBytes(2 * FORGED)
      for (let at = 0; at < FORGED; at++) {
        const key = live[at % live.length] as string
        // Every second one keeps a live prefix and changes the tail; the others are random through and through.
        const forged =
          at % 2 === 0 ? alter(key, noise.readUInt16LE(at * 2)) : mintKey((count) => randomBytes(count)).key
        if (forged !== key && (await authenticate(forged)).ok) accepted += 1
      }
      assert.equal(accepted, 0)
      assert.ok(rows.size > 0.45 * FORGED, 'the random ones were looked up')
    } finally {
      await opened.close()
    }
  })
})

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** Another key with the same prefix: one character of the tail is another one. */
function alter(key: string, noise: number): string {
  const at = 16 + (noise % 43)
  const char = ALPHABET[((noise >> 6) + 1 + ALPHABET.indexOf(key.charAt(at))) % 64] as string
  return key.slice(0, at) + (char === key.charAt(at) ? (char === 'A' ? 'B' : 'A') : char) + key.slice(at + 1)
}
