/** Tasks that outside workers run: claims, leases, continuations, failures, stalls, and what their commands hold. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { cancelCommand } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, TRACE } from '#test/tenant'
import { pauseMission, resumeMission } from './act-on-mission.ts'
import { type ClaimedTask, claimTask } from './claim-task.ts'
import { MISSION_KIND, type MissionDeps } from './deps.ts'
import { continueTask, failTask, keepTask, type LeaseHolder, startTask, submitTask } from './worker-calls.ts'

describe('tasks of workers', () => {
  let room: MissionRoom
  let deps: MissionDeps
  let queues = 0
  before(async () => {
    room = await openMissionRoom()
    deps = { commands: room.world }
  })
  after(() => room.close())

  const work = (id: string, queue: string, more: object = {}) =>
    planTask(id, { run: { worker: queue, payload: { name: id } }, ...more })
  const claim = (queue: string, more: object = {}) =>
    claimTask(deps, {
      workspaceId: room.tenant.workspace.id,
      queues: [queue],
      workerId: 'w1',
      traceId: TRACE,
      ...more,
    })
  const held = ({ task, leaseToken }: ClaimedTask): LeaseHolder => ({
    workspaceId: room.tenant.workspace.id,
    taskId: task.id,
    leaseToken,
    attempt: task.attempt_number,
    traceId: TRACE,
  })
  const claimed = async (queue: string) => {
    const found = await claim(queue)
    assert.ok(found)
    return held(found)
  }
  const started = async (queue: string) => {
    const holder = await claimed(queue)
    accepted(await startTask(deps, holder))
    return holder
  }
  const free = { cost: '0', tokens: 0 }
  const done = (holder: LeaseHolder, more: object = {}) => submitTask(deps, { ...holder, output: {}, ...free, ...more })
  const failing = (holder: LeaseHolder, error: string, isRetryable = true, cost = '0') =>
    failTask(deps, { ...holder, error, isRetryable, cost, tokens: 0 })
  const open = async (plan = (queue: string) => aPlan(work('a', queue)), config: JsonObject = {}) => {
    const queue = `q${(queues += 1)}`
    const { id } = await room.run(plan(queue), config)
    return { id, queue }
  }
  /** A turn at this time: the runtime brings it when a time of the mission is due. */
  const turn = async (id: string) => {
    room.others.push({ kind: MISSION_KIND, id })
    await room.rest()
  }
  const typesOf = async (id: string) => (await room.eventsOf(id)).map(({ event_type }) => event_type)
  const codeOf = (decision: { readonly ok: boolean; readonly code?: string }) => (decision.ok ? 'ok' : decision.code)

  test('[MIS-167] one worker claims, starts and submits, and the task behind gets the output', async () => {
    const from = { $from: 'a', path: '/words' }
    const { id, queue } = await open((name) =>
      aPlan(
        work('a', name, { suggested_model: 'large' }),
        planTask('b', { depends_on: ['a'], run: { task: 'Step', payload: { name: 'b', from } } }),
      ),
    )
    assert.deepEqual(await room.statesOf(id), { a: 'queued', b: 'pending' })
    assert.equal(await claim('other'), null)
    const both = await Promise.all([1, 2].map(() => claim(queue, { agent: 'Translator' })))
    const [found, ...others] = both.filter((each) => each !== null)
    assert.ok(found && others.length === 0)
    const { agent_id, agent_type, model_override: model, board_task_id } = found.task
    assert.ok(agent_id !== null && board_task_id !== null && model === 'large')
    const assigned = (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'task_assigned')
    assert.deepEqual(
      assigned.map(({ payload, actor_type }) => [payload, actor_type]),
      [[{ agent_id, agent_type, model, board_task_id }, 'coordinator']],
    )
    assert.deepEqual([found.input, found.task.state, found.task.agent_type], [{ name: 'a' }, 'assigned', 'roster'])
    assert.equal(await claim(queue), null)
    const holder = held(found)
    assert.equal(codeOf(await done(holder)), 'missions.task.wrong_state')
    accepted(await startTask(deps, holder))
    accepted(await startTask(deps, holder))
    const card = () => room.rows('select xmin from missions.board_tasks where source_id = $1', [holder.taskId])
    const before = await card()
    accepted(await keepTask(deps, holder))
    assert.deepEqual(await card(), before, 'a heartbeat does not write the card')
    const summary = 'x'.repeat(2_001)
    accepted(await done(holder, { output: { words: 120 }, summary, tokens: 7 }))
    accepted(await done(holder, { output: { words: 120 }, summary, tokens: 7 }))
    await room.rest()
    const [a, b] = await room.tasksOf(id)
    assert.deepEqual([a?.state, b?.state, a?.tokens_used], ['completed', 'completed', 7])
    assert.equal(a?.output_summary?.length, 2_000)
    assert.match(b?.output_summary ?? '', /"from":120/)
    const run = await room.missionOf(id)
    assert.deepEqual([run.state, run.total_tokens], ['completed', 7])
    assert.equal(codeOf(await keepTask(deps, holder)), 'missions.lease.stale')
    assert.deepEqual(
      (await typesOf(id)).filter((type) => type.startsWith('task_') && type !== 'task_created').slice(0, 5),
      ['task_queued', 'task_assigned', 'task_started', 'task_output_submitted', 'task_verification_passed'],
    )
  })

  test('a call with another token, another attempt or from another workspace changes nothing', async () => {
    const { queue, id } = await open()
    const holder = await started(queue)
    const before = await room.tasksOf(id)
    const stale = { ...holder, leaseToken: room.clock.newId() }
    for (const call of [startTask, keepTask]) assert.equal(codeOf(await call(deps, stale)), 'missions.lease.stale')
    assert.equal(codeOf(await done({ ...holder, attempt: 2 })), 'missions.lease.stale')
    assert.equal(codeOf(await continueTask(deps, { ...stale, tokens: 1 })), 'missions.lease.stale')
    assert.equal(codeOf(await failing(stale, 'x')), 'missions.lease.stale')
    const foreign = { ...holder, workspaceId: room.clock.newId() }
    assert.equal(codeOf(await keepTask(deps, foreign)), 'missions.task.not_found')
    assert.equal(await claim(queue, { workspaceId: room.clock.newId() }), null)
    assert.deepEqual(await room.tasksOf(id), before)
  })

  test('[MIS-169] [MIS-170] [MIS-186] [MIS-201] a continuation waits one second, keeps the attempt and the worker, counts tokens; one too many is a failure of the infrastructure', async () => {
    const { id, queue } = await open(undefined, { retry: { max_retries: 1, max_continuations: 2 } })
    let holder = await started(queue)
    for (const count of [1, 2]) {
      const stopped = accepted(await continueTask(deps, { ...holder, tokens: 5 }))
      assert.deepEqual([stopped.state, stopped.continuation_count], ['continuing', count])
      assert.equal((stopped.due_at?.getTime() ?? 0) - room.clock.now().getTime(), 1_000)
      const said = (await room.eventsOf(id)).at(-1)
      assert.deepEqual(
        [said?.event_type, said?.payload, said?.actor_type],
        ['task_continuing', { continuation_count: count, tokens_this_turn: 5 }, 'agent'],
      )
      const cards = 'select status from missions.board_tasks where source_id = $1'
      assert.deepEqual(await room.rows(cards, [holder.taskId]), [{ status: 'in_progress' }])
      room.clock.travel(999)
      await turn(id)
      assert.equal((await room.tasksOf(id))[0]?.state, 'continuing')
      room.clock.travel(1)
      await turn(id)
      const [task] = await room.tasksOf(id)
      assert.deepEqual([task?.state, task?.attempt_number, task?.worker_id], ['running', 1, 'w1'])
      const resumed = (await room.eventsOf(id)).at(-1)
      assert.deepEqual(
        [resumed?.event_type, resumed?.payload, resumed?.actor_type],
        ['task_resumed', { continuation_count: count }, 'system'],
      )
    }
    for (const state of ['awaiting_retry', 'failed']) {
      const stopped = accepted(await continueTask(deps, { ...holder, tokens: 1 }))
      assert.deepEqual([stopped.state, stopped.lease_token], [state, null])
      const crashed = (await room.eventsOf(id)).findLast(({ event_type }) => event_type === 'task_crashed')
      assert.deepEqual(
        [crashed?.payload['error_type'], crashed?.payload['final']],
        ['max_continuations', state === 'failed'],
      )
      if (state === 'failed') break
      room.clock.travel(10_000)
      await turn(id)
      holder = await started(queue)
      assert.equal(holder.attempt, 2)
      for (const count of [1, 2]) {
        assert.equal(accepted(await continueTask(deps, { ...holder, tokens: 0 })).continuation_count, count)
        room.clock.travel(1_000)
        await turn(id)
      }
    }
    await room.rest()
    const run = await room.missionOf(id)
    assert.deepEqual([run.state, run.total_tokens], ['failed', 12])
    assert.equal(await room.statusOf(run.command_id), 'failed')
  })

  test('[MIS-213] [MIS-217] an attempt without a heartbeat for five minutes is retried, and at last fails', async () => {
    const { id, queue } = await open(undefined, { retry: { max_retries: 1 } })
    const holder = await started(queue)
    room.clock.travel(200_000)
    accepted(await keepTask(deps, holder))
    room.clock.travel(299_999)
    await turn(id)
    assert.equal((await room.tasksOf(id))[0]?.state, 'running')
    room.clock.travel(1)
    await turn(id)
    assert.equal((await room.tasksOf(id))[0]?.state, 'awaiting_retry')
    const events = await room.eventsOf(id)
    const at = events.findIndex(({ event_type }) => event_type === 'stall_detected')
    assert.deepEqual(
      events.slice(at).map(({ event_type, actor_type }) => [event_type, actor_type]),
      [
        ['stall_detected', 'reconciler'],
        ['task_crashed', 'reconciler'],
      ],
    )
    const { payload } = events[at] ?? {}
    assert.deepEqual([payload?.['stalled_state'], payload?.['action_taken']], ['running', 'awaiting_retry'])
    assert.equal(codeOf(await done(holder)), 'missions.lease.stale')
    assert.equal(await claim(queue), null)
    room.clock.travel(10_000)
    await turn(id)
    const again = await started(queue)
    assert.equal(again.attempt, 2)
    room.clock.travel(300_000)
    await turn(id)
    const [task] = await room.tasksOf(id)
    assert.deepEqual([task?.state, (await room.missionOf(id)).state], ['failed', 'failed'])
    assert.match(task?.error_message ?? '', /no heartbeat/)
    assert.notEqual(await room.statusOf(task?.command_id ?? ''), 'running')
  })

  test('[MIS-183] [MIS-214] [MIS-220] a claimed task that is not started in time is queued again', async () => {
    const { id, queue } = await open(undefined, { timeouts: { task_assign_seconds: 30 } })
    const found = await claim(queue, { agent: 'Translator' })
    assert.ok(found && found.task.agent_id !== null)
    const holder = held(found)
    room.clock.travel(29_999)
    await turn(id)
    assert.equal((await room.tasksOf(id))[0]?.state, 'assigned')
    room.clock.travel(1)
    await turn(id)
    const [task] = await room.tasksOf(id)
    assert.deepEqual([task?.state, task?.agent_id, task?.agent_type, task?.attempt_number], ['queued', null, null, 1])
    const last = (await room.eventsOf(id)).slice(-2)
    assert.deepEqual(
      last.map(({ event_type, actor_type }) => [event_type, actor_type]),
      [
        ['stall_detected', 'reconciler'],
        ['task_queued', 'reconciler'],
      ],
    )
    assert.equal(codeOf(await startTask(deps, holder)), 'missions.lease.stale')
    accepted(await done(await started(queue)))
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'completed')
  })

  test('[MIS-202] after a failure, a timeout and a refused output any worker gets the next attempt, three times by default', async () => {
    const plan = (name: string) => aPlan(work('a', name, { max_cost: '1.00', verify: [{ exit_code: 0 }] }))
    const { id, queue } = await open(plan, { budget: { hard_limit: '10.00' } })
    const attempt = async (worker: string, number: number, last: RegExp) => {
      room.clock.travel(400_000)
      await turn(id)
      const found = await claim(queue, { workerId: worker })
      assert.ok(found)
      assert.deepEqual([found.task.attempt_number, found.task.worker_id], [number, worker])
      assert.match(found.task.error_message ?? 'none', last)
      accepted(await startTask(deps, held(found)))
      return held(found)
    }
    accepted(await failing(await attempt('w1', 1, /^none$/), 'Broken pipe.', true, '0.25'))
    await attempt('w2', 2, /Broken pipe/)
    room.clock.travel(300_000)
    await turn(id)
    accepted(await done(await attempt('w2', 3, /no heartbeat/), { output: { exit_code: 1 }, cost: '0.50' }))
    await room.rest()
    accepted(await failing(await attempt('w3', 4, /exit/), 'Broken again.'))
    await room.rest()
    const [task] = await room.tasksOf(id)
    assert.deepEqual(
      [task?.state, task?.cost, (await room.missionOf(id)).total_cost],
      ['failed', '1.750000', '1.750000'],
    )
    const types = (await room.eventsOf(id)).flatMap(({ event_type, payload }) =>
      event_type === 'task_retrying' ? [payload['failure_type']] : [],
    )
    assert.deepEqual(types, ['infrastructure', 'infrastructure', 'quality'])
  })

  test('[MIS-093] a failure that may pass is retried with the next attempt; one that cannot is final', async () => {
    const { id, queue } = await open()
    const first = await started(queue)
    const broken = { ...first, error: 'Broken pipe.', isRetryable: true, cost: '0', tokens: 5 }
    const failed = accepted(await failTask(deps, broken))
    assert.deepEqual([failed.state, failed.lease_token], ['awaiting_retry', null])
    await room.rest()
    assert.equal(await claim(queue), null)
    room.clock.travel(10_000)
    await turn(id)
    const again = await claim(queue)
    assert.ok(again)
    assert.deepEqual([again.task.attempt_number, again.task.error_message], [2, 'Broken pipe.'])
    accepted(await startTask(deps, held(again)))
    const final = { ...held(again), error: 'No such language.', isRetryable: false, cost: '0', tokens: 3 }
    accepted(await failTask(deps, final))
    await room.rest()
    const [task] = await room.tasksOf(id)
    const run = await room.missionOf(id)
    assert.deepEqual([task?.state, task?.tokens_used, run.state, run.total_tokens], ['failed', 8, 'failed', 8])
    assert.match(run.error_message ?? '', /No such language/)
    assert.equal(await room.statusOf(run.command_id), 'failed')
  })

  test('[MIS-211] a worker that cannot use the model of the plan says so, and its choice is kept', async () => {
    const { id, queue } = await open((name) => aPlan(work('a', name, { suggested_model: 'large' })))
    const holder = await claimed(queue)
    accepted(await startTask(deps, { ...holder, model: 'small' }))
    const said = (await room.eventsOf(id)).find(({ event_type }) => event_type === 'model_fallback')
    assert.deepEqual([said?.payload['requested_model'], said?.payload['fallback_model']], ['large', 'small'])
    assert.equal((await room.tasksOf(id))[0]?.model_override, 'small')
    accepted(await done(holder))
    await room.rest()
  })

  test('the command of an attempt can be cancelled before, during and after the claim', async () => {
    for (const when of ['offered', 'claimed', 'running', 'offered again']) {
      const { id, queue } = await open()
      const holder = when === 'offered' ? undefined : await claimed(queue)
      if (holder && when !== 'claimed') accepted(await startTask(deps, holder))
      if (holder && when === 'offered again') {
        accepted(await failing(holder, 'Broken pipe.'))
        room.clock.travel(10_000)
        await turn(id)
      }
      const commandId = (await room.tasksOf(id))[0]?.command_id ?? ''
      const by = byPerson(room.tenant.people.writer.principal, TRACE)
      accepted(await cancelCommand(room.world, by, { workspaceId: room.tenant.workspace.id, commandId }))
      await room.rest()
      assert.equal((await room.tasksOf(id))[0]?.state, 'cancelled', when)
      assert.equal((await room.missionOf(id)).state, 'failed', when)
      assert.equal(await claim(queue), null)
      if (holder) assert.equal(codeOf(await done(holder)), 'missions.lease.stale')
    }
  })
  test('what a worker reports is settled with its attempt; a lost worker counts as its reservation; above the limit the mission stops', async () => {
    const { id, queue } = await open((name) => aPlan(work('a', name, { max_cost: '1.00' })), {
      budget: { hard_limit: '2.50' },
      retry: { max_retries: 5 },
    })
    const sums = async () => {
      const { total_cost, total_tokens, state } = await room.missionOf(id)
      const [account] = await room.rows<{ readonly held: number; readonly spent: number }>(
        `select reserved_units::float8 as held, (spent_units + excess_units)::float8 as spent from concord.budget_accounts where account_id = $1`,
        [id],
      )
      return [state, total_cost, total_tokens, account?.held, account?.spent]
    }
    const first = await started(queue)
    assert.deepEqual(await sums(), ['running', '0.000000', 0, 1, 0])
    accepted(await failing(first, 'Broken pipe.', true, '0.25'))
    assert.deepEqual(await sums(), ['running', '0.250000', 0, 0, 0.25])
    room.clock.travel(10_000)
    await turn(id)
    await started(queue)
    room.clock.travel(300_000)
    await turn(id)
    assert.deepEqual(await sums(), ['running', '1.250000', 0, 0, 1.25])
    room.clock.travel(20_000)
    await turn(id)
    accepted(await done(await started(queue), { cost: '1.50', tokens: 9 }))
    await room.rest()
    assert.deepEqual(await sums(), ['budget_exceeded', '2.750000', 9, 0, 2.75])
    assert.equal((await room.tasksOf(id))[0]?.state, 'completed')
  })

  test('an attempt that does not fit the budget is offered to no worker', async () => {
    const { id, queue } = await open((name) => aPlan(work('a', name, { max_cost: '1.00' })), {
      budget: { hard_limit: '1.50' },
    })
    accepted(await failing(await started(queue), 'Broken pipe.', true, '0.75'))
    room.clock.travel(10_000)
    await turn(id)
    assert.equal(await claim(queue), null)
    assert.equal((await room.missionOf(id)).state, 'budget_exceeded')
  })
  test('[MIS-212] a continuation and a retry that fall due while the mission is paused wait for the resume', async () => {
    const { id, queue } = await open((name) => aPlan(work('goes-on', name), work('again', name)))
    const { principal } = room.tenant.people.writer
    const person = { ...byPerson(principal, TRACE), principal }
    const asked = { workspaceId: room.tenant.workspace.id, missionId: id }
    const [first, second] = [await started(queue), await started(queue)]
    accepted(await continueTask(deps, { ...first, tokens: 0 }))
    accepted(await failing(second, 'Broken pipe.'))
    accepted(await pauseMission(deps, person, asked))
    room.clock.travel(60_000)
    await turn(id)
    assert.deepEqual(await room.statesOf(id), { 'goes-on': 'continuing', again: 'awaiting_retry' })
    assert.equal(await claim(queue), null)
    accepted(await resumeMission(deps, person, asked))
    await room.rest()
    assert.equal((await room.statesOf(id))['goes-on'], 'running')
    assert.equal((await started(queue)).attempt, 2)
  })
})
