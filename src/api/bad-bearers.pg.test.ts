/** Guessed credentials: an address is limited before the database is asked, and callers with a valid credential are not affected. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'

const guess = (at: number) => `ck_${String(at).padStart(12, '0')}_${'A'.repeat(43)}`

describe('bad credentials', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi()
  })
  after(() => api.close())

  test('an address that reached the limit causes no lookup; the limit recovers over time', async () => {
    let asked = 0
    const app = api.with({
      limits: { badBearersPerMinute: 5 },
      authenticate: (bearer) => {
        asked += 1
        return api.deps.authenticate(bearer)
      },
    })
    const good = api.ours.people.writer.key
    assert.equal((await call(app, '/me', { key: good })).status, 200)
    for (let at = 0; at < 5; at++)
      assert.equal(await outcomeOf(await call(app, '/me', { key: guess(at) })), '401 unauthenticated')
    const before = asked
    const refused = await call(app, '/me', { key: guess(6) })
    assert.equal(refused.headers.get('retry-after'), '12')
    assert.equal(await outcomeOf(refused), '429 api.rate.exceeded')
    assert.equal(asked, before, 'nothing was looked up')
    const redeem = await call(app, '/invitations/redeem', { method: 'POST', body: { invitation: guess(7) } })
    assert.equal(await outcomeOf(redeem), '429 api.rate.exceeded')

    assert.equal((await call(app, '/me', { key: good })).status, 200, 'a credential that worked lately is tried')
    const fresh = api.ours.people.reader.key
    assert.equal((await call(app, '/me', { key: fresh })).status, 429, 'one that was never seen is not')
    api.world.travel(12_000)
    assert.equal((await call(app, '/me', { key: fresh })).status, 200)
  })

  test('open routes and requests without a credential do not count', async () => {
    const app = api.with({ limits: { badBearersPerMinute: 1 } })
    for (let at = 0; at < 3; at++) {
      assert.equal((await call(app, '/health')).status, 200)
      assert.equal((await call(app, '/me')).status, 401)
    }
    assert.equal(await outcomeOf(await call(app, '/me', { key: guess(1) })), '401 unauthenticated')
    assert.equal(await outcomeOf(await call(app, '/me', { key: guess(2) })), '429 api.rate.exceeded')
  })

  test('guessed invitations count too', async () => {
    const app = api.with({ limits: { badBearersPerMinute: 2 } })
    const redeem = (at: number) =>
      call(app, '/invitations/redeem', { method: 'POST', body: { invitation: guess(at) } }).then(outcomeOf)
    assert.deepEqual(
      [await redeem(1), await redeem(2), await redeem(3)],
      ['401 identity.invitation.invalid', '401 identity.invitation.invalid', '429 api.rate.exceeded'],
    )
  })
})
