import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT, UnsecuredJWT } from 'jose'
import { openTestDb, type TestDb } from '#test/database'
import { accepted, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from '#test/tenant'
import { type IdentityProvider, openAuthenticator } from './authenticate.ts'
import { createUser } from './person.ts'
import { bySystem } from '#kernel/actor'

type SigningKey = { readonly kid: string; readonly privateKey: CryptoKey; readonly publicJwk: JWK }

async function aSigningKey(kid: string, alg = 'ES256'): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { kid, privateKey, publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } }
}

describe('authenticating with a token of an outside identity provider', () => {
  let opened: TestDb
  let world: TestWorld
  let tenant: Tenant
  let server: Server
  let url: string
  let served: JWK[] = []
  let status = 200
  let asked = 0
  let key: SigningKey

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    world = aWorld(opened.db)
    tenant = await aTenant(world)
    accepted(
      await createUser(world, bySystem(TRACE), {
        orgId: tenant.orgId,
        externalId: 'auth0|ada',
        email: 'ada@example.com',
        role: 'writer',
      }),
    )
    key = await aSigningKey('k1')
    served = [key.publicJwk]
    server = createServer((_, response) => {
      asked += 1
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: served }))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`
  })
  after(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await opened.close()
  })

  const open = (more: Partial<IdentityProvider> = {}) => {
    const provider = {
      issuer: 'https://id.example.com/',
      audience: 'concord',
      jwks: { url },
      jwksCooldownMs: 0,
      ...more,
    }
    return openAuthenticator({ db: opened.db, now: world.now, provider })
  }
  const nowS = () => Math.floor(world.now().getTime() / 1_000)
  const aToken = (claims: Record<string, unknown> = {}) =>
    new SignJWT({ iss: 'https://id.example.com/', aud: 'concord', sub: 'auth0|ada', exp: nowS() + 300, ...claims })
  const sign = (token: SignJWT, by: SigningKey = key, alg = 'ES256') =>
    token.setProtectedHeader({ alg, kid: by.kid }).sign(by.privateKey)

  async function assertRefused(token: string, code = 'unauthenticated', more: Partial<IdentityProvider> = {}) {
    const answer = await open(more).authenticate(token)
    assert.equal(!answer.ok && answer.code, code)
  }

  test('[API-07] a valid token is the user that its subject names', async () => {
    const principal = accepted(await open().authenticate(await sign(aToken())))
    assert.equal(principal.credential, 'jwt')
    assert.equal(principal.externalId, 'auth0|ada')
    assert.equal(principal.orgId, tenant.orgId)
    assert.equal(principal.role, 'writer')
    assert.equal(principal.workspaceId, null)
  })

  test('wrong issuer, audience, time and subject are refused with one code', async () => {
    await assertRefused(await sign(aToken({ iss: 'https://evil.example.com/' })))
    for (let other = 0; other < 10; other++) await assertRefused(await sign(aToken({ aud: `other-${other}` })))
    await assertRefused(await sign(aToken({ aud: ['other', 'another'] })))
    await assertRefused(await sign(aToken({ exp: nowS() - 6 })))
    await assertRefused(await sign(aToken({ nbf: nowS() + 60 })))
    await assertRefused(await sign(aToken({ exp: undefined })))
    await assertRefused(await sign(aToken({ sub: undefined })))
    await assertRefused(await sign(aToken({ sub: 'auth0|nobody' })))
  })

  test('[L4] a subject that no person can have is refused like any other wrong token', async () => {
    for (const sub of ['auth0|\0', 'auth0|ada\0', '\ud800', ' auth0|ada', 'auth0|ada\n', 'x'.repeat(300), '', 7])
      await assertRefused(await sign(aToken({ sub })))
  })

  test('[L16] a token that was issued in the future, or that is valid for too long, is refused', async () => {
    const isTaken = async (claims: Record<string, unknown>, more: Partial<IdentityProvider> = {}) =>
      (await open(more).authenticate(await sign(aToken(claims)))).ok
    const day = 86_400
    assert.equal(await isTaken({ iat: nowS(), exp: nowS() + day }), true)
    assert.equal(await isTaken({ iat: nowS() + 4 }), true)
    for (const iat of [nowS() + 6, nowS() + day, 1e300, '1']) assert.equal(await isTaken({ iat }), false)
    assert.equal(await isTaken({ iat: nowS(), exp: nowS() + day + 1 }), false)
    assert.equal(await isTaken({ exp: nowS() + day + 1 }), false)
    assert.equal(await isTaken({ exp: 1e300 }), false)
    // A token of ten years that is nearly over has still been valid for ten years.
    assert.equal(await isTaken({ iat: nowS() - 3_650 * day, exp: nowS() + 300 }), false)
    assert.equal(await isTaken({ iat: nowS(), exp: nowS() + 601 }, { lifetimeMaxMs: 600_000 }), false)
  })

  test('the clock may differ by the tolerance and not by more', async () => {
    const token = await sign(aToken({ exp: nowS() - 4 }))
    assert.equal((await open().authenticate(token)).ok, true)
    await assertRefused(token, 'unauthenticated', { clockToleranceS: 0 })
  })

  test('an unsigned token, a shared-secret one and an altered one are refused', async () => {
    const claims = { iss: 'https://id.example.com/', aud: 'concord', sub: 'auth0|ada' }
    await assertRefused(new UnsecuredJWT(claims).setExpirationTime(nowS() + 300).encode())
    // The old trick: sign with HMAC and the public key as its secret.
    const secret = new TextEncoder().encode(JSON.stringify(key.publicJwk))
    await assertRefused(await aToken().setProtectedHeader({ alg: 'HS256', kid: 'k1' }).sign(secret))
    const good = await sign(aToken())
    const [header, payload, signature] = good.split('.') as [string, string, string]
    const admin = Buffer.from(JSON.stringify({ ...claims, exp: nowS() + 300, sub: 'auth0|admin' })).toString(
      'base64url',
    )
    await assertRefused(`${header}.${admin}.${signature}`)
    await assertRefused(`${header}.${payload}.`)
    await assertRefused(`${header}.${payload}`)
  })

  test('a key of someone else under a known name is refused, and so is an algorithm that is not on the list', async () => {
    const stranger = await aSigningKey('k1')
    await assertRefused(await sign(aToken(), stranger))
    await assertRefused(await sign(aToken()), 'unauthenticated', { algorithms: ['RS256'] })
  })

  test('nobody outside can claim a subject of this installation', async () => {
    await assertRefused(await sign(aToken({ sub: tenant.people.admin.principal.externalId })))
  })

  test('keys rotate: a new one is fetched when it is first seen, the old one stops with the provider', async () => {
    const authenticator = open()
    const old = await sign(aToken())
    assert.equal((await authenticator.authenticate(old)).ok, true)
    const next = await aSigningKey('k2')
    served = [next.publicJwk]
    const before = asked
    assert.equal((await authenticator.authenticate(await sign(aToken(), next))).ok, true)
    assert.equal(asked, before + 1)
    const late = await authenticator.authenticate(old)
    assert.equal(!late.ok && late.code, 'unauthenticated')
    served = [key.publicJwk]
  })

  test('made-up key names do not make us ask the provider again and again', async () => {
    const authenticator = open({ jwksCooldownMs: 60_000 })
    assert.equal((await authenticator.authenticate(await sign(aToken()))).ok, true)
    const before = asked
    for (let made = 0; made < 50; made++) {
      const token = await sign(aToken(), { ...key, kid: `made-${made}` })
      assert.equal((await authenticator.authenticate(token)).ok, false)
    }
    assert.equal(asked, before)
  })

  test('a provider that does not answer is not a bad token', async () => {
    status = 500
    await assertRefused(await sign(aToken()), 'identity.provider.unavailable')
    status = 200
    await assertRefused(await sign(aToken()), 'identity.provider.unavailable', {
      jwks: { url: 'http://127.0.0.1:1/jwks.json' },
    })
  })

  test('keys may also be given by hand', async () => {
    const authenticator = open({ jwks: { keys: { keys: [key.publicJwk] } } })
    assert.equal((await authenticator.authenticate(await sign(aToken()))).ok, true)
  })
})
