/** The calls of workers over HTTP: the long poll, each call under its lease, and who may not. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { type Notices, openNotices } from '#store'
import { call, openTestApi, type TestApi } from '#test/api'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import type { Api } from './api.ts'

type Body = Record<string, unknown>

const STRANGE = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'

describe('workers over HTTP', () => {
  let api: TestApi
  let room: MissionRoom
  let app: Api
  let notices: Notices
  before(async () => {
    api = await openTestApi()
    notices = openNotices(api.deps.db)
    room = await openMissionRoom({ on: { clock: api.world, tenant: api.ours } })
    const work = { commands: room.world, approvals: room.approvals, webhooks: [] }
    // Without a notice a claim would look again after an hour.
    app = api.with({ work, feed: { notices, channel: 'concord_events', pollMs: 3_600_000 } })
  })
  after(async () => {
    await notices.close()
    await room.close()
    await api.close()
  })

  const post = async (path: string, body: unknown, key = api.ours.people.writer.key) => {
    const answer = await call(app, path, { method: 'POST', key, headers: { 'x-workspace': 'main' }, body })
    return { status: answer.status, body: (await answer.json()) as Body }
  }
  const open = (queue: string, more: object = {}, retry: JsonObject = { max_continuations: 1 }) =>
    room.run(aPlan(planTask('a', { run: { worker: queue, payload: { text: 'Hello' } }, ...more })), { retry })
  const claim = async (queue: string, more: Body = {}) => {
    const { status, body } = await post('/mission-tasks/claim', { queues: [queue], ...more })
    assert.equal(status, 200, JSON.stringify(body))
    return body['claimed'] as Body | null
  }
  const stateOf = async (path: string, body: unknown) => {
    const answer = await post(path, body)
    return answer.body['state'] ?? `${answer.status} ${String(answer.body['code'])}`
  }

  test('a claim waits for a task, and the holder of its lease works to the end', async () => {
    assert.equal(await claim('quick'), null)
    const waiting = claim('wait', { wait_seconds: 20, worker: 'w7', agent: 'Translator' })
    const { id } = await open('wait')
    const task = await waiting
    assert.ok(task)
    assert.deepEqual([task['input'], task['worker'], task['state']], [{ text: 'Hello' }, 'wait', 'assigned'])
    const at = `/mission-tasks/${String(task['task_id'])}`
    const lease = { lease_token: task['lease_token'], attempt: task['attempt'] }
    assert.equal(await stateOf(`${at}/heartbeat`, lease), 'assigned')
    assert.equal(await stateOf(`${at}/submit`, lease), '409 missions.task.wrong_state')
    assert.match(String((await post(`${at}/submit`, lease)).body['hint']), /\/start first/)
    const worthless = await post(`${at}/submit`, { ...lease, cost: 'NaN' })
    assert.deepEqual([worthless.status, worthless.body['hint']], [422, 'Write an amount such as "4.50".'])
    assert.equal(await stateOf(`${at}/start`, lease), 'running')
    assert.equal(await stateOf(`${at}/heartbeat`, lease), 'running')
    assert.equal(await stateOf(`${at}/continue`, { ...lease, tokens: 3 }), 'continuing')
    room.clock.travel(1_000)
    room.others.push({ kind: 'mission', id })
    await room.rest()
    const output = { output: { text: 'Hallo' }, summary: 's'.repeat(2_001), tokens: 4 }
    const missing = { ...lease, ...output, artifact_id: 'art_0197f3b2c4d57a8e9b0c1d2e3f405161' }
    assert.equal(await stateOf(`${at}/submit`, missing), '422 missions.output.artifact_unknown')
    assert.equal(await stateOf(`${at}/submit`, { ...lease, ...output }), 'running')
    await room.rest()
    const [done] = await room.tasksOf(id)
    assert.deepEqual([done?.state, done?.tokens_used, done?.output_summary?.length], ['completed', 7, 2_000])
    assert.equal(await stateOf(`${at}/fail`, { ...lease, error: 'Late.' }), '409 missions.lease.stale')
  })

  test('[MIS-070] a task lowers the limits of its mission for retries and continuations, and never raises them', async () => {
    const [low, high] = [
      { max_retries: 0, max_continuations: 1 },
      { max_retries: 5, max_continuations: 5 },
    ]
    const cases: readonly [queue: string, own: object, retry: JsonObject][] = [
      ['lower', low, high],
      ['higher', high, low],
      ['none', {}, low],
    ]
    for (const [queue, own, retry] of cases) {
      const { id } = await open(queue, own, { ...retry, continuation_delay_seconds: 7 })
      const task = await claim(queue)
      const at = `/mission-tasks/${String(task?.['task_id'])}`
      const lease = { lease_token: task?.['lease_token'], attempt: 1 }
      assert.equal(await stateOf(`${at}/start`, lease), 'running')
      assert.equal(await stateOf(`${at}/continue`, lease), 'continuing')
      for (const [ms, state] of [
        [6_999, 'continuing'],
        [1, 'running'],
      ] as const) {
        room.clock.travel(ms)
        room.others.push({ kind: 'mission', id })
        await room.rest()
        assert.equal((await room.tasksOf(id))[0]?.state, state, queue)
      }
      assert.equal(await stateOf(`${at}/continue`, lease), 'failed', queue)
      await room.rest()
      assert.deepEqual(await room.statesOf(id), { a: 'failed' }, queue)
    }
  })

  test('[MIS-235] a worker gets the summary and the reference over each data edge, with the labels, and nothing over an edge that orders', async () => {
    room.plays.set('held', 'waits')
    const { id } = await room.run(
      aPlan(
        planTask('read'),
        planTask('plain'),
        planTask('held'),
        planTask('write', {
          depends_on: ['read', 'held', { task: 'plain', type: 'ordering' }],
          run: { worker: 'writing', payload: {} },
        }),
      ),
    )
    const commandOf = async (name: string) =>
      (await room.tasksOf(id)).find(({ spec }) => spec.temp_id === name)?.command_id ?? ''
    await room.rows(`update missions.orchestration_tasks set output_ref = '/notes.md' where command_id = $1`, [
      await commandOf('read'),
    ])
    for (const name of ['read', 'plain'])
      await room.rows(`update concord.commands set labels = $2 where command_id = $1`, [
        await commandOf(name),
        JSON.stringify([`untrusted:${name}`]),
      ])
    await room.decide(await commandOf('held'), 'approved')
    await room.rest()
    const [read, , held] = await room.tasksOf(id)
    const shown = (task: typeof read, output_ref: string | null) => ({
      task: task?.spec.temp_id,
      title: task?.title,
      output_summary: task?.output_summary,
      output_ref,
    })
    assert.match(read?.output_summary ?? '', /read/)
    assert.deepEqual((await claim('writing'))?.['upstream'], [shown(read, '/notes.md'), shown(held, null)])
    const [{ labels } = { labels: [] }] = await room.rows<{ labels: readonly string[] }>(
      `select labels from concord.commands where command_id = $1`,
      [await commandOf('write')],
    )
    assert.equal(labels.length, 1)
    assert.match(labels[0] ?? '', /^untrusted:read>/)
  })

  test('why names the queue of a task that no worker has claimed; the worker of a cancelled mission stops', async () => {
    const { id } = await open('idle')
    const mission = `/missions/${encodeId('mission', id)}`
    const why = async () => {
      const path = `${mission}/tasks/${encodeId('mission_task', (await room.tasksOf(id))[0]?.id ?? '')}/why`
      const answer = await call(app, path, { key: api.ours.people.writer.key, headers: { 'x-workspace': 'main' } })
      return String(((await answer.json()) as Body)['summary'])
    }
    assert.match(await why(), /^It waits for a worker of the queue "idle"\. Its command cmd_\w+ is running\.$/)
    const task = await claim('idle')
    assert.match(await why(), /^Attempt 1 runs as cmd_/)
    const lease = { lease_token: task?.['lease_token'], attempt: 1 }
    const at = `/mission-tasks/${String(task?.['task_id'])}`
    assert.equal(await stateOf(`${at}/start`, lease), 'running')
    await post(`${at}/fail`, { ...lease, error: 'the model is down' })
    assert.match(await why(), /^Attempt 1 failed: the model is down\. The next one is due at /)
    const held = await open('held')
    const other = await claim('held')
    const calls = [
      [id, at, lease],
      [held.id, `/mission-tasks/${String(other?.['task_id'])}`, { lease_token: other?.['lease_token'], attempt: 1 }],
    ] as const
    for (const [missionId, path, own] of calls) {
      const cancel = `/missions/${encodeId('mission', missionId)}/cancel`
      assert.equal((await post(cancel, {}, api.ours.people.admin.key)).status, 200)
      const stale = await post(`${path}/heartbeat`, own)
      assert.deepEqual([stale.status, stale.body['code']], [409, 'missions.lease.stale'])
      assert.match(String(stale.body['hint']), /^Stop the work\. The task was cancelled/)
    }
    const hardLimit = { goal: 'X', plan: aPlan(planTask('a')), config: { budget: { hard_limit: 'NaN' } } }
    assert.match(JSON.stringify((await post('/missions', hardLimit)).body), /Write an amount such as/)
  })

  test('a stale lease, a foreign id and a caller without the right change nothing', async () => {
    const { id } = await open('guarded')
    const task = await claim('guarded')
    assert.ok(task)
    const before_ = await room.tasksOf(id)
    const lease = { lease_token: STRANGE, attempt: 1 }
    const calls = { start: {}, heartbeat: {}, continue: {}, submit: {}, fail: { error: 'No.' } }
    for (const [verb, more] of Object.entries(calls)) {
      const path = (taskId: unknown) => `/mission-tasks/${String(taskId)}/${verb}`
      assert.equal(await stateOf(path(task['task_id']), { ...lease, ...more }), '409 missions.lease.stale', verb)
      const own: Body = { lease_token: task['lease_token'], attempt: 1, ...more }
      const absent = `task_${STRANGE.replaceAll('-', '')}`
      assert.equal(await stateOf(path(absent), own), '404 missions.task.not_found', verb)
      const theirs = await post(path(task['task_id']), own, api.theirs.people.writer.key)
      assert.deepEqual([theirs.status, theirs.body['code']], [404, 'missions.task.not_found'], verb)
      const reader = await post(path(task['task_id']), own, api.ours.people.reader.key)
      assert.equal(reader.status, 403, verb)
    }
    for (const body of [{ queues: [] }, { queues: ['guarded'], wait_seconds: 21 }, { queues: ['Not A Slug'] }])
      assert.equal((await post('/mission-tasks/claim', body)).status, 422, JSON.stringify(body))
    assert.equal((await post('/mission-tasks/claim', { queues: ['x'] }, api.ours.people.reader.key)).status, 403)
    assert.deepEqual(await room.tasksOf(id), before_)
    assert.ok(decodeId('mission_task', String(task['task_id'])).ok)
  })
})
