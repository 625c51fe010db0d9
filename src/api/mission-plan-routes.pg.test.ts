/** Changes of the plan of a mission over HTTP: before its start, and while it runs. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { call, openTestApi, type TestApi } from '#test/api'
import { pendingOf } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, anOrgRole, aPerson, TRACE } from '#test/tenant'
import type { Api } from './api.ts'

type Body = Record<string, unknown>
type Tasks = readonly ReturnType<typeof planTask>[]

describe('changes of the plan of a mission over HTTP', () => {
  let api: TestApi
  let room: MissionRoom
  let app: Api
  before(async () => {
    api = await openTestApi()
    room = await openMissionRoom({ on: { clock: api.world, tenant: api.ours } })
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const put = async (id: string, version: number, tasks: Tasks, key = api.ours.people.writer.key) => {
    const headers = { 'x-workspace': 'main' }
    const path = `/missions/${encodeId('mission', id)}/plan`
    const answer = await call(app, path, { method: 'PUT', key, headers, body: { ...aPlan(...tasks), version } })
    return { status: answer.status, body: (await answer.json()) as Body }
  }
  const open = async (tasks: Tasks, config: JsonObject = {}) => {
    const { id, command_id } = await room.create(aPlan(...tasks), config)
    await room.settle(command_id)
    await room.rest()
    return id
  }
  const settleAll = async (id: string) => {
    for (const { command_id } of await room.tasksOf(id)) if (command_id !== null) await room.settle(command_id)
    await room.rest()
  }
  const rejected = async (id: string) =>
    (await room.eventsOf(id))
      .filter(({ event_type }) => event_type === 'plan_change_rejected')
      .map(({ payload }) => payload)

  test('[MIS-385] before the start a new version replaces the plan: the old question is closed, and the new plan is what runs', async () => {
    const id = await open([planTask('old')])
    const first = (await room.missionOf(id)).gate_command_id ?? ''
    assert.equal(await room.statusOf(first), 'waiting_for_approval')
    const changed = await put(id, 2, [planTask('one'), planTask('two', { depends_on: ['one'] })])
    assert.deepEqual([changed.status, changed.body['state']], [200, 'awaiting_approval'])
    await room.rest()
    const second = (await room.missionOf(id)).gate_command_id ?? ''
    assert.notEqual(second, first)
    assert.equal(await room.statusOf(first), 'cancelled')
    assert.equal(await room.statusOf(second), 'waiting_for_approval')
    assert.equal((await room.missionOf(id)).state, 'awaiting_approval')
    await room.decide(second, 'approved')
    await room.rest()
    await settleAll(id)
    await settleAll(id)
    assert.deepEqual(await room.statesOf(id), { one: 'completed', two: 'completed' })
    assert.equal((await room.missionOf(id)).state, 'completed')
    const late = await put(id, 3, [planTask('one')])
    assert.deepEqual([late.status, late.body['code']], [409, 'missions.mission.wrong_state'])
  })

  test('a plan that is approved while it is changed does not start: the next version is asked for', async () => {
    const id = await open([planTask('old')])
    const first = (await room.missionOf(id)).gate_command_id ?? ''
    const approve = async (approvalId: string) =>
      decideApproval(room.approvals, byPerson(room.tenant.people.writer.principal, TRACE), {
        workspaceId: room.tenant.workspace.id,
        approvalId,
        decision: 'approved',
      })
    accepted(await approve(await pendingOf(room, first)))
    assert.equal((await put(id, 2, [planTask('new')])).status, 200)
    await room.settle(first)
    await room.rest()
    const run = await room.missionOf(id)
    assert.deepEqual([run.state, await room.tasksOf(id)], ['awaiting_approval', []])
    await room.decide(run.gate_command_id ?? '', 'approved')
    await room.rest()
    await settleAll(id)
    assert.deepEqual(await room.statesOf(id), { new: 'completed' })
  })

  test('a decision about a plan that was just changed is 409 with the fresh row, until people are asked about the new one', async () => {
    const id = await open([planTask('old')])
    const first = (await room.missionOf(id)).gate_command_id ?? ''
    const approvalId = await pendingOf(room, first)
    assert.equal((await put(id, 2, [planTask('new')])).status, 200)
    const { principal } = room.tenant.people.writer
    const given = { workspaceId: room.tenant.workspace.id, approvalId, decision: 'approved' } as const
    const late = await decideApproval(room.approvals, byPerson(principal, TRACE), given)
    assert.ok(!late.ok && late.code === 'approvals.approval.cancelled' && late.facts?.['why'] === 'plan_changed')
    const at = `/missions/${encodeId('mission', id)}`
    const decide = async (verb: string) => {
      const headers = { 'x-workspace': 'main' }
      const request = { method: 'POST', key: api.ours.people.writer.key, headers, body: { reason: 'Seen.' } }
      const answer = await call(app, `${at}/${verb}`, request)
      return { status: answer.status, body: (await answer.json()) as Body }
    }
    for (const verb of ['approve', 'reject']) {
      const { status, body } = await decide(verb)
      assert.deepEqual([status, body['code']], [409, 'missions.mission.wrong_state'], verb)
      const { mission } = body['facts'] as { readonly mission: Body }
      assert.deepEqual(
        [mission['state'], (mission['next'] as Body[]).map((step) => step['do'])],
        ['awaiting_approval', ['cancel']],
      )
    }
    assert.equal(await room.statusOf(first), 'waiting_for_approval', 'nothing was decided')
    await room.rest()
    assert.equal((await decide('approve')).status, 200)
    await room.settle((await room.missionOf(id)).gate_command_id ?? '')
    await room.rest()
    await settleAll(id)
    assert.deepEqual(await room.statesOf(id), { new: 'completed' })
  })

  test('of two changes of the same version one wins', async () => {
    const id = await open([planTask('old')])
    const both = await Promise.all([put(id, 2, [planTask('left')]), put(id, 2, [planTask('right')])])
    assert.deepEqual(new Set(both.map(({ status }) => status)), new Set([200, 409]))
    const lost = both.find(({ status }) => status === 409)
    assert.deepEqual([lost?.body['code'], lost?.body['facts']], ['missions.plan.stale', { version: 3 }])
  })

  test('[MIS-065] [MIS-222] [MIS-385] tasks are added while the mission runs; each version is one event; a cycle inserts nothing and is on record', async () => {
    room.plays.set('held', 'waits')
    room.plays.set('bad', 'fails')
    const old = [planTask('done'), planTask('held'), planTask('bad')] as const
    const id = await open([...old], { autonomy: 'full_auto' })
    await settleAll(id)
    assert.deepEqual(await room.statesOf(id), { done: 'completed', held: 'running', bad: 'failed' })
    const before_ = await room.tasksOf(id)
    const cycle = await put(id, 2, [
      ...old,
      planTask('a', { depends_on: ['held', 'b'] }),
      planTask('b', { depends_on: ['a'] }),
    ])
    assert.deepEqual([cycle.status, cycle.body['code']], [422, 'missions.plan.invalid'])
    assert.deepEqual(await rejected(id), [{ reason: cycle.body['reason'] ?? cycle.body['detail'], cycle: ['a', 'b'] }])
    const closed = await put(id, 2, [
      planTask('done'),
      planTask('held', { depends_on: ['c'] }),
      planTask('bad'),
      planTask('c', { depends_on: ['held'] }),
    ])
    assert.deepEqual((await rejected(id))[1]?.['cycle'], ['held', 'c'])
    assert.equal(closed.status, 422)
    const changed = await put(id, 2, [planTask('done', { title: 'Other' }), ...old.slice(1)])
    assert.deepEqual([changed.status, changed.body['code']], [409, 'missions.plan.started'])
    assert.deepEqual([await room.tasksOf(id), (await room.missionOf(id)).task_count], [before_, 3])

    const added = await put(id, 2, [
      planTask('join', { depends_on: ['done', 'held'] }),
      ...old,
      planTask('ready', { depends_on: ['done'] }),
      planTask('never', { depends_on: ['bad'] }),
      planTask('after', { depends_on: ['never', 'held'], trigger_rule: 'all_done' }),
    ])
    assert.deepEqual([added.status, (added.body['progress'] as Body)['tasks']], [200, 7])
    const versions = await room.rows(
      `select plan->'version' as version from missions.orchestration_runs where id = $1`,
      [id],
    )
    assert.deepEqual(versions, [{ version: 2 }])
    const ready = (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'run_plan_ready')
    assert.deepEqual(
      ready.map(({ actor_type, payload }) => [actor_type, payload['task_count']]),
      [
        ['coordinator', 3],
        ['human', 7],
      ],
    )
    const fresh = Object.fromEntries((await room.tasksOf(id)).map((task) => [task.spec.temp_id, task]))
    assert.deepEqual(
      ['join', 'ready', 'never', 'after'].map((name) => [fresh[name]?.state, fresh[name]?.remaining]),
      [
        ['pending', 1],
        ['pending', 0],
        ['skipped', 1],
        ['pending', 1],
      ],
    )
    const cards = await room.rows<{ n: number }>(
      `select count(*)::int as n from missions.board_tasks where source_type = 'orchestration_task' and source_id = any($1)`,
      [Object.values(fresh).map((task) => task.id)],
    )
    assert.equal(cards[0]?.n, 7)
    await room.rest()
    await room.decide(fresh['held']?.command_id ?? '', 'approved')
    await room.rest()
    await settleAll(id)
    assert.deepEqual(await room.statesOf(id), {
      done: 'completed',
      held: 'completed',
      bad: 'failed',
      join: 'completed',
      ready: 'completed',
      never: 'skipped',
      after: 'completed',
    })
    const { state, task_count, tasks_completed, tasks_failed } = await room.missionOf(id)
    assert.deepEqual([state, task_count, tasks_completed, tasks_failed], ['completed', 7, 5, 1])
  })

  test('who does not decide about the plan does not add to it, and a foreign mission looks like a missing one', async () => {
    const manager = await aPerson(api.world, api.ours, 'writer')
    await anOrgRole(api.world, api.ours.orgId, 'chief', [manager])
    room.plays.set('slow', 'waits')
    const id = await open([planTask('slow')], { approver_role: 'chief' })
    const gate = (await room.missionOf(id)).gate_command_id ?? ''
    await room.decide(gate, 'approved')
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'running')
    const refused = await put(id, 2, [planTask('slow'), planTask('more')])
    assert.deepEqual([refused.status, refused.body['code']], [403, 'missions.plan.not_approved'])
    assert.equal((await put(id, 2, [planTask('slow')], manager.key)).status, 403)
    assert.equal((await put(id, 2, [planTask('slow')], api.theirs.people.admin.key)).status, 404)
    assert.equal((await room.tasksOf(id)).length, 1)
  })
})
