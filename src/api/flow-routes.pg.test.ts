/** Flow for people over HTTP: DAGs, versions, jobs, tasks, why, cancel and retry. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Body, type FlowApi, openFlowApi } from '#test/flow-api'

const SHOP = `
dag: shop
jobs:
  - { name: pull, activation: source, runtime: ecs_udf, operator: pull, source: { kind: event }, update_strategy: append, unique_key: [id], outputs: [orders] }
  - { name: daily, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerPartition, inputs: [orders], outputs: [totals], update_strategy: replace, max_attempts: 1, scaling: { max_concurrency: 1 } }
`

describe('flow for people over HTTP', () => {
  let flow: FlowApi
  before(async () => {
    flow = await openFlowApi()
    for (const yaml of [SHOP, SHOP.replace('max_attempts: 1', 'max_attempts: 2')])
      assert.equal((await flow.command('Deploy DAG', { dag: 'shop', yaml })).status, 'succeeded')
  })
  after(() => flow.close())

  const items = async (path: string) => {
    const { status, body } = await flow.get(path)
    assert.equal(status, 200, JSON.stringify(body))
    return body['items'] as readonly Body[]
  }
  const claim = async (operator: string) => {
    const { body } = await flow.post('/v1/task/claim', { worker_id: 'w1', operators: [operator] })
    const { task_id, attempt, lease_token } = body
    return { task_id: String(task_id), attempt, lease_token }
  }
  const why = async (id: string) => {
    const { body } = await flow.get(`/flow/tasks/${id}/why`)
    return [body['cause'], body['standing']].map(String)
  }
  /** A task of daily for each partition. */
  async function produce(event: string, partitions: readonly string[]) {
    await flow.post('/v1/event', { dataset: 'orders', event_id: event })
    const pull = await claim('pull')
    await flow.post('/v1/task/complete', { ...pull, outputs: [{ index: 0, partitions }] })
    await flow.drain()
    return pull.task_id
  }

  test('DAGs and versions are listed, page by page', async () => {
    const [dag] = await items('/flow/dags')
    assert.deepEqual([dag?.['dag'], dag?.['jobs']], ['shop', 2])
    const versions = await items('/flow/dags/shop/versions')
    assert.deepEqual(
      versions.map(({ is_current }) => is_current),
      [true, false],
    )
    assert.equal(versions[0]?.['version'], dag?.['version'])
    const first = await flow.get('/flow/dags/shop/versions?limit=1')
    const second = await flow.get(`/flow/dags/shop/versions?limit=1&cursor=${String(first.body['next_cursor'])}`)
    assert.deepEqual([...(first.body['items'] as Body[]), ...(second.body['items'] as Body[])], versions)
    const absent = await flow.get('/flow/dags/nothing/versions')
    assert.deepEqual([absent.status, absent.body['code']], [404, 'flow.dag.not_found'])
  })

  test('[FLOW-106] the states of jobs are those that their tasks tell', async () => {
    const states = async () =>
      Object.fromEntries((await items('/flow/jobs?dag=shop')).map(({ job, state }) => [job, state]))
    assert.deepEqual(await states(), { pull: 'Pending', daily: 'Idle' })
    await flow.post('/v1/event', { dataset: 'orders', event_id: 'states' })
    const pull = await claim('pull')
    assert.deepEqual(await states(), { pull: 'Running', daily: 'Idle' })
    await flow.post('/v1/task/heartbeat', { ...pull, draining: true })
    assert.equal((await states())['pull'], 'Draining')
    await flow.post('/v1/task/heartbeat', pull)
    await flow.post('/v1/task/complete', { ...pull, outputs: [{ index: 0, partitions: ['s'] }] })
    await flow.drain()
    assert.deepEqual(await states(), { pull: 'Pending', daily: 'Running' })
    const daily = await claim('count_rows')
    await flow.post('/v1/task/complete', daily)
    assert.deepEqual(await states(), { pull: 'Pending', daily: 'Idle' })
    const [job] = await items('/flow/jobs?limit=1')
    assert.deepEqual([job?.['job'], job?.['inputs'], job?.['outputs']], ['daily', ['orders'], ['totals']])
  })

  test('why tells the cause and the standing of a task, from its event to its last attempt', async () => {
    const source = await produce('why', ['a', 'b'])
    const queued = await items('/flow/tasks?job=daily&status=Queued')
    assert.equal(queued.length, 2)
    const [, a] = queued
    const id = String(a?.['task_id'])
    assert.deepEqual((await flow.get(`/flow/tasks/${id}`)).body, a)
    assert.deepEqual(await why(id), [
      `The dataset "orders" was updated by ${source}, partitions a.`,
      'Attempt 1 of 2 waits for a worker with the operator "count_rows".',
    ])
    assert.equal((await why(source))[0], 'The event "why" was reported.')
    const explained = (await flow.get(`/flow/tasks/${id}/why`)).body
    const [input] = explained['inputs'] as [Body]
    assert.deepEqual([input['dataset'], input['partition']], ['orders', 'a'])
    assert.match(String((explained['task'] as Body)['dedupe_key']), /^partition:.*:a$/)
    const held = await claim('count_rows')
    assert.equal(held.task_id, id)
    assert.match((await why(id))[1] ?? '', /^Attempt 1 of 2 runs at "w1" since 2.*; its lease ends at 2/)
    assert.equal(
      (await why(String(queued[0]?.['task_id'])))[1],
      'It waits for a place: its job runs at most 1 at once.',
    )
    await flow.post('/v1/task/fail', { ...held, error: 'The disk is full.', retryable: false })
    assert.equal((await why(id))[1], 'Attempt 1 of 2 failed: The disk is full. No attempt is left.')
    const retried = await flow.post(`/flow/tasks/${id}/retry`)
    assert.deepEqual([retried.status, retried.body['status'], retried.body['attempt']], [200, 'Queued', 2])
    const again = await claim('count_rows')
    const wrong = await flow.post(`/flow/tasks/${id}/retry`)
    assert.deepEqual([wrong.status, wrong.body['code']], [409, 'flow.task.wrong_state'])
    assert.equal((await flow.post('/v1/task/complete', again)).body['status'], 'Completed')
    assert.match((await why(id))[1] ?? '', /^Attempt 2 of 2 completed at 2/)
    assert.equal((await flow.post(`/flow/tasks/${id}/cancel`)).status, 409)
  })

  test('a canceled task is offered to nobody, and its holder has lost the lease', async () => {
    const held = await claim('count_rows')
    for (const _ of [1, 2]) {
      const canceled = await flow.post(`/flow/tasks/${held.task_id}/cancel`)
      assert.deepEqual([canceled.status, canceled.body['status']], [200, 'Canceled'])
    }
    const late = await flow.post('/v1/task/complete', held)
    assert.deepEqual([late.status, late.body['code']], [409, 'lease.lost'])
    assert.match((await why(held.task_id))[1] ?? '', /^It was canceled at 2/)
  })

  test('[FLOW-108] a foreign org sees nothing, a reader changes nothing, and an unknown filter is refused', async () => {
    const [task] = await items('/flow/tasks')
    const id = String(task?.['task_id'])
    const { theirs, ours } = flow.api
    for (const path of ['/flow/dags', '/flow/jobs', '/flow/tasks'])
      assert.deepEqual((await flow.get(path, theirs.people.reader.key)).body, { items: [], next_cursor: null }, path)
    for (const path of ['/flow/dags/shop/versions', `/flow/tasks/${id}`, `/flow/tasks/${id}/why`]) {
      assert.equal((await flow.get(path, theirs.people.writer.key)).status, 404, path)
      assert.equal((await flow.get(path, ours.people.reader.key)).status, 200, path)
    }
    for (const verb of ['cancel', 'retry']) {
      assert.equal((await flow.post(`/flow/tasks/${id}/${verb}`, undefined, theirs.people.admin.key)).status, 404)
      assert.equal((await flow.post(`/flow/tasks/${id}/${verb}`, undefined, ours.people.reader.key)).status, 403)
    }
    assert.equal((await flow.get('/flow/tasks?status=Lost')).status, 422)
  })
})
