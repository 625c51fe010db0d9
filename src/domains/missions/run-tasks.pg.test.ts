/** Attempts of tasks, and the command of a mission: what a turn that died has submitted, what somebody else repeats meanwhile, limits, and long texts. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { cancelCommand, retryCommand } from '#domains/commands'
import { byPerson, bySystem } from '#kernel/actor'
import { type Db, listStatements, type Statement } from '#store'
import { nextFence } from '#test/commands'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, TRACE } from '#test/tenant'
import { MISSION_KIND } from './deps.ts'
import { openMissionDrive } from './drive-mission.ts'
import { listBrokenHooks } from './auxiliary-rows.ts'
import { reportText } from './report-text.ts'
import { wakeStalledMissions } from './reconcile-missions.ts'

class Died extends Error {}

/** A database that calls the test before every transaction and after every read of a turn. */
function watched(db: Db, seen: (read: string | undefined) => Promise<void>): Db {
  return new Proxy(db, {
    get(target, name, self): unknown {
      const found: unknown = Reflect.get(target, name, self)
      if (name === 'run')
        return async (asked: Statement<object>, values: readonly unknown[]) => {
          const rows = await target.run(asked, values)
          await seen(asked.name)
          return rows
        }
      if (name !== 'transaction') return found
      return async (...args: unknown[]) => {
        await seen(undefined)
        return Reflect.apply(found as (...given: unknown[]) => unknown, target, args)
      }
    },
  })
}

describe('attempts of mission tasks', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const turn = (id: string, seen: (read: string | undefined) => Promise<void>) =>
    openMissionDrive({ commands: { ...room.world, db: watched(room.world.db, seen) } })(id, nextFence())
  const isDeactivated = (is: boolean) =>
    room.db.transaction(async (tx) => {
      await tx.query('set local role none')
      await tx.query('update identity.users set deactivated_at = $2 where id = $1', [
        room.tenant.people.writer.principal.userId,
        is ? room.clock.now() : null,
      ])
    })
  /** Runs the command until its own attempts are used up, and the mission until it waits. */
  const exhaust = async (commandId: string) => {
    while ((await room.statusOf(commandId)) !== 'failed') {
      room.clock.travel(600_000)
      await room.settle(commandId)
    }
    await room.rest()
  }
  const wake = async (id: string) => {
    room.others.push({ kind: MISSION_KIND, id })
    await room.rest()
  }

  test('results, errors and goals that end in the middle of a surrogate pair do not stop a mission', async () => {
    const names = ['', 'a'].flatMap((start) => [`${start}${'😀'.repeat(2_500)}`, `f${start}${'😀'.repeat(2_500)}`])
    for (const name of names) if (name.startsWith('f')) room.plays.set(name, 'fails')
    const plan = aPlan(...names.map((name, at) => planTask(`s${at}`, { run: { task: 'Step', payload: { name } } })))
    const { id, command_id, title } = await room.create(
      plan,
      { autonomy: 'full_auto' },
      { goal: `a${'😀'.repeat(600)}` },
    )
    assert.equal(title, `a${'😀'.repeat(499)}`)
    await room.settle(command_id)
    await room.rest()
    assert.deepEqual(Object.values(await room.statesOf(id)), ['completed', 'failed', 'completed', 'failed'])
    const texts = (await room.tasksOf(id)).map((task) => task.output_summary ?? task.error_message ?? '')
    assert.ok(texts.every((text) => text.isWellFormed() && Array.from(text).length <= 2_000))
  })

  test('a turn that died after the submit: the next one takes the command, also if its requester left', async () => {
    room.plays.set('o1', 'waits')
    const { id, command_id } = await room.create(aPlan(planTask('o1')), { autonomy: 'full_auto' })
    await room.settle(command_id)
    const ofTask = () =>
      room.rows<{ command_id: string }>(
        `select c.command_id from concord.commands c join missions.orchestration_tasks t on c.idempotency_key = 'mission:' || t.id || ':1' where t.run_id = $1`,
        [id],
      )
    const dying = async () => {
      if ((await ofTask()).length > 0) throw new Died()
    }
    for (let isAlive = true; isAlive; ) {
      await room.settleWoken()
      assert.ok(room.others.shift())
      isAlive = await turn(id, dying).then(
        () => true,
        (error: unknown) => {
          assert.ok(error instanceof Died)
          return false
        },
      )
    }
    const [lost] = await ofTask()
    assert.equal((await room.tasksOf(id))[0]?.command_id, null)
    await isDeactivated(true)
    await wake(id)
    await isDeactivated(false)
    const [task] = await room.tasksOf(id)
    assert.deepEqual([task?.state, task?.command_id], ['running', lost?.command_id])
    await room.decide(task?.command_id ?? '', 'approved')
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'completed')
  })

  test('a command that somebody runs again between the read and the retry is an attempt that began', async () => {
    room.plays.set('q1', 'breaks')
    const { id } = await room.run(aPlan(planTask('q1')))
    const commandId = (await room.tasksOf(id))[0]?.command_id ?? ''
    await exhaust(commandId)
    room.plays.delete('q1')
    room.clock.travel(10_000)
    let isFirst = true
    await turn(id, async (read) => {
      if (read !== 'missions.list_due' || !isFirst) return
      isFirst = false
      const workspaceId = room.tenant.workspace.id
      accepted(await retryCommand(room.world, bySystem(TRACE), { workspaceId, commandId }))
    })
    assert.equal(isFirst, false)
    await room.rest()
    const [task] = await room.tasksOf(id)
    assert.deepEqual([task?.state, task?.attempt_number, task?.command_id], ['completed', 2, commandId])
    assert.equal((await room.missionOf(id)).state, 'completed')
  })

  test('a task runs at most as often as the catalog lets its command run, and keeps the last error', async () => {
    room.plays.set('m1', 'breaks')
    const { id, command_id } = await room.run(aPlan(planTask('m1')), { retry: { max_retries: 10 } })
    const commandId = (await room.tasksOf(id))[0]?.command_id ?? ''
    for (let runs = 0; runs < 5 && (await room.tasksOf(id))[0]?.state_type !== 'terminal'; runs++) {
      await exhaust(commandId)
      room.clock.travel(300_000)
      await wake(id)
    }
    const [task] = await room.tasksOf(id)
    assert.deepEqual([task?.state, task?.attempt_number], ['failed', 3])
    assert.match(task?.error_message ?? '', /m1 breaks/)
    const crashes = (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'task_crashed')
    assert.deepEqual(
      crashes.map(({ payload }) => [payload['retries_remaining'], payload['final']]),
      [
        [2, false],
        [1, false],
        [0, true],
      ],
    )
    assert.equal(await room.statusOf(command_id), 'failed')
  })

  test('a mission whose own command has not begun does nothing, and goes on when it begins', async () => {
    const { id, command_id } = await room.create(aPlan(planTask('h1')), { autonomy: 'full_auto' })
    await turn(id, async () => undefined)
    const held = await room.missionOf(id)
    assert.deepEqual([held.state, held.gate_command_id, held.run_after], ['pending', null, null])
    await room.settle(command_id)
    assert.notEqual((await room.missionOf(id)).run_after, null)
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'completed')
  })

  test('a mission whose own command was denied fails with its reason', async () => {
    const { id, command_id } = await room.create(aPlan(planTask('h2')), { autonomy: 'full_auto' })
    const denied = { status: 'failed', error: 'A rule says no.', error_class: 'policy_denied' }
    await room.db.query(
      `update concord.commands set status = $2, error = $3, error_class = $4, completed_at = now() where command_id = $1`,
      [command_id, ...Object.values(denied)],
    )
    await wake(id)
    const ended = await room.missionOf(id)
    assert.deepEqual([ended.state, ended.error_message], ['failed', denied.error])
    const last = (await room.eventsOf(id)).at(-1)
    assert.deepEqual([last?.event_type, last?.actor_type], ['run_failed', 'coordinator'])
    assert.ok(!room.calls.includes('h2'))
  })

  test('a cancel before the command of a mission has begun names the person', async () => {
    const { id, command_id: commandId } = await room.create(aPlan(planTask('h3')), { autonomy: 'full_auto' })
    await turn(id, async () => undefined)
    const { principal } = room.tenant.people.writer
    const workspaceId = room.tenant.workspace.id
    accepted(await cancelCommand(room.world, byPerson(principal, TRACE), { workspaceId, commandId }))
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'cancelled')
    const last = (await room.eventsOf(id)).at(-1)
    assert.equal(last?.payload['cancelled_by'], `user:${principal.userId}`)
  })

  test('a mission cannot take a key that is reserved for attempts', async () => {
    const asked = room.create(aPlan(), {}, { idempotencyKey: `mission:${room.clock.newId()}:1` })
    await assert.rejects(asked, /key_reserved|reserved/)
  })

  test('what a completion reads and writes is found by keys, whatever the size of the plan, also before an analyze', async () => {
    const { id, workspace_id } = await room.create(aPlan(planTask('queued')))
    const hot = ['missions.list_queued', 'missions.list_waiting', 'missions.update_tasks', 'missions.update_cards']
    const texts: { name: string; text: string }[] = listStatements().filter(({ name }) => hot.includes(name))
    assert.equal(texts.length, hot.length)
    // The lookup of the foreign keys of edges and events.
    texts.push({
      name: 'key',
      text: 'select 1 from only missions.orchestration_tasks x where id = $1 and run_id = $2 for key share of x',
    })
    const whole =
      /Seq Scan on (orchestration_tasks|orchestration_task_dependencies|board_tasks)|(using|Scan on) (ix_orch_tasks_run|orchestration_tasks_sequence_uq) /
    const undone = new Error('undone')
    const plans: string[] = []
    const look = room.db.transaction(async (tx) => {
      const explain = async () => {
        for (const { text } of texts) {
          const lines = await tx.query(`explain (generic_plan) ${text}`)
          plans.push(lines.map((line) => Object.values(line).join()).join('\n'))
        }
      }
      await tx.query('set local role none')
      await explain()
      const small = plans.splice(0).at(-1) ?? ''
      assert.doesNotMatch(small, whole)
      await tx.query(
        `insert into missions.orchestration_tasks (run_id, workspace_id, sequence_number, title, task_type, spec, remaining, state)
         select $1, $2, n, 'x', 'other', '{}', 0, case when n % 2 = 0 then 'queued' else 'pending' end from generate_series(1, 3000) as n`,
        [id, workspace_id],
      )
      await tx.query(
        `insert into missions.board_tasks (workspace_id, title, created_by_id, source_type, source_id)
         select workspace_id, title, 'x', 'orchestration_task', id::text from missions.orchestration_tasks where run_id = $1`,
        [id],
      )
      await explain()
      await tx.query('analyze missions.orchestration_tasks, missions.board_tasks')
      await explain()
      throw undone
    })
    await assert.rejects(look, undone)
    for (const plan of plans) assert.doesNotMatch(plan, whole)
    const queued = plans[texts.length + texts.findIndex(({ name }) => name === 'missions.list_queued')] ?? ''
    assert.match(queued, /orchestration_tasks_run_order_ix/)
    assert.doesNotMatch(queued, /Sort/)
  })

  const hooksOf = (id: string) =>
    room.rows<{ command_id: string; title: string; attempt: number; name: string; status: string }>(
      `select x.command_id, t.title, x.attempt, x.kind as name, c.status from missions.orchestration_auxiliaries as x
         join missions.orchestration_tasks as t on t.id = x.task_id join concord.commands as c on c.command_id = x.command_id
        where x.run_id = $1 order by t.sequence_number, x.attempt, x.kind`,
      [id],
    )

  test('[MIS-015] a hook that fails before an attempt stops it; one that fails after it is recorded, and changes nothing', async () => {
    const hook = (name: string, more: object = {}) => ({ task: 'Step', payload: { name, ...more } })
    const attempt = { $from: 'attempt', path: '/temp_id' }
    const hooks = { before_run: hook('before', { from: attempt }), after_run: hook('after') }
    room.plays.set('after', 'fails').delete('before')
    room.calls.length = 0
    const plan = () => aPlan(planTask('a'), planTask('b', { depends_on: ['a'] }))
    const passed = await room.run(plan(), { hooks, notifications: ['completed', 'failed'] })
    assert.equal(passed.state, 'completed')
    assert.deepEqual(room.calls, ['before', 'a', 'after', 'before', 'b', 'after'])
    const done = await hooksOf(passed.id)
    assert.deepEqual(
      done.map(({ name, attempt: number, title, status }) => [name, number, title, status]),
      [
        ['after_run', 1, 'a', 'failed'],
        ['before_run', 1, 'a', 'succeeded'],
        ['after_run', 1, 'b', 'failed'],
        ['before_run', 1, 'b', 'succeeded'],
      ],
    )
    const [result] = await room.rows<{ from: string }>(
      `select result->>'from' as from from concord.commands where command_id = $1`,
      [done[1]?.command_id],
    )
    assert.equal(result?.from, 'a', 'a hook knows its attempt')
    const broken = await listBrokenHooks(room.db, passed.id)
    assert.match(reportText(passed, await room.tasksOf(passed.id), broken), /after_run of attempt 1 of a: failed/)
    room.plays.set('before', 'fails').delete('after')
    room.calls.length = 0
    const stopped = await room.run(plan(), { hooks, notifications: ['completed'] })
    assert.deepEqual([stopped.state, room.calls], ['failed', ['before', 'after']])
    const notices = await room.rows<{ subject: string; recipient: string }>(
      `select request_payload->>'subject' as subject, request_payload->>'recipient' as recipient from concord.connector_invocations
where command_id = any($1::uuid[])`,
      [[passed.command_id, stopped.command_id]],
    )
    assert.deepEqual(notices, [{ subject: 'The mission "Release 2.4" is completed', recipient: passed.created_by }])
    const [a] = await room.tasksOf(stopped.id)
    assert.deepEqual([a?.state, a?.command_id], ['failed', null])
    assert.match(a?.error_message ?? '', /The hook before_run is failed: .*before fails/)
  })

  test('[MIS-015] a repeated attempt has its hooks again, and a hook that waits for a person holds it without a turn', async () => {
    room.plays.set('breaking', 'breaks').set('asks', 'waits')
    const hooks = { before_run: { task: 'Step', payload: { name: 'asks' } } }
    const { id } = await room.run(aPlan(planTask('breaking')), { hooks })
    const [asked] = await hooksOf(id)
    assert.ok(asked)
    assert.deepEqual([asked.status, await room.statesOf(id)], ['waiting_for_approval', { breaking: 'queued' }])
    room.clock.travel(86_400_000)
    await wakeStalledMissions(room.world, { traceId: TRACE })
    const told = (await room.eventsOf(id)).map(({ event_type }) => event_type)
    assert.ok(!told.includes('stall_detected'), 'a mission that waits for a person does not stand still')
    await room.decide(asked.command_id, 'approved')
    await room.rest()
    const [task] = await room.tasksOf(id)
    await exhaust(task?.command_id ?? '')
    room.clock.travel(600_000)
    await wake(id)
    const [, second] = await hooksOf(id)
    assert.deepEqual([second?.attempt, second?.status], [2, 'waiting_for_approval'])
    await room.decide(second?.command_id ?? '', 'rejected')
    await room.rest()
    assert.deepEqual([(await room.missionOf(id)).state, await room.statesOf(id)], ['failed', { breaking: 'failed' }])
    const wrong = { hooks: { after_run: { task: 'Stepp', payload: {} } } }
    await assert.rejects(room.create(aPlan(planTask('x')), wrong), /missions.config.invalid.*Did you mean "Step"/)
  })

  test('[MIS-015] behind more than 1,000 hooks a later one that is open holds the mission, and a turn reads the open ones alone', async () => {
    room.plays.set('last', 'waits').delete('before')
    const hooks = {
      before_run: { task: 'Step', payload: { name: 'before' } },
      after_run: { task: 'Step', payload: { name: 'last' } },
    }
    room.plays.set('held', 'waits')
    const { id, workspace_id } = await room.run(aPlan(planTask('held')), { hooks })
    const [task] = await room.tasksOf(id)
    // 600 tasks before it that have ended with both hooks.
    await room.rows('update missions.orchestration_tasks set sequence_number = 1000 where id = $1', [task?.id])
    const [{ command_id } = { command_id: '' }] = await hooksOf(id)
    await room.rows(
      `with put as (insert into missions.orchestration_tasks
           (run_id, workspace_id, sequence_number, title, task_type, spec, remaining, state, state_type, started_at, completed_at)
         select $1, $2, n, 'x', 'other', '{}', 0, 'completed', 'terminal', now(), now() from generate_series(1, 600) as n returning id)
       insert into missions.orchestration_auxiliaries (key, run_id, workspace_id, kind, task_id, attempt, command_id, settled_at)
       select 'mission:' || id || ':1:' || kind, $1, $2, kind, id, 1, $3, now() from put cross join unnest(array['before_run', 'after_run']) as kind`,
      [id, workspace_id, command_id],
    )
    await room.decide(task?.command_id ?? '', 'approved')
    await room.rest()
    const state = async () => [(await room.missionOf(id)).state, (await hooksOf(id)).at(-2)?.status]
    assert.deepEqual(await state(), ['running', 'waiting_for_approval'])
    const asked = (await hooksOf(id)).at(-2)
    assert.deepEqual([asked?.name, asked?.title], ['after_run', 'held'])
    const plans = await room.db.transaction(async (tx) => {
      await tx.query('set local role none')
      const names = ['missions.find_open_hook', 'missions.list_unasked', 'missions.list_ended_auxiliaries']
      const found = listStatements().filter(({ name }) => names.includes(name))
      assert.equal(found.length, names.length)
      await tx.query('analyze missions.orchestration_auxiliaries, missions.orchestration_tasks')
      const explained: string[] = []
      for (const { text } of found) {
        const lines = await tx.query(`explain (generic_plan) ${text}`)
        explained.push(lines.map((line) => Object.values(line).join()).join('\n'))
      }
      return explained
    })
    for (const plan of plans) {
      assert.match(plan, /orchestration_auxiliaries_open_ix/)
      assert.doesNotMatch(plan, /Seq Scan on orchestration|ix_orch_tasks_run|orchestration_tasks_sequence_uq/)
    }
    await room.decide(asked?.command_id ?? '', 'approved')
    await room.rest()
    assert.deepEqual(await state(), ['completed', 'succeeded'])
  })
})
