/**
 * The six failures that coordination prevents, each provoked on two servers with one database. An outside system that deduplicates
 * nothing counts every call, and its counts are the verdict.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { signDelivery } from '#domains/commands'
import { decodeId } from '#kernel/ids'
import { type CountedOutside, openCountedOutside } from '#test/counted-outside'
import { ATTEMPTS_MAX, CALLS_AT_ONCE, CALLS_PER_MINUTE, RUNS_MAX, shopSecret } from '#test/projects/payments'
import { accepted, aTenant, aWorld, type Tenant } from '#test/tenant'
import { until } from '#test/until'
import { withServer } from '#test/with-server'

const PER_WORKER = 2
const CONNECTOR_CALLS = 3
const MINUTE_MS = 60_000

type Answer = { readonly status: number; readonly body: { command_id?: string; outcome?: string; code?: string } }

describe('two servers that both work', () => {
  let outside: CountedOutside
  let tenant: Tenant
  let addresses: readonly string[] = []
  const server = withServer({
    project: 'payments',
    async env(_folder, { db }) {
      outside = await openCountedOutside()
      tenant = await aTenant(aWorld(db, new Date()))
      return {
        CONCORD_LOG_LEVEL: 'error',
        CONCORD_QUEUES: JSON.stringify({
          concord_default: { perWorker: PER_WORKER },
          connector_calls: { concurrency: CONNECTOR_CALLS },
        }),
        OUTSIDE_URL: outside.url,
        SHOP_WORKSPACE: tenant.workspace.id,
      }
    },
    async ready({ address, serveSecond }) {
      addresses = [address, (await serveSecond()).address]
    },
  })
  after(() => outside?.close())

  /** Requests alternate between the servers. */
  async function post(at: number, path: string, body: string, headers: Record<string, string> = {}): Promise<Answer> {
    const response = await fetch(`${addresses[at % addresses.length]}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    })
    return { status: response.status, body: (await response.json()) as Answer['body'] }
  }
  const asked = (at: number, path: string, body: object) =>
    post(at, path, JSON.stringify(body), {
      authorization: `Bearer ${tenant.people.writer.key}`,
      'x-workspace': tenant.workspace.slug,
    })
  const submit = async (at: number, task_name: string, note: string): Promise<string> => {
    const { status, body } = await asked(at, '/commands', { task_name, payload: { note } })
    assert.ok(status === 200 || status === 202, JSON.stringify(body))
    return body.command_id ?? assert.fail('no id')
  }
  const submitMany = (task: string, count: number) =>
    Promise.all(Array.from({ length: count }, (_, at) => submit(at, task, `${task}-${at}`)))
  const statesOf = async (ids: readonly string[]) => {
    const uuids = [...new Set(ids)].map((id) => accepted(decodeId('command', id)))
    return server.database.db.query<{ status: string; attempt: number; error_class: string | null; done: boolean }>(
      `select status, attempt, error_class, completed_at is not null as done from concord.commands where command_id = any($1::uuid[])`,
      [uuids],
    )
  }
  const ended = (ids: readonly string[]) =>
    until(async () => (await statesOf(ids)).every(({ done }) => done), 'the end of all commands')
  const commandsOf = (type: string) =>
    server.database.db.query<{ command_id: string }>(
      'select command_id from concord.commands where command_type = $1',
      [type],
    )
  let barriers = 0
  /** Both workers run other commands to their end; a call that was still to come has happened by then. */
  const runOthers = async () =>
    ended(await Promise.all([0, 1, 2, 3].map((at) => submit(at, 'Ship', `barrier ${(barriers += 1)}`))))

  test('[PRM-20] duplicate webhook processing: an event that is delivered twenty times at two servers, and again at the end, is one command and one call', async () => {
    const body = JSON.stringify({ order: 'A-7' })
    const timestamp = String(Math.floor(Date.now() / 1_000))
    const signature = signDelivery(shopSecret, 'evt-7', timestamp, Buffer.from(body))
    const headers = { 'webhook-id': 'evt-7', 'webhook-timestamp': timestamp, 'webhook-signature': signature }
    const deliver = (at: number) => post(at, '/webhooks/shop', body, headers)
    const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => deliver(at)))
    const ids = answers.map(({ body: { command_id } }) => command_id ?? '')
    assert.equal(new Set(ids).size, 1)
    assert.equal(answers.filter(({ status }) => status === 202).length, 1)
    await ended(ids)
    for (const at of [0, 1]) assert.deepEqual((await deliver(at)).body.outcome, 'duplicate')
    await runOthers()
    assert.equal((await commandsOf('ship')).length, 1 + barriers)
    assert.equal(outside.callsOf('ship').length, 1 + barriers)
  })

  test('[PRM-20] a report published twice: ten requests at once and a lost answer lead to calls under one key', async () => {
    const ids = await Promise.all(Array.from({ length: 10 }, (_, at) => submit(at, 'Publish', 'May')))
    assert.equal(new Set(ids).size, 1)
    await ended(ids)
    assert.equal(await submit(0, 'Publish', 'May'), ids[0])
    await runOthers()
    // The answer of the first call was lost; the second call has the same key.
    const calls = outside.callsOf('forgetful')
    assert.deepEqual([calls.length, new Set(calls.map(({ key }) => key)).size], [2, 1])
    assert.equal(outside.peak('forgetful'), 1, 'never two at once')
    assert.deepEqual(
      (await statesOf(ids)).map(({ status }) => status),
      ['succeeded'],
    )
  })

  test('[PRM-20] two workers on one task: each of forty commands is done once, by one of the workers', async () => {
    outside.hold('work')
    const ids = await submitMany('Work', 40)
    // Both workers are full; the other commands wait in the queue that both read.
    await until(() => outside.underWay('work') === 2 * PER_WORKER, 'two full workers')
    outside.release('work')
    await ended(ids)
    await runOthers()
    const calls = outside.callsOf('work')
    assert.equal(calls.length, 40)
    assert.equal(new Set(calls.map(({ key }) => key)).size, 40)
    assert.equal(new Set(calls.map(({ by }) => by)).size, 2, 'both worked')
  })

  test('[PRM-20] endless retries: a call that always fails is attempted as often as its policy says, and run as often as its task says', async () => {
    const id = await submit(0, 'Fail', 'x')
    for (let run = 1; run <= RUNS_MAX; run += 1) {
      await ended([id])
      await runOthers()
      assert.equal(outside.callsOf('down').length, run * ATTEMPTS_MAX)
      const answer = await asked(run, `/commands/${id}/retry`, {})
      assert.equal(answer.body.code, run < RUNS_MAX ? undefined : 'commands.retry.exhausted')
    }
    const [state] = await statesOf([id])
    assert.deepEqual([state?.status, state?.attempt], ['failed', RUNS_MAX])
    assert.equal(outside.callsOf('down').length, RUNS_MAX * ATTEMPTS_MAX)
  })

  test('[PRM-20] unbounded parallelism: of thirty commands, both workers together run no more at once than the queue allows', async () => {
    outside.hold('print')
    const ids = await submitMany('Print', 30)
    await until(() => outside.underWay('print') === CONNECTOR_CALLS, 'a full queue')
    // The others wait in their queue and delay no other queue.
    await runOthers()
    assert.equal(outside.underWay('print'), CONNECTOR_CALLS)
    outside.release('print')
    await ended(ids)
    assert.equal(outside.callsOf('print').length, 30)
    assert.equal(outside.peak('print'), CONNECTOR_CALLS)
  })

  test('[PRM-20] overloaded connectors: a connector gets no more calls at once, and no more in a minute, than its limits say', async () => {
    outside.hold('narrow')
    const narrow = await submitMany('Ask Narrowly', 8)
    await until(() => outside.underWay('narrow') === CALLS_AT_ONCE, 'a full connector')
    await runOthers()
    assert.equal(outside.underWay('narrow'), CALLS_AT_ONCE)
    outside.release('narrow')
    await ended(narrow)
    assert.deepEqual(
      (await statesOf(narrow)).map(({ status }) => status),
      narrow.map(() => 'succeeded'),
    )
    assert.equal(outside.peak('narrow'), CALLS_AT_ONCE)

    const slow = await submitMany('Ask Slowly', 9)
    // Some calls are done; the limit refused the others, and they wait for their next attempt.
    await until(async () => {
      const [row] = await server.database.db.query<{ count: number }>(
        `select count(*)::int as count from concord.domain_effects where effect_type = 'connector.slow.ask'
           and (status = 'succeeded' or run_after > now())`,
      )
      return row?.count === slow.length
    }, 'a result for every command')
    // Measured when the gate admits a call, because a call may arrive late.
    const passed = await server.database.db.query<{ at_ms: number }>(
      `select extract(epoch from created_at)::float8 * 1000 as at_ms from concord.connector_invocations where connector_name = 'slow'`,
    )
    const times = passed.map(({ at_ms }) => at_ms)
    assert.ok(times.length >= CALLS_PER_MINUTE, String(times.length))
    assert.equal(outside.callsOf('slow').length, times.length)
    for (const from of times)
      assert.ok(times.filter((at) => at >= from && at < from + MINUTE_MS).length <= CALLS_PER_MINUTE)
    const states = await statesOf(slow)
    assert.equal(states.filter(({ status }) => status === 'succeeded').length, times.length)
    assert.ok(states.every(({ status }) => status === 'succeeded' || status === 'running'))
  })
})
