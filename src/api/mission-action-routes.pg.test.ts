/** What people do with missions over HTTP: each legal and illegal state, and who may. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { MissionRunState } from '#kernel/machines/mission'
import { missionRunMachine } from '#kernel/machines/mission'
import { listStatements } from '#store'
import { type Body, useMissionApi } from '#test/mission-api'
import { aPlan, planTask } from '#test/missions'
import { aPerson } from '#test/tenant'

describe('actions on missions over HTTP', () => {
  const http = useMissionApi()
  const { ask } = http
  const post = (path: string, body: unknown = {}, key?: string) => ask('POST', path, body, key)
  const uuidOf = (id: unknown) => {
    const kinds = ['mission', 'command', 'mission_task'] as const
    const decoded = kinds.map((kind) => decodeId(kind, String(id))).find(({ ok }) => ok)
    assert.ok(decoded?.ok)
    return decoded.value
  }
  /** Creates a mission and drives everything until it rests. */
  const create = async (config: JsonObject, ...names: readonly string[]) => {
    const plan = aPlan(
      ...names.map((name, at) => planTask(name, at === 0 ? {} : { depends_on: [names[at - 1] ?? ''] })),
    )
    const { body } = await post('/missions', { goal: 'Release', plan, config })
    await http.room.settle(uuidOf(body['command_id']))
    await http.room.rest()
    return {
      at: `/missions/${String(body['mission_id'])}`,
      id: uuidOf(body['mission_id']),
      command: uuidOf(body['command_id']),
    }
  }
  const auto = { autonomy: 'full_auto' }
  const typesOf = async (id: string) => (await http.room.eventsOf(id)).map(({ event_type }) => event_type)
  const settleAll = async (id: string) => {
    for (const { command_id } of await http.room.tasksOf(id))
      if (command_id !== null) await http.room.settle(command_id)
    await http.room.rest()
  }

  test('[MIS-153] [MIS-155] [MIS-161] [MIS-212] a paused mission starts nothing and keeps a late result; the resume continues', async () => {
    http.room.plays.set('first', 'waits')
    const { at, id } = await create(auto, 'first', 'second')
    const paused = await post(`${at}/pause`, { reason: 'The provider is down.' })
    assert.deepEqual([paused.status, paused.body['state'], paused.body['state_type']], [200, 'paused', 'paused'])
    const requester = String(paused.body['created_by'])
    assert.deepEqual(
      (paused.body['next'] as Body[]).map((step) => step['do']),
      ['resume', 'cancel'],
    )
    const { summary } = (await ask('GET', `/commands/${String(paused.body['command_id'])}/explanation`)).body
    assert.match(String(summary), /is paused\. It starts nothing until user_\w+ or an administrator resumes it/)
    const [task] = await http.room.tasksOf(id)
    await http.room.decide(task?.command_id ?? '', 'approved')
    await http.room.rest()
    assert.equal(await http.room.statusOf(task?.command_id ?? ''), 'succeeded')
    assert.deepEqual(await http.room.statesOf(id), { first: 'running', second: 'pending' })
    assert.deepEqual((await http.room.missionOf(id)).run_after, null, 'a paused mission costs nothing')
    const resumed = await post(`${at}/resume`, {})
    assert.deepEqual([resumed.status, resumed.body['state']], [200, 'running'])
    await http.room.rest()
    const ended = await http.room.missionOf(id)
    assert.deepEqual([ended.state, ended.tasks_completed], ['completed', 2])
    const told = (await http.room.eventsOf(id)).filter(({ event_type }) => /paused|resumed/.test(event_type))
    assert.deepEqual(
      told.map(({ event_type, payload, actor_type }) => [event_type, payload, actor_type]),
      [
        ['run_paused', { paused_by: requester, reason: 'The provider is down.' }, 'human'],
        ['run_resumed', { resumed_by: requester }, 'human'],
      ],
    )
    assert.equal((await typesOf(id)).filter((type) => type === 'task_started').length, 2)
    assert.equal(http.room.calls.filter((name) => name === 'first').length, 1)
  })

  test('[MIS-212] a retry that falls due while the mission is paused waits for the resume', async () => {
    http.room.plays.set('flaky', 'breaks')
    const { at, id } = await create(auto, 'flaky')
    const [{ command_id } = { command_id: null }] = await http.room.tasksOf(id)
    while ((await http.room.statusOf(command_id ?? '')) !== 'failed') {
      http.api.world.travel(600_000)
      await http.room.settle(command_id ?? '')
    }
    await http.room.rest()
    assert.deepEqual(await http.room.statesOf(id), { flaky: 'awaiting_retry' })
    await post(`${at}/pause`)
    http.room.plays.delete('flaky')
    http.api.world.travel(3_600_000)
    await http.room.rest()
    assert.deepEqual(await http.room.statesOf(id), { flaky: 'awaiting_retry' })
    await post(`${at}/resume`)
    await settleAll(id)
    assert.deepEqual(await http.room.statesOf(id), { flaky: 'completed' })
    assert.equal((await http.room.tasksOf(id))[0]?.attempt_number, 2)
  })

  test('[MIS-149] [MIS-150] [MIS-327] a person approves or rejects the plan with the mission, as in the inbox', async () => {
    const approved = await create({}, 'one')
    const { body } = await ask('GET', approved.at)
    const who = `user_${http.api.ours.people.writer.principal.userId.replaceAll('-', '')}`
    assert.deepEqual(body['next'], [
      { do: 'approve', who, words: 'approve the plan, so that it starts' },
      { do: 'reject', who, words: 'reject the plan, which ends the mission' },
      { do: 'cancel', who, words: 'end it and cancel what runs' },
    ])
    const listed = (await ask('GET', '/missions?state=awaiting_approval')).body.items
    assert.deepEqual(listed?.[0]?.['next'], body['next'])
    const stranger = await post(`${approved.at}/approve`, {}, http.api.ours.people.admin.key)
    assert.deepEqual([stranger.status, stranger.body['code']], [403, 'approvals.approver.not_asked'])
    assert.equal((await post(`${approved.at}/approve`, { reason: 'Fine.' })).status, 200)
    await http.room.settle(uuidOf(body['gate_command_id']))
    await settleAll(approved.id)
    assert.equal((await http.room.missionOf(approved.id)).state, 'completed')
    const again = await post(`${approved.at}/approve`)
    assert.deepEqual([again.status, again.body['code']], [409, 'missions.mission.wrong_state'])

    const rejected = await create({}, 'two')
    assert.equal((await post(`${rejected.at}/reject`)).body['code'], 'approvals.reason.missing')
    assert.equal((await post(`${rejected.at}/reject`, { reason: 'Too early.' })).status, 200)
    await http.room.settle((await http.room.missionOf(rejected.id)).gate_command_id ?? '')
    await http.room.rest()
    const { state, error_message } = await http.room.missionOf(rejected.id)
    assert.deepEqual([state, error_message], ['failed', 'Too early.'])
    const actors = await http.room.rows(
      `select event_type, actor_type, actor_id from missions.orchestration_events
       where event_type in ('run_approved', 'run_rejected') and run_id = any($1) order by id`,
      [[approved.id, rejected.id]],
    )
    const human = { actor_type: 'human', actor_id: `user:${http.api.ours.people.writer.principal.userId}` }
    assert.deepEqual(actors, [
      { event_type: 'run_approved', ...human },
      { event_type: 'run_rejected', ...human },
    ])
  })

  test('[MIS-149] [MIS-379] a person edits the plan before the approval: the tasks are those of the edited plan, and the event says that it was edited', async () => {
    const { at, id } = await create({}, 'draft')
    const edited = { ...aPlan(planTask('draft'), planTask('extra', { depends_on: ['draft'] })), version: 2 }
    const put = await ask('PUT', `${at}/plan`, edited)
    assert.equal(put.status, 200, JSON.stringify(put.body))
    await http.room.rest()
    const gate = (await http.room.missionOf(id)).gate_command_id ?? ''
    await http.room.settle(gate)
    await http.room.rest()
    assert.deepEqual(await http.room.statesOf(id), {}, 'nothing starts before the approval')
    const approved = await post(`${at}/approve`, { reason: 'With one more.' })
    assert.equal(approved.status, 200, JSON.stringify(approved.body))
    await http.room.settle((await http.room.missionOf(id)).gate_command_id ?? '')
    await settleAll(id)
    await settleAll(id)
    assert.deepEqual(await http.room.statesOf(id), { draft: 'completed', extra: 'completed' })
    const told = (await http.room.eventsOf(id)).find(({ event_type }) => event_type === 'run_approved')
    assert.deepEqual(told?.payload['modifications'], { edits: 1, plan_version: 2 })
    const plain = await create({}, 'plain')
    assert.equal((await post(`${plain.at}/approve`)).status, 200)
    await http.room.settle((await http.room.missionOf(plain.id)).gate_command_id ?? '')
    const unedited = (await http.room.eventsOf(plain.id)).find(({ event_type }) => event_type === 'run_approved')
    assert.equal('modifications' in (unedited?.payload ?? { modifications: 0 }), false)
  })

  test('[MIS-158] [MIS-157] [MIS-182] a cancel ends the mission from each of its six open states, in the name of the person', async () => {
    const states = ['pending', 'planning', 'awaiting_approval', 'running', 'paused', 'budget_exceeded'] as const
    for (const state of states) {
      http.room.plays.set('held', 'waits')
      const { at, id, command } = await create(state === 'awaiting_approval' ? {} : auto, 'held', 'behind')
      const type = missionRunMachine.states[state]
      await http.room.db.query('update missions.orchestration_runs set state = $2, state_type = $3 where id = $1', [
        id,
        state,
        type,
      ])
      const open = (await http.room.tasksOf(id)).length
      const cancelled = await post(`${at}/cancel`, { reason: 'Wrong month.' })
      assert.deepEqual(
        [cancelled.status, cancelled.body['state'], cancelled.body['next']],
        [200, 'cancelled', []],
        state,
      )
      assert.ok((await http.room.tasksOf(id)).every((task) => task.state === 'cancelled' && task.completed_at !== null))
      const last = (await http.room.eventsOf(id)).at(-1)
      const by = `user:${http.api.ours.people.writer.principal.userId}`
      assert.deepEqual(
        [last?.event_type, last?.payload, last?.actor_type],
        ['run_cancelled', { cancelled_by: by, tasks_remaining: open }, 'human'],
      )
      await http.room.settle(command)
      await http.room.rest()
      await settleAll(id)
      await http.room.settle(command)
      assert.equal(await http.room.statusOf(command), 'cancelled', state)
      const again = await post(`${at}/cancel`)
      assert.deepEqual([again.status, again.body['code']], [409, 'missions.mission.wrong_state'])
    }
  })

  test('[MIS-379] [MIS-383] an action that the state does not allow is 409 with from, to and the fresh row, and writes nothing', async () => {
    const { at, id } = await create(auto, 'done')
    const to = { pause: 'paused', resume: 'running', cancel: 'cancelled' } as const
    const legal: Partial<Record<MissionRunState, readonly string[]>> = {
      pending: ['cancel'],
      planning: ['cancel'],
      awaiting_approval: ['cancel'],
      running: ['pause', 'cancel'],
      paused: ['resume', 'cancel'],
      budget_exceeded: ['cancel'],
    }
    for (const [state, type] of Object.entries(missionRunMachine.states)) {
      await http.room.db.query(
        `update missions.orchestration_runs set state = $2, state_type = $3::text, duration_ms = 0,
           completed_at = case when $3::text = 'terminal' then now() end where id = $1`,
        [id, state, type],
      )
      for (const verb of ['pause', 'resume', 'cancel', 'approve', 'reject'] as const) {
        if (legal[state as MissionRunState]?.includes(verb)) continue
        const before_ = await typesOf(id)
        const { status, body } = await post(`${at}/${verb}`, { reason: 'r' })
        assert.deepEqual([status, body['code']], [409, 'missions.mission.wrong_state'], `${verb} of ${state}`)
        const facts = body['facts'] as Body
        assert.deepEqual([facts['from'], (facts['mission'] as Body)['state']], [state, state])
        if (verb in to) assert.equal(facts['to'], to[verb as keyof typeof to])
        assert.deepEqual(await typesOf(id), before_)
      }
    }
  })

  test('the requester and administrators act, others and readers do not', async () => {
    http.room.plays.set('held', 'waits')
    const { at } = await create(auto, 'held')
    const colleague = await aPerson(http.api.world, http.api.ours, 'writer')
    for (const verb of ['pause', 'resume', 'cancel'])
      assert.equal((await post(`${at}/${verb}`, {}, colleague.key)).status, 403, verb)
    assert.equal((await post(`${at}/pause`, {}, http.api.ours.people.reader.key)).status, 403)
    assert.equal((await post(`${at}/pause`, {}, http.api.ours.people.admin.key)).status, 200)
    assert.equal((await post(`${at}/cancel`, {}, http.api.ours.people.admin.key)).status, 200)
  })

  test('[MIS-233] a task says what blocks it and what it blocks, both read from an index', async () => {
    const { at, id } = await create(auto, 'n1', 'n2', 'n3')
    const [, middle] = await http.room.tasksOf(id)
    const { body } = await ask('GET', `${at}/tasks/${encodeId('mission_task', middle?.id ?? '')}/why`)
    const names = (list: unknown) => (list as Body[]).map(({ temp_id }) => temp_id)
    assert.deepEqual([names(body['depends_on']), names(body['blocks'])], [['n1'], ['n3']])
    const undone = new Error('undone')
    const plans: string[] = []
    const look = http.room.db.transaction(async (tx) => {
      await tx.query('set local role none')
      await tx.query(
        `insert into missions.orchestration_tasks (run_id, workspace_id, sequence_number, title, task_type, spec, remaining)
         select run_id, workspace_id, n + 3, 'x', 'other', '{}', 0 from missions.orchestration_tasks, generate_series(1, 2000) as n where id = $1`,
        [middle?.id],
      )
      await tx.query(
        `insert into missions.orchestration_task_dependencies (task_id, depends_on_id, run_id)
         select a.id, b.id, $1 from missions.orchestration_tasks as a join missions.orchestration_tasks as b
           on b.run_id = a.run_id and b.sequence_number = a.sequence_number - 1 where a.run_id = $1 and a.sequence_number > 3`,
        [id],
      )
      await tx.query('analyze missions.orchestration_tasks, missions.orchestration_task_dependencies')
      for (const name of ['missions.list_upstream', 'missions.list_downstream']) {
        const { text = '' } = listStatements().find((each) => each.name === name) ?? {}
        plans.push(
          (await tx.query(`explain (generic_plan) ${text}`)).map((line) => Object.values(line).join()).join('\n'),
        )
      }
      throw undone
    })
    await assert.rejects(look, undone)
    assert.match(plans[0] ?? '', /orchestration_task_dependencies_pk/)
    assert.match(plans[1] ?? '', /ix_orch_deps_reverse/)
  })

  test('tasks are listed in pages', async () => {
    const { at } = await create(auto, 'p1', 'p2', 'p3')
    const first = await ask('GET', `${at}/tasks?limit=2`)
    const rest = await ask('GET', `${at}/tasks?limit=2&cursor=${String(first.body['next_cursor'])}`)
    const names = [...(first.body.items ?? []), ...(rest.body.items ?? [])].map(({ temp_id }) => temp_id)
    assert.deepEqual([names, rest.body['next_cursor']], [['p1', 'p2', 'p3'], null])
  })
})
