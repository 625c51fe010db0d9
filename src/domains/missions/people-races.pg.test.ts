/** People and turns at the same time, on real connections: one of them wins, the others get the fresh row, and the rows stay legal. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { JsonObject } from '#kernel/json-value'
import { type MissionRunState, missionRunMachine } from '#kernel/machines/mission'
import type { Decision } from '#kernel/refusal'
import { nextFence } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { proofSize } from '#test/proof-size'
import { TRACE } from '#test/tenant'
import { cancelMission, decidePlan, pauseMission, resumeMission } from './act-on-mission.ts'
import { cancelTask } from './act-on-task.ts'
import { openMissionDrive } from './drive-mission.ts'
import { missionInvariants } from './mission-invariants.ts'

describe('races of people', () => {
  let room: MissionRoom
  let deaths = Number.POSITIVE_INFINITY
  before(async () => {
    room = await openMissionRoom({ dies: () => (deaths -= 1) === 0 })
  })
  after(() => room.close())

  const person = () => {
    const { principal } = room.tenant.people.writer
    return { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
  }
  const actions = () => {
    const deps = { commands: room.world, approvals: room.approvals }
    const of = (missionId: string) => ({ workspaceId: room.tenant.workspace.id, missionId })
    const decide = (decision: 'approved' | 'rejected') => (id: string) =>
      decidePlan(deps, person().principal, TRACE, { ...of(id), decision, reason: 'r' })
    return {
      pause: (id: string) => pauseMission(deps, person(), of(id)),
      resume: (id: string) => resumeMission(deps, person(), of(id)),
      cancel: (id: string) => cancelMission(deps, person(), of(id)),
      approve: decide('approved'),
      reject: decide('rejected'),
      async turn(id: string) {
        await openMissionDrive(deps)(id, nextFence())
        return { ok: true, value: null } as const
      },
      cancelTask: async (id: string) => {
        const [task] = await room.tasksOf(id)
        return cancelTask(deps, person(), { ...of(id), taskId: task?.id ?? '' })
      },
    }
  }
  type Name = keyof ReturnType<typeof actions>
  const atOnce = (id: string, ...names: readonly Name[]): Promise<readonly Decision<unknown>[]> =>
    Promise.all(names.map((name) => actions()[name](id)))
  const open = async (config: JsonObject) => {
    room.plays.set('held', 'waits')
    const { id, command_id } = await room.create(
      aPlan(planTask('held'), planTask('behind', { depends_on: ['held'] })),
      config,
    )
    await room.settle(command_id)
    await room.rest()
    return id
  }
  /** The events of the mission are a legal way from its creation to its state. */
  const checkWay = async (id: string) => {
    const { state, state_type } = await room.missionOf(id)
    let at: MissionRunState = missionRunMachine.initial
    for (const { event_type } of await room.eventsOf(id)) {
      const move = missionRunMachine.moves.find(({ from, emits }) => from === at && emits.at(-1) === event_type)
      if (move) at = move.to
    }
    assert.equal(at, state)
    assert.equal(state_type, missionRunMachine.states[state])
    for (const { code, sql } of missionInvariants) assert.deepEqual(await room.rows(sql), [], code)
  }
  const countOf = async (id: string, type: string) =>
    (await room.eventsOf(id)).filter(({ event_type }) => event_type === type).length

  test('[MIS-190] of people who pause or resume at once one wins, and the others get the fresh row', async () => {
    const id = await open({ autonomy: 'full_auto' })
    const rounds = proofSize(5, 40)
    for (let round = 0; round < rounds; round++)
      for (const [name, to] of [
        ['pause', 'paused'],
        ['resume', 'running'],
      ] as const) {
        const answers = await atOnce(id, name, 'turn', name, name)
        const lost = answers.filter((answer) => !answer.ok)
        assert.equal(lost.length, 2)
        for (const answer of lost) {
          assert.ok(!answer.ok && answer.code === 'missions.mission.wrong_state')
          assert.equal((answer.facts?.['mission'] as JsonObject | undefined)?.['state'], to)
        }
      }
    assert.deepEqual([await countOf(id, 'run_paused'), await countOf(id, 'run_resumed')], [rounds, rounds])
    await checkWay(id)
  })

  test('a mission ends once when people approve, reject, pause and cancel at the same time as its turns', async () => {
    const races: readonly (readonly [JsonObject, readonly Name[]])[] = [
      [{}, ['approve', 'reject', 'cancel', 'turn']],
      [{}, ['reject', 'approve', 'approve', 'turn']],
      [{ autonomy: 'full_auto' }, ['cancel', 'pause', 'cancel', 'cancelTask', 'turn']],
      [{ autonomy: 'full_auto' }, ['cancelTask', 'cancelTask', 'turn', 'cancel']],
    ]
    for (let round = 0; round < proofSize(1, 3); round++)
      for (const [config, names] of races) {
        const id = await open(config)
        const answers = await atOnce(id, ...names)
        const decided = answers.filter((answer, at) => answer.ok && /approve|reject/.test(names[at] ?? ''))
        assert.ok(decided.length <= 1, 'one decision counts')
        const gate = (await room.missionOf(id)).gate_command_id
        if (gate !== null) await room.settle(gate)
        await room.rest()
        await checkWay(id)
        assert.ok((await countOf(id, 'run_cancelled')) + (await countOf(id, 'run_rejected')) <= 1)
        for (const { id: taskId } of await room.tasksOf(id)) {
          const ended = await room.rows<{ n: number }>(
            `select count(*)::int as n from missions.orchestration_events
             where task_id = $1 and event_type in ('task_cancelled', 'task_skipped', 'task_verification_passed')`,
            [taskId],
          )
          assert.ok((ended[0]?.n ?? 0) <= 1)
        }
      }
  })

  test('a task that is cancelled while a turn submits its attempt never runs, wherever the turn dies', async () => {
    // A turn from the first task of a plan to its begin reads and writes about twenty times.
    for (let point = proofSize(16, 1); point <= proofSize(18, 20); point++) {
      const name = `lost${point}`
      const { id, command_id } = await room.create(aPlan(planTask(name)), {})
      await room.settle(command_id)
      await room.rest()
      await room.decide((await room.missionOf(id)).gate_command_id ?? '', 'approved')
      deaths = point
      await room.step()
      deaths = Number.POSITIVE_INFINITY
      const [cancelled] = await atOnce(id, 'cancelTask')
      await room.rest()
      const [task] = await room.tasksOf(id)
      if (cancelled?.ok) assert.deepEqual([task?.state, room.calls.includes(name)], ['cancelled', false], `at ${point}`)
      else assert.equal(task?.state, 'completed')
      await checkWay(id)
    }
  })
})
