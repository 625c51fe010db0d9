/** Alerts: every drift and every failed compensation reaches the operators once, on each channel, whatever fails in between. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { listStatements } from '#store'
import { openAccount, reserveCost, settleCost } from '#domains/budgets'
import { listNotifications } from '#domains/connectors'
import { bySystem } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { Process } from '#runtime'
import { units } from '#test/budgets'
import { dateAlerts, nextFence, openTestRoom, type TestRoom } from '#test/commands'
import { accepted, anOrgRole, aPerson, TRACE } from '#test/tenant'
import { ALERT_KIND, type AlertChannel, openAlertDrive, openAlertSweep } from './alerts.ts'
import { actingFor } from './deps.ts'
import type { Alert } from './incidents.ts'
import { compensateCommand } from './change-command.ts'

const BOOK_A = 'connector.hotel.book_a'
const BOOK_B = 'connector.hotel.book_b'

describe('alerts', () => {
  let room: TestRoom
  const woken: Process[] = []
  const heard: { id: string; alert: Alert }[] = []
  let failing = 0
  const pager: AlertChannel = {
    name: 'pager',
    deliver: (id, alert) => {
      if (failing > 0) {
        failing -= 1
        return Promise.reject(new Error('the receiver answered 503'))
      }
      heard.push({ id, alert })
      return Promise.resolve()
    },
  }
  const deps = () => ({
    ...room.clock,
    wake: (process: Process) => Promise.resolve(void woken.push(process)),
    channels: [pager],
  })
  const turn = (id: string) => openAlertDrive(deps())(id, nextFence())

  before(async () => {
    room = await openTestRoom()
    await dateAlerts(room, room.clock.now())
    // Gone: an administrator who left hears of nothing.
    const gone = await aPerson(room.clock, room.tenant, 'admin')
    await room.rows(`update identity.users set deactivated_at = $2 where id = $1`, [
      gone.principal.userId,
      room.clock.now(),
    ])
  })
  after(() => room.close())

  async function undone(
    steps: readonly string[],
    modes: readonly ('ok' | 'refuse')[],
    undo: readonly ('ok' | 'refuse')[],
  ) {
    const id = await room.submit({ subject: 's', steps })
    room.provider.modes.push(...modes)
    assert.equal(await room.settle(id), 'failed')
    const operator = actingFor(room.tenant.people.admin.principal, TRACE)
    const by = { workspaceId: room.tenant.workspace.id, commandId: id }
    accepted(await compensateCommand(room.world, operator, by))
    room.provider.modes.push(...undo)
    await room.settle(id)
    return id
  }
  const inboxOf = async (person: 'admin' | 'writer') => {
    const { userId } = room.tenant.people[person].principal
    const inbox = { workspaceId: room.tenant.workspace.id, userId, recipients: [encodeId('user', userId)] }
    return (await listNotifications(room.db, inbox, { limit: 50 })).map(({ command_id, subject, text }) => ({
      command_id,
      subject,
      text,
    }))
  }
  const records = async (id: string) =>
    (
      await room.rows<{ what: string }>(
        `select event_type || coalesce(' ' || (payload->>'channel'), '') as what from concord.domain_events
          where command_id = $1 and event_type like 'alert%' order by seq`,
        [id],
      )
    ).map(({ what }) => what)

  test('[EFF-20] [OPS-03] a drift is on record and reaches on-call: who, what, and the next step, in the app and outside', async () => {
    const id = await undone(['work.drifting', BOOK_A], ['ok', 'refuse'], [])
    const [event] = await room.rows<{ event_id: string; purpose: string; payload: { drift: string[] } }>(
      `select event_id, purpose, payload from concord.domain_events where command_id = $1 and event_type = 'compensation_drift'`,
      [id],
    )
    assert.ok(event)
    assert.deepEqual([event.purpose, event.payload.drift], ['audit', ['work.something_else']])
    const sweep = openAlertSweep(deps())
    assert.deepEqual([await sweep(), await sweep()], [1, 0])
    assert.deepEqual(woken.splice(0), [{ kind: ALERT_KIND, id: event.event_id }])
    assert.deepEqual(await turn(event.event_id), { t: 'done' })
    assert.deepEqual(await turn(event.event_id), { t: 'done' })
    const shown = encodeId('command', id)
    const requester = encodeId('user', room.tenant.people.writer.principal.userId)
    const what = `The compensation of Work (${shown}, requested by ${requester}) differs from its declaration. Done but not declared: work.something_else. Declared but not done: work.undrift.`
    const next = `Run \`concord why ${shown}\` and correct the difference manually.`
    assert.equal(heard.length, 1)
    assert.equal(heard[0]?.id, encodeId('event', event.event_id))
    const { type, status, command_id, on_call, ...alert } = heard[0].alert
    assert.deepEqual(
      [type, status, command_id, alert.task, alert.requested_by, alert.what, alert.next, alert.trace_id],
      ['compensation.drift', 'compensated', shown, 'Work', requester, what, next, TRACE],
    )
    assert.deepEqual(on_call, [encodeId('user', room.tenant.people.admin.principal.userId)])
    assert.deepEqual(await inboxOf('admin'), [
      { command_id: id, subject: 'Work: compensation did not go as declared', text: `${what} ${next}` },
    ])
    assert.deepEqual(await inboxOf('writer'), [])
    assert.deepEqual(await records(id), ['alert_raised', 'alert_delivered app', 'alert_delivered pager'])
  })

  test('[EFF-20] [OPS-03] a compensation that failed reaches on-call too; a receiver that is down is asked again, and everybody hears once', async () => {
    heard.length = 0
    const id = await undone([BOOK_A, BOOK_B, BOOK_A], ['ok', 'ok', 'refuse'], ['refuse'])
    assert.equal(await room.statusOf(id), 'failed')
    assert.equal(await openAlertSweep(deps())(), 1)
    const incident = woken.splice(0)[0]?.id ?? ''
    failing = 2
    await assert.rejects(turn(incident), /answered 503/)
    await assert.rejects(turn(incident), /answered 503/)
    assert.deepEqual(await turn(incident), { t: 'done' })
    assert.deepEqual(await turn(incident), { t: 'done' })
    assert.equal(heard.length, 1)
    assert.equal(heard[0]?.alert.type, 'compensation.failed')
    assert.match(heard[0]?.alert.what ?? '', /stopped: undo failed: the provider says no\. Effects left to undo: 1\.$/)
    assert.match(heard[0]?.alert.next ?? '', /`concord undo cmd_[0-9a-f]{32}`/)
    assert.equal((await inboxOf('admin')).length, 2)
    assert.deepEqual(await records(id), ['alert_raised', 'alert_delivered app', 'alert_delivered pager'])
  })

  test('[EFF-20] no drift, no row and no alert', async () => {
    const id = await undone([BOOK_A, BOOK_B], ['ok', 'refuse'], ['ok'])
    assert.equal(await room.statusOf(id), 'compensated')
    assert.equal(await openAlertSweep(deps())(), 0)
    assert.deepEqual(await records(id), [])
    const drift = await room.rows(
      `select 1 from concord.domain_events where command_id = $1 and event_type = 'compensation_drift'`,
      [id],
    )
    assert.deepEqual(drift, [])
  })

  test('[OPS-03] a breach of a budget and a model in quarantine reach the holders of the role for on-call, each once', async () => {
    heard.length = 0
    const commandId = await room.submit({ subject: 's', steps: [] })
    const account = {
      workspaceId: room.tenant.workspace.id,
      accountId: room.clock.newId(),
      at: room.clock.now(),
      key: 'turn:1',
      model: 'writer',
      amount: units('1'),
    }
    const actor = bySystem(TRACE)
    await room.db.transaction(async (tx) => {
      accepted(await openAccount(tx, { ...account, commandId, parentId: null, limit: units('10') }))
      accepted(await reserveCost(tx, account))
      accepted(await settleCost(tx, actor, { ...account, amount: units('1.25') }))
    })
    const holder = await aPerson(room.clock, room.tenant, 'writer')
    await anOrgRole(room.clock, room.tenant.orgId, 'pager', [holder])
    const onCall = { ...deps(), onCallRole: 'pager' }
    assert.deepEqual([await openAlertSweep(onCall)(), await openAlertSweep(onCall)()], [2, 0])
    const before = (await inboxOf('admin')).length
    for (const { id } of woken.splice(0)) {
      for (const _ of [1, 2]) assert.deepEqual(await openAlertDrive(onCall)(id, nextFence()), { t: 'done' })
    }
    const budget = encodeId('budget', account.accountId)
    assert.deepEqual(
      heard
        .map(({ alert }) => [alert.type, alert.command_id, alert.on_call] as const)
        .toSorted(([one], [other]) => one.localeCompare(other)),
      ['budget.breached', 'model.quarantined'].map((type) => [
        type,
        encodeId('command', commandId),
        [encodeId('user', holder.principal.userId)],
      ]),
    )
    const next = heard.map(({ alert }) => `${alert.what} ${alert.next}`).join('\n')
    for (const part of ['0.250000 units', `concord budgets show ${budget}`, 'concord budgets lift writer'])
      assert.ok(next.includes(part), next)
    const userId = holder.principal.userId
    const inbox = { workspaceId: room.tenant.workspace.id, userId, recipients: [encodeId('user', userId)] }
    assert.equal((await listNotifications(room.db, inbox, { limit: 50 })).length, 2)
    assert.equal((await inboxOf('admin')).length, before)
    assert.equal((await records(commandId)).filter((what) => what.startsWith('alert_delivered')).length, 4)
  })

  test('[OPS-03] an incident of long ago is found by the next process that starts, and once by all sweepers of all processes', async () => {
    await undone(['work.drifting', BOOK_A], ['ok', 'refuse'], [])
    woken.length = 0
    room.clock.travel(30 * 24 * 3_600_000)
    const raised = await Promise.all(Array.from({ length: 6 }, () => openAlertSweep(deps())()))
    assert.equal(
      raised.reduce((sum, each) => sum + each, 0),
      1,
    )
    assert.equal(woken.length, 1)
  })

  test('[OPS-03] the first sweep after an upgrade raises no alert for history: it begins a day before the database learned of alerts', async () => {
    const [hourMs, learned] = [3_600_000, new Date(room.clock.now().getTime() + 48 * 3_600_000)]
    const old = await undone(['work.drifting', BOOK_A], ['ok', 'refuse'], [])
    room.clock.travel(25 * hourMs)
    const recent = await undone(['work.drifting', BOOK_A], ['ok', 'refuse'], [])
    room.clock.travel(24 * hourMs)
    await dateAlerts(room, learned)
    assert.equal(await openAlertSweep(deps())(), 1)
    assert.deepEqual([await records(old), await records(recent)], [[], ['alert_raised']])
  })

  test('the look for incidents reads the index of incidents', async () => {
    const look = listStatements().find(({ name }) => name === 'commands_list_unraised_incidents')
    const plan = await room.rows<{ 'QUERY PLAN': string }>(`explain ${look?.text}`, [new Date(), 10])
    assert.match(plan.map((row) => row['QUERY PLAN']).join('\n'), /journal_incidents_ix/)
  })
})
