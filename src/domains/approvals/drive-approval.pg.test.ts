import assert from 'node:assert/strict'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import { checkDelivery } from '#test/signature'
import type { Next } from '#runtime'
import { type ApprovalRoom, by, openApprovalRoom } from '#test/approvals'
import { accepted, anOrgRole, aPerson, aWorld, TRACE } from '#test/tenant'
import { encodeId } from '#kernel/ids'
import { openApprovalDrive } from './drive-approval.ts'
import { findStanding } from './check-deciders.ts'
import { appChannel, noticeBody, webhookChannel } from './notify-approvers.ts'
import { requestApproval } from './request-approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalNotice, ApprovalOwner, NoticeChannel } from './deps.ts'

const fence = { token: '', turn: 'turn:approval:test:1', attempt: 1, signal: new AbortController().signal }

describe('the turns of an approval', () => {
  let room: ApprovalRoom
  let heard: string[]
  /** Fails as often as the test asks. */
  let refusals: number
  const fickle: NoticeChannel = {
    name: 'fickle',
    deliver({ id, notice }) {
      heard.push(`${notice} ${id}`)
      return refusals-- > 0
        ? Promise.reject(new Error('not now: Bearer abcdef0123456789 is unknown'))
        : Promise.resolve()
    },
  }
  before(async () => {
    room = await openApprovalRoom()
  })
  after(() => room.close())
  beforeEach(() => {
    heard = []
    refusals = 0
  })

  const driveOf = (channels: readonly NoticeChannel[] = [appChannel, fickle], owner: Partial<ApprovalOwner> = {}) =>
    openApprovalDrive({ ...room.with(owner), channels, random: () => 0.5, newTraceId: () => TRACE })
  const turn = (approval: StoredApproval, drive = driveOf()): Promise<Next> => drive(approval.approval_id, fence)
  const told = async (approval: StoredApproval) =>
    (await room.eventsOf(approval))
      .filter(({ type }) => type !== 'approval_requested')
      .map(({ type, payload }) =>
        [type, ...['notice', 'channel', 'reminder', 'role'].flatMap((name) => said(payload[name]))].join(' '),
      )
  const minutesUntil = (next: Next) =>
    next.t === 'wait' && next.until ? Math.round((next.until.getTime() - Date.now()) / 60_000) : null

  test('[APR-06] [APR-17] every approver is notified once on every channel, however many turns there are', async () => {
    const approval = await room.ask({ approvalType: 'patient' })
    assert.equal(minutesUntil(await turn(approval)), 10)
    await Promise.all(Array.from({ length: 5 }, () => turn(approval)))
    assert.deepEqual(heard, [`requested ${approval.approval_id}:requested`])
    assert.deepEqual(await told(approval), ['approval_notified requested app', 'approval_notified requested fickle'])
  })

  test('a turn judges an approval together with the other approvals of its command, also those of an older version', async () => {
    const approval = await room.ask({ approvalType: 'patient' })
    const other = await room.ask({ commandId: approval.command_id, approver: 'role:finance' })
    await room.world.db.query(
      `update concord.approvals set request_payload = request_payload - 'requested_at' where approval_id = any ($1)`,
      [[approval.approval_id, other.approval_id]],
    )
    assert.equal(minutesUntil(await turn(approval)), 10)
    assert.deepEqual(await told(approval), ['approval_notified requested app', 'approval_notified requested fickle'])
  })

  test('[APR-06] asking and its first turn are one commit; asking the same again tells nobody', async () => {
    const notices: ApprovalNotice[] = []
    const world = {
      ...room.world,
      notify: (_: unknown, notice: ApprovalNotice) => {
        notices.push(notice)
        return Promise.resolve()
      },
    }
    const request = await room.request()
    const ask = () => room.world.db.transaction((tx) => requestApproval(tx, world, by, request))
    const { approval } = accepted(await ask())
    await ask()
    assert.deepEqual(
      notices.map(({ approval: { approval_id }, why }) => [approval_id, why]),
      [[approval.approval_id, 'requested']],
    )
    const failing = { ...world, notify: () => Promise.reject(new Error('no runtime')) }
    const other = await room.request()
    await assert.rejects(
      room.world.db.transaction((tx) => requestApproval(tx, failing, by, other)),
      /no runtime/,
    )
    const rows = await room.world.db.query('select 1 from concord.approvals where command_id = $1', [other.commandId])
    assert.equal(rows.length, 0)
  })

  test('[APR-06] a channel that fails is asked again under the same id; the others and the clock do not wait for it', async () => {
    refusals = 2
    const approval = await room.ask({ approvalType: 'patient' })
    const next = await turn(approval)
    assert.ok(next.t === 'wait' && next.until && next.until.getTime() - Date.now() < 5_000)
    assert.deepEqual(await told(approval), [
      'approval_notified requested app',
      'approval_notice_failed requested fickle',
    ])
    const [failed] = await room.world.db.query<{ error: string }>(
      `select payload->>'error' as error from concord.domain_events
        where event_type = 'approval_notice_failed' and payload->>'approval_id' = $1`,
      [approval.approval_id],
    )
    assert.match(failed?.error ?? '', /Bearer \[redacted\]/)
    const waitOver = () =>
      room.world.db.query(
        `select pg_sleep(greatest(0, extract(epoch from max((payload->>'retry_at')::timestamptz) - clock_timestamp())))
           from concord.domain_events where event_type = 'approval_notice_failed' and payload->>'approval_id' = $1`,
        [approval.approval_id],
      )
    for (let attempt = 2; attempt <= 3; attempt++) {
      await waitOver()
      await turn(approval)
    }
    assert.deepEqual(new Set(heard).size, 1)
    assert.equal(heard.length, 3)
    assert.equal((await told(approval)).at(-1), 'approval_notified requested fickle')
  })

  test('[APR-06] reminders before the end, then the next role, at their times and once each', async () => {
    const approval = await room.ask({ approvalType: 'patient' })
    await turn(approval)
    await room.age(approval, 12)
    assert.equal(minutesUntil(await turn(approval)), 8)
    await room.age(approval, 20)
    await turn(approval)
    await turn(approval)
    assert.deepEqual(
      (await told(approval)).filter((line) => !line.startsWith('approval_notified')),
      ['approval_reminded 1', 'approval_escalated board', 'approval_reminded 2'],
    )
    assert.deepEqual(
      heard.map((line) => line.split(' ')[0]),
      ['requested', 'reminder:1', 'reminder:2', 'escalation'],
    )
    assert.deepEqual((await room.read(approval)).approver_roles, ['board'])
  })

  test('[APR-11] [APR-12] the end comes with the turn at its time, also where a channel hangs; then there are no more', async () => {
    const approval = await room.ask({ approvalType: 'hotel_booking_approval', content: hotel() })
    assert.equal(minutesUntil(await turn(approval, driveOf([]))), 30)
    await room.age(approval, 31)
    const hanging: NoticeChannel = { name: 'hanging', deliver: () => new Promise(() => {}) }
    const before = room.told.length
    assert.deepEqual(await turn(approval, driveOf([hanging])), { t: 'done' })
    assert.deepEqual((await room.read(approval)).status, 'expired')
    assert.deepEqual(
      room.told.slice(before).map(({ next }) => next),
      ['expire_command'],
    )
    assert.deepEqual(await turn(approval), { t: 'done' })
    const late = await room.decide(approval, room.requester, 'approved')
    assert.equal(late.ok ? 'ok' : late.code, 'approval_expired')
  })

  test('an owner that cannot be moved along fails the turn, and the approval stays as it was', async () => {
    const approval = await room.ask({ approvalType: 'hotel_booking_approval', content: hotel() })
    await room.age(approval, 31)
    const broken = driveOf([appChannel], { onResolved: () => Promise.reject(new Error('no')) })
    await assert.rejects(turn(approval, broken), /no/)
    assert.equal((await room.read(approval)).status, 'pending')
  })

  test('a person who has answered is not notified again', async () => {
    const approval = await room.ask({ approvalType: 'patient' })
    accepted(await room.decide(approval, room.approver, 'approved'))
    assert.deepEqual(await turn(approval), { t: 'done' })
    assert.deepEqual(heard, [])
    assert.deepEqual(await turn({ ...approval, approval_id: '00000000-0000-7000-8000-000000000009' }), { t: 'done' })
  })

  test('[APR-06] what nobody can decide is on record once, told on every channel to the administrators, and clears by itself', async () => {
    const bodies: ReturnType<typeof noticeBody>[] = []
    const listening: NoticeChannel = {
      name: 'listening',
      deliver: (delivery) => (bodies.push(noticeBody(delivery)), Promise.resolve()),
    }
    const approval = await room.ask({ approver: 'role:treasury' })
    const drive = driveOf([appChannel, listening])
    for (let turns = 0; turns < 3; turns++) await turn(approval, drive)
    const events = (await room.eventsOf(approval)).filter(({ type }) => type === 'approval_blocked')
    const admin = `user:${room.ours.people.admin.principal.userId}`
    assert.deepEqual(
      events.map(({ payload, purpose }) => [purpose, payload['code'], payload['admins']]),
      [['audit', 'role_without_members', [admin]]],
    )
    assert.deepEqual(
      bodies.map(({ type, blocked_by }) => [type, blocked_by?.code]),
      [
        ['approval.requested', undefined],
        ['approval.blocked', 'role_without_members'],
      ],
    )
    assert.deepEqual(bodies[1]?.admins, [encodeId('user', admin.slice('user:'.length))])
    const isBlocked = async () => {
      const standings = await findStanding(room.world.db, [await room.read(approval)])
      return standings.get(approval.approval_id)?.blocked !== undefined
    }
    assert.equal(await isBlocked(), true)
    const person = await aPerson(aWorld(room.world.db), room.ours, 'writer', 'treasurer')
    await anOrgRole(aWorld(room.world.db), room.ours.orgId, 'treasury', [person])
    assert.equal(await isBlocked(), false)
    // Gone, a reader, or shut out of the workspace: the same question, the same answer again.
    const { userId } = person.principal
    for (const [change, back] of [
      ['deactivated_at = now()', 'deactivated_at = null'],
      [`role = 'reader'`, `role = 'writer'`],
    ]) {
      await room.world.db.query(`update identity.users set ${change} where id = $1`, [userId])
      assert.equal(await isBlocked(), true, change)
      await room.world.db.query(`update identity.users set ${back} where id = $1`, [userId])
      assert.equal(await isBlocked(), false, back)
    }
    assert.equal((await room.read(approval)).status, 'pending')
    accepted(await room.decide(approval, { ...person.principal, orgRoles: ['treasury'] }, 'approved'))
    assert.equal(await isBlocked(), false)
  })

  test('[APR-06] the webhook is signed as Concord itself checks it, names the approval and none of its arguments', async () => {
    const calls: { headers: IncomingHttpHeaders; body: Buffer }[] = []
    const answers = [500, 302, 204]
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        calls.push({ headers: request.headers, body: Buffer.concat(chunks) })
        const status = answers[calls.length - 1] ?? 204
        response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end()
      })
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
      const secret = Buffer.from('a secret of the installation')
      const channel = webhookChannel({ url, secret, fetch, now: () => new Date() })
      const approval = await room.ask()
      const delivery = {
        id: `${approval.approval_id}:requested`,
        notice: 'requested',
        approval,
        signal: fence.signal,
      } as const
      await assert.rejects(channel.deliver(delivery), /answered 500/)
      await assert.rejects(channel.deliver(delivery))
      await channel.deliver(delivery)
      assert.equal(calls.length, 3)
      for (const { headers, body } of calls) {
        const sent = {
          id: String(headers['webhook-id']),
          timestamp: String(headers['webhook-timestamp']),
          signature: String(headers['webhook-signature']),
          body,
        }
        assert.equal(accepted(checkDelivery({ secret }, sent, new Date())), delivery.id)
        assert.equal(checkDelivery({ secret: Buffer.from('another') }, sent, new Date()).ok, false)
        const text = body.toString()
        assert.equal((JSON.parse(text) as { approval_id: string }).approval_id.slice(0, 5), 'appr_')
        assert.ok(!text.includes('80.00') && text.includes('Refund an order.'))
      }
    } finally {
      server.close()
    }
  })
})

/** A word or a number of an event, where there is one. */
function said(value: unknown): readonly (string | number)[] {
  return typeof value === 'string' || typeof value === 'number' ? [value] : []
}

function hotel() {
  const arguments_ = { booking_draft_id: 'd1', hotel_name: 'Adler' }
  return { arguments: arguments_, effects: [], policy_version: 'p', command_version: 'c' }
}
