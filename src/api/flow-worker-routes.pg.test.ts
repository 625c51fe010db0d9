/** The calls of flow workers over HTTP: a DAG from its deployment to the task of its consumer, each call under its lease, and who may not. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { requeueTasks } from '#domains/flow'
import { type Body, type FlowApi, openFlowApi } from '#test/flow-api'

const STRANGE = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'
const SHOP = `
dag: shop
jobs:
  - { name: pull, activation: source, runtime: ecs_udf, operator: pull, source: { kind: event }, update_strategy: append, unique_key: [id], outputs: [orders] }
  - { name: daily, activation: reactive, runtime: ecs_udf, operator: count_rows, config: { by: day }, execution_strategy: PerPartition, inputs: [orders], outputs: [totals], update_strategy: replace, max_attempts: 2 }
`

describe('flow workers over HTTP', () => {
  let flow: FlowApi
  before(async () => {
    flow = await openFlowApi()
    assert.equal((await flow.command('Deploy DAG', { dag: 'shop', yaml: SHOP })).status, 'succeeded')
  })
  after(() => flow.close())

  let count = 0
  const happen = async () => {
    const sent = await flow.post('/v1/event', { dataset: 'orders', event_id: `evt-${++count}`, payload: { n: count } })
    assert.deepEqual([sent.status, sent.body], [200, { is_new: true }])
  }
  const claim = async (operator: string, more: Body = {}) => {
    const { status, body } = await flow.post('/v1/task/claim', { worker_id: 'w1', operators: [operator], ...more })
    assert.equal(status, 200, JSON.stringify(body))
    return body as Body | null
  }
  const claimed = async (operator: string) => {
    const task = await claim(operator)
    assert.ok(task)
    return task
  }
  const leaseOf = ({ task_id, attempt, lease_token }: Body): Body => ({ task_id, attempt, lease_token })
  const outcome = async (path: string, body: Body, key?: string) => {
    const answer = await flow.post(path, body, key)
    return `${answer.status} ${String(answer.body['code'] ?? answer.body['status'])}`
  }
  const tasks = () => flow.api.world.db.query('select * from flow.tasks order by id')

  test('[FLOW-066] [FLOW-074] [FLOW-079] [FLOW-109] from an event to the task of the consumer, with everything that it needs', async () => {
    assert.equal(await claim('pull'), null)
    await happen()
    assert.deepEqual((await flow.post('/v1/event', { dataset: 'orders', event_id: 'evt-1' })).body, { is_new: false })
    const pull = await claimed('pull')
    assert.equal(await claim('pull'), null)
    assert.deepEqual([pull['attempt'], pull['inputs'], pull['partitions']], [1, [], []])
    const kept = await flow.post('/v1/task/heartbeat', leaseOf(pull))
    assert.deepEqual([kept.status, kept.body['status']], [200, 'Running'])
    assert.ok(String(kept.body['lease_expires_at']) >= String(pull['lease_expires_at']))
    const completion = {
      ...leaseOf(pull),
      outputs: [{ index: 0, partitions: ['2026-05-01'], metrics: { rows: 42 } }],
      state: { cursor: '99' },
    }
    const first = await flow.post('/v1/task/complete', completion)
    assert.deepEqual([first.status, first.body['status']], [200, 'Completed'])
    const before = await tasks()
    assert.deepEqual(await flow.post('/v1/task/complete', completion), first)
    assert.deepEqual(await tasks(), before)
    await flow.drain()
    const daily = await claimed('count_rows')
    const [input] = daily['inputs'] as [Body]
    const [output] = daily['outputs'] as [Body]
    assert.deepEqual(daily['job'], {
      name: 'daily',
      dag: 'shop',
      operator: 'count_rows',
      config: { by: 'day' },
      update_strategy: 'replace',
      unique_key: [],
    })
    assert.deepEqual(
      [daily['partitions'], input['dataset'], input['partition']],
      [['2026-05-01'], 'orders', '2026-05-01'],
    )
    assert.match(String(input['version']), /^dsver_/)
    assert.ok(Date.parse(String(input['materialized_at'])) > 0)
    assert.deepEqual([output['index'], output['dataset']], [0, 'totals'])
    // The holder can read it again; the heartbeat in it moves only the end of the lease.
    const fetched = await flow.post('/internal/task-fetch', leaseOf(daily))
    assert.deepEqual({ ...fetched.body, lease_expires_at: 0 }, { ...daily, lease_expires_at: 0 })
    assert.equal(
      await outcome('/v1/task/complete', { ...leaseOf(daily), outputs: [{ index: 0, partitions: ['2026-05-01'] }] }),
      '200 Completed',
    )
    await happen()
    const next = await claimed('pull')
    assert.deepEqual(next['state'], { default: { cursor: '99' } })
    assert.equal(await outcome('/v1/task/complete', leaseOf(next)), '200 Completed')
  })

  test('a claim waits for a task', async () => {
    const waiting = claim('pull', { wait_s: 20 })
    await happen()
    await flow.drain()
    const task = await waiting
    assert.ok(task)
    assert.equal(await outcome('/v1/task/complete', leaseOf(task)), '200 Completed')
  })

  test('[FLOW-073] a stale token or attempt gets 409 lease.lost and writes nothing; the new attempt completes', async () => {
    await happen()
    const old = await claimed('pull')
    assert.equal(await outcome('/v1/task/fail', { ...leaseOf(old), error: 'The file is empty.' }), '200 Failed')
    await flow.api.world.db.query(`update flow.tasks set next_retry_at = statement_timestamp() where status = 'Failed'`)
    assert.equal(await requeueTasks(flow.deps), 1)
    const now = await claimed('pull')
    assert.deepEqual([now['task_id'], now['attempt']], [old['task_id'], 2])
    const before = await tasks()
    for (const [path, more] of Object.entries(calls)) {
      const stale = await flow.post(path, { ...leaseOf(old), ...more })
      assert.deepEqual(
        [stale.status, stale.body['code'], stale.body['detail'], stale.body['hint']],
        [409, 'lease.lost', 'Attempt 2 has it now.', 'Stop the work; claim again.'],
        path,
      )
      assert.equal(await outcome(path, { ...leaseOf(now), lease_token: STRANGE, ...more }), '409 lease.lost', path)
      assert.equal(await outcome(path, { ...leaseOf(now), attempt: 1, ...more }), '409 lease.lost', path)
    }
    assert.deepEqual(await tasks(), before)
    assert.equal(await outcome('/v1/task/complete', leaseOf(now)), '200 Completed')
  })

  test('[FLOW-108] a foreign org finds no task and no dataset, a reader may not work, and bad input names its place', async () => {
    await happen()
    const task = await claimed('pull')
    const { theirs, ours } = flow.api
    const before = await tasks()
    for (const [path, more] of Object.entries(calls)) {
      assert.equal(
        await outcome(path, { ...leaseOf(task), ...more }, theirs.people.writer.key),
        '404 flow.task.not_found',
        path,
      )
      assert.equal((await flow.post(path, { ...leaseOf(task), ...more }, ours.people.reader.key)).status, 403, path)
      const absent = { ...leaseOf(task), task_id: `ftask_${STRANGE.replaceAll('-', '')}`, ...more }
      assert.equal(await outcome(path, absent), '404 flow.task.not_found', path)
    }
    // What the index of a foreign task is, is not told either.
    const wrong = { ...leaseOf(task), outputs: [{ index: 1, partitions: ['a'] }] }
    assert.equal(await outcome('/v1/task/complete', wrong, theirs.people.writer.key), '404 flow.task.not_found')
    const own = await flow.post('/v1/task/complete', wrong)
    assert.deepEqual(
      [own.status, own.body['code'], own.body['path'], own.body['hint']],
      [422, 'flow.output.unknown', 'outputs[0].index', 'Its outputs are 0 to 0.'],
    )
    const event = { dataset: 'orders', event_id: 'foreign' }
    assert.equal(await outcome('/v1/event', event, theirs.people.writer.key), '404 flow.dataset.not_found')
    assert.equal((await flow.post('/v1/event', event, ours.people.reader.key)).status, 403)
    assert.equal(await outcome('/v1/event', { ...event, dataset: 'totals' }), '422 flow.event.source_unknown')
    const foreign = await flow.post('/v1/task/claim', { worker_id: 'w', operators: ['pull'] }, theirs.people.writer.key)
    assert.deepEqual([foreign.status, foreign.body], [200, null])
    for (const body of [{ operators: [] }, { operators: ['pull'], wait_s: 21 }, { operators: ['pull'], more: 1 }])
      assert.equal((await flow.post('/v1/task/claim', { worker_id: 'w', ...body })).status, 422, JSON.stringify(body))
    assert.deepEqual(await tasks(), before)
    assert.equal(await outcome('/v1/task/complete', leaseOf(task)), '200 Completed')
  })
})

const calls: Record<string, Body> = {
  '/v1/task/heartbeat': {},
  '/v1/task/complete': {},
  '/v1/task/fail': { error: 'No.' },
  '/internal/task-fetch': {},
}
