/** How many people decide about a mission, and how long they have. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval, expireApprovals } from '#domains/approvals'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { pendingOf } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, anOrgRole, aPerson, TRACE } from '#test/tenant'

describe('the terms of the decisions about missions', () => {
  let room: MissionRoom
  let members: readonly Awaited<ReturnType<typeof aPerson>>[]
  before(async () => {
    room = await openMissionRoom()
    members = [await aPerson(room.clock, room.tenant, 'writer'), await aPerson(room.clock, room.tenant, 'writer')]
    await anOrgRole(room.clock, room.tenant.orgId, 'pair', members)
  })
  after(() => room.close())

  const asked = async (config: JsonObject, name: string) => {
    const { id, command_id } = await room.create(aPlan(planTask(name)), { autonomy: 'approve', ...config })
    await room.settle(command_id)
    await room.rest()
    return room.missionOf(id)
  }
  const approve = async (commandId: string, member: number) => {
    const principal = { ...(members[member] ?? assert.fail()).principal, orgRoles: ['pair'] }
    const given = { workspaceId: room.tenant.workspace.id, approvalId: await pendingOf(room, commandId) }
    accepted(
      await decideApproval(room.approvals, byPerson(principal, TRACE), {
        ...given,
        decision: 'approved',
        reason: 'Yes.',
      }),
    )
    await room.settle(commandId)
    await room.rest()
  }
  const expire = async (commandId: string) => {
    const approvalId = await pendingOf(room, commandId)
    const [terms] = await room.rows<{ minutes: number }>(
      'select round(extract(epoch from expires_at - created_at) / 60)::int as minutes from concord.approvals where approval_id = $1',
      [approvalId],
    )
    await room.rows('update concord.approvals set expires_at = now() where approval_id = $1', [approvalId])
    await expireApprovals(room.approvals, { approvalId, traceId: TRACE })
    await room.settle(commandId)
    await room.rest()
    return terms?.minutes
  }

  test('[MIS-069] a plan that needs two approvals starts after the second person, and not before', async () => {
    const { id, gate_command_id } = await asked({ approver_role: 'pair', approval: { count: 2 } }, 'two')
    const gate = gate_command_id ?? ''
    await approve(gate, 0)
    assert.deepEqual([(await room.missionOf(id)).state, room.calls.includes('two')], ['awaiting_approval', false])
    await approve(gate, 1)
    assert.deepEqual([(await room.missionOf(id)).state, room.calls.includes('two')], ['completed', true])
    for (const config of [{ approval: { count: 2 } }, { approver_role: 'pair', approval: { count: 3 } }])
      await assert.rejects(
        room.create(aPlan(planTask('x')), config),
        /missions.config.invalid.*(approver_role|Only 2 with)/,
      )
  })

  test('[MIS-069] a plan that nobody approves in time is cancelled, and nothing has run', async () => {
    const { id, gate_command_id } = await asked({ approval: { expires_in_minutes: 30 } }, 'late')
    assert.equal(await expire(gate_command_id ?? ''), 30)
    const run = await room.missionOf(id)
    assert.deepEqual([run.state, run.error_message], ['cancelled', 'The start of the plan is expired.'])
    assert.ok(!room.calls.includes('late'))
    assert.equal((await room.eventsOf(id)).at(-1)?.event_type, 'run_cancelled')
    assert.equal(await room.statusOf(run.command_id), 'failed')
  })

  test('[MIS-176] an output that nobody accepts in time has failed, and two people accept it together', async () => {
    const verify = [{ person: { role: 'pair' } }]
    const terms = { approval: { expires_in_minutes: 45, count: 2 }, approver_role: 'pair' }
    const of = async (name: string) => {
      const { id } = await room.run(aPlan(planTask(name, { verify })), terms)
      const [task] = await room.tasksOf(id)
      return { id, review: task?.review_command_id ?? '' }
    }
    const late = await of('unseen')
    assert.equal(await expire(late.review), 45)
    assert.deepEqual(
      [(await room.missionOf(late.id)).state, await room.statesOf(late.id)],
      ['failed', { unseen: 'failed' }],
    )
    const both = await of('seen')
    await approve(both.review, 0)
    assert.deepEqual(await room.statesOf(both.id), { seen: 'awaiting_human' })
    await approve(both.review, 1)
    assert.deepEqual(await room.statesOf(both.id), { seen: 'completed' })
  })
})
