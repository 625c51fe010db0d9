/** An alert survives kill -9 before it is raised, before it is delivered and before its delivery is recorded. On-call gets it under one id. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { actingFor, checkDelivery, compensateCommand } from '#domains/commands'
import { dateAlerts } from '#test/commands'
import { openOperatedRoom } from '#test/operated-room'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'

const SECRET = 'the secret of the pager: 32 characters'

type Heard = {
  readonly id: string
  readonly body: { readonly type: string; readonly incident_id: string; readonly next: string }
}

test('[EFF-20] [OPS-03] a drift reaches on-call in spite of three kills, by webhook, in the inbox and in the explanation of its command', async (t) => {
  const heard: Heard[] = []
  const pager = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      const head = (name: string) => String(request.headers[name] ?? '')
      const delivery = {
        id: head('webhook-id'),
        timestamp: head('webhook-timestamp'),
        signature: head('webhook-signature'),
        body,
      }
      if (!checkDelivery({ secret: Buffer.from(SECRET) }, delivery, new Date()).ok)
        return void response.writeHead(401).end()
      heard.push({ id: delivery.id, body: JSON.parse(body.toString('utf8')) as Heard['body'] })
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => pager.listen(0, '127.0.0.1', resolve))
  const { room, concordWith, serve } = await openOperatedRoom(t)
  t.after(() => {
    pager.closeAllConnections()
    pager.close()
  })
  await dateAlerts(room, room.clock.now())

  // No sweep runs in this process, as if it had died right after it recorded the drift.
  const id = await room.submit({ subject: 's', steps: ['work.drifting', 'connector.hotel.book_a'] })
  room.provider.modes.push('ok', 'refuse')
  await room.settle(id)
  const { admin } = room.tenant.people
  const asked = { workspaceId: room.tenant.workspace.id, commandId: id }
  accepted(await compensateCommand(room.world, actingFor(admin.principal, TRACE), asked))
  assert.equal(await room.settle(id), 'compensated')
  const records = async () =>
    (
      await room.rows<{ what: string }>(
        `select event_type || coalesce(' ' || (payload->>'channel'), '') as what from concord.domain_events
          where command_id = $1 and event_type like 'alert%' order by seq`,
        [id],
      )
    ).map(({ what }) => what)
  assert.deepEqual(await records(), [])

  const notify = {
    CONCORD_NOTIFY_URL: `http://127.0.0.1:${(pager.address() as AddressInfo).port}/`,
    CONCORD_NOTIFY_SECRET: SECRET,
  }
  const killedAt = async (point: string) => {
    const plan = JSON.stringify([{ point, hit: 1, act: 'kill' }])
    const { signal, err } = await concordWith({ ...notify, CONCORD_FAULTS: plan }, 'worker')
    assert.equal(signal, 'SIGKILL', `${point}: ${err}`)
  }
  await killedAt('commands.alert_raised')
  assert.deepEqual([await records(), heard.length], [['alert_raised'], 0])
  await killedAt('commands.alert_delivered')
  assert.deepEqual([await records(), heard.length], [['alert_raised', 'alert_delivered app'], 1])

  const { address } = await serve(notify)
  const all = ['alert_raised', 'alert_delivered app', 'alert_delivered webhook']
  await until(async () => (await records()).length === all.length)
  assert.deepEqual(await records(), all)
  // Delivered before the kill and again after it, under one id: a receiver drops the repeat.
  assert.deepEqual([heard.length, new Set(heard.map((each) => each.id)).size], [2, 1])
  assert.ok(heard.every((each) => each.body.type === 'compensation.drift' && each.body.incident_id === each.id))
  const ask = async (path: string) => {
    const response = await fetch(`${address}${path}`, {
      headers: { authorization: `Bearer ${admin.key}`, 'x-workspace': 'main' },
    })
    return (await response.json()) as { items: { subject: string; text: string }[]; chain: { text: string }[] }
  }
  const { items } = await ask('/notifications')
  assert.deepEqual(
    items.map(({ subject }) => subject),
    ['Work: compensation did not go as declared'],
  )
  assert.ok(items[0]?.text.includes(heard[0]?.body.next ?? 'nothing'))
  const { chain } = await ask(`/commands/cmd_${id.replaceAll('-', '')}/explanation`)
  assert.deepEqual(
    chain.map(({ text }) => text).filter((text) => text.startsWith('Operators')),
    ['Operators were alerted through app.', 'Operators were alerted through webhook.'],
  )
})
