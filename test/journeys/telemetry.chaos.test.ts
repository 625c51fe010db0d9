/** A server, a worker and a collector as three processes: one command is one trace, and every metric of work appears and moves. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import type { Seen } from '#test/collector'
import { endProcess, runConcord, type Served, serveConcord, spawnConcord, writeProject } from '#test/concord-process'
import { openTestDb, type TestDb } from '#test/database'
import { until } from '#test/until'

/** The kinds of OTLP. */
const kinds = ['', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER']

describe('telemetry over processes', () => {
  let database: TestDb
  let folder: string
  let collector: ChildProcess
  let url: string
  let server: Served
  let worker: ReturnType<typeof spawnConcord> | undefined
  let key: string
  const env = () => ({
    CONCORD_HOME: join(folder, 'home'),
    CONCORD_LOG_LEVEL: 'error',
    DATABASE_URL: database.url,
    CONCORD_UNSAFE_TEST: '1',
    OUTSIDE_URL: url,
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_METRIC_EXPORT_INTERVAL: '300',
  })
  const seen = async () => (await (await fetch(`${url}/seen`)).json()) as Seen
  const ask = async (path: string, body?: object, headers: Record<string, string> = {}) => {
    const asked = {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    }
    return (await (await fetch(`${server.address}${path}`, asked)).json()) as Record<string, string>
  }
  const submit = (task_name: string, note: string, headers = {}) =>
    ask('/commands', { task_name, payload: { note } }, headers)
  const reaches = (command: Record<string, string>, status: string) =>
    until(async () => (await ask(`/commands/${command['command_id']}`))['status'] === status, status)
  const shows = (metric: string, isWanted: (value: number) => boolean | Promise<boolean>) =>
    until(async () => isWanted((await seen()).metrics[metric] ?? Number.NaN), metric)
  const countReached = async (status: string) => {
    const [row] = await database.db.query<{ count: number }>(
      `select count(*)::int as count from concord.domain_events
       where event_type = 'status_changed' and payload->>'target_type' = 'command' and payload->>'to' = $1`,
      [status],
    )
    return row?.count
  }

  before(async () => {
    database = await openTestDb()
    folder = await mkdtemp(join(tmpdir(), 'concord-telemetry-'))
    await writeProject(folder, 'payments')
    collector = spawn(process.execPath, [new URL('../support/collector.ts', import.meta.url).pathname], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    assert.ok(collector.stdout)
    const first = await createInterface({ input: collector.stdout })[Symbol.asyncIterator]().next()
    url = String(first.value)
    server = await serveConcord({ env: { ...env(), OTEL_SERVICE_NAME: 'server', CONCORD_WORK: '0' }, cwd: folder })
    key = (await readFile(server.keyFile, 'utf8')).trim()
  })
  after(async () => {
    // The worker of a test that failed is still there.
    for (const running of [worker, server]) if (running) await endProcess(running)
    collector.kill('SIGKILL')
    await database.close()
    await rm(folder, { recursive: true, force: true })
  })

  test('[EVT-04] [MIS-339] a command that one process takes and another runs is one trace, and the metrics follow it', {
    timeout: 300_000,
  }, async () => {
    const hex = '4bf92f3577b34da6a3ce929d0e0e4736'
    const asked = await submit('Ask Narrowly', 'private words', { traceparent: `00-${hex}-00f067aa0ba902b7-01` })
    await shows('server concord_command_statuses{status=created}', (value) => value === 1)
    await shows('server concord_queue_lag_seconds{}', (value) => value > 0)
    await shows('server concord_commands_open{status=created}', (value) => value === 1)

    worker = spawnConcord(['--json', 'worker'], { env: { ...env(), OTEL_SERVICE_NAME: 'worker' }, cwd: folder })
    await reaches(asked, 'succeeded')
    await shows('server concord_workers{}', (value) => value === 1)
    await shows('server concord_queue_lag_seconds{}', (value) => value === 0)
    await shows('worker concord_transaction_conflicts{}', (value) => value >= 0)
    // The worker also runs what is due every five minutes, so one command is not always the only one.
    await shows(
      'worker concord_command_statuses{status=succeeded}',
      async (n) => n === (await countReached('succeeded')),
    )

    const agreed = await submit('Pay when agreed', 'agreed')
    await reaches(agreed, 'waiting_for_approval')
    await shows('server concord_commands_open{status=waiting_for_approval}', (value) => value === 1)
    await shows('worker concord_oldest_approval_seconds{}', (value) => value > 0)
    await ask(`/commands/${agreed['command_id']}/cancel`, {})
    await shows('server concord_oldest_approval_seconds{}', (value) => value === 0)

    await submit('Pay blindly', 'lost')
    await shows('server concord_effects_in_doubt{}', (value) => value === 1)

    const held = await submit('Pay until stopped', 'held')
    await shows('worker concord_retries{error_class=transient_connector_error}', (value) => value >= 2)
    const abort = ['stuck', 'abort', held['command_id'] ?? '', '--reason', 'a test']
    const { code, err } = await runConcord(abort, { env: env(), cwd: folder })
    assert.equal(code, 0, err)
    await shows('server concord_stuck{}', (value) => value === 1)

    const text = await (await fetch(`${server.address}/metrics`)).text()
    assert.match(text, /^concord_stuck\{[^}]*\} 1$/m)
    assert.match(text, /^concord_mission_event_bytes\{[^}]*table="missions\.orchestration_events"[^}]*\} [1-9]/m)

    // A process sends its last spans when it ends.
    await endProcess(worker)
    await until(async () => (await seen()).spans.some(({ name }) => name === 'submit ask_narrowly'), 'the last span')
    const { spans, calls } = await seen()
    const ours = spans.filter(({ traceId }) => traceId === hex)
    const say = ({ kind, name }: (typeof spans)[number]) => `${kinds[kind]} ${name}`
    const byId = new Map(ours.map((span) => [span.spanId, span]))
    const above = ({ parentSpanId = '' }: (typeof spans)[number]) => byId.get(parentSpanId)
    const depthOf = (span: (typeof spans)[number]): number => {
      const parent = above(span)
      return parent ? depthOf(parent) + 1 : 0
    }
    const tree = ours.map((span) => {
      const parent = above(span)
      return `${span.process}: ${say(span)} < ${parent ? say(parent) : span.parentSpanId}`
    })
    assert.deepEqual([...new Set(tree)].toSorted(), [
      'server: PRODUCER submit ask_narrowly < SERVER POST /commands',
      'server: SERVER POST /commands < 00f067aa0ba902b7',
      'worker: CLIENT call narrow.ask < INTERNAL effect connector.narrow.ask',
      'worker: CONSUMER turn ask_narrowly < PRODUCER submit ask_narrowly',
      'worker: INTERNAL command ask_narrowly < PRODUCER submit ask_narrowly',
      'worker: INTERNAL effect connector.narrow.ask < CONSUMER turn ask_narrowly',
    ])
    // As the guide shows it. The span of the whole command begins with the first turn, and comes after it.
    const guide = await readFile(new URL('../../docs/guides/telemetry.md', import.meta.url), 'utf8')
    const shown = guide.split('```text output=trace\n')[1]?.split('```')[0]
    const order = ['POST', 'submit', 'turn', 'effect', 'call', 'command']
    const placeOf = ({ name }: (typeof spans)[number]) => order.indexOf(name.split(' ')[0] ?? '')
    const lines = ours
      .toSorted((a, b) => placeOf(a) - placeOf(b))
      .map((span) => `${span.process}  ${kinds[span.kind]?.padEnd(10)}${'  '.repeat(depthOf(span))}${span.name}\n`)
    assert.equal([...new Set(lines)].join(''), shown)

    const call = ours.find(({ name }) => name === 'call narrow.ask')
    assert.equal(call?.attributes['http.response.status_code'], '200')
    assert.ok(calls.includes(`00-${hex}-${call.spanId}-01`), calls.join())
    const life = ours.find(({ name }) => name === 'command ask_narrowly')
    assert.deepEqual(
      [life?.attributes['concord.command.id'], life?.attributes['concord.command.status']],
      [asked['command_id'], 'succeeded'],
    )
    assert.ok(BigInt(life?.endTimeUnixNano ?? 0) > BigInt(life?.startTimeUnixNano ?? 0))
    const request = ours.find(({ kind }) => kinds[kind] === 'SERVER')
    assert.deepEqual(
      [request?.attributes['http.route'], request?.attributes['http.response.status_code']],
      ['/commands', '202'],
    )
    assert.doesNotMatch(JSON.stringify(spans), /private words/)
    // Another request is another trace; a probe is none.
    assert.equal(
      spans.some(({ name }) => name.endsWith('/metrics')),
      false,
    )
    const blind = spans.find(({ name }) => name === 'turn pay_blindly')
    assert.ok(blind && blind.traceId !== hex)
    assert.equal(
      spans.find(({ name }) => name === 'effect pay.blind')?.attributes['error.type'],
      'transient_connector_error',
    )
  })
})
