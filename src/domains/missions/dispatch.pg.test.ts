/** Turns that are held up: what one of them has submitted counts for that attempt alone. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { Statement } from '#store'
import { nextFence } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { TRACE } from '#test/tenant'
import { cancelTask } from './act-on-task.ts'
import { MISSION_KIND } from './deps.ts'
import { openMissionDrive } from './drive-mission.ts'
import type { PlanTask } from './plan.ts'

describe('turns that are held up', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  /** A turn that stops before its first transaction after `isReached`, until it is released. */
  const heldTurn = async (id: string, isReached: () => Promise<boolean>) => {
    const reached = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    let isHeld = false
    const db = new Proxy(room.world.db, {
      get(target, name, self): unknown {
        const found: unknown = Reflect.get(target, name, self)
        if (name !== 'transaction') return found
        return async (...args: unknown[]) => {
          if (!isHeld && (await isReached())) {
            isHeld = true
            reached.resolve()
            await gate.promise
          }
          return Reflect.apply(found as (...given: unknown[]) => unknown, target, args)
        }
      },
    })
    const turn = openMissionDrive({ commands: { ...room.world, db } })(id, nextFence())
    await reached.promise
    return async () => {
      gate.resolve()
      await turn
    }
  }
  /** Of the first task. */
  const commandsOf = (id: string) =>
    room.rows<{ command_id: string; status: string; attempt: number }>(
      `select c.command_id, c.status, c.attempt from concord.commands as c
         join missions.orchestration_tasks as t on c.idempotency_key in ('mission:' || t.id || ':1', 'mission:' || t.id || ':2')
       where t.run_id = $1 and t.sequence_number = 1 order by c.idempotency_key`,
      [id],
    )
  const isSubmitted = (id: string, count: number) => async () => (await commandsOf(id)).length >= count
  /** The attempts that began, each with its command. */
  const startsOf = async (id: string) => {
    const begun = await room.rows<{ attempt: number; actor_id: string }>(
      `select (payload->>'attempt_number')::int as attempt, actor_id from missions.orchestration_events
       where run_id = $1 and event_type = 'task_started' order by id`,
      [id],
    )
    return begun.map(({ attempt, actor_id }) => [attempt, actor_id])
  }
  const idOf = (command: { readonly command_id: string } | undefined) => encodeId('command', command?.command_id ?? '')
  const wake = async (id: string) => {
    room.others.push({ kind: MISSION_KIND, id })
    await room.rest()
  }
  /** A mission that runs, before the first attempt of its task. */
  const begun = async (...tasks: readonly PlanTask[]) => {
    const config = { autonomy: 'full_auto', retry: { max_retries: 2, base_seconds: 10 } }
    const { id, command_id } = await room.create(aPlan(...tasks), config)
    await room.settle(command_id)
    const drive = openMissionDrive({ commands: room.world })
    while ((await room.missionOf(id)).state !== 'running') {
      await drive(id, nextFence())
      await room.settleWoken()
    }
    return id
  }

  for (const isBoth of [false, true])
    test(`a turn that wakes up after its attempt begins no other one${isBoth ? ', also while another turn does' : ''}`, async () => {
      const verify = [{ schema: { type: 'object', required: ['nothing_has_this'] } }]
      const id = await begun(planTask('t', { verify, run: { task: 'Echo', payload: { subject: 's' } } }))
      const first = await heldTurn(id, isSubmitted(id, 1))
      await wake(id)
      const [refused] = await room.tasksOf(id)
      assert.deepEqual([refused?.state, refused?.attempt_number], ['awaiting_retry', 1])
      room.clock.travel(60_000)
      const second = isBoth ? await heldTurn(id, isSubmitted(id, 2)) : undefined
      await first()
      await second?.()
      await room.rest()
      const [task] = await room.tasksOf(id)
      const commands = await commandsOf(id)
      assert.deepEqual(await startsOf(id), [
        [1, idOf(commands[0])],
        [2, idOf(commands[1])],
      ])
      assert.deepEqual(
        commands.map(({ status }) => status),
        ['succeeded', 'succeeded'],
      )
      const checked = (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'task_verification_failed')
      assert.deepEqual([task?.state, checked.length], ['awaiting_retry', 2])
    })

  test('a turn that wakes up after its retry begins no further one', async () => {
    room.plays.set('breaking', 'breaks')
    const id = await begun(planTask('breaking'))
    const exhaust = async () => {
      const [task] = await room.tasksOf(id)
      while ((await room.statusOf(task?.command_id ?? '')) !== 'failed') {
        room.clock.travel(600_000)
        await room.settle(task?.command_id ?? '')
      }
      await room.rest()
    }
    await wake(id)
    await exhaust()
    room.clock.travel(600_000)
    const isRetried = async () => (await commandsOf(id))[0]?.attempt === 2
    const first = await heldTurn(id, isRetried)
    await wake(id)
    await exhaust()
    room.clock.travel(600_000)
    await first()
    const [command] = await commandsOf(id)
    const attempts = (await startsOf(id)).map(([attempt]) => attempt)
    assert.deepEqual([attempts, command?.attempt], [[1, 2, 3], 3])
  })

  test('an attempt that is submitted after its task has failed is cancelled', async () => {
    room.plays.set('other', 'waits')
    const id = await begun(planTask('late'), planTask('other'))
    // Before the submit: the next transaction is that of the command.
    const isQueued = async () => (await room.statesOf(id))['late'] === 'queued'
    let isPassed = false
    const first = await heldTurn(id, async () => isPassed || ((isPassed = await isQueued()), false))
    await room.rows(
      `update missions.orchestration_tasks set state = 'failed', state_type = 'terminal', completed_at = now() where run_id = $1 and title = 'late'`,
      [id],
    )
    await first()
    const [command] = await commandsOf(id)
    assert.equal(command?.status, 'cancelled')
    await room.rest()
    assert.ok(!room.calls.includes('late'))
  })

  test('a task that is cancelled while its attempt begins leaves no command that runs, wherever the cancel dies', async () => {
    const { principal } = room.tenant.people.writer
    const person = { ...byPerson(principal, TRACE), principal }
    for (let point = 1, isDead = true; isDead; point++) {
      room.plays.set(`cut${point}`, 'waits').set('other', 'waits')
      const id = await begun(planTask(`cut${point}`), planTask('other'))
      const [task] = await room.tasksOf(id)
      let seen = 0
      let isRead = false
      const db = new Proxy(room.world.db, {
        get(target, name, self): unknown {
          const found: unknown = Reflect.get(target, name, self)
          if (name === 'run')
            return async (asked: Statement<object>, values: readonly unknown[]) => {
              const rows = await target.run(asked, values)
              if (asked.name === 'missions.find_task_of_mission' && !isRead) {
                isRead = true
                await wake(id)
              }
              return rows
            }
          if (name !== 'transaction') return found
          return async (...args: unknown[]) => {
            seen += 1
            if (seen === point) throw new Error('died')
            return Reflect.apply(found as (...given: unknown[]) => unknown, target, args)
          }
        },
      })
      const asked = { workspaceId: room.tenant.workspace.id, missionId: id, taskId: task?.id ?? '' }
      isDead = await cancelTask({ commands: { ...room.world, db } }, person, asked).then(
        () => false,
        () => true,
      )
      await wake(id)
      const [{ state } = { state: '' }] = await room.tasksOf(id)
      const [command] = await commandsOf(id)
      const isLeft = state === 'cancelled' && command?.status !== 'cancelled'
      assert.ok(!isLeft, `at ${point}: the task is ${state}, and its command is ${command?.status}`)
      if (!isDead) assert.equal(state, 'cancelled')
    }
  })
})
