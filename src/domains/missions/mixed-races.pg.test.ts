/**
 * Approve, cancel, submit, pause, resume, turns and the reconciler at the same time, on one mission and its tasks: each task ends once, as the winner says, and
 * an accepted action has taken effect. The full number: `npm run test:chaos -- --property-runs=50 src/domains/missions/mixed-races.pg.test.ts`.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { byPerson } from '#kernel/actor'
import { type MissionRunState, missionRunMachine } from '#kernel/machines/mission'
import type { Decision } from '#kernel/refusal'
import { openChance } from '#test/chance'
import { nextFence } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { proofSize } from '#test/proof-size'
import { accepted, TRACE } from '#test/tenant'
import { cancelMission, decidePlan, pauseMission, resumeMission } from './act-on-mission.ts'
import { cancelTask, decideOutput } from './act-on-task.ts'
import { claimTask } from './claim-task.ts'
import { openMissionDrive } from './drive-mission.ts'
import { missionInvariants } from './mission-invariants.ts'
import { reconcileMissions, wakeStalledMissions } from './reconcile-missions.ts'
import { type LeaseHolder, startTask, submitTask } from './worker-calls.ts'

const TASKS = 8
/** The gate, the tasks, and the pause of one mission. */
const RACES_EACH = TASKS + 2
/** 5,000 races take minutes. */
const PATIENT_MS = 1_800_000
const JITTER_MS = 12

const ends = ['task_cancelled', 'task_skipped', 'task_verification_passed', 'task_human_approved', 'task_failed']

describe('races of everybody', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const seed = process.env['CONCORD_RACE_SEED'] ?? randomUUID()
  const chance = openChance(seed)
  const deps = () => ({ commands: room.world, approvals: room.approvals })
  const person = () => {
    const { principal } = room.tenant.people.writer
    return { ...byPerson(principal, TRACE), principal }
  }
  const workspaceId = () => room.tenant.workspace.id
  /** A moment later, so that everybody is first sometimes. */
  const soon = async <T>(act: () => Promise<T>): Promise<T> => {
    await sleep(chance.whole(JITTER_MS))
    return act()
  }

  const of = (missionId: string) => ({ workspaceId: workspaceId(), missionId })
  const turn = (id: string) => openMissionDrive(deps())(id, nextFence())
  /** What nobody asked for: two turns, commands that go on, and both parts of the net. */
  const machinery = (id: string) => {
    const net = { ...room.world, wake: async (process: { kind: string; id: string }) => void room.others.push(process) }
    return [
      soon(() => turn(id)),
      soon(() => turn(id)),
      soon(() => room.settleWoken()),
      soon(() => reconcileMissions(net, 0)),
      soon(() => wakeStalledMissions(net, { traceId: TRACE })),
    ]
  }
  const countOf = async (id: string, type: string) =>
    (await room.eventsOf(id)).filter(({ event_type }) => event_type === type).length
  const okays = (answers: readonly Decision<unknown>[]) => answers.filter(({ ok }) => ok).length

  /** The events of the mission are a legal way from its creation to its state. */
  const checkWay = async (id: string) => {
    const { state } = await room.missionOf(id)
    let at: MissionRunState = missionRunMachine.initial
    for (const { event_type } of await room.eventsOf(id)) {
      const move = missionRunMachine.moves.find(({ from, emits }) => from === at && emits.at(-1) === event_type)
      if (move) at = move.to
    }
    assert.equal(at, state)
  }

  let queues = 0
  const open = async () => {
    const queue = `race${(queues += 1)}`
    const tasks = Array.from({ length: TASKS }, (_, at) =>
      planTask(`t${at}`, { run: { worker: queue, payload: {} }, verify: [{ person: {} }] }),
    )
    const { id, command_id } = await room.create(aPlan(...tasks), { autonomy: 'approve' })
    await room.settle(command_id)
    await room.rest()
    return { id, queue }
  }
  const decide = (id: string, decision: 'approved' | 'rejected') =>
    decidePlan(deps(), person().principal, TRACE, { ...of(id), decision, reason: 'r' })

  /** False: the mission has ended at its gate. */
  const raceGate = async (id: string, isCancelled: boolean): Promise<boolean> => {
    const decided = [decide(id, 'approved'), decide(id, chance.pick(['approved', 'approved', 'rejected'] as const))]
    const cancel = isCancelled ? [soon(() => cancelMission(deps(), person(), of(id)))] : []
    const [answers, cancelled] = [await Promise.all(decided), await Promise.all(cancel)]
    await Promise.all(machinery(id))
    assert.ok(okays(answers) <= 1, 'one decision counts')
    const { gate_command_id: gate } = await room.missionOf(id)
    if (gate !== null) await room.settle(gate)
    await room.rest()
    const { state } = await room.missionOf(id)
    if (okays(cancelled) > 0) assert.equal(state, 'cancelled')
    assert.ok((await countOf(id, 'run_cancelled')) + (await countOf(id, 'run_rejected')) <= 1)
    assert.ok((await countOf(id, 'run_approved')) <= 1)
    return state === 'running'
  }

  const hold = async (queue: string): Promise<readonly LeaseHolder[]> => {
    const held: LeaseHolder[] = []
    for (;;) {
      const claimed = await claimTask(deps(), {
        workspaceId: workspaceId(),
        queues: [queue],
        workerId: 'w',
        traceId: TRACE,
      })
      if (!claimed) return held
      const { task, leaseToken } = claimed
      const holder = {
        workspaceId: workspaceId(),
        taskId: task.id,
        leaseToken,
        attempt: task.attempt_number,
        traceId: TRACE,
      }
      accepted(await startTask(deps(), holder))
      held.push(holder)
    }
  }
  const submit = (holder: LeaseHolder) => submitTask(deps(), { ...holder, output: {}, cost: '0', tokens: 0 })
  const approve = (id: string, taskId: string) =>
    decideOutput(deps(), person().principal, TRACE, { ...of(id), taskId, decision: 'approved', reason: 'r' })

  /** Each task is submitted, approved and cancelled at once; the mission is paused by two and resumed by two, and sometimes cancelled. */
  const raceWork = async (id: string, queue: string, isCancelled: boolean): Promise<void> => {
    const held = await hold(queue)
    assert.equal(held.length, TASKS)
    // Half of the tasks are submitted before, so that the approval meets the cancel.
    for (const [at, holder] of held.entries()) if (at % 2 === 0) accepted(await submit(holder))
    await room.rest()
    const answers = held.map(async (holder) => {
      const { taskId } = holder
      const [submitted, approved, cancelled] = await Promise.all([
        soon(() => submit(holder)),
        soon(() => approve(id, taskId)),
        chance.whole(3) === 0 ? undefined : soon(() => cancelTask(deps(), person(), { ...of(id), taskId })),
      ])
      return { taskId, submitted, approved, cancelled }
    })
    const pauses = [1, 2].map(() => soon(() => pauseMission(deps(), person(), of(id))))
    const resumes = [1, 2].map(() => soon(() => resumeMission(deps(), person(), of(id))))
    const stop = isCancelled ? [soon(() => cancelMission(deps(), person(), of(id)))] : []
    const around = machinery(id)
    const [told, paused, resumed, stopped] = [
      await Promise.all(answers),
      await Promise.all(pauses),
      await Promise.all(resumes),
      await Promise.all(stop),
    ]
    await Promise.all(around)
    if ((await room.missionOf(id)).state === 'paused') resumed.push(await resumeMission(deps(), person(), of(id)))
    await room.rest()
    // An approval that came before its question is asked again.
    for (const { id: taskId, state } of await room.tasksOf(id))
      if (state === 'awaiting_human') accepted(await approve(id, taskId))
    for (const { review_command_id: review } of await room.tasksOf(id)) if (review !== null) await room.settle(review)
    await room.rest()

    assert.deepEqual(
      [await countOf(id, 'run_paused'), await countOf(id, 'run_resumed')],
      [okays(paused), okays(resumed)],
      'a pause or a resume that was accepted happened once',
    )
    const run = await room.missionOf(id)
    if (okays(stopped) > 0) assert.equal(run.state, 'cancelled')
    assert.equal(run.state_type, 'terminal')
    const states = new Map((await room.tasksOf(id)).map((task) => [task.id, task.state]))
    const events = await room.rows<{ task_id: string; n: number }>(
      `select task_id, count(*)::int as n from missions.orchestration_events where run_id = $1 and event_type = any($2) group by 1`,
      [id, ends],
    )
    const endings = new Map(events.map(({ task_id, n }) => [task_id, n]))
    for (const { taskId, submitted, approved, cancelled } of told) {
      const state = states.get(taskId)
      const says = JSON.stringify({ state, submitted, approved, cancelled }).slice(0, 2_000)
      assert.equal(endings.get(taskId), 1, `one end: ${says}`)
      if (cancelled?.ok) assert.equal(state, 'cancelled', says)
      else if (okays(stopped) === 0) assert.equal(state, 'completed', says)
      else assert.ok(state === 'completed' || state === 'cancelled', says)
      if (!submitted.ok) assert.equal(submitted.code, 'missions.lease.stale', says)
      if (state === 'completed') assert.ok(submitted.ok, says)
    }
  }

  test('approve, cancel, submit, pause, resume, turns and the reconciler at once: one wins, and every answer is true', {
    timeout: PATIENT_MS,
  }, async (t) => {
    t.diagnostic(`seed: CONCORD_RACE_SEED=${seed}`)
    const size = proofSize(2 * RACES_EACH, 100)
    let races = 0
    for (let round = 0; races < size; round++) {
      const { id, queue } = await open()
      const isCancelled = round % 5 === 4
      races += 1
      if (await raceGate(id, round % 5 === 3)) {
        await raceWork(id, queue, isCancelled)
        races += TASKS + 1
      }
      await checkWay(id)
    }
    for (const { code, sql } of missionInvariants) assert.deepEqual(await room.rows(sql), [], code)
    t.diagnostic(`${races} races`)
  })
})
