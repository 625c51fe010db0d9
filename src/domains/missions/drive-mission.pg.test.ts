/** A mission from its plan to its end: gate, tasks as commands, rules, retries, references, cancel, and turns that are given again. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { cancelCommand } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { pendingOf } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, TRACE } from '#test/tenant'
import { reconcileMissions } from './reconcile-missions.ts'

describe('missions', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const typesOf = async (id: string) => (await room.eventsOf(id)).map(({ event_type }) => event_type)
  const cardsOf = (id: string) =>
    room.rows<{ title: string; status: string; tags: string[]; parent: boolean; result: string | null }>(
      `select b.title, b.status, b.tags, b.parent_task_id is null as parent, b.result from missions.board_tasks b
       where b.source_id = $1 or b.source_id in (select id::text from missions.orchestration_tasks where run_id = $1::uuid) order by b.id`,
      [id],
    )

  test('[MIS-147] [MIS-365] [MIS-366] a plan waits for a person, then its tasks run as commands and the root command succeeds', async () => {
    const { id, command_id } = await room.create(aPlan(planTask('a'), planTask('b', { depends_on: ['a'] })))
    assert.deepEqual(await cardsOf(id), [
      { title: 'Mission: Release 2.4', status: 'inbox', tags: ['mission', 'pending'], parent: true, result: null },
    ])
    await room.settle(command_id)
    await room.rest()
    const waiting = await room.missionOf(id)
    assert.equal(waiting.state, 'awaiting_approval')
    assert.deepEqual(await room.tasksOf(id), [])
    assert.equal(await room.statusOf(waiting.gate_command_id ?? ''), 'waiting_for_approval')
    const [asked] = await room.rows<{ payload: { tasks: unknown; plan: string } }>(
      'select c.payload from concord.commands c where c.command_id = $1',
      [waiting.gate_command_id],
    )
    const shown = { task: 'Step', effects: ['mission.test_step'], destination: null }
    assert.deepEqual(asked?.payload.tasks, [
      { ...shown, title: 'a', after: [] },
      { ...shown, title: 'b', after: ['a'] },
    ])
    assert.equal(asked.payload.plan, `concord missions show ${encodeId('mission', id)}`)
    await room.decide(waiting.gate_command_id ?? '', 'approved')
    await room.rest()
    const ended = await room.missionOf(id)
    assert.deepEqual(
      [ended.state, ended.task_count, ended.tasks_completed, ended.tasks_failed, ended.result_summary],
      ['completed', 2, 2, 0, '2 of 2 tasks completed.'],
    )
    assert.equal(await room.statusOf(command_id), 'succeeded')
    assert.deepEqual(await typesOf(id), [
      'run_created',
      'run_planning_started',
      'run_plan_ready',
      'task_created',
      'task_created',
      'run_approved',
      'task_queued',
      'task_assigned',
      'task_started',
      'run_started',
      'task_output_submitted',
      'task_verification_passed',
      'task_queued',
      'task_assigned',
      'task_started',
      'task_output_submitted',
      'task_verification_passed',
      'run_completed',
    ])
    const approved = (await room.eventsOf(id)).find(({ event_type }) => event_type === 'run_approved')
    assert.equal(approved?.actor_type, 'human')
    assert.deepEqual(
      (await cardsOf(id)).map(({ title, status, parent }) => [title, status, parent]),
      [
        ['Mission: Release 2.4', 'done', true],
        ['a', 'done', false],
        ['b', 'done', false],
      ],
    )
    const keys = await room.rows(
      `select c.idempotency_key = 'mission:' || t.id || ':1' as is_key, c.requested_by = r.created_by as is_own
       from missions.orchestration_tasks t join concord.commands c using (command_id) join missions.orchestration_runs r on r.id = t.run_id where t.run_id = $1`,
      [id],
    )
    assert.deepEqual(keys, [
      { is_key: true, is_own: true },
      { is_key: true, is_own: true },
    ])
  })

  test('[MIS-150] a rejected plan ends the mission with the reason, and nothing runs', async () => {
    const { id, command_id } = await room.create(aPlan(planTask('never')))
    await room.settle(command_id)
    await room.rest()
    const { gate_command_id } = await room.missionOf(id)
    await room.decide(gate_command_id ?? '', 'rejected', 'Too early.')
    await room.rest()
    const ended = await room.missionOf(id)
    assert.deepEqual([ended.state, ended.error_message], ['failed', 'Too early.'])
    assert.equal(await room.statusOf(command_id), 'failed')
    const [, , , rejected] = await room.eventsOf(id)
    assert.deepEqual([rejected?.event_type, rejected?.actor_type], ['run_rejected', 'human'])
    assert.ok(!room.calls.includes('never'))
  })

  const untilGate = async (config = {}) => {
    const { id, command_id } = await room.create(aPlan(planTask('never')), config)
    await room.settle(command_id)
    await room.rest()
    return { id, commandId: command_id, gate: (await room.missionOf(id)).gate_command_id ?? '' }
  }

  test('the gate cannot be edited, and a start that fails after the approval names its error and no person', async () => {
    const { id, gate } = await untilGate()
    const person = byPerson(room.tenant.people.writer.principal, TRACE)
    const workspaceId = room.tenant.workspace.id
    const given = { workspaceId, approvalId: await pendingOf(room, gate), decision: 'approved' as const }
    const edited = await decideApproval(room.approvals, person, { ...given, reason: 'Ok.', edits: { title: 'Other' } })
    assert.ok(!edited.ok && /cannot be edited/.test(edited.reason))
    await room.db.query(`update missions.orchestration_runs set title = 'Other' where id = $1`, [id])
    await room.decide(gate, 'approved', 'I want it.')
    await room.rest()
    const ended = await room.missionOf(id)
    assert.equal(ended.state, 'failed')
    assert.match(ended.error_message ?? '', /not that of the plan/)
    const last = (await room.eventsOf(id)).at(-1)
    assert.deepEqual(last?.payload, { rejected_by: null, reason: ended.error_message })
  })

  test('a gate that a person cancels cancels the mission in the name of that person', async () => {
    const { id, commandId, gate } = await untilGate()
    const { principal } = room.tenant.people.writer
    const by = byPerson(principal, TRACE)
    accepted(await cancelCommand(room.world, by, { workspaceId: room.tenant.workspace.id, commandId: gate }))
    await room.settle(gate)
    await room.rest()
    const ended = await room.missionOf(id)
    assert.deepEqual([ended.state, ended.error_message], ['cancelled', 'The start of the plan is cancelled.'])
    const last = (await room.eventsOf(id)).at(-1)
    assert.deepEqual(
      [last?.event_type, last?.payload],
      ['run_cancelled', { cancelled_by: `user:${principal.userId}`, tasks_remaining: 0 }],
    )
    assert.equal(await room.statusOf(commandId), 'failed')
  })

  test('[MIS-148] without a gate a diamond runs to its end, and results pass over data edges', async () => {
    const from = { $from: 'd1', path: '/name' }
    const { id, state } = await room.run(
      aPlan(
        planTask('d1'),
        planTask('d2', { depends_on: ['d1'], run: { task: 'Step', payload: { name: 'd2', from } } }),
        planTask('d3', { depends_on: ['d1'] }),
        planTask('d4', { depends_on: ['d2', { task: 'd3', type: 'ordering' }] }),
      ),
    )
    assert.equal(state, 'completed')
    const order = room.calls.filter((name) => /^d\d/.test(name))
    assert.deepEqual([order[0], order[3]], ['d1', 'd4'])
    const [, d2] = await room.tasksOf(id)
    assert.equal(d2?.output_summary, '{"from":"d1","name":"d2"}')
    assert.equal(d2?.verified_by, 'auto')
    const approved = (await room.eventsOf(id)).find(({ event_type }) => event_type === 'run_approved')
    assert.deepEqual([approved?.payload['approved_by'], approved?.actor_type], ['auto', 'coordinator'])
  })

  test('labels of a result pass to the command that takes it, and to no other', async () => {
    room.plays.set('u1', 'waits')
    const from = { $from: 'u1', path: '/name' }
    const { id } = await room.run(
      aPlan(
        planTask('u1'),
        planTask('u2', { depends_on: ['u1'], run: { task: 'Step', payload: { name: 'u2', from } } }),
        planTask('u3', { depends_on: ['u1'] }),
      ),
    )
    const [u1] = await room.tasksOf(id)
    const commandId = u1?.command_id ?? ''
    await room.db.query(`update concord.commands set labels = '["untrusted:web"]' where command_id = $1`, [commandId])
    await room.decide(commandId, 'approved')
    await room.rest()
    const rows = await room.rows<{ title: string; command_id: string; labels: readonly string[] }>(
      `select t.title, c.command_id, c.labels from missions.orchestration_tasks t join concord.commands c using (command_id)
       where t.run_id = $1 order by t.sequence_number`,
      [id],
    )
    const own = encodeId('command', rows[1]?.command_id ?? '')
    assert.deepEqual(
      rows.map(({ title, labels }) => [title, labels]),
      [
        ['u1', ['untrusted:web']],
        ['u2', [`untrusted:web>${own}`]],
        ['u3', []],
      ],
    )
  })

  test('[MIS-166] [MIS-231] a failure skips what can no longer run, transitively, and other rules go on', async () => {
    room.plays.set('f1', 'fails')
    const { id, state, tasks_failed, error_message } = await room.run(
      aPlan(
        planTask('f1'),
        planTask('f2', { depends_on: ['f1'] }),
        planTask('f3', { depends_on: ['f2'] }),
        planTask('f4', { depends_on: ['f1'], trigger_rule: 'all_done' }),
        planTask('f5', { depends_on: ['f1'], trigger_rule: 'none_failed' }),
        planTask('f6', { depends_on: ['f1'], trigger_rule: 'always' }),
      ),
    )
    assert.deepEqual(await room.statesOf(id), {
      f1: 'failed',
      f2: 'skipped',
      f3: 'skipped',
      f4: 'completed',
      f5: 'skipped',
      f6: 'completed',
    })
    assert.deepEqual(
      [state, tasks_failed, error_message],
      ['failed', 1, 'The task "f1" is failed, so "f3" is skipped: f1 fails'],
    )
    const skipped = await room.rows<{ result: string }>(
      `select b.result from missions.board_tasks b join missions.orchestration_tasks t on t.board_task_id = b.id where t.run_id = $1 and t.state = 'skipped'`,
      [id],
    )
    assert.deepEqual(new Set(skipped.map(({ result }) => result)), new Set(['skipped: dependency failed']))
  })

  test('[MIS-179] [MIS-181] [MIS-205] a failure of the infrastructure runs the same command again at its due time', async () => {
    room.plays.set('r1', 'breaks')
    const { id, state } = await room.run(aPlan(planTask('r1')))
    assert.equal(state, 'running')
    const [begun] = await room.tasksOf(id)
    const before = begun?.command_id ?? ''
    // The command has attempts of its own first.
    while ((await room.statusOf(before)) !== 'failed') {
      room.clock.travel(600_000)
      await room.settle(before)
    }
    await room.rest()
    const [waiting] = await room.tasksOf(id)
    assert.equal(waiting?.state, 'awaiting_retry')
    assert.deepEqual(waiting?.due_at, new Date(room.clock.now().getTime() + 10_000))
    room.plays.delete('r1')
    room.clock.travel(10_000)
    assert.equal(
      await reconcileMissions({ ...room.world, wake: async (process) => void room.others.push(process) }, 0),
      1,
    )
    await room.rest()
    const [task] = await room.tasksOf(id)
    assert.deepEqual([task?.state, task?.attempt_number, task?.command_id], ['completed', 2, before])
    assert.equal((await room.missionOf(id)).state, 'completed')
    const types = await typesOf(id)
    assert.ok(types.includes('task_crashed') && types.includes('task_retrying'))
  })

  test('a cancel of the root command cancels the tasks and their commands', async () => {
    room.plays.set('c1', 'waits')
    const { id, command_id, state } = await room.run(aPlan(planTask('c1'), planTask('c2', { depends_on: ['c1'] })))
    assert.equal(state, 'running')
    const [c1] = await room.tasksOf(id)
    assert.equal(await room.statusOf(c1?.command_id ?? ''), 'waiting_for_approval')
    const { principal } = room.tenant.people.writer
    const { workspace } = room.tenant
    accepted(
      await cancelCommand(room.world, byPerson(principal, TRACE), { workspaceId: workspace.id, commandId: command_id }),
    )
    await room.rest()
    assert.deepEqual(await room.statesOf(id), { c1: 'cancelled', c2: 'cancelled' })
    assert.equal((await room.missionOf(id)).state, 'cancelled')
    assert.equal(await room.statusOf(c1?.command_id ?? ''), 'cancelled')
    assert.equal(await room.statusOf(command_id), 'cancelled')
    const [event] = await room.rows<{ actor_id: string; actor_type: string }>(
      `select actor_id, actor_type from missions.orchestration_events where run_id = $1 and event_type = 'run_cancelled'`,
      [id],
    )
    assert.deepEqual(event, { actor_id: `user:${principal.userId}`, actor_type: 'human' })
  })

  test('[MIS-007] a card that is changed or deleted changes no task', async () => {
    room.plays.set('k1', 'waits')
    const { id } = await room.run(aPlan(planTask('k1')))
    const rows = async () => ({ run: await room.missionOf(id), tasks: await room.tasksOf(id) })
    const { run, tasks } = await rows()
    const [task] = tasks
    const change = (text: string) =>
      room.db.transaction(async (tx) => {
        await tx.query('set local role none')
        await tx.query(`${text} where source_id = any($1)`, [[id, task?.id]])
      })
    await change(`update missions.board_tasks set status = 'done', title = 'Other', result = 'x'`)
    assert.deepEqual(await rows(), { run, tasks })
    await change('delete from missions.board_tasks')
    assert.deepEqual(await rows(), { run, tasks: [{ ...task, board_task_id: null }] })
    await room.decide(task?.command_id ?? '', 'approved')
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'completed')
  })

  test('[MIS-159] [MIS-337] a damaged plan or setting ends its own mission, and the others go on', async () => {
    const made = await Promise.all(
      ['plan', 'config', 'neither'].map((name) =>
        room.create(aPlan(planTask(`w-${name}`)), { autonomy: 'full_auto' }, { title: name }),
      ),
    )
    for (const { id, title } of made)
      if (title !== 'neither')
        await room.db.query(`update missions.orchestration_runs set ${title} = '{"autonomy": 7}' where id = $1`, [id])
    for (const { command_id } of made) await room.settle(command_id)
    await room.rest()
    const ends = await Promise.all(made.map(({ id }) => room.missionOf(id)))
    assert.deepEqual(
      ends.map(({ title, state }) => [title, state]),
      [
        ['plan', 'failed'],
        ['config', 'failed'],
        ['neither', 'completed'],
      ],
    )
    assert.match(ends[1]?.error_message ?? '', /config\.autonomy/)
    for (const { id } of made.slice(0, 2)) assert.equal((await typesOf(id)).at(-1), 'run_failed')
  })

  test('a requester who left runs nothing more: the next attempt fails with the reason', async () => {
    room.plays.set('l1', 'waits')
    const { id } = await room.run(
      aPlan(
        planTask('l1'),
        planTask('l2', { depends_on: [{ task: 'l1', type: 'ordering' }], trigger_rule: 'all_done' }),
      ),
    )
    const [task] = await room.tasksOf(id)
    const { userId } = room.tenant.people.writer.principal
    const set = (at: Date | null) =>
      room.db.transaction(async (tx) => {
        await tx.query('set local role none')
        await tx.query('update identity.users set deactivated_at = $2 where id = $1', [userId, at])
      })
    await set(room.clock.now())
    await room.decide(task?.command_id ?? '', 'rejected')
    await room.rest()
    await set(null)
    const ended = await room.tasksOf(id)
    assert.deepEqual(
      ended.map(({ state, command_id }) => [state, command_id !== null]),
      [
        ['failed', true],
        ['failed', false],
      ],
    )
    assert.match(ended[1]?.error_message ?? '', /may no longer act/)
    assert.ok(!room.calls.includes('l2'))
  })

  test('a plan without tasks, and one with a payload that its task cannot take, is refused at create', async () => {
    await assert.rejects(room.create(aPlan()), /The plan has no task/)
    const wrong = { task: 'Step', payload: { name: 7, from: { $from: 'a' } } }
    const plan = aPlan(planTask('a'), planTask('b', { depends_on: ['a'], run: wrong }))
    await assert.rejects(room.create(plan), /plan\.tasks\[1\]\.run\.payload\.name/)
  })
})
