/** kill -9 during a call: the record does not stand as started for ever, is settled once, and says that nobody knows. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openGateOn, openTestGate, type TestGate } from '#test/connectors'
import { silentConnector } from '#test/silent-connector'
import { TRACE } from '#test/tenant'
import { until } from '#test/until'
import { type ConnectorResult, succeeded } from './connector.ts'

const child = fileURLToPath(new URL('../../../test/support/connector-child.ts', import.meta.url))

describe('a call whose process was killed', () => {
  let gate: TestGate
  before(async () => {
    gate = await openTestGate([silentConnector(() => undefined)])
  })
  after(() => gate.close())

  /** Ends when the process is gone, which was in the middle of a call. */
  async function dieInCall(): Promise<void> {
    const task = { url: gate.db.config.url, world: gate.world }
    const running = spawn(process.execPath, [child, JSON.stringify(task)], { stdio: ['ignore', 'pipe', 'inherit'] })
    const gone = new Promise((resolve) => running.once('exit', (_code, signal) => resolve(signal)))
    await new Promise((resolve) => running.stdout.once('data', resolve))
    running.kill('SIGKILL')
    assert.equal(await gone, 'SIGKILL')
  }
  const pass = (minutes: number) =>
    gate.db.query(
      `update concord.connector_invocations set created_at = created_at - $1 * interval '1 minute' where trace_id is not null`,
      [minutes],
    )
  const sweep = () => gate.connectors.settleAbandoned({ traceId: TRACE })
  const statuses = async () => (await gate.invocations()).map(({ status }) => status)
  const events = () =>
    gate.db.query<{ actor: string; payload: Record<string, unknown> }>(
      `select actor, payload from concord.domain_events where event_type = 'connector_called' order by seq`,
    )

  test('it stands while it could still be answered, and then fails as timeout with an unknown outcome; many sweeps settle it once', async (t) => {
    await dieInCall()
    assert.deepEqual(await statuses(), ['started'])
    assert.equal(await sweep(), 0)
    // The time limit is ten minutes; a process that lives has another one to write its record.
    await pass(10)
    assert.equal(await sweep(), 0)
    assert.deepEqual(await statuses(), ['started'])
    await pass(2)
    const another = await openGateOn(gate.db, [silentConnector(() => undefined)], {}, gate.world)
    t.after(() => another.close())
    const counts = await Promise.all([sweep(), another.connectors.settleAbandoned({ traceId: TRACE }), sweep()])
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      1,
    )
    const [row] = await gate.invocations()
    assert.deepEqual([row?.status, row?.error_class, row?.latency_ms], ['failed', 'timeout', null])
    assert.match(row?.error ?? '', /the process that made the call ended/)
    assert.ok(row?.completed_at)
    const told = await events()
    assert.deepEqual(
      told.map(({ actor, payload }) => [actor, payload['ok'], payload['error_class'], payload['happened']]),
      [['system', false, 'timeout', 'unknown']],
    )
    assert.equal(await sweep(), 0)
  })

  test('a process that sweeps since before finds the ones that come later; a connector that nobody declares is settled too', async (t) => {
    assert.equal(await sweep(), 0)
    await dieInCall()
    const bare = await openGateOn(gate.db, [], {}, gate.world)
    t.after(() => bare.close())
    assert.equal(await bare.connectors.settleAbandoned({ traceId: TRACE }), 0)
    // By the clock of the sweeps no time passes here, so the row alone grows old, within what a later look goes over.
    await pass(11.5)
    assert.equal(await sweep(), 1)
    await dieInCall()
    await pass(30)
    assert.equal(
      await (await openGateOn(gate.db, [], {}, gate.world)).connectors.settleAbandoned({ traceId: TRACE }),
      1,
    )
    assert.deepEqual(new Set(await statuses()), new Set(['failed']))
  })

  test('a process that was away for that long tells what is on record, not what it saw', async () => {
    const answer = Promise.withResolvers<ConnectorResult>()
    const slow = await openGateOn(gate.db, [silentConnector(() => answer.promise)], {}, gate.world)
    const calling = slow.call('silent', 'wait', {})
    await until(async () => (await statuses()).includes('started'), 'the call')
    await pass(12)
    const fresh = await openGateOn(gate.db, [silentConnector(() => undefined)], {}, gate.world)
    assert.equal(await fresh.connectors.settleAbandoned({ traceId: TRACE }), 1)
    answer.resolve(succeeded({}))
    const { ok, error } = await calling
    assert.deepEqual([ok, error?.error_class, error?.happened], [false, 'timeout', 'unknown'])
  })
})
