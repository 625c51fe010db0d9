/** Limits hold over all processes together; the breaker keeps a process from waiting for what does not answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { openDb } from '#store'
import { openGateOn } from '#test/connectors'
import { openTestDb } from '#test/database'
import { until } from '#test/until'
import { closedBreaker, decideBreaker, nextBreaker } from './breaker.ts'
import { ConnectorFailure, type ConnectorResult, defineConnector, type RateLimits, succeeded } from './connector.ts'

function counted(
  rate_limits: Partial<RateLimits>,
  work: () => Promise<ConnectorResult>,
  breaker = { failures: 99, open_ms: 1 },
) {
  return defineConnector({
    connector_type: 'counted',
    name: 'counted',
    description: 'Counts its calls.',
    rate_limits,
    breaker,
    operations: [
      {
        name: 'do',
        description: 'Does it.',
        input: z.strictObject({}),
        output: z.looseObject({}),
        side_effect_class: 'none',
        timeout_ms: 60_000,
      },
    ],
    open: () => ({ name: 'counted', connector_type: 'counted', capabilities: () => ['do'], call: work }),
  })
}

/** Two gates with pools of their own, as two processes would have them, for one running command. */
async function twoGates(rate_limits: Partial<RateLimits>, work: () => Promise<ConnectorResult>) {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 8 })
  const other = openDb({ url: opened.url, role: 'concord_engine', poolMax: 8 })
  const first = await openGateOn(opened.db, [counted(rate_limits, work)])
  const second = await openGateOn(other, [counted(rate_limits, work)], {}, first.world)
  return {
    gates: [first, second] as const,
    async close() {
      await first.close()
      await second.close()
      await other.close()
      await opened.close()
    },
  }
}

test('forty calls at once from two processes: exactly as many begin as the minute allows, the rest are told how long to wait', async () => {
  let called = 0
  const { gates, close } = await twoGates({ requests_per_minute: 7 }, () => {
    called += 1
    return Promise.resolve(succeeded({}))
  })
  const results = await Promise.all(
    Array.from({ length: 40 }, (_, at) => gates[at % 2 === 0 ? 0 : 1].call('counted', 'do', {})),
  )
  const refused = results.filter(({ ok }) => !ok)
  assert.deepEqual([called, refused.length, (await gates[0].invocations()).length], [7, 33, 7])
  for (const { error } of refused) {
    assert.deepEqual([error?.error_class, error?.happened], ['rate_limited', 'no'])
    assert.ok((error?.retry_after_ms ?? 0) > 5_000 && (error?.retry_after_ms ?? 0) <= 60_000)
  }
  // A minute later there is room again.
  await gates[0].db.query(`update concord.connector_invocations set created_at = created_at - interval '61 seconds'`)
  assert.equal((await gates[1].call('counted', 'do', {})).ok, true)
  await close()
})

test('never more than `concurrent` calls are under way, over two processes; a call that waits gets its turn', async () => {
  let [underWay, most] = [0, 0]
  const { gates, close } = await twoGates({ concurrent: 2 }, async () => {
    underWay += 1
    most = Math.max(most, underWay)
    await new Promise((done) => setImmediate(done))
    underWay -= 1
    return succeeded({})
  })
  const results = await Promise.all(
    Array.from({ length: 16 }, (_, at) => gates[at % 2 === 0 ? 0 : 1].call('counted', 'do', {})),
  )
  const answered = results.filter(({ ok }) => ok).length
  assert.ok(most >= 1 && most <= 2, String(most))
  assert.equal((await gates[0].invocations()).length, answered)
  assert.ok(answered >= 2)
  // What a dead process left as started does not hold its place for ever.
  await gates[0].db.query(
    `update concord.connector_invocations set status = 'started', completed_at = null, created_at = now() - interval '1 hour'`,
  )
  assert.equal((await gates[0].call('counted', 'do', {})).ok, true)
  await close()
})

test('after several failures in a row nobody is sent there; then one call tries, and its success opens the way again', async (t) => {
  const opened = await openTestDb({ role: 'concord_engine' })
  let [called, isWell] = [0, false]
  const work = (): Promise<ConnectorResult> => {
    called += 1
    return isWell
      ? Promise.resolve(succeeded({}))
      : Promise.reject(new ConnectorFailure('transient_connector_error', 'down', 'no'))
  }
  const gate = await openGateOn(opened.db, [counted({}, work, { failures: 3, open_ms: 600_000 })])
  t.after(async () => {
    await gate.close()
    await opened.close()
  })
  for (let times = 0; times < 10; times += 1) await gate.call('counted', 'do', {})
  assert.equal(called, 3)
  assert.equal(gate.connectors.isOpen('counted'), true)
  assert.equal((await gate.invocations()).length, 3, 'what was not sent has no row')
  const patient = await openGateOn(opened.db, [counted({}, work, { failures: 1, open_ms: 1 })], {}, gate.world)
  await patient.call('counted', 'do', {})
  assert.equal(patient.connectors.isOpen('counted'), true)
  isWell = true
  await until(async () => (await patient.call('counted', 'do', {})).ok)
  assert.equal(patient.connectors.isOpen('counted'), false)
})

test('what is not the doing of the provider does not keep others from it: a cancelled call, a database that breaks', async (t) => {
  const opened = await openTestDb({ role: 'concord_engine' })
  let [isWell, isBroken] = [true, false]
  const never = Promise.withResolvers<ConnectorResult>()
  const work = (): Promise<ConnectorResult> =>
    isWell ? never.promise : Promise.reject(new ConnectorFailure('transient_connector_error', 'down', 'no'))
  const breaking = new Proxy(opened.db, {
    get: (db, name) => (isBroken && name === 'run' ? () => Promise.reject(new Error('gone')) : Reflect.get(db, name)),
  })
  const gate = await openGateOn(breaking, [counted({}, work, { failures: 1, open_ms: 1 })])
  t.after(async () => {
    await gate.close()
    await opened.close()
  })
  const cancelled = await gate.call('counted', 'do', {}, { context: { signal: AbortSignal.timeout(50) } })
  assert.deepEqual([cancelled.error?.error_class, gate.connectors.isOpen('counted')], ['timeout', false])

  isWell = false
  await gate.call('counted', 'do', {})
  assert.equal(gate.connectors.isOpen('counted'), true)
  isBroken = true
  await until(() =>
    gate.call('counted', 'do', {}).then(
      () => false,
      (error: Error) => error.message === 'gone',
    ),
  )
  isBroken = false
  isWell = true
  never.resolve(succeeded({}))
  await until(async () => (await gate.call('counted', 'do', {})).ok)
})

test('the breaker: only what says that the provider is unwell counts, and one call at a time tries', () => {
  const terms = { failures: 3, open_ms: 100 }
  let state = closedBreaker
  for (const errorClass of ['timeout', 'validation_error', 'timeout', 'transient_connector_error'] as const)
    state = nextBreaker(state, terms, errorClass, 0)
  assert.deepEqual(state, { failures: 2, openUntilMs: null, isProbing: false })
  state = nextBreaker(state, terms, 'timeout', 1_000)
  assert.deepEqual(decideBreaker(state, terms, 1_050), { t: 'open', waitMs: 50 })
  const probe = decideBreaker(state, terms, 1_100)
  assert.ok(probe.t === 'go' && probe.state.isProbing)
  assert.equal(decideBreaker(probe.state, terms, 1_100).t, 'open')
  assert.deepEqual(nextBreaker(probe.state, terms, 'timeout', 1_100).openUntilMs, 1_200)
  assert.deepEqual(nextBreaker(probe.state, terms, undefined, 1_100), closedBreaker)
})
