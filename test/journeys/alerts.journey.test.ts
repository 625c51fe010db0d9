/** An alert through kill -9: recorded and not raised, raised and not delivered, delivered and not recorded. On-call hears of it under one id. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { actingFor, checkDelivery, compensateCommand } from '#domains/commands'
import { dateAlerts, openTestRoom } from '#test/commands'
import { freePort, type Served, serveConcord, spawnConcord } from '#test/concord-process'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'

const SECRET = 'the secret of the pager: 32 characters'

type Heard = {
  readonly id: string
  readonly body: { readonly type: string; readonly incident_id: string; readonly next: string }
}

test('[EFF-20] [OPS-03] a drift reaches on-call through three kills, and through the webhook, the inbox and the story of its command', async (t) => {
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
  const home = await mkdtemp(join(tmpdir(), 'concord-alerts-'))
  const room = await openTestRoom()
  await dateAlerts(room, room.clock.now())
  const servers: Served[] = []
  t.after(async () => {
    for (const { child, ended } of servers) {
      child.kill('SIGTERM')
      await ended
    }
    await room.close()
    pager.closeAllConnections()
    pager.close()
    await rm(home, { recursive: true, force: true })
  })

  // The process that recorded the drift is gone before anything else: nothing here sweeps.
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

  const env = {
    CONCORD_HOME: home,
    DATABASE_URL: room.db.config.url,
    CONCORD_UNSAFE_TEST: '1',
    CONCORD_NOTIFY_URL: `http://127.0.0.1:${(pager.address() as AddressInfo).port}/`,
    CONCORD_NOTIFY_SECRET: SECRET,
    CONCORD_PORT: await freePort(),
  }
  const killedAt = async (point: string) => {
    const plan = JSON.stringify([{ point, hit: 1, act: 'kill' }])
    const { signal, err } = await spawnConcord(['worker'], { env: { ...env, CONCORD_FAULTS: plan } }).ended
    assert.equal(signal, 'SIGKILL', `${point}: ${err}`)
  }
  await killedAt('commands.alert_raised')
  assert.deepEqual([await records(), heard.length], [['alert_raised'], 0])
  await killedAt('commands.alert_delivered')
  assert.deepEqual([await records(), heard.length], [['alert_raised', 'alert_delivered app'], 1])

  const server = await serveConcord({ env })
  servers.push(server)
  const { address } = server
  const all = ['alert_raised', 'alert_delivered app', 'alert_delivered webhook']
  await until(async () => (await records()).length === all.length)
  assert.deepEqual(await records(), all)
  // Told before the kill and once more after it, under one id: a receiver drops the repeat.
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
