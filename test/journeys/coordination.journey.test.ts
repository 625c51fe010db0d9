/**
 * The six failures that coordination is there to prevent, each provoked on two servers that both work on one database. Outside stands
 * a system that dedupes nothing and counts everything: what it saw is the verdict.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { signDelivery } from '#domains/commands'
import { decodeId } from '#kernel/ids'
import { freePort, type Served, serveConcord } from '#test/concord-process'
import { ATTEMPTS_MAX, CALLS_AT_ONCE, CALLS_PER_MINUTE, RUNS_MAX, shopSecret } from '#test/coordination-project'
import { type CountedOutside, openCountedOutside } from '#test/counted-outside'
import { openTestDb, type TestDb } from '#test/database'
import { accepted, aTenant, aWorld, type Tenant } from '#test/tenant'
import { until } from '#test/until'

const PER_WORKER = 2
const CONNECTOR_CALLS = 3
const MINUTE_MS = 60_000

type Answer = { readonly status: number; readonly body: { command_id?: string; outcome?: string; code?: string } }

describe('two servers that both work', () => {
  let folder: string
  let outside: CountedOutside
  let database: TestDb
  let tenant: Tenant
  let servers: readonly Served[] = []

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'concord-coordination-'))
    outside = await openCountedOutside()
    const project = new URL('../support/coordination-project.ts', import.meta.url).href
    await writeFile(join(folder, 'concord.config.mjs'), `export { default } from ${JSON.stringify(project)}\n`)
    database = await openTestDb()
    tenant = await aTenant(aWorld(database.db, new Date()))
    const env = {
      DATABASE_URL: database.url,
      CONCORD_UNSAFE_TEST: '1',
      CONCORD_LOG_LEVEL: 'error',
      CONCORD_QUEUES: JSON.stringify({
        concord_default: { perWorker: PER_WORKER },
        connector_calls: { concurrency: CONNECTOR_CALLS },
      }),
      OUTSIDE_URL: outside.url,
      SHOP_WORKSPACE: tenant.workspace.id,
    }
    const serve = async (name: string) =>
      serveConcord({
        env: { ...env, CONCORD_HOME: join(folder, name), CONCORD_PORT: await freePort() },
        cwd: folder,
      })
    servers = [await serve('one'), await serve('two')]
  })
  after(async () => {
    for (const { child, ended } of servers) {
      child.kill('SIGTERM')
      await ended
    }
    await database?.close()
    await outside?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** The doors take turns. */
  const doorOf = (at: number) => servers[at % servers.length]?.address ?? ''
  async function post(at: number, path: string, body: string, headers: Record<string, string> = {}): Promise<Answer> {
    const response = await fetch(doorOf(at) + path, {
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
  const submit = async (at: number, task_name: string, subject: string): Promise<string> => {
    const { status, body } = await asked(at, '/commands', { task_name, payload: { subject } })
    assert.ok(status === 200 || status === 202, JSON.stringify(body))
    return body.command_id ?? assert.fail('no id')
  }
  const submitMany = (task: string, count: number) =>
    Promise.all(Array.from({ length: count }, (_, at) => submit(at, task, `${task}-${at}`)))
  const statesOf = async (ids: readonly string[]) => {
    const uuids = [...new Set(ids)].map((id) => accepted(decodeId('command', id)))
    return database.db.query<{ status: string; attempt: number; error_class: string | null; done: boolean }>(
      `select status, attempt, error_class, completed_at is not null as done from concord.commands where command_id = any($1::uuid[])`,
      [uuids],
    )
  }
  const ended = (ids: readonly string[]) =>
    until(async () => (await statesOf(ids)).every(({ done }) => done), 'the end of all commands')
  const commandsOf = (type: string) =>
    database.db.query<{ command_id: string }>('select command_id from concord.commands where command_type = $1', [type])
  let barriers = 0
  /** Both workers have done something else meanwhile: whatever was going to happen by itself has had its chance. */
  const goOn = async () =>
    ended(await Promise.all([0, 1, 2, 3].map((at) => submit(at, 'Ship', `barrier ${(barriers += 1)}`))))

  test('[PRM-20] duplicate webhook processing: one event, delivered twenty times at two doors and once more when all is done, is one command and one deed', async () => {
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
    await goOn()
    assert.equal((await commandsOf('ship')).length, 1 + barriers)
    assert.equal(outside.callsOf('ship').length, 1 + barriers)
  })

  test('[PRM-20] a report published twice: asked for by many at once, and lost on the way, it goes out under one key', async () => {
    const ids = await Promise.all(Array.from({ length: 10 }, (_, at) => submit(at, 'Publish', 'May')))
    assert.equal(new Set(ids).size, 1)
    await ended(ids)
    assert.equal(await submit(0, 'Publish', 'May'), ids[0])
    await goOn()
    // The press did it and lost its answer: it is asked again under the key that it knows it by, and by nobody else.
    const calls = outside.callsOf('forgetful')
    assert.deepEqual([calls.length, new Set(calls.map(({ key }) => key)).size], [2, 1])
    assert.equal(outside.peak('forgetful'), 1, 'never two at once')
    assert.deepEqual(
      (await statesOf(ids)).map(({ status }) => status),
      ['succeeded'],
    )
  })

  test('[PRM-20] two workers on one task: forty tasks that both could take, each is done once by one of them', async () => {
    outside.hold('work')
    const ids = await submitMany('Work', 40)
    // Both are full; what is left lies where both look.
    await until(() => outside.underWay('work') === 2 * PER_WORKER, 'two full workers')
    outside.release('work')
    await ended(ids)
    await goOn()
    const calls = outside.callsOf('work')
    assert.equal(calls.length, 40)
    assert.equal(new Set(calls.map(({ key }) => key)).size, 40)
    assert.equal(new Set(calls.map(({ by }) => by)).size, 2, 'both worked')
  })

  test('[PRM-20] endless retries: what is always down is tried as often as its policy says, and run as often as its task says', async () => {
    const id = await submit(0, 'Knock', 'nobody')
    for (let run = 1; run <= RUNS_MAX; run += 1) {
      await ended([id])
      await goOn()
      assert.equal(outside.callsOf('down').length, run * ATTEMPTS_MAX)
      const answer = await asked(run, `/commands/${id}/retry`, {})
      assert.equal(answer.body.code, run < RUNS_MAX ? undefined : 'commands.retry.exhausted')
    }
    const [state] = await statesOf([id])
    assert.deepEqual([state?.status, state?.attempt], ['failed', RUNS_MAX])
    assert.equal(outside.callsOf('down').length, RUNS_MAX * ATTEMPTS_MAX)
  })

  test('[PRM-20] unbounded parallelism: thirty at once, and never more of them under way than the queue allows over both workers', async () => {
    outside.hold('print')
    const ids = await submitMany('Print', 30)
    await until(() => outside.underWay('print') === CONNECTOR_CALLS, 'a full queue')
    // The others wait in their queue, and hold up no other one.
    await goOn()
    assert.equal(outside.underWay('print'), CONNECTOR_CALLS)
    outside.release('print')
    await ended(ids)
    assert.equal(outside.callsOf('print').length, 30)
    assert.equal(outside.peak('print'), CONNECTOR_CALLS)
  })

  test('[PRM-20] overloaded connectors: a connector gets no more calls at once, and no more in a minute, than it can take', async () => {
    outside.hold('narrow')
    const narrow = await submitMany('Ask Narrowly', 8)
    await until(() => outside.underWay('narrow') === CALLS_AT_ONCE, 'a full connector')
    await goOn()
    assert.equal(outside.underWay('narrow'), CALLS_AT_ONCE)
    outside.release('narrow')
    await ended(narrow)
    assert.deepEqual(
      (await statesOf(narrow)).map(({ status }) => status),
      narrow.map(() => 'succeeded'),
    )
    assert.equal(outside.peak('narrow'), CALLS_AT_ONCE)

    const slow = await submitMany('Ask Slowly', 9)
    // Some are done; the others were turned away before they reached it, and wait for their next attempt.
    await until(async () => {
      const [row] = await database.db.query<{ count: number }>(
        `select count(*)::int as count from concord.domain_effects where effect_type = 'connector.slow.ask'
           and (status = 'succeeded' or run_after > now())`,
      )
      return row?.count === slow.length
    }, 'an answer for everybody')
    // By the times at which the gate let them through: on the way a call may be late.
    const passed = await database.db.query<{ at_ms: number }>(
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
