/** Tasks on rows: creation, claims, completion, failure, sweeps, cancel. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { accepted, aTenant, aWorld, type Tenant } from '#test/tenant'
import { DIAMOND, type FlowRoom, openFlowRoom } from '#test/flow'
import { canMove } from '#kernel/machine'
import { flowTaskMachine } from '#kernel/machines/flow'
import {
  cancelFlowTask,
  completeFlowTask,
  failFlowTask,
  keepFlowTask,
  reapTasks,
  requeueTasks,
  retryFlowTask,
} from './end-task.ts'
import { claimFlowTaskById } from './task.ts'

const LIMITED = `
dag: limited
jobs:
  - { name: few, activation: source, runtime: ecs_udf, operator: pull, source: { kind: event }, update_strategy: replace, outputs: [few], scaling: { max_concurrency: 3 }, max_attempts: 3, heartbeat_timeout_seconds: 7, timeout_seconds: 20 }
`

describe('tasks', () => {
  let room: FlowRoom
  before(async () => {
    room = await openFlowRoom()
    accepted(await room.deploy(DIAMOND))
    accepted(await room.deploy(LIMITED))
  })
  after(() => room.close())
  beforeEach(async () => {
    const { db } = room.opened
    await db.transaction(async (tx) => {
      await tx.query('set local role none')
      await tx.query('truncate flow.tasks, flow.task_inputs, flow.dataset_partitions, flow.outbox, flow.operator_state')
    })
  })

  const outbox = (kind: string) =>
    room.opened.db.query<{
      payload: { task_id: string; attempt: number; event?: string; partitions?: unknown[] }
      status: string
    }>('select payload, status from flow.outbox where kind = $1 order by id', [kind])
  const taskOf = async (id: string) => (await room.tasks()).find((task) => task.id === id)
  const expire = (id: string) =>
    room.opened.db.query(
      `update flow.tasks set lease_expires_at = statement_timestamp() - interval '1 second' where id = $1`,
      [id],
    )
  async function claimed(operator = 'pull', job = 'pull') {
    await room.start(job)
    const task = await room.claim(operator)
    assert.ok(task)
    return task
  }

  test('[FLOW-054] [FLOW-055] [FLOW-063] [FLOW-083] a new task is Queued with attempt 1, and its enqueue_task is in the same statement', async () => {
    const id = await room.start('pull')
    const [task] = await room.tasks()
    assert.deepEqual([task?.id, task?.status, task?.attempt, task?.lease_token], [id, 'Queued', 1, null])
    assert.deepEqual(
      (await outbox('enqueue_task')).map(({ payload }) => payload),
      [{ task_id: id, attempt: 1 }],
    )
  })

  test('[FLOW-059] [FLOW-064] twenty creations with one key make one task and one outbox row', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => room.start('pull', 'cursor:a:b:1')))
    assert.equal(made.filter((id) => id !== undefined).length, 1)
    assert.equal((await room.tasks()).length, 1)
    assert.equal((await outbox('enqueue_task')).length, 1)
  })

  test('[FLOW-065] of eight workers one claims a task; the row has worker, token, lease and start', async () => {
    await room.start('pull')
    const won = (await Promise.all(Array.from({ length: 8 }, (_, n) => room.claim('pull', `w${n}`)))).filter(
      (task) => task,
    )
    assert.equal(won.length, 1)
    const [task] = await room.tasks()
    assert.equal(task?.status, 'Running')
    assert.equal(task?.lease_token, won[0]?.lease_token)
    for (const column of ['worker_id', 'lease_expires_at', 'started_at', 'last_heartbeat'] as const)
      assert.ok(task?.[column], column)
  })

  test('[FLOW-027] eight claimers at once never have more Running than max_concurrency, and reach it', async () => {
    for (let n = 0; n < 12; n++) await room.start('few')
    for (let round = 0; round < 4; round++) {
      const won = (await Promise.all(Array.from({ length: 8 }, (_, n) => room.claim('pull', `w${n}`)))).filter(
        (task) => task,
      )
      assert.equal(won.length, 3)
      const running = (await room.tasks('few')).filter(({ status }) => status === 'Running')
      assert.equal(running.length, 3)
      for (const task of won) if (task) accepted(await room.complete(task))
    }
    assert.equal((await room.tasks('few')).filter(({ status }) => status === 'Completed').length, 12)
  })

  test('[FLOW-066] [FLOW-096] a completion stores outputs, partitions, state, one event per output and the end for lineage, in one statement', async () => {
    const task = await claimed()
    accepted(
      await room.complete(task, [{ index: 0, partitions: ['2026-05-01', '2026-05-02'], metrics: { rows: 7 } }], {
        state: { cursor: '99' },
      }),
    )
    const row = await taskOf(task.id)
    assert.equal(row?.status, 'Completed')
    assert.ok(row?.completed_at)
    const events = await outbox('route_event')
    assert.equal(events.length, 1)
    assert.equal(events[0]?.payload.partitions?.length, 2)
    assert.deepEqual(
      (await outbox('emit_lineage')).map(({ payload }) => payload.event),
      ['START', 'COMPLETE'],
    )
    const [state] = await room.opened.db.query<{ state: unknown }>('select state from flow.operator_state')
    assert.deepEqual(state?.state, { cursor: '99' })
    const parts = await room.opened.db.query(
      'select partition_key, generation, rows from flow.dataset_partitions order by 1',
    )
    assert.deepEqual(parts, [
      { partition_key: '2026-05-01', generation: 1, rows: '7' },
      { partition_key: '2026-05-02', generation: 1, rows: '7' },
    ])
  })

  test('[FLOW-079] completing twice gives the first answer and no second event, state or generation', async () => {
    const task = await claimed()
    const outputs = [{ index: 0, partitions: ['a'] }]
    const first = accepted(await room.complete(task, outputs, { state: { n: 1 } }))
    const again = accepted(await room.complete(task, [{ index: 0, partitions: ['b'] }], { state: { n: 2 } }))
    assert.deepEqual(again, first)
    assert.equal((await outbox('route_event')).length, 1)
    const [found] = await room.opened.db.query<{ state: { n: number } }>('select state from flow.operator_state')
    assert.equal(found?.state.n, 1)
    assert.equal((await room.opened.db.query('select from flow.dataset_partitions')).length, 1)
  })

  test('[FLOW-073] a stale token or attempt changes nothing: heartbeat, complete and fail are refused with lease.lost', async () => {
    const old = await claimed()
    await expire(old.id)
    assert.equal(await reapTasks(room.deps), 1)
    await retryFlowTask(room.deps, room.tenant.orgId, old.id)
    const now = await room.claim('pull', 'w2')
    assert.equal(now?.id, old.id)
    assert.equal(now?.attempt, 2)
    const before = await taskOf(old.id)
    const stale = [
      room.holder(old),
      { ...room.holder(old), attempt: 2 },
      { ...room.holder(old), leaseToken: now?.lease_token ?? '' },
    ]
    for (const holder of stale)
      for (const call of [
        keepFlowTask(room.deps, holder),
        completeFlowTask(room.deps, holder),
        failFlowTask(room.deps, { ...holder, message: 'x' }),
      ]) {
        const refused = await call
        assert.equal(!refused.ok && refused.code, 'lease.lost')
      }
    const late = await completeFlowTask(room.deps, room.holder(old))
    assert.equal(!late.ok && late.reason, 'Attempt 2 has it now.')
    assert.deepEqual(await taskOf(old.id), before)
    assert.deepEqual(await outbox('route_event'), [])
  })

  test('[FLOW-074] [FLOW-078] a heartbeat extends the lease by the heartbeat limit, never beyond the time limit of the attempt', async () => {
    await room.start('few')
    const task = await room.claim('pull')
    assert.ok(task?.lease_expires_at && task.started_at)
    assert.equal(task.lease_expires_at.getTime() - task.started_at.getTime(), 7_000)
    await room.opened.db.query(
      `update flow.tasks set started_at = started_at - interval '5 seconds', lease_expires_at = lease_expires_at - interval '5 seconds'`,
    )
    const kept = accepted(await keepFlowTask(room.deps, room.holder(task)))
    assert.equal((kept.lease_expires_at?.getTime() ?? 0) - (kept.last_heartbeat?.getTime() ?? 0), 7_000)
    await room.opened.db.query(`update flow.tasks set started_at = started_at - interval '10 seconds'`)
    const bounded = accepted(await keepFlowTask(room.deps, room.holder(task)))
    assert.equal((bounded.lease_expires_at?.getTime() ?? 0) - (bounded.started_at?.getTime() ?? 0), 20_000)
  })

  test('[FLOW-067] [FLOW-069] [FLOW-070] [FLOW-077] three attempts: Failed with a later time, Queued again under the same id, then final', async () => {
    await room.start('few')
    for (const attempt of [1, 2, 3]) {
      const task = await room.claim('pull')
      assert.equal(task?.attempt, attempt)
      assert.ok(task)
      const failed = accepted(await failFlowTask(room.deps, { ...room.holder(task), message: 'broken' }))
      assert.equal(failed.status, 'Failed')
      assert.equal(failed.error_message, 'broken')
      if (attempt === 3) {
        assert.equal(failed.next_retry_at, null)
        break
      }
      const [{ wait } = { wait: 0 }] = await room.opened.db.query<{ wait: number }>(
        'select round(extract(epoch from next_retry_at - statement_timestamp()))::int as wait from flow.tasks',
      )
      assert.ok(wait >= 3 && wait <= 5 * attempt, `waits ${wait} s`)
      assert.equal(await requeueTasks(room.deps), 0)
      await room.opened.db.query('update flow.tasks set next_retry_at = statement_timestamp()')
      assert.deepEqual(
        (await Promise.all([requeueTasks(room.deps), requeueTasks(room.deps)])).toSorted((a, b) => a - b),
        [0, 1],
      )
      const [queued] = await room.tasks()
      assert.deepEqual(
        [
          queued?.status,
          queued?.attempt,
          queued?.worker_id,
          queued?.lease_token,
          queued?.lease_expires_at,
          queued?.next_retry_at,
        ],
        ['Queued', attempt + 1, null, null, null, null],
      )
    }
    assert.equal((await outbox('enqueue_task')).length, 3)
    assert.equal(await requeueTasks(room.deps), 0)
  })

  test('[FLOW-068] [FLOW-076] an expired lease is Failed with a retry, once, by any number of reapers; one that is kept is not', async () => {
    const [kept, dead] = [await claimed(), await claimed()]
    await expire(dead.id)
    const counts = await Promise.all(Array.from({ length: 4 }, () => reapTasks(room.deps)))
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      1,
    )
    const row = await taskOf(dead.id)
    assert.equal(row?.status, 'Failed')
    assert.ok(row?.next_retry_at)
    assert.match(row?.error_message ?? '', /lease expired/)
    assert.equal((await taskOf(kept.id))?.status, 'Running')
  })

  test('[FLOW-071] Queued, Running and Failed with a retry can be canceled; the token is invalid, and the end is final', async () => {
    const queued = (await room.start('few')) ?? ''
    const running = await claimed()
    const failing = await claimed()
    accepted(await failFlowTask(room.deps, { ...room.holder(failing), message: 'x' }))
    for (const id of [queued, running.id, failing.id]) {
      const canceled = accepted(await cancelFlowTask(room.deps, room.tenant.orgId, id))
      assert.deepEqual([canceled.status, canceled.lease_token, canceled.next_retry_at], ['Canceled', null, null])
      assert.ok(canceled.completed_at)
      assert.deepEqual(accepted(await cancelFlowTask(room.deps, room.tenant.orgId, id)), canceled)
    }
    const late = await room.complete(running, [{ index: 0, partitions: ['p'] }])
    assert.equal(!late.ok && late.code, 'lease.lost')
    assert.deepEqual(await outbox('route_event'), [])
    assert.equal(await requeueTasks(room.deps), 0)
    const done = await claimed()
    accepted(await room.complete(done))
    const refused = await cancelFlowTask(room.deps, room.tenant.orgId, done.id)
    assert.equal(!refused.ok && refused.code, 'flow.task.wrong_state')
  })

  test('[FLOW-072] each of the 25 pairs on a row: the calls make the 7 moves of the machine and no other', async () => {
    const states = ['Queued', 'Running', 'Completed', 'Failed', 'Canceled'] as const
    const org = room.tenant.orgId
    const made = new Set<string>()
    for (const from of states) {
      const calls: readonly ((id: string) => Promise<unknown>)[] = [
        (id) => claimFlowTaskById(room.deps, id, 'w9'),
        async (id) =>
          completeFlowTask(room.deps, {
            orgId: org,
            taskId: id,
            leaseToken: (await taskOf(id))?.lease_token ?? org,
            attempt: 1,
          }),
        async (id) =>
          failFlowTask(room.deps, {
            orgId: org,
            taskId: id,
            leaseToken: (await taskOf(id))?.lease_token ?? org,
            attempt: 1,
            message: 'x',
          }),
        async () => {
          await room.opened.db.query(
            `update flow.tasks set next_retry_at = statement_timestamp() where status = 'Failed'`,
          )
          await requeueTasks(room.deps)
        },
        (id) => cancelFlowTask(room.deps, org, id),
        () => reapTasks(room.deps),
      ]
      for (const call of calls) {
        const id = (await room.start('pull')) ?? ''
        const claim = from === 'Queued' ? undefined : await claimFlowTaskById(room.deps, id, 'w1')
        if (claim && from === 'Completed') await room.complete(claim)
        if (claim && from === 'Failed') await failFlowTask(room.deps, { ...room.holder(claim), message: 'x' })
        if (claim && from === 'Canceled') await cancelFlowTask(room.deps, org, id)
        assert.equal((await taskOf(id))?.status, from)
        if (from === 'Running') await expire(id)
        await call(id)
        const to = (await taskOf(id))?.status ?? ''
        if (to !== from) made.add(`${from} → ${to}`)
        await room.opened.db.query(`update flow.tasks set next_retry_at = null where id = $1`, [id])
      }
    }
    const legal = states.flatMap((from) =>
      states.filter((to) => canMove(flowTaskMachine, from, to)).map((to) => `${from} → ${to}`),
    )
    assert.deepEqual([...made].toSorted(), legal.toSorted())
    assert.equal(legal.length, 7)
  })

  test('an output that is not there, a partition without a key and an output twice are refused, and the task still runs', async () => {
    const task = await claimed()
    for (const [outputs, code] of [
      [[{ index: 1 }], 'flow.output.unknown'],
      [[{ index: 0 }, { index: 0 }], 'flow.output.twice'],
      [[{ index: 0, partitions: [''] }], 'flow.partition.empty'],
    ] as const) {
      const refused = await room.complete(task, outputs)
      assert.equal(!refused.ok && refused.code, code)
    }
    assert.equal((await taskOf(task.id))?.status, 'Running')
  })

  test('[FLOW-108] a task of another org is not found by any call', async () => {
    const other: Tenant = await aTenant(aWorld(room.opened.db))
    const task = await claimed()
    const holder = { ...room.holder(task), orgId: other.orgId }
    for (const call of [
      keepFlowTask(room.deps, holder),
      completeFlowTask(room.deps, holder),
      failFlowTask(room.deps, { ...holder, message: 'x' }),
      cancelFlowTask(room.deps, other.orgId, task.id),
      retryFlowTask(room.deps, other.orgId, task.id),
    ]) {
      const refused = await call
      assert.equal(!refused.ok && refused.code, 'flow.task.not_found')
    }
    assert.equal((await taskOf(task.id))?.status, 'Running')
  })
})
