/** The net under the turns: what is ready by the rules, lost wakes, missions that stand still, and two reconcilers at once. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { validateGraph } from '#kernel/dag/graph'
import { listReady, type NodeState, triggerRules } from '#kernel/dag/readiness'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { proofSize } from '#test/proof-size'
import { accepted, TRACE } from '#test/tenant'
import { claimTask } from './claim-task.ts'
import { MISSION_KIND, type MissionDeps } from './deps.ts'
import { listReadyByRules, reconcileMissions, wakeStalledMissions } from './reconcile-missions.ts'
import { repairMissions } from './repair-missions.ts'
import { continueTask, failTask, startTask } from './worker-calls.ts'

describe('the reconciler of missions', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  /** A process that begins now, and knows nothing but the rows. */
  const deps = () => ({
    ...room.world,
    wake: async (process: { kind: string; id: string }) => void room.others.push(process),
  })
  const wakeStalled = () => wakeStalledMissions(deps(), { traceId: TRACE })
  /** The wakes that are on their way are lost with their process. */
  const lose = () => room.others.splice(0)
  const stallsOf = async (id: string) =>
    (await room.eventsOf(id)).flatMap(({ event_type, actor_type, payload }) =>
      event_type === 'stall_detected' ? [[actor_type, payload['entity_type'], payload['action_taken']]] : [],
    )
  /** Runs until its first task has ended, and loses the wake of the mission. */
  const lostWake = async (config = {}) => {
    const run = await room.create(aPlan(planTask('a'), planTask('b', { depends_on: ['a'] })), {
      autonomy: 'full_auto',
      ...config,
    })
    while ((await room.statesOf(run.id))['a'] !== 'running') assert.ok(await room.step())
    const [task] = await room.tasksOf(run.id)
    await room.settle(task?.command_id ?? '')
    lose()
    assert.deepEqual(await room.statesOf(run.id), { a: 'running', b: 'pending' })
    return run.id
  }

  /** A turn at this time: the runtime brings it when a time of the mission is due. */
  const turnOf = async (id: string) => {
    room.others.push({ kind: MISSION_KIND, id })
    await room.rest()
  }

  test('[MIS-215] [MIS-220] an output without a verdict in time goes to a person, and the stall is reported first', async () => {
    const plan = aPlan(planTask('a', { verify: [{ worker: true }] }))
    const { id } = await room.run(plan, { timeouts: { verify_seconds: 30 } })
    assert.deepEqual(await room.statesOf(id), { a: 'verifying' })
    room.clock.travel(29_999)
    await turnOf(id)
    assert.deepEqual(await room.statesOf(id), { a: 'verifying' })
    room.clock.travel(1)
    await turnOf(id)
    assert.deepEqual(await room.statesOf(id), { a: 'awaiting_human' })
    const found = (await room.eventsOf(id)).filter(({ actor_type }) => actor_type === 'reconciler')
    assert.deepEqual(
      found.map(({ event_type, payload }) => [event_type, payload['action_taken'] ?? null]),
      [
        ['stall_detected', 'awaiting_human'],
        ['task_human_review_requested', null],
      ],
    )
  })

  test('a verifier that waits for a person, for days, is not late', async () => {
    room.plays.set('judge', 'waits')
    const verify = [{ task: 'Step', payload: { name: 'judge' } }]
    const { id } = await room.run(aPlan(planTask('a', { verify })))
    const [task] = await room.tasksOf(id)
    // Blocked: a person is asked about an effect of it.
    for (const status of ['waiting_for_approval', 'blocked']) {
      await room.rows(`update concord.commands set status = $2 where command_id = $1`, [
        task?.review_command_id,
        status,
      ])
      room.clock.travel(3 * 86_400_000)
      await turnOf(id)
      assert.deepEqual(await room.statesOf(id), { a: 'verifying' }, status)
      assert.deepEqual(await stallsOf(id), [])
    }
  })

  test('[MIS-217] [MIS-218] [MIS-392] a lost wake is found after a minute by one of two reconcilers, reported first, and the mission goes on', async () => {
    const id = await lostWake()
    room.clock.travel(59_999)
    assert.equal(await wakeStalled(), 0)
    room.clock.travel(1)
    const woken = await Promise.all([wakeStalled(), wakeStalled(), wakeStalled()])
    assert.deepEqual(
      woken.filter((count) => count > 0),
      [1],
    )
    assert.deepEqual(await stallsOf(id), [['reconciler', 'run', 'woken']])
    assert.deepEqual(room.others, [{ kind: MISSION_KIND, id }])
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'completed')
    room.clock.travel(120_000)
    assert.equal(await wakeStalled(), 0)
  })

  test('[MIS-216] [MIS-220] a mission whose tasks have all ended is concluded after the time of its settings', async () => {
    const id = await lostWake({ timeouts: { run_resolve_seconds: 5 } })
    // As after a death between the end of the last task and the outcome.
    await room.rows(
      `update missions.orchestration_tasks set state = 'cancelled', state_type = 'terminal', completed_at = now(), duration_ms = 0 where run_id = $1`,
      [id],
    )
    room.clock.travel(4_999)
    assert.equal(await wakeStalled(), 0)
    room.clock.travel(1)
    assert.equal(await wakeStalled(), 1)
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'failed')
    assert.deepEqual(await stallsOf(id), [['reconciler', 'run', 'woken']])
  })

  test('[MIS-219] continuations and retries that are due are given again after the death of the process that had them', async () => {
    const mission: MissionDeps = { commands: room.world }
    const worker = (name: string) => planTask(name, { run: { worker: name, payload: {} } })
    const { id, workspace_id: workspaceId } = await room.run(aPlan(worker('goes-on'), worker('fails')))
    const start = async (queue: string) => {
      const claimed = await claimTask(mission, { workspaceId, queues: [queue], workerId: 'w', traceId: TRACE })
      assert.ok(claimed)
      const { task, leaseToken } = claimed
      const holder = { workspaceId, taskId: task.id, leaseToken, attempt: task.attempt_number, traceId: TRACE }
      accepted(await startTask(mission, holder))
      return holder
    }
    const usage = { cost: '0', tokens: 0 }
    accepted(await continueTask(mission, { ...(await start('goes-on')), tokens: 0 }))
    accepted(await failTask(mission, { ...(await start('fails')), error: 'No.', isRetryable: true, ...usage }))
    lose()
    await room.rows('update missions.board_tasks set status = $1 where source_id = $2', ['done', id])
    room.clock.travel(10_000)
    assert.ok((await reconcileMissions(deps(), 0)) >= 1)
    await room.rest()
    assert.deepEqual(await room.statesOf(id), { 'goes-on': 'running', fails: 'awaiting_retry' })
    assert.equal((await start('fails')).attempt, 2)
    assert.ok((await repairMissions(mission)).repaired >= 1)
    const [card] = await room.rows<{ status: string }>('select status from missions.board_tasks where source_id = $1', [
      id,
    ])
    assert.equal(card?.status, 'in_progress')
  })

  test('[MIS-219] a counter that would never reach zero is corrected', async () => {
    const id = await lostWake()
    await room.rows(`update missions.orchestration_tasks set remaining = 3 where run_id = $1 and state = 'pending'`, [
      id,
    ])
    room.others.push({ kind: MISSION_KIND, id })
    await room.rest()
    assert.deepEqual(await room.statesOf(id), { a: 'completed', b: 'pending' })
    room.clock.travel(60_000)
    assert.equal(await wakeStalled(), 1)
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'completed')
  })

  test('a mission that waits for a person, for days, is not taken for one that stands still', async () => {
    room.plays.set('asks', 'waits')
    const { id } = await room.run(aPlan(planTask('asks')))
    const gated = await room.create(aPlan(planTask('a')))
    await room.settle(gated.command_id)
    await room.rest()
    room.clock.travel(3 * 86_400_000)
    assert.equal(await wakeStalled(), 0)
    assert.deepEqual([await stallsOf(id), await stallsOf(gated.id)], [[], []])
  })

  test('a mission with damaged settings stops no other', async () => {
    const [damaged, other] = [await lostWake(), await lostWake()]
    await room.rows(
      `update missions.orchestration_runs set config = config || '{"timeouts": {"run_resolve_seconds": "soon"}}' where id = $1`,
      [damaged],
    )
    room.clock.travel(60_000)
    assert.equal(await wakeStalled(), 2)
    await room.rest()
    assert.equal((await room.missionOf(other)).state, 'completed')
    assert.equal((await room.missionOf(damaged)).state, 'failed')
  })

  const states = {
    pending: 'pending',
    queued: 'active',
    running: 'active',
    verifying: 'active',
    completed: 'completed',
    failed: 'failed',
    cancelled: 'cancelled',
    skipped: 'skipped',
  } as const satisfies Record<string, NodeState>
  const someTask = fc.record({
    state: fc.constantFrom(...(Object.keys(states) as (keyof typeof states)[])),
    rule: fc.constantFrom(...triggerRules),
    after: fc.array(fc.nat(9), { maxLength: 4 }),
  })

  test('[MIS-225] [MIS-232] what is ready in SQL is what the kernel says, for random states of random graphs', async () => {
    const { id, workspace_id } = await room.create(aPlan(planTask('a')))
    const undone = new Error('undone')
    const compare = async (
      tasks: readonly { state: keyof typeof states; rule: (typeof triggerRules)[number]; after: number[] }[],
    ) => {
      const ids = tasks.map(() => room.clock.newId())
      const dependsOn = tasks.map(({ after: on }, at) =>
        [...new Set(on.filter((n) => n < at))].map((n) => ids[n] ?? ''),
      )
      const graph = validateGraph(
        tasks.map(({ rule }, at) => ({ id: ids[at] ?? '', sequence: at + 1, dependsOn: dependsOn[at] ?? [], rule })),
      )
      assert.ok(graph.ok)
      const known = new Map(tasks.map(({ state }, at) => [ids[at] ?? '', states[state]]))
      const trying = room.db.transaction(async (tx) => {
        await tx.query('set local role none')
        await tx.query(
          `insert into missions.orchestration_tasks (id, run_id, workspace_id, sequence_number, title, task_type, spec, remaining, trigger_rule, state, state_type, completed_at)
           select r.id, $1, $2, r.at, 'x', 'other', '{}', 0, r.rule, r.state,
             case when r.state in ('completed', 'failed', 'cancelled', 'skipped') then 'terminal' when r.state = 'running' then 'running'
               when r.state = 'verifying' then 'paused' else 'pending' end,
             case when r.state in ('completed', 'failed', 'cancelled', 'skipped') then now() end
           from jsonb_to_recordset($3) as r(id uuid, at int, rule text, state text)`,
          [
            id,
            workspace_id,
            JSON.stringify(tasks.map(({ rule, state }, at) => ({ id: ids[at], at: at + 1, rule, state }))),
          ],
        )
        await tx.query(
          `insert into missions.orchestration_task_dependencies (task_id, depends_on_id, run_id)
           select r.task, r.upstream, $1 from jsonb_to_recordset($2) as r(task uuid, upstream uuid)`,
          [id, JSON.stringify(dependsOn.flatMap((on, at) => on.map((upstream) => ({ task: ids[at], upstream }))))],
        )
        const ready = await listReadyByRules(tx, id)
        assert.deepEqual(
          ready.map((task) => task.id),
          listReady(graph.value, known).map((node) => node.id),
        )
        throw undone
      })
      await assert.rejects(trying, undone)
    }
    await fc.assert(fc.asyncProperty(fc.array(someTask, { minLength: 1, maxLength: 10 }), compare), {
      numRuns: proofSize(60, 500),
    })
  })
})
