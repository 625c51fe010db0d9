/** What happens to a mission while something else holds it: a start, a pause, many verdicts, a queue without workers. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { nextFence } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { anOrgRole, aPerson, TRACE } from '#test/tenant'
import { type MissionPerson, pauseMission } from './act-on-mission.ts'
import { changePlan } from './change-plan.ts'
import { claimTask } from './claim-task.ts'
import { openMissionDrive } from './drive-mission.ts'
import { wakeStalledMissions } from './reconcile-missions.ts'
import { recordVerdict } from './record-verdict.ts'

describe('missions that are held', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const person = (): MissionPerson => {
    const { principal } = room.tenant.people.writer
    return { id: `user:${principal.userId}`, kind: 'user', traceId: TRACE, principal }
  }
  const of = (missionId: string) => ({ workspaceId: room.tenant.workspace.id, missionId })
  const paused = async (name: string) => {
    room.plays.set(name, 'waits')
    const { id } = await room.run(aPlan(planTask(name)))
    assert.ok((await pauseMission({ commands: room.world }, person(), of(id))).ok)
    await room.rest()
    return id
  }

  test('a change of the plan that meets the start of the mission is refused: nobody has approved it', async () => {
    await anOrgRole(room.clock, room.tenant.orgId, 'chief', [await aPerson(room.clock, room.tenant, 'writer')])
    const { id, command_id } = await room.create(aPlan(planTask('g')), { autonomy: 'approve', approver_role: 'chief' })
    await room.settle(command_id)
    await room.rest()
    const { gate_command_id } = await room.missionOf(id)
    let isDecided = false
    const db = new Proxy(room.world.db, {
      get(target, name, self): unknown {
        const found: unknown = Reflect.get(target, name, self)
        if (name !== 'transaction') return found
        return async (...args: unknown[]) => {
          if (!isDecided) {
            isDecided = true
            await room.decide(gate_command_id ?? '', 'approved')
          }
          return Reflect.apply(found as (...given: unknown[]) => unknown, target, args)
        }
      },
    })
    const plan = { ...aPlan(planTask('g'), planTask('added')), version: 2 }
    const changed = await changePlan({ commands: { ...room.world, db } }, person(), { ...of(id), plan, requestId: 'r' })
    assert.equal(changed.ok ? 'changed' : changed.code, 'missions.mission.wrong_state')
    await room.rest()
    assert.ok(!room.calls.includes('added'))
  })

  test('a paused mission does not stand still, and is not woken', async () => {
    const id = await paused('held')
    room.clock.travel(61_000)
    const wake = async (woken: { readonly kind: string; readonly id: string }) => void room.others.push(woken)
    assert.equal(await wakeStalledMissions({ ...room.world, wake }, { traceId: TRACE }), 0)
    assert.deepEqual(
      (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'stall_detected'),
      [],
    )
  })

  test('[MIS-159] a damaged setting of a paused mission ends it with the reason', async () => {
    const id = await paused('damaged')
    await room.rows(`update missions.orchestration_runs set config = '{"autonomy":"none"}' where id = $1`, [id])
    await openMissionDrive({ commands: room.world })(id, { token: 1 } as never)
    const { state, error_message } = await room.missionOf(id)
    assert.equal(state, 'cancelled')
    assert.match(error_message ?? '', /autonomy/)
  })

  test('more verdicts at once than connections are all recorded', async () => {
    const verify = [{ worker: true as const }]
    const names = Array.from({ length: 24 }, (_, n) => `v${n}`)
    const { id } = await room.run(aPlan(...names.map((name) => planTask(name, { verify }))))
    const tasks = await room.tasksOf(id)
    const by = { id: 'user:verifier', kind: 'user' as const, traceId: TRACE }
    const given = await Promise.all(
      tasks.map(({ id: taskId, output_checksum }) =>
        recordVerdict({ commands: room.world }, by, {
          workspaceId: room.tenant.workspace.id,
          taskId,
          attempt: 1,
          workerId: 'verifier-1',
          verdict: { verdict: 'fail', score: 0, feedback: null },
          outputChecksum: output_checksum ?? '',
        }),
      ),
    )
    assert.ok(given.every(({ ok }) => ok))
  })

  test('what is offered to a queue without workers holds back no other task, and does not stand still', async () => {
    const offered = Array.from({ length: 257 }, (_, n) => planTask(`w${n}`, { run: { worker: 'nobody', payload: {} } }))
    const { id } = await room.run(aPlan(...offered, planTask('free')))
    assert.equal((await room.statesOf(id))['free'], 'completed')
    room.clock.travel(120_000)
    await wakeStalledMissions({ ...room.world, wake: async () => {} }, { traceId: TRACE })
    assert.ok((await room.eventsOf(id)).every(({ event_type }) => event_type !== 'stall_detected'))
  })

  test('tasks that a person adds while the mission ends are run before its end', async () => {
    for (const trigger_rule of ['all_success', 'always'] as const) {
      const { id, command_id } = await room.create(aPlan(planTask('c1')), { autonomy: 'full_auto' })
      let isAdded = false
      const db = new Proxy(room.world.db, {
        get(target, name, self): unknown {
          const found: unknown = Reflect.get(target, name, self)
          if (name !== 'transaction') return found
          return async (...args: unknown[]) => {
            const result: unknown = await Reflect.apply(found as (...given: unknown[]) => unknown, target, args)
            // The turn has looked, and nothing is open.
            const isOver = typeof result === 'object' && result !== null && 'isOpen' in result && !result.isOpen
            if (!isOver || isAdded) return result
            isAdded = true
            const plan = { ...aPlan(planTask('c1'), planTask('c2', { trigger_rule })), version: 2 }
            assert.ok((await changePlan({ commands: room.world }, person(), { ...of(id), plan, requestId: 'r' })).ok)
            return result
          }
        },
      })
      const drive = openMissionDrive({ commands: { ...room.world, db } })
      await room.settle(command_id)
      while (!isAdded) {
        await room.settleWoken()
        await drive(id, nextFence())
      }
      await room.rest()
      assert.equal((await room.missionOf(id)).state, 'completed', trigger_rule)
      assert.deepEqual(await room.statesOf(id), { c1: 'completed', c2: 'completed' })
    }
  })

  test('a mission with damaged settings keeps no task of another from workers, and ends', async () => {
    const plan = () => aPlan(planTask('t', { run: { worker: 'shared', payload: {} } }))
    const [damaged, sound] = [await room.run(plan()), await room.run(plan())]
    await room.rows(`update missions.orchestration_runs set config = '{"autonomy":"none"}' where id = $1`, [damaged.id])
    const claim = { workspaceId: room.tenant.workspace.id, queues: ['shared'], workerId: 'w', traceId: TRACE }
    assert.equal((await claimTask({ commands: room.world }, claim))?.task.run_id, sound.id)
    await room.rest()
    assert.equal((await room.missionOf(damaged.id)).state, 'failed')
  })

  test('[MIS-139] the agent of a claim enters the roster once, under a whole number', async () => {
    const queue = 'roster'
    await room.run(aPlan(...['a1', 'a2'].map((name) => planTask(name, { run: { worker: queue, payload: {} } }))))
    const by = { workspaceId: room.tenant.workspace.id, queues: [queue], workerId: 'w', agent: 'Ada', traceId: TRACE }
    const claims = await Promise.all([1, 2].map(() => claimTask({ commands: room.world }, by)))
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
