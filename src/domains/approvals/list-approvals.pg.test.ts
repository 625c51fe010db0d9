import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type ApprovalRoom, openApprovalRoom } from '#test/approvals'
import { aCommand } from '#test/concord-rows'
import { accepted } from '#test/tenant'
import type { Person } from './approver.ts'
import { getApproval, listApprovals, type ListApprovals } from './list-approvals.ts'
import type { StoredApproval } from './stored-approval.ts'

describe('the inbox', () => {
  let room: ApprovalRoom
  before(async () => {
    room = await openApprovalRoom()
  })
  after(() => room.close())

  const idsOf = (list: readonly StoredApproval[]) => list.map(({ approval_id }) => approval_id)
  const list = async (decider: Person, more: Partial<ListApprovals> = {}) =>
    idsOf(
      (await listApprovals(room.world.db, decider, { workspaceId: room.ours.workspace.id, limit: 100, ...more })).items,
    )

  test('mine are those that I can decide now: asked, not my own, not yet voted, in time; by deadline', async () => {
    const me = { ...room.member(), orgRoles: ['data-owner'] }
    const own = await room.ask({ approver: 'role:data_owner', requestedBy: me.userId })
    const byRole = await room.ask({ approver: 'role:data_owner', expiresInMinutes: 50 })
    const named = await room.ask({ approver: me.userId, expiresInMinutes: 20 })
    const beside = await room.ask({ approver: 'role:board', approvers: [me.userId], expiresInMinutes: 30 })
    const besideRole = await room.ask({ approver: 'role:board', approverRoles: ['data_owner'], expiresInMinutes: 40 })
    const others = await room.ask({ approver: 'role:board' })
    const voted = await room.ask({ approver: 'role:data_owner', approvalType: 'two_of_them' })
    accepted(await room.decide(voted, me, 'approved'))
    const late = await room.ask({ approver: me.userId, expiresInMinutes: 5 })
    await room.age(late, 6)
    const decided = await room.ask({ approver: me.userId })
    accepted(await room.decide(decided, me, 'approved'))
    assert.deepEqual(await list(me, { mine: true }), idsOf([named, beside, besideRole, byRole]))
    const all = await list(me)
    for (const open of [own, others, voted]) assert.ok(all.includes(open.approval_id))
    assert.equal(all.includes(decided.approval_id), false)
    assert.deepEqual(await list({ ...me, userId: room.requester.userId, orgRoles: [] }, { mine: true }), [])
  })

  test('what never expires comes last', async () => {
    const me = room.member()
    const { command_id } = await room.ask({ approver: me.userId, expiresInMinutes: 7 })
    const [effect] = await room.world.db.query<{ id: string }>(
      `insert into concord.domain_effects (domain_effect_id, command_id, workspace_id, effect_type, effect_payload, declaration_order)
       values (gen_random_uuid(), $1, $2, 'x.y', '{}', 0) returning domain_effect_id as id`,
      [command_id, room.ours.workspace.id],
    )
    const endless = await room.ask({
      commandId: command_id,
      approver: me.userId,
      approvalType: 'reconcile_effect',
      domainEffectId: effect?.id ?? '',
    })
    const soon = await room.ask({ approver: me.userId, expiresInMinutes: 9 })
    const mine = await list(me, { mine: true })
    assert.ok(mine.indexOf(soon.approval_id) < mine.indexOf(endless.approval_id))
    assert.equal(mine.at(-1), endless.approval_id)
  })

  test('filters by type, command and status', async () => {
    const me = room.member()
    const command = await aCommand(room.world.db, room.ours.workspace.id, 'waiting_for_approval')
    const one = await room.ask({ commandId: command.command_id })
    const two = await room.ask({ commandId: command.command_id, approvalType: 'override' })
    assert.deepEqual((await list(me, { commandId: command.command_id })).sort(), idsOf([one, two]).sort())
    assert.deepEqual(await list(me, { commandId: command.command_id, approvalType: 'override' }), idsOf([two]))
    accepted(await room.decide(one, me, 'approved'))
    assert.deepEqual(await list(me, { commandId: command.command_id, status: 'approved' }), idsOf([one]))
    assert.deepEqual(await list(me, { commandId: command.command_id, status: 'all' }), idsOf([two, one]))
    assert.deepEqual(await list(me, { commandId: command.command_id, status: 'rejected' }), [])
  })

  for (const status of ['pending', 'all'] as const) {
    test(`pages of ${status} meet without gap or overlap, also where deadlines are equal to the microsecond`, async () => {
      const me = room.member()
      const approvalType = status === 'all' ? 'escalation' : 'patient'
      for (let index = 0; index < 11; index++) await room.ask({ approvalType })
      await room.world.db.query(
        `update concord.approvals set expires_at = date_trunc('second', expires_at) + interval '0.000123 s' where approval_type = $1`,
        [approvalType],
      )
      const whole = await list(me, { status, approvalType })
      assert.equal(whole.length, 11)
      const seen: string[] = []
      let after_: readonly string[] | undefined
      do {
        const page = await listApprovals(room.world.db, me, {
          workspaceId: room.ours.workspace.id,
          status,
          approvalType,
          limit: 3,
          after: after_,
        })
        seen.push(...idsOf(page.items))
        after_ = page.next
      } while (after_)
      assert.deepEqual(seen, whole)
    })
  }

  test('a short page among many that are somebody else’s is a few looks, and all pages together are everything once', async () => {
    const { admin } = room.ours.people
    const mine = { mine: true, alsoBlocked: true } as const
    // Thirty for the members of a role between those that nobody can decide.
    const blocked: StoredApproval[] = []
    for (let minutes = 1; minutes <= 32; minutes++) {
      const isBlocked = minutes === 16 || minutes === 32
      const asked = await room.ask({ expiresInMinutes: minutes, approver: isBlocked ? 'role:nobody' : 'role:finance' })
      if (isBlocked) blocked.push(asked)
    }
    const whole = await list(admin.principal, mine)
    for (const { approval_id: id } of blocked) assert.equal(whole.filter((each) => each === id).length, 1)
    let looks = 0
    const looked = () => void (looks += 1)
    const seen: string[] = []
    room.world.db.pool.on('acquire', looked)
    for (let next: readonly string[] | undefined | null = null; next !== undefined; ) {
      const from: Partial<ListApprovals> = next === null ? {} : { after: next }
      const query = { workspaceId: room.ours.workspace.id, limit: 1, ...mine, ...from }
      const page = await listApprovals(room.world.db, admin.principal, query)
      assert.ok(page.items.length <= 1)
      seen.push(...idsOf(page.items))
      next = page.next
    }
    room.world.db.pool.off('acquire', looked)
    assert.deepEqual(seen, whole)
    assert.ok(looks <= 3 * (whole.length + 1), `${looks} looks for ${whole.length} rows`)
  })

  test('[SEC-08] another tenant sees nothing: not in its lists, not by id, and an absent id reads the same', async () => {
    const approval = await room.ask()
    const stranger = { ...room.theirs.people.admin.principal, orgRoles: ['finance'] }
    for (const status of ['pending', 'all'] as const) {
      const { items } = await listApprovals(room.world.db, stranger, {
        workspaceId: room.theirs.workspace.id,
        status,
        limit: 500,
      })
      assert.deepEqual(items, [])
    }
    const foreign = await getApproval(room.world.db, room.theirs.workspace.id, approval.approval_id)
    assert.deepEqual(
      foreign,
      await getApproval(room.world.db, room.theirs.workspace.id, '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'),
    )
    assert.equal(foreign.ok, false)
    assert.equal(
      accepted(await getApproval(room.world.db, room.ours.workspace.id, approval.approval_id)).approval_id,
      approval.approval_id,
    )
  })
})
