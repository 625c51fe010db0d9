/** The feed of the events of missions: a reader that stores its cursor gets each event once, also if a later transaction commits first. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { appendEvents, scoped, type Sql } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, aTenant, aWorld, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { claimTask } from './claim-task.ts'
import { MISSION_KIND } from './deps.ts'
import { missionLog } from './events.ts'
import type { StoredMission } from './mission.ts'
import { failTask, startTask, submitTask } from './worker-calls.ts'

type Seen = { readonly xid: string; readonly seq: string; readonly payload: object }

describe('the feed of missions', () => {
  let opened: TestDb
  let room: MissionRoom
  let first: StoredMission
  let second: StoredMission

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    const clock = aWorld(opened.db)
    room = await openMissionRoom({ on: { clock, tenant: await aTenant(clock) } })
    first = await room.run(aPlan(planTask('a')))
    second = await room.run(aPlan(planTask('b')))
  })
  after(async () => {
    await room.close()
    await opened.close()
  })

  const append = (sql: Sql, run: StoredMission, note: string) =>
    appendEvents(sql, missionLog, [
      {
        eventId: run.id,
        type: 'run_resumed',
        payload: { resumed_by: note },
        actor: 'user:ada',
        actorKind: 'human',
        traceId: 't',
        at: new Date(),
        links: { run_id: run.id, task_id: null },
      },
    ])

  /** A consumer as the guide shows it: it stores the position of the last event that it has processed. */
  function openConsumer(workspaceId: string, limit = 3) {
    let cursor = ['0', '0']
    const got: Seen[] = []
    return {
      got,
      async read() {
        const rows = await scoped(room.db, workspaceId).read((tx) =>
          tx.query<Seen>(
            `select xid::text, seq::text, payload from missions.event_feed
where workspace_id = $1 and (xid, seq) > ($2::xid8, $3::bigint) order by xid, seq limit $4`,
            [workspaceId, ...cursor, limit],
          ),
        )
        got.push(...rows)
        const last = rows.at(-1)
        if (last) cursor = [last.xid, last.seq]
        return rows.length
      },
    }
  }
  const written = async () =>
    (
      await room.rows<{ id: string }>(
        `select e.id::text from missions.orchestration_events as e join missions.orchestration_runs as r on r.id = e.run_id
where r.workspace_id = $1 order by e.id`,
        [first.workspace_id],
      )
    ).map(({ id }) => id)
  const seqs = (got: readonly Seen[]) => got.map(({ seq }) => seq).toSorted((a, b) => Number(a) - Number(b))

  test('[MIS-278] of two open transactions the later id commits first: nothing is read past the earlier one, and each event is read once', async () => {
    const consumer = openConsumer(first.workspace_id)
    await room.db.transaction(async (slow) => {
      await append(slow, first, 'slow')
      await room.db.transaction((fast) => append(fast, second, 'fast'))
      // Everything before the two may be read; the fast one is committed and must wait.
      while ((await consumer.read()) > 0);
      assert.deepEqual(
        consumer.got.filter(({ payload }) => 'resumed_by' in payload),
        [],
      )
    })
    const all = await written()
    await until(async () => {
      await consumer.read()
      return consumer.got.length >= all.length
    }, 'the rest of the feed')
    assert.deepEqual(seqs(consumer.got), all)
  })

  test('[MIS-278] readers with stored cursors, beside writers that commit in any order, get every event exactly once', async () => {
    const consumers = [1, 2, 50].map((limit) => openConsumer(first.workspace_id, limit))
    let isWriting = true
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let n = 0; n < 12; n++)
        await room.db.transaction(async (tx) => {
          await append(tx, writer % 2 === 0 ? first : second, `${writer}.${n}`)
          // The id is taken, and the commit comes after some other round trips.
          for (let wait = (writer * 7 + n) % 4; wait > 0; wait--) await tx.query('select 1')
        })
    })
    const readers = consumers.map(async ({ read }) => {
      while (isWriting) await read()
    })
    await Promise.all(writers)
    isWriting = false
    await Promise.all(readers)
    const all = await written()
    for (const { got, read } of consumers) {
      await until(async () => {
        await read()
        return got.length >= all.length
      }, 'the rest of the feed')
      assert.equal(await read(), 0)
      assert.deepEqual(seqs(got), all)
    }
  })

  test('[MIS-278] a workspace reads its own events, along the index', async () => {
    const { workspace } = await aTenant(aWorld(opened.db))
    assert.equal(await openConsumer(workspace.id).read(), 0)
    const plan = await room.db.transaction(async (tx) => {
      // The table of a test is small enough for a scan.
      await tx.query('set local enable_seqscan = off')
      return tx.query(
        `explain select * from missions.event_feed where (xid, seq) > ('0'::xid8, 0) order by xid, seq limit 1`,
      )
    })
    assert.match(JSON.stringify(plan), /orchestration_events_feed_ix/)
  })

  const claimAs = async (queue: string, agent: string) => {
    const workspaceId = room.tenant.workspace.id
    const found = await claimTask(deps(), { workspaceId, queues: [queue], workerId: 'w', agent, traceId: TRACE })
    assert.ok(found)
    const { task, leaseToken } = found
    const holder = { workspaceId, taskId: task.id, leaseToken, attempt: task.attempt_number, traceId: TRACE }
    accepted(await startTask(deps(), holder))
    return holder
  }
  const deps = () => ({ commands: room.world })
  const used = { cost: '0', tokens: 0 }
  const turnLater = async (id: string) => {
    await room.rest()
    room.clock.travel(600_000)
    room.others.push({ kind: MISSION_KIND, id })
    await room.rest()
  }
  const failAs = async (queue: string, agent: string, isRetryable: boolean) => {
    accepted(await failTask(deps(), { ...(await claimAs(queue, agent)), error: 'Broken.', isRetryable, ...used }))
  }
  const work = (queue: string) => planTask(queue, { task_type: 'coding', run: { worker: queue, payload: {} } })
  const readAs = (workspaceId: string, text: string, more: readonly unknown[] = []) =>
    scoped(room.db, workspaceId).read((tx) => tx.query<Record<string, string>>(text, [workspaceId, ...more]))

  test('[MIS-276] [MIS-277] the mean time from the assignment to the completion by type, and the success by number of retries', async () => {
    const { id, workspace_id } = await room.run(aPlan(work('three'), work('five'), work('again'), work('fails')))
    for (const [queue, ms] of [
      ['three', 3_000],
      ['five', 5_000],
    ] as const) {
      const holder = await claimAs(queue, 'coder')
      room.clock.travel(ms)
      accepted(await submitTask(deps(), { ...holder, output: {}, ...used }))
      await room.rest()
    }
    const times = `select task_type, extract(epoch from avg(completed_at - assigned_at))::int as seconds from missions.task_results
where workspace_id = $1 and state = 'completed' and task_type = 'coding' group by 1`
    assert.deepEqual(await readAs(workspace_id, times), [{ task_type: 'coding', seconds: 4 }])
    for (const queue of ['again', 'fails']) await failAs(queue, 'coder', true)
    await turnLater(id)
    await failAs('fails', 'coder', false)
    accepted(await submitTask(deps(), { ...(await claimAs('again', 'coder')), output: {}, ...used }))
    await turnLater(id)
    assert.deepEqual((await room.statesOf(id))['fails'], 'failed')
    const retries = `select retries::int, count(*)::int as tasks, avg((state = 'completed')::int)::float8 as success from missions.task_results
where workspace_id = $1 and task_type = 'coding' group by 1 order by 1`
    assert.deepEqual(await readAs(workspace_id, retries), [
      { retries: 0, tasks: 2, success: 1 },
      { retries: 1, tasks: 2, success: 0.5 },
    ])
  })

  test('[MIS-275] [MIS-280] what failed in the last day with agent and attempt, and seven questions about how tasks and missions ended', async () => {
    const verify = [{ schema: { required: ['words'] } }, { person: {} }]
    const slow = planTask('slow', { task_type: 'analysis', run: { worker: 'slow', payload: {} }, verify: [...verify] })
    const plan = { ...aPlan(slow, planTask('end', { depends_on: ['slow'] })), estimated_cost: '2.00' }
    const config = { model_preferences: { analysis: 'small', after_refusal: 'large' } }
    const { id, workspace_id } = await room.run(plan, config)
    room.clock.travel(86_400_000)
    await failAs('slow', 'analyst', true)
    await turnLater(id)
    accepted(await submitTask(deps(), { ...(await claimAs('slow', 'analyst')), output: {}, ...used }))
    await turnLater(id)
    const spent = { output: { words: 1 }, cost: '0.50', tokens: 9 }
    accepted(await submitTask(deps(), { ...(await claimAs('slow', 'analyst')), ...spent }))
    await room.rest()
    const [asked] = await room.tasksOf(id)
    await room.decide(asked?.review_command_id ?? '', 'approved')
    await room.rest()
    const ask = (text: string) => readAs(workspace_id, text)
    const failures = `select event_type, agent, attempt, failure_type, is_final from missions.task_failures
where workspace_id = $1 and created_at > $2::timestamptz - interval '24 hours' order by created_at`
    const crash = {
      event_type: 'task_crashed',
      agent: 'analyst',
      attempt: 1,
      failure_type: 'infrastructure',
      is_final: false,
    }
    assert.deepEqual(
      await readAs(workspace_id, failures, [room.clock.now()]),
      [crash],
      'those of yesterday are not among them',
    )
    const answers = await Promise.all(
      [
        `select agent, task_type, avg((state = 'completed')::int)::float8 as success from missions.task_results
where workspace_id = $1 and agent = 'analyst' group by 1, 2`,
        `select model, avg(cost)::float8 as cost, avg(score)::float8 as score from missions.task_results
where workspace_id = $1 and model is not null and completed_at is not null group by 1`,
        `select failure_type, count(*) filter (where not is_final)::int as transient, count(*) filter (where is_final)::int as lasting
from missions.task_failures where workspace_id = $1 group by 1 order by 1`,
        `select task_type, extract(epoch from avg(completed_at - assigned_at))::int as seconds from missions.task_results
where workspace_id = $1 and task_type = 'analysis' group by 1`,
        `select human, count(*)::int as outputs, avg(score)::float8 as score from missions.task_results
where workspace_id = $1 and human is not null group by 1`,
        `select task_type, blocks::int from missions.task_results where workspace_id = $1 and blocks > 0
order by completed_at - assigned_at desc limit 1`,
        `select estimated_cost::float8 as estimated, total_cost::float8 as actual from missions.mission_results
where workspace_id = $1
order by completed_at desc limit 1`,
      ].map((text) => ask(text)),
    )
    assert.deepEqual(answers, [
      [{ agent: 'analyst', task_type: 'analysis', success: 1 }],
      [{ model: 'large', cost: 0.5, score: null }],
      [
        { failure_type: 'infrastructure', transient: 3, lasting: 0 },
        { failure_type: 'quality', transient: 0, lasting: 1 },
      ],
      [{ task_type: 'analysis', seconds: 1200 }],
      [{ human: 'approved', outputs: 1, score: null }],
      [{ task_type: 'analysis', blocks: 1 }],
      [{ estimated: 2, actual: 0.5 }],
    ])
  })
})
