/** Schedules and approvals on a real server with a worker beside it: made from the terminal, fired by the clock, told to people, through kill -9. */
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, describe, test } from 'node:test'
import { checkDelivery } from '#domains/commands'
import { freePort, runConcord } from '#test/concord-process'
import { until } from '#test/until'
import { withServer } from '#test/with-server'

const SECRET = 'the secret of this journey'
type Notice = { readonly id: string; readonly isSigned: boolean; readonly body: Record<string, unknown> }

/** The next full minute first, so that a busy machine has the whole time of a wait for what comes then. */
async function minutePasses(): Promise<void> {
  const next = (Math.floor(Date.now() / 60_000) + 1) * 60_000
  await until(() => Date.now() > next, 'the next minute')
}

describe('schedules on a server', () => {
  let receiver: Server
  let bossKey: string
  const notices: Notice[] = []
  const server = withServer({
    project: 'commands',
    async env() {
      // Down at first, as receivers are.
      receiver = createServer((request, response) => {
        const chunks: Buffer[] = []
        request.on('data', (chunk: Buffer) => chunks.push(chunk))
        request.on('end', () => {
          const header = (name: string) => String(request.headers[name])
          const bytes = Buffer.concat(chunks)
          const [id, timestamp, signature] = [
            header('webhook-id'),
            header('webhook-timestamp'),
            header('webhook-signature'),
          ]
          const delivery = { id, timestamp, signature, body: bytes }
          const isSigned = checkDelivery({ secret: Buffer.from(SECRET) }, delivery, new Date()).ok
          notices.push({ id, isSigned, body: JSON.parse(bytes.toString()) as Record<string, unknown> })
          response.writeHead(notices.length <= 2 ? 503 : 204).end()
        })
      }).listen(0, '127.0.0.1')
      await new Promise((resolve) => receiver.once('listening', resolve))
      return {
        CONCORD_LOG_LEVEL: 'error',
        CONCORD_QUEUES: '{"scheduled_maintenance":{"concurrency":3}}',
        CONCORD_NOTIFY_URL: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/concord`,
        CONCORD_NOTIFY_SECRET: SECRET,
      }
    },
    async ready({ start, hire }) {
      start('--json', 'worker')
      bossKey = await hire('boss', 'boss')
    },
  })
  after(() => receiver?.close())
  const { concord } = server
  const ticks = () =>
    server.database.db.query<{ command_id: string; status: string; idempotency_key: string }>(
      `select command_id, status, idempotency_key from concord.commands where command_type = 'tick' order by created_at`,
    )

  test('[SCD-01] [SCD-05] the catalog’s schedule fires by the real clock, once per minute for server and worker together', async () => {
    await minutePasses()
    await until(async () => (await ticks()).some(({ status }) => status === 'succeeded'), 'a tick')
    const keys = (await ticks()).map(({ idempotency_key }) => idempotency_key)
    assert.equal(new Set(keys).size, keys.length)
    for (const key of keys) assert.match(key, /^schedule:every minute:.*:00\.000Z$/)
    const listed = await concord('schedules', 'list')
    assert.match(
      listed.out,
      /^every minute +tick +\* \* \* \* \* +UTC +\d\d:\d\d, in .+ \d\d:\d\d, .+ cmd_[0-9a-f]{32}/m,
    )
    assert.match(listed.out, /^expire_pending_approvals +expire_approvals +\*\/5 \* \* \* \*/m)
  })

  test('made, shown, switched and ended from the terminal; mistakes name the next step', async () => {
    const add = (...more: string[]) =>
      concord('schedules', 'add', 'asked_tick', '--name', 'nightly', '--cron', '30 2 * * *', ...more)
    const lacking = await add()
    assert.equal(lacking.code, 65)
    assert.match(lacking.err, /The payload lacks note\.[\s\S]*schedules\.payload\.invalid/)
    const made = await add(
      '--payload',
      '{"note":"x"}',
      '--zone',
      'Europe/Berlin',
      '--jitter',
      '30s',
      '--overlap',
      'queue',
    )
    assert.equal(made.code, 0, made.err)
    assert.match(made.out, /^csched_[0-9a-f]{32}\n$/)
    assert.match(made.err, /^next at .*\d\d:30, in /)
    const shown = await concord('schedules', 'show', 'nightly', '--count', '3')
    assert.match(
      shown.out,
      /times +30 2 \* \* \* Europe\/Berlin\n[\s\S]*overlap +queue[\s\S]*0 fired, 0 missed, 0 open/,
    )
    assert.ok((shown.out.match(/\d\d:30\b/g)?.length ?? 0) >= 3, shown.out)
    assert.equal((await concord('schedules', 'disable', 'nightly')).out, 'switched off\n')
    assert.match((await concord('schedules', 'list')).out, /nightly.*switched off +not yet/)
    assert.match((await concord('schedules', 'enable', 'nightly')).out, /^next at /)
    assert.equal((await concord('schedules', 'remove', 'nightly')).out, 'removed\n')
    const gone = await concord('schedules', 'show', 'nightly')
    assert.equal(gone.code, 65)
    assert.match(gone.err, /concord schedules list/)
    assert.equal((await concord('schedules', 'remove', 'every minute')).code, 75)
  })

  test('[APR-06] [APR-07] [APR-08] a firing asks a person, who is told through a receiver that was down; the server is killed while it waits', async () => {
    const made = await concord(
      'schedules',
      'add',
      'asked_tick',
      '--name',
      'asked',
      '--cron',
      '* * * * *',
      '--payload',
      '{"note":"x"}',
    )
    assert.equal(made.code, 0, made.err)
    await minutePasses()
    await until(async () => notices.length >= 3, 'the notice')
    assert.ok(notices.every(({ isSigned }) => isSigned))
    const about = notices.filter(({ id }) => id === notices[0]?.id)
    assert.ok(about.length >= 3, 'the same notice, until it was taken')
    assert.equal(about[0]?.body['type'], 'approval.requested')
    assert.ok(!JSON.stringify(about[0]?.body).includes('"note"'))
    const approvalId = String(about[0]?.body['approval_id'])
    const told = () =>
      server.database.db.query<{ channel: string }>(
        `select payload->>'channel' as channel from concord.domain_events
          where event_type = 'approval_notified' and 'appr_' || replace(payload->>'approval_id', '-', '') = $1 order by seq`,
        [approvalId],
      )
    await until(async () => (await told()).length === 2, 'both channels on record')
    assert.deepEqual((await told()).map(({ channel }) => channel).sort(), ['app', 'webhook'])

    await server.stop('SIGKILL')
    await server.serve()
    server.start('--json', 'worker')
    const approved = await server.as(bossKey, 'approve', approvalId)
    assert.equal(approved.code, 0, approved.err)
    const commandId = String(about[0]?.body['command_id'])
    await until(async () => {
      const { out } = await concord('commands', 'show', commandId, '--json')
      return (JSON.parse(out) as { status: string }).status === 'succeeded'
    }, 'the command goes on')
    assert.equal((await concord('schedules', 'remove', 'asked')).code, 0)
  })

  test('limits that make no sense stop the start, with their place', async () => {
    const { env, folder } = server
    const wrong = { ...env, CONCORD_PORT: await freePort(), CONCORD_QUEUES: '{"conector_calls":{"concurrency":2}}' }
    const refused = await runConcord(['up'], { env: wrong, cwd: folder })
    assert.equal(refused.code, 78)
    assert.match(refused.err, /CONCORD_QUEUES: there is no queue "conector_calls"[\s\S]*Did you mean connector_calls\?/)
    const unsigned = await runConcord(['worker'], { env: { ...env, CONCORD_NOTIFY_SECRET: 'short' }, cwd: folder })
    assert.equal(unsigned.code, 78)
    assert.match(unsigned.err, /CONCORD_NOTIFY_SECRET must have at least 16 characters/)
  })
})
