/** Workers, people and turns at the same time, on real connections: one of them wins, and the rows stay legal. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { cancelCommand } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { openChance } from '#test/chance'
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
import { toClaimView, toHeldTaskView } from './worker-contract.ts'
import { continueTask, failTask, keepTask, type LeaseHolder, startTask, submitTask } from './worker-calls.ts'

const WIDTH = 25
const JITTER_MS = 25
/** A thousand take minutes. */
const PATIENT_MS = 900_000
const interleavings = proofSize(WIDTH, 200)

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

  test(`[MIS-191] a submit and a cancel at the same time, in ${interleavings} random interleavings: one wins, and a refused submit changes nothing`, {
    timeout: PATIENT_MS,
  }, async (t) => {
    const by = byPerson(room.tenant.people.writer.principal, TRACE)
    const seed = process.env['CONCORD_RACE_SEED'] ?? randomUUID()
    const chance = openChance(seed)
    t.diagnostic(`seed: CONCORD_RACE_SEED=${seed}`)
    /** A moment later, so that each of the two is first sometimes. */
    const soon = async <T>(act: () => Promise<T>): Promise<T> => {
      await sleep(chance.whole(JITTER_MS))
      return act()
    }
    const ends = { cancelled: 0, completed: 0, refused: 0 }
    for (let done = 0; done < interleavings; done += WIDTH) {
      const { id, queue } = await open((name) => wide(WIDTH, name))
      const held = await startAll(queue)
      const commands = new Map((await room.tasksOf(id)).map((task) => [task.id, task.command_id ?? '']))
      const cancel = ({ workspaceId, taskId }: LeaseHolder) =>
        cancelCommand(room.world, by, { workspaceId, commandId: commands.get(taskId) ?? '' })
      const answers = await Promise.all(
        held.map(async (holder) => {
          const [submitted, cancelled] = await Promise.all([
            soon(() => submit(holder)),
            soon(async () => {
              // The submits wait for each other, so a cancel is late only after many moments. Some commands have ended by then.
              if (chance.whole(2) === 0) {
                await sleep(chance.whole(JITTER_MS * WIDTH))
                await room.settleWoken()
              }
              return cancel(holder)
            }),
          ])
          return { submitted, cancelled }
        }),
      )
      await room.rest()
      const states = await stateOf(id)
      held.forEach(({ taskId }, at) => {
        const { submitted, cancelled } = answers[at] ?? {}
        const state = states.get(taskId)
        assert.ok(state === 'cancelled' || (state === 'completed' && submitted?.ok), state)
        if (cancelled?.ok === false) assert.equal(state, 'completed')
        if (submitted?.ok === false) assert.deepEqual([submitted.code, state], ['missions.lease.stale', 'cancelled'])
        ends[state] += 1
        if (submitted?.ok === false) ends.refused += 1
      })
      assert.equal((await room.missionOf(id)).state_type, 'terminal')
    }
    t.diagnostic(JSON.stringify(ends))
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

  const turn = async (id: string, ms: number) => {
    room.clock.travel(ms)
    room.others.push({ kind: MISSION_KIND, id })
    await room.rest()
  }
  const one = async (id: string) => {
    const [task] = await room.tasksOf(id)
    assert.ok(task)
    return task
  }
  const begin = async (queue: string) => {
    const holder = await claim(queue)
    assert.ok(holder)
    accepted(await startTask(deps, holder))
    return holder
  }

  test('[MIS-013] an attempt that keeps its heartbeat ends at its own limit and is retried; at the deadline of its task there is no retry', async () => {
    const timeouts = { task_attempt_seconds: 500, task_deadline_seconds: 1_200 }
    const { id, queue } = await open((name) => wide(1, name), { timeouts })
    let holder = await begin(queue)
    for (let kept = 0; kept < 2; kept++) {
      room.clock.travel(200_000)
      accepted(await keepTask(deps, holder))
    }
    await turn(id, 100_000)
    assert.deepEqual((await one(id)).error_message, 'The attempt took longer than 500 seconds.')
    await turn(id, 20_000)
    holder = await begin(queue)
    await turn(id, 300_000)
    assert.match((await one(id)).error_message ?? '', /sent no heartbeat/, 'the limit of a stall')
    await turn(id, 30_000)
    holder = await begin(queue)
    room.clock.travel(200_000)
    accepted(await keepTask(deps, holder))
    await turn(id, 150_000)
    const { state, error_message, attempt_number } = await one(id)
    assert.deepEqual(
      [state, attempt_number, error_message],
      ['failed', 3, 'The task took longer than 1200 seconds.'],
      'a retry is left, and no time',
    )
    // A task of the catalog whose command waits for a person.
    room.plays.set('long', 'waits')
    const waiting = await room.run(aPlan(planTask('long')), { timeouts: { task_deadline_seconds: 60 } })
    await turn(waiting.id, 59_000)
    assert.deepEqual(await room.statesOf(waiting.id), { long: 'running' })
    await turn(waiting.id, 1_000)
    assert.deepEqual(await room.statesOf(waiting.id), { long: 'failed' })
    assert.equal(await room.statusOf((await one(waiting.id)).command_id ?? ''), 'cancelled')
  })

  test('[MIS-185] a task that is claimed and never started is offered five times more, and is then a failure of the infrastructure', async () => {
    // The next attempt fits only if the first one gives back what was reserved for it.
    const budget = { hard_limit: '1.50', per_task_limit: '1.00' }
    const { id, queue } = await open((name) => wide(1, name), { budget })
    for (let returns = 0; returns <= 5; returns++) {
      assert.ok(await claim(queue))
      await turn(id, 120_000)
    }
    const { state, failure_type, error_message } = await one(id)
    assert.deepEqual([state, failure_type], ['awaiting_retry', 'infrastructure'])
    assert.equal(error_message, 'It was claimed 6 times, and no worker started it.')
    await turn(id, 20_000)
    await begin(queue)
    assert.deepEqual([(await one(id)).attempt_number, (await one(id)).returns], [2, 0])
    await sound()
  })

  test('an attempt that ends at its time limit while it is to go on is settled before the next one is reserved', async () => {
    const config = { budget: { hard_limit: '2.00', per_task_limit: '1.00' }, timeouts: { task_attempt_seconds: 60 } }
    const { id, queue } = await open((name) => wide(1, name), config)
    const [holder] = await startAll(queue)
    assert.ok(holder)
    accepted(await continueTask(deps, { ...holder, tokens: 0 }))
    await turn(id, 61_000)
    assert.equal((await one(id)).state, 'awaiting_retry')
    const [account] = await room.rows<{ held: number; spent: number }>(
      'select reserved_units::float8 as held, spent_units::float8 as spent from concord.budget_accounts where account_id = $1',
      [id],
    )
    assert.deepEqual(account, { held: 0, spent: 1 })
  })

  test('[MIS-014] [MIS-016] [MIS-083] a worker is told which kind of attempt it has, why the output before was refused, and its model', async () => {
    const verify = [{ schema: { required: ['words'] } }]
    const plan = (queue: string) =>
      aPlan(planTask('t0', { task_type: 'coding', verify, run: { worker: queue, payload: {} } }))
    const models = { default: 'small', coding: 'coder', after_refusal: 'large' }
    const { id, queue } = await open(plan, { model_preferences: models })
    const workspaceId = room.tenant.workspace.id
    const told = async () => {
      const claimed = await claimTask(deps, { workspaceId, queues: [queue], workerId: 'w', traceId: TRACE })
      const view = toClaimView(claimed).claimed
      assert.ok(view && claimed)
      const { attempt_kind, attempt, failure_type, last_error, model } = view
      const { task, leaseToken } = claimed
      const holder = { workspaceId, taskId: task.id, leaseToken, attempt, traceId: TRACE }
      return { holder, said: [attempt_kind, attempt, failure_type, last_error, model] }
    }
    const first = await told()
    assert.deepEqual(first.said, ['first', 1, null, null, 'coder'])
    accepted(await startTask(deps, first.holder))
    accepted(await continueTask(deps, { ...first.holder, tokens: 1 }))
    await turn(id, 1_000)
    const { attempt_kind } = toHeldTaskView(accepted(await keepTask(deps, first.holder)))
    assert.equal(attempt_kind, 'continuation')
    accepted(await failTask(deps, { ...first.holder, error: 'It broke.', isRetryable: true, cost: '0', tokens: 0 }))
    await turn(id, 20_000)
    const second = await told()
    assert.deepEqual(second.said, ['retry', 2, 'infrastructure', 'It broke.', 'coder'], 'the same settings')
    accepted(await startTask(deps, second.holder))
    accepted(await submit(second.holder))
    await turn(id, 0)
    await turn(id, 60_000)
    const third = await told()
    const [kind, attempt, type, why, model] = third.said
    assert.deepEqual([kind, attempt, type, model], ['retry', 3, 'quality', 'large'], 'another model')
    assert.match(String(why), /words/)
    const retries = (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'task_retrying')
    assert.deepEqual(
      retries.map(({ payload }) => payload['failure_type']),
      ['infrastructure', 'quality'],
    )
  })

  test('a submission that is sent again gets its first answer, also after its turn; another one is refused', async () => {
    const { id, queue } = await open((name) => wide(1, name))
    const holder = await begin(queue)
    const first = toHeldTaskView(accepted(await submit(holder)))
    assert.deepEqual(toHeldTaskView(accepted(await submit(holder))), first)
    await room.rest()
    assert.equal((await one(id)).state, 'completed')
    assert.deepEqual(toHeldTaskView(accepted(await submit(holder))), first)
    const other = await submitTask(deps, { ...holder, output: { words: 1 }, cost: '0', tokens: 0 })
    assert.equal(other.ok ? 'ok' : other.code, 'missions.lease.stale')
    assert.equal((await one(id)).state, 'completed')
  })
})
