/** From the end of a task to the tasks of its consumers: outbox, routing, keys, versions. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { accepted } from '#test/tenant'
import { DIAMOND, type FlowRoom, openFlowRoom } from '#test/flow'
import { failFlowTask, retryFlowTask } from './end-task.ts'
import { drainOutbox } from './outbox.ts'
import { drainFlow, rehydrateTasks, routeEvent } from './route.ts'

const HERE = `
dag: here
jobs:
  - { name: local, activation: source, runtime: dispatcher, operator: http_poll, source: { kind: event }, config: { url: "http://localhost/", partition_by: day }, update_strategy: append, unique_key: [id], outputs: [locals] }
`
const UPDATES = `
dag: updates
jobs:
  - { name: each, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerUpdate, inputs: [orders], outputs: [logs], update_strategy: replace }
`

describe('routing', () => {
  let room: FlowRoom
  before(async () => {
    room = await openFlowRoom()
    for (const yaml of [DIAMOND, HERE, UPDATES]) accepted(await room.deploy(yaml))
  })
  after(() => room.close())
  beforeEach(async () => {
    room.woken.length = 0
    await room.opened.db.transaction(async (tx) => {
      await tx.query('set local role none')
      await tx.query('truncate flow.tasks, flow.task_inputs, flow.dataset_partitions, flow.outbox, flow.operator_state')
    })
  })

  async function produce(partitions: readonly string[], more: object = {}) {
    await room.start('pull')
    const task = await room.claim('pull')
    assert.ok(task)
    accepted(await room.complete(task, [{ index: 0, partitions, ...more }]))
    return task
  }
  /** Works until nothing is offered; each task writes its own partitions. */
  async function workAll(): Promise<number> {
    for (let count = 0; ; count++) {
      await room.drain()
      const task = await room.claim('count_rows')
      if (!task) return count
      accepted(await room.complete(task, [{ index: 0, partitions: task.partitions ?? [] }]))
    }
  }
  const keys = async (job: string) => (await room.tasks(job)).map(({ dedupe_key }) => dedupe_key ?? '').toSorted()

  test('[FLOW-090] [FLOW-053] an event makes one task per partition and consumer, with the printed key and its inputs', async () => {
    await produce(['2026-05-01', '2026-05-02'])
    await room.drain()
    const left = await room.tasks('left')
    assert.deepEqual(
      left.map(({ partitions }) => partitions),
      [['2026-05-01'], ['2026-05-02']],
    )
    const [version] = await room.opened.db.query<{ id: string; dataset_uuid: string }>(
      `select v.id, v.dataset_uuid from flow.dataset_versions v join flow.datasets d on d.id = v.dataset_uuid where d.name = 'orders'`,
    )
    assert.deepEqual(await keys('left'), [
      `partition:${version?.dataset_uuid}:${version?.id}:2026-05-01`,
      `partition:${version?.dataset_uuid}:${version?.id}:2026-05-02`,
    ])
    assert.equal((await room.tasks('right')).length, 2)
    const inputs = await room.opened.db.query<{ input_partition_key: string; same: boolean }>(
      `select i.input_partition_key, i.input_version = date_trunc('milliseconds', p.materialized_at) as same from flow.task_inputs i join flow.dataset_partitions p on p.partition_key = i.input_partition_key and p.dataset_version = $1 where i.task_id = $2`,
      [version?.id, left[0]?.id],
    )
    assert.deepEqual(inputs, [{ input_partition_key: '2026-05-01', same: true }])
  })

  test('[FLOW-022] PerUpdate makes one task for the whole update, named by its cursor, in another DAG too', async () => {
    const task = await produce(['a', 'b'])
    await produce(['a'], { cursor: '99' })
    await room.drain()
    const each = (await room.tasks('each')).toSorted(
      (a, b) => (b.partitions?.length ?? 0) - (a.partitions?.length ?? 0),
    )
    assert.deepEqual(
      each.map(({ partitions }) => partitions),
      [['a', 'b'], ['a']],
    )
    assert.ok(each[0]?.dedupe_key?.startsWith('cursor:') && each[0].dedupe_key.endsWith(`:${task.id}`))
    assert.ok(each[1]?.dedupe_key?.endsWith(':99'))
  })

  test('a partition that is materialised again makes a second task, whose key has the generation', async () => {
    await produce(['p'])
    await produce(['p'])
    await room.drain()
    const [first, second] = await keys('left')
    assert.equal(second, `${first}@2`)
  })

  test('[FLOW-064] [FLOW-088] every event delivered three times makes each task once', async () => {
    await produce(['a', 'b'])
    const events = await room.opened.db.query<{ id: string; payload: never }>(
      `select id, payload from flow.outbox where kind = 'route_event'`,
    )
    await Promise.all(events.flatMap(({ id, payload }) => [1, 2, 3].map(() => routeEvent(room.deps, payload, id))))
    assert.equal((await room.tasks('left')).length, 2)
    const queued = await room.opened.db.query(`select from flow.outbox where kind = 'enqueue_task'`)
    assert.equal(queued.length, 1 + 2 * 2 + 1)
  })

  test('when all: the job runs once per partition that each input has, also if both end together', async () => {
    await produce(['a', 'b', 'c'])
    await room.drain()
    const claimed = await Promise.all(Array.from({ length: 7 }, () => room.claim('count_rows')))
    // Six tasks of left and right, and one of the other DAG; all end at the same time.
    await Promise.all(
      claimed.map(async (task) => task && room.complete(task, [{ index: 0, partitions: task.partitions ?? [] }])),
    )
    await Promise.all([room.drain(), room.drain(), room.drain()])
    const both = await room.tasks('both')
    assert.deepEqual(both.flatMap(({ partitions }) => partitions ?? []).toSorted(), ['a', 'b', 'c'])
    const inputs = await room.opened.db.query(`select from flow.task_inputs where task_id = any($1::uuid[])`, [
      both.map(({ id }) => id),
    ])
    assert.equal(inputs.length, 6)
  })

  test('when all: a partition that one input lacks makes no task, and a second update of one input makes one more', async () => {
    await produce(['a'])
    await room.drain()
    const first = (await room.tasks('left'))[0]
    await workAll()
    assert.equal((await room.tasks('both')).length, 1)
    assert.ok(first)
    await produce(['a'])
    await workAll()
    const generations = (await keys('both')).map((key) => (key.match(/@\d+/g) ?? []).join())
    // Each new generation of an input is used at least once, and the last task has both.
    assert.ok(generations.includes(''))
    assert.ok(generations.includes('@2,@2'))
  })

  test('[FLOW-084] [FLOW-085] a handled row is Done with its time; a failed one waits longer each time, and is Failed after 20 attempts', async () => {
    await room.start('pull')
    let calls = 0
    const handle = () => {
      calls++
      return Promise.reject(new Error('no route'))
    }
    const options = { handle, random: () => 0 }
    await drainOutbox(room.opened.db, 'due', options)
    const read = async () =>
      (
        await room.opened.db.query<{ status: string; attempts: number; last_error: string; wait: number }>(
          'select status, attempts, last_error, extract(epoch from available_at - statement_timestamp())::float as wait from flow.outbox',
        )
      )[0]
    assert.deepEqual(
      { ...(await read()), wait: 0 },
      { status: 'Pending', attempts: 1, last_error: 'no route', wait: 0 },
    )
    for (let attempt = 2; attempt <= 20; attempt++) {
      assert.equal((await drainOutbox(room.opened.db, 'due', options)).claimed, 0)
      await room.opened.db.query('update flow.outbox set available_at = statement_timestamp()')
      await drainOutbox(room.opened.db, 'due', options)
      if (attempt === 5) assert.ok(((await read())?.wait ?? 0) > 10)
    }
    assert.equal((await read())?.status, 'Failed')
    assert.equal(calls, 20)
    await room.start('pull')
    await room.drain()
    const [done] = await room.opened.db.query<{ status: string; processed_at: Date | null }>(
      'select status, processed_at from flow.outbox order by id desc limit 1',
    )
    assert.equal(done?.status, 'Done')
    assert.ok(done?.processed_at)
  })

  test('[FLOW-087] eight drainers never handle one row at the same time or twice', async () => {
    for (let n = 0; n < 60; n++) await room.start('pull', `cursor:x:y:${n}`)
    const seen = new Map<string, number>()
    const handle = async ({ id }: { readonly id: string }) => void seen.set(id, (seen.get(id) ?? 0) + 1)
    await Promise.all(
      Array.from({ length: 8 }, () => drainOutbox(room.opened.db, 'due', { handle, random: () => 0, limit: 20 })),
    )
    await drainOutbox(room.opened.db, 'due', { handle, random: () => 0 })
    assert.equal(seen.size, 60)
    assert.deepEqual(new Set(seen.values()), new Set([1]))
  })

  test('[FLOW-086] a row that a dead drainer left is taken after its visibility time; the late one settles nothing', async () => {
    await room.start('pull')
    let release = () => {}
    const frozen = new Promise<void>((resolve) => (release = resolve))
    const late = drainOutbox(room.opened.db, 'due', { handle: () => frozen, random: () => 0, visibilityMs: 1 })
    const db = room.opened.db
    for (;;) {
      const [row] = await db.query<{ ready: boolean }>(
        `select status = 'Processing' and available_at < statement_timestamp() as ready from flow.outbox`,
      )
      if (row?.ready) break
    }
    const taken = await drainOutbox(db, 'abandoned', { handle: async () => {}, random: () => 0 })
    assert.deepEqual(taken, { claimed: 1, done: 1, failed: 0, lost: 0 })
    release()
    assert.deepEqual(await late, { claimed: 1, done: 0, failed: 0, lost: 1 })
    const [row] = await db.query<{ status: string; attempts: number }>('select status, attempts from flow.outbox')
    assert.deepEqual(row, { status: 'Done', attempts: 1 })
  })

  test('[FLOW-049] [FLOW-089] a wake has the id alone; when every wake is lost, all queued tasks are woken again from the rows', async () => {
    const ids = [await room.start('local', 'cursor:1:1:1'), await room.start('local', 'cursor:1:1:2')]
    await drainFlow(room.deps)
    assert.deepEqual(
      room.woken.map(({ kind, id }) => `${kind} ${id}`).toSorted(),
      ids.map((id) => `flow_task ${id}`).toSorted(),
    )
    room.woken.length = 0
    assert.equal(await rehydrateTasks(room.deps), 2)
    assert.deepEqual(room.woken.map(({ id }) => id).toSorted(), ids.map(String).toSorted())
  })

  test('[FLOW-044] a changed job is built beside, a failed build leaves the old one serving, and readers switch when it is complete', async () => {
    await produce(['a', 'b'])
    await workAll()
    const served = () =>
      room.opened.db.query<{ name: string; version: string; keys: string[] }>(
        `select d.name, s.dataset_version as version, array(select p.partition_key::text from flow.dataset_partitions p where p.dataset_version = s.dataset_version order by 1) as keys
         from flow.dag_current_versions c join flow.dag_version_datasets s on s.dag_version_id = c.dag_version_id join flow.datasets d on d.id = s.dataset_uuid where c.dag_name = 'shop' order by 1`,
      )
    const before = await served()
    accepted(
      await room.deploy(
        DIAMOND.replace('inputs: [orders], outputs: [lefts]', 'config: { v: 2 }, inputs: [orders], outputs: [lefts]'),
      ),
    )
    assert.deepEqual(await served(), before)
    await room.drain()
    const [bad, good] = [await room.claim('count_rows'), await room.claim('count_rows')]
    assert.ok(bad && good)
    accepted(await room.complete(good, [{ index: 0, partitions: good.partitions ?? [] }]))
    await room.drain()
    // One of two partitions is built: readers see the old versions of everything.
    assert.deepEqual(await served(), before)
    // The other one fails for good: nothing is open any more, and the old versions still serve.
    const failed = accepted(
      await failFlowTask(room.deps, { ...room.holder(bad), message: 'no', errorClass: 'validation_error' }),
    )
    assert.deepEqual([failed.status, failed.next_retry_at], ['Failed', null])
    await workAll()
    assert.deepEqual(await served(), before)
    accepted(await retryFlowTask(room.deps, room.tenant.orgId, bad.id))
    await workAll()
    const after = await served()
    const changed = after.filter(({ version }, at) => version !== before[at]?.version).map(({ name }) => name)
    assert.deepEqual(changed, ['lefts', 'totals'])
    for (const { name, keys: there } of after) assert.deepEqual(there, ['a', 'b'], name)
    // What did not change was not run again.
    assert.equal((await room.tasks('right')).filter(({ status }) => status === 'Completed').length, 2)
    accepted(await room.deploy(DIAMOND))
  })

  test('[FLOW-092] a task that an unchanged job of another version has done with the same inputs is completed with its outputs', async () => {
    await produce(['a'])
    await workAll()
    const [event] = await room.opened.db.query<{ id: string; payload: never }>(
      `select id, payload from flow.outbox where kind = 'route_event' order by id limit 1`,
    )
    assert.ok(event)
    accepted(
      await room.deploy(
        `${DIAMOND}  - { name: extra, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerPartition, inputs: [totals], outputs: [extras], update_strategy: replace }\n`,
      ),
    )
    const old = (await room.tasks('left'))[0]
    // The event comes once more, for the jobs of the new version.
    await routeEvent(room.deps, event.payload, event.id)
    const again = (await room.tasks('left')).filter(({ id }) => id !== old?.id)
    assert.deepEqual(
      again.map(({ status, memo_of, outputs }) => ({ status, memo_of, outputs })),
      [{ status: 'Completed', memo_of: old?.id, outputs: old?.outputs }],
    )
    accepted(await room.deploy(DIAMOND))
  })

  test('an event of a version that no job writes any more has no consumers', async () => {
    await produce(['a'])
    const changed = DIAMOND.replace(
      'source: { kind: event }, update',
      'source: { kind: event }, bootstrap: { reset_outputs: true }, config: { n: 1 }, update',
    )
    accepted(await room.deploy(changed))
    await room.drain()
    assert.deepEqual(await room.tasks('left'), [])
    accepted(await room.deploy(DIAMOND))
  })
})
