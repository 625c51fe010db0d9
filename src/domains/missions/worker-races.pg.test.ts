/** Workers, people and turns at the same time, on real connections: one of them wins, and the rows stay legal. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { cancelCommand } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { nextFence } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { proofSize } from '#test/proof-size'
import { accepted, TRACE } from '#test/tenant'
import { pauseMission, resumeMission } from './act-on-mission.ts'
import { claimTask } from './claim-task.ts'
import { MISSION_KIND, type MissionDeps } from './deps.ts'
import { openMissionDrive } from './drive-mission.ts'
import { missionInvariants } from './mission-invariants.ts'
import type { MissionPlan } from './plan.ts'
import { continueTask, failTask, keepTask, type LeaseHolder, startTask, submitTask } from './worker-calls.ts'

describe('races of workers', () => {
  let room: MissionRoom
  let deps: MissionDeps
  before(async () => {
    room = await openMissionRoom()
    deps = { commands: room.world }
  })
  after(() => room.close())

  let queues = 0
  const wide = (count: number, queue: string) =>
    aPlan(...Array.from({ length: count }, (_, at) => planTask(`t${at}`, { run: { worker: queue, payload: {} } })))
  const open = async (plan: (queue: string) => MissionPlan, config: JsonObject = {}) => {
    const queue = `q${(queues += 1)}`
    return { id: (await room.run(plan(queue), config)).id, queue }
  }
  const claim = async (queue: string, workerId = 'w'): Promise<LeaseHolder | undefined> => {
    const workspaceId = room.tenant.workspace.id
    const claimed = await claimTask(deps, { workspaceId, queues: [queue], workerId, traceId: TRACE })
    if (!claimed) return undefined
    const { task, leaseToken } = claimed
    return { workspaceId, taskId: task.id, leaseToken, attempt: task.attempt_number, traceId: TRACE }
  }
  /** Claims until nothing is left. */
  const drain = async (queue: string, workerId: string) => {
    const held: LeaseHolder[] = []
    for (let next = await claim(queue, workerId); next; next = await claim(queue, workerId)) held.push(next)
    return held
  }
  const submit = (holder: LeaseHolder) => submitTask(deps, { ...holder, output: {}, cost: '0', tokens: 0 })
  const startAll = async (queue: string) => {
    const held = await drain(queue, 'w')
    for (const holder of held) accepted(await startTask(deps, holder))
    return held
  }
  const sound = async () => {
    for (const { code, sql } of missionInvariants) assert.deepEqual(await room.rows(sql), [], code)
  }
  const stateOf = async (id: string) => new Map((await room.tasksOf(id)).map((task) => [task.id, task.state]))
  test('[MIS-193] eight claimers get a hundred tasks, each once', async () => {
    const count = proofSize(24, 100)
    const { id, queue } = await open((name) => wide(count, name))
    const claims = await Promise.all(Array.from({ length: 8 }, (_, at) => drain(queue, `w${at}`)))
    const all = claims.flat()
    assert.deepEqual([all.length, new Set(all.map(({ taskId }) => taskId)).size], [count, count])
    assert.equal(new Set(all.map(({ leaseToken }) => leaseToken)).size, count)
    assert.deepEqual(new Set((await room.tasksOf(id)).map(({ state }) => state)), new Set(['assigned']))
  })

  test('[MIS-191] a submit and a cancel at the same time: one wins, and a refused submit changes nothing', async () => {
    const by = byPerson(room.tenant.people.writer.principal, TRACE)
    for (let round = 0; round < proofSize(1, 8); round++) {
      const { id, queue } = await open((name) => wide(8, name))
      const held = await startAll(queue)
      const commands = new Map((await room.tasksOf(id)).map((task) => [task.id, task.command_id ?? '']))
      const cancel = ({ workspaceId, taskId }: LeaseHolder) =>
        cancelCommand(room.world, by, { workspaceId, commandId: commands.get(taskId) ?? '' })
      // For some tasks the cancel is first, for some the submit, and the others race.
      const answers = await Promise.all(
        held.map(async (holder, at) => {
          const isCancelFirst = at % 4 === 0
          if (isCancelFirst) accepted(await cancel(holder))
          const own = submit(holder)
          if (at % 4 === 1) await own
          if (!isCancelFirst) await cancel(holder)
          return { isCancelFirst, answer: await own }
        }),
      )
      await room.rest()
      const states = await stateOf(id)
      held.forEach(({ taskId }, at) => {
        const { isCancelFirst = false, answer } = answers[at] ?? {}
        const state = states.get(taskId)
        assert.ok(state === 'cancelled' || (state === 'completed' && answer?.ok && !isCancelFirst), state)
        if (isCancelFirst) assert.equal(answer?.ok, false)
        if (answer?.ok === false) assert.equal(answer.code, 'missions.lease.stale')
      })
      assert.equal((await room.missionOf(id)).state_type, 'terminal')
    }
    await sound()
  })

  test('[MIS-192] a submit and the end of its lease at the same time: one wins, and the other is refused or too late', async () => {
    const drive = openMissionDrive(deps)
    for (let round = 0; round < proofSize(1, 8); round++) {
      const { id, queue } = await open((name) => wide(8, name), { retry: { max_retries: 0 } })
      const held = await startAll(queue)
      room.clock.travel(300_000)
      const turns = Promise.all([1, 2].map(() => drive(id, nextFence())))
      const answers = await Promise.all(held.map(submit))
      await turns
      room.others.push({ kind: MISSION_KIND, id })
      await room.rest()
      const states = await stateOf(id)
      held.forEach(({ taskId }, at) => assert.equal(states.get(taskId), answers[at]?.ok ? 'completed' : 'failed'))
      const stalls = (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'stall_detected')
      assert.equal(stalls.length, answers.filter((answer) => !answer.ok).length)
    }
    await sound()
  })

  test('[MIS-103] heartbeats during moves of the mission and its tasks cause no conflict, and leave the version', async () => {
    const { id, queue } = await open((name) => wide(4, name))
    const held = await startAll(queue)
    const versions = async () => (await room.tasksOf(id)).map(({ version_id }) => version_id)
    const before_ = await versions()
    room.clock.travel(1_000)
    for (const holder of held) accepted(await keepTask(deps, holder))
    assert.deepEqual(await versions(), before_)
    for (const { last_heartbeat_at } of await room.tasksOf(id)) assert.deepEqual(last_heartbeat_at, room.clock.now())
    const [submitted, ...kept] = held
    assert.ok(submitted)
    const { principal } = room.tenant.people.writer
    const person = { ...byPerson(principal, TRACE), principal }
    const mission = { workspaceId: room.tenant.workspace.id, missionId: id }
    const beat = () => kept.map((holder) => keepTask(deps, holder))
    for (const move of [
      () => submit(submitted),
      ...[pauseMission, resumeMission].map((act) => () => act(deps, person, mission)),
    ]) {
      const answers: { readonly ok: boolean }[] = await Promise.all([...beat(), move(), ...beat()])
      assert.deepEqual(
        answers.filter(({ ok }) => !ok),
        [],
      )
    }
    await room.rest()
    assert.equal((await stateOf(id)).get(submitted.taskId), 'completed')
    await sound()
  })

  test('[MIS-092] continuations count within an attempt, and the next attempt starts at none', async () => {
    const { id, queue } = await open((name) => wide(1, name))
    const [holder] = await startAll(queue)
    assert.ok(holder)
    const counts = async () => (await room.tasksOf(id)).map((task) => [task.attempt_number, task.continuation_count])
    assert.deepEqual(await counts(), [[1, 0]])
    accepted(await continueTask(deps, { ...holder, tokens: 5 }))
    assert.deepEqual(await counts(), [[1, 1]])
    const turn = async (later: number) => {
      room.clock.travel(later)
      room.others.push({ kind: MISSION_KIND, id })
      await room.rest()
    }
    await turn(1_000)
    accepted(await failTask(deps, { ...holder, error: 'x', isRetryable: true, cost: '0', tokens: 0 }))
    await turn(600_000)
    assert.ok(await claim(queue))
    assert.deepEqual(await counts(), [[2, 0]])
  })

  test('[MIS-194] while a worker works, no transaction is open and nobody waits for a lock', async () => {
    const { id, queue } = await open((name) => wide(2, name))
    const [held] = await startAll(queue)
    assert.ok(held)
    const free = await room.db.transaction((tx) =>
      tx.query(
        `select t.id from missions.orchestration_tasks as t join missions.orchestration_runs as r on r.id = t.run_id
         where r.id = $1 for update nowait`,
        [id],
      ),
    )
    assert.equal(free.length, 2)
    const [idle] = await room.rows<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
         and state <> 'active'`,
    )
    assert.equal(idle?.n, 0)
  })

  test('[MIS-009] the same graph comes to the same end with one worker and with four, whatever its strategy says', async () => {
    const graph = (strategy: MissionPlan['strategy']) => (queue: string) => ({
      ...aPlan(
        ...Array.from({ length: 12 }, (_, at) =>
          planTask(`t${at}`, {
            run: { worker: queue, payload: {} },
            depends_on:
              at < 3
                ? []
                : [`t${Math.floor(at / 3) - 1}`, `t${at - 3}`].filter(
                    (each, place, all) => all.indexOf(each) === place,
                  ),
          }),
        ),
      ),
      strategy,
    })
    const ends = []
    for (const [workers, strategy] of [
      [1, 'sequential'],
      [4, 'parallel'],
    ] as const) {
      const { id, queue } = await open(graph(strategy))
      const work = async (name: string) => {
        const held = await claim(queue, name)
        if (!held) return
        accepted(await startTask(deps, held))
        accepted(await submit(held))
      }
      for (let rounds = 0; (await room.missionOf(id)).state === 'running' && rounds < 50; rounds++) {
        await Promise.all(Array.from({ length: workers }, (_, at) => work(`w${at}`)))
        await room.rest()
      }
      ends.push([(await room.missionOf(id)).state, await room.statesOf(id)])
    }
    assert.deepEqual(ends[0], ends[1])
    assert.equal(ends[0]?.[0], 'completed')
  })

  test('[MIS-139] the agent of a claim enters the roster once, under a whole number', async () => {
    const { queue } = await open((name) => wide(2, name))
    const by = { workspaceId: room.tenant.workspace.id, queues: [queue], workerId: 'w', agent: 'Ada', traceId: TRACE }
    const claims = await Promise.all([1, 2].map(() => claimTask(deps, by)))
    const ids = claims.map((each) => each?.task.agent_id)
    assert.ok(Number.isInteger(ids[0]))
    assert.equal(ids[0], ids[1])
    const types = await room.rows<{ type: string }>(
      `select distinct format_type(atttypid, atttypmod) as type from pg_attribute where attrelid = 'missions.agents'::regclass and attname = 'id'
       union select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'missions.orchestration_tasks'::regclass and attname = 'agent_id'`,
    )
    assert.deepEqual(types, [{ type: 'integer' }])
  })
})
