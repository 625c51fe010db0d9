/** Webhooks to a real server that fails, repeats and redirects: signed, at least once, with one id per fact. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, describe, test } from 'node:test'
import { finishRun } from './finish-run.ts'
import { recover } from './recover.ts'
import { aRun, aScheduler, fail, must, rowsOf } from '#test/scheduler/fixture'
import { deliverDue, webhookDeliver } from './notifications.ts'

type Got = { readonly id: string; readonly timestamp: string; readonly signature: string; readonly body: string }

/** The timeout is short only for the receiver that never answers, because the machine may be busy. */
async function aReceiver(answer: (count: number, response: ServerResponse) => void, timeoutMs = 60_000) {
  const got: Got[] = []
  const server = createServer((request: IncomingMessage, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => (body += text))
    request.on('end', () => {
      const head = (name: string) => String(request.headers[name])
      got.push({
        id: head('webhook-id'),
        timestamp: head('webhook-timestamp'),
        signature: head('webhook-signature'),
        body,
      })
      answer(got.length, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = () => new Promise((resolve) => server.close(resolve))
  after(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const deliver = webhookDeliver({
    url,
    secret: 'top secret',
    fetch,
    timeout: (ms) => AbortSignal.timeout(ms),
    timeoutMs,
  })
  return { got, deliver, close }
}

const never = () => new AbortController().signal

describe('the sender', () => {
  test('[SCH-116] [SCH-110] failure, success and recovery send notifications, signed over id, time and body', async () => {
    const { got, deliver } = await aReceiver((_, response) => response.writeHead(204).end())
    const scheduler = aScheduler()
    fail(scheduler, aRun(scheduler).runId)
    must(finishRun(scheduler, aRun(scheduler).runId, { outcome: 'completed' }))
    aRun(scheduler)
    must(await recover(scheduler, { endOrphan: async () => 'gone' }))
    await deliverDue(scheduler, deliver, never())
    const kinds = got.map(({ body }) => (JSON.parse(body) as { kind: string }).kind)
    assert.deepEqual(kinds, ['run_failed', 'run_completed', 'run_failed'])
    for (const { id, timestamp, signature, body } of got) {
      const mac = createHmac('sha256', 'top secret').update(`${id}.${timestamp}.${body}`).digest('base64')
      assert.equal(signature, `v1,${mac}`)
      assert.equal(timestamp, String(Math.floor(scheduler.clock.ms / 1_000)))
    }
    assert.equal(new Set(got.map(({ id }) => id)).size, 3)
  })

  test('[SCH-116] one that fails is sent again later, with the same id and body', async () => {
    const { got, deliver } = await aReceiver((count, response) => response.writeHead(count < 3 ? 500 : 200).end())
    const scheduler = aScheduler()
    must(finishRun(scheduler, aRun(scheduler).runId, { outcome: 'completed' }))
    const failures: string[] = []
    for (let round = 0; round < 4; round++) {
      await deliverDue(scheduler, deliver, never(), ({ error }) => failures.push(error))
      scheduler.clock.by(10_000)
    }
    assert.deepEqual(failures, ['The receiver answered 500.', 'The receiver answered 500.'])
    assert.equal(got.length, 3)
    assert.equal(new Set(got.map(({ id, body }) => id + body)).size, 1)
    assert.deepEqual(
      rowsOf(scheduler, 'notifications').map((row) => [row['status'], row['attempts']]),
      [['DELIVERED', 3]],
    )
  })

  test('a redirect, silence and a closed port are failures', async () => {
    const redirecting = await aReceiver((_, response) => response.writeHead(302, { location: '/elsewhere' }).end())
    const silent = await aReceiver(() => {}, 200)
    const closed = await aReceiver(() => {})
    await closed.close()
    for (const [deliver, said] of [
      [redirecting.deliver, /answered 302/],
      [silent.deliver, /cannot be reached/],
      [closed.deliver, /cannot be reached/],
    ] as const) {
      const scheduler = aScheduler()
      must(finishRun(scheduler, aRun(scheduler).runId, { outcome: 'completed' }))
      const failures: string[] = []
      await deliverDue(scheduler, deliver, never(), ({ error }) => failures.push(error))
      assert.equal(failures.length, 1)
      assert.match(failures[0] ?? '', said)
    }
    assert.equal(redirecting.got.length, 1)
  })
})
