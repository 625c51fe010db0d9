/** Verdicts about outputs over HTTP: those of workers, those of people, and who may not. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { type Body, useMissionApi } from '#test/mission-api'
import { aPlan, planTask } from '#test/missions'

describe('verdicts over HTTP', () => {
  const http = useMissionApi()
  const { ask } = http
  const post = (path: string, body: unknown, key?: string) => ask('POST', path, body, key)
  const codeOf = ({ status, body }: Awaited<ReturnType<typeof post>>) => `${status} ${String(body['code'])}`
  const taskOf = async (id: string, index = 0) => {
    const task = (await http.room.tasksOf(id))[index]
    assert.ok(task)
    return task
  }
  const payloadsOf = async (id: string, type: string) =>
    (await http.room.eventsOf(id)).filter(({ event_type }) => event_type === type).map(({ payload }) => payload)

  /** Works on the task of the queue, and submits. */
  const deliver = async (queue: string, words: number) => {
    const { body } = await post('/mission-tasks/claim', { queues: [queue], worker: 'writer-1' })
    const claimed = body['claimed'] as Body
    const at = `/mission-tasks/${String(claimed['task_id'])}`
    const lease = { lease_token: claimed['lease_token'], attempt: claimed['attempt'] }
    assert.equal((await post(`${at}/start`, lease)).status, 200)
    assert.equal((await post(`${at}/submit`, { ...lease, output: { words } })).status, 200)
    await http.room.rest()
    return { at, claimed }
  }

  test('[MIS-085] [MIS-381] a worker verifies the output of another: a refused one is a new attempt, and the next passes', async () => {
    const verify = [{ schema: { type: 'object' } }, { worker: true as const }]
    const first = planTask('a', { run: { worker: 'write', payload: {} }, success_criteria: 'It is long.', verify })
    const { id } = await http.room.run(aPlan(first, planTask('b', { depends_on: ['a'] })))
    const { at } = await deliver('write', 3)
    assert.equal((await taskOf(id)).state, 'verifying')
    assert.equal(codeOf(await post(`${at}/verification`, { attempt: 2 })), '409 missions.task.wrong_state')
    // Its own verdict counts for nothing, whether it says its name or not.
    const { output_checksum: own } = await taskOf(id)
    for (const named of [{}, { worker: 'writer-1' }]) {
      const asked = { attempt: 1, ...named }
      assert.equal(codeOf(await post(`${at}/verification`, asked)), '403 missions.verdict.own_output')
      const passes = { ...asked, output_checksum: own, verdict: 'pass', score: 1 }
      assert.equal(codeOf(await post(`${at}/verdict`, passes)), '403 missions.verdict.own_output')
    }
    const started = await post(`${at}/verification`, { attempt: 1, worker: 'judge', model: 'judge-1' })
    assert.deepEqual([started.status, started.body['output']], [200, { words: 3 }])
    assert.equal(started.body['success_criteria'], 'It is long.')
    const [noted] = await payloadsOf(id, 'task_verification_started')
    assert.equal(noted?.['verifier_model'], 'judge-1')
    const worker = 'judge'
    const verdict = {
      attempt: 1,
      worker,
      output_checksum: started.body['output_checksum'],
      verdict: 'fail',
      score: 0.2,
    }
    assert.equal(
      codeOf(await post(`${at}/verdict`, { ...verdict, output_checksum: 'other' })),
      '409 missions.output.changed',
    )
    assert.equal((await taskOf(id)).state, 'verifying')
    const refused = await post(`${at}/verdict`, { ...verdict, feedback: 'Too short.' })
    assert.deepEqual([refused.status, refused.body['state']], [200, 'awaiting_retry'])
    assert.equal(codeOf(await post(`${at}/verdict`, verdict)), '409 missions.task.wrong_state')

    http.room.clock.travel(600_000)
    http.room.others.push({ kind: 'mission', id })
    await http.room.rest()
    const again = await deliver('write', 300)
    assert.deepEqual([again.claimed['attempt'], again.claimed['last_error']], [2, 'Too short.'])
    assert.equal((await payloadsOf(id, 'task_retrying'))[0]?.['failure_type'], 'quality')
    const { output_checksum } = await taskOf(id)
    const passed = await post(
      `${at}/verdict`,
      { attempt: 2, output_checksum, verdict: 'pass', score: 0.95 },
      http.api.ours.people.admin.key,
    )
    assert.equal(passed.body['state'], 'verifying')
    await http.room.rest()
    const done = await taskOf(id)
    assert.deepEqual([done.state, done.verifier_score], ['completed', '0.95'])
    assert.equal((await http.room.missionOf(id)).state, 'completed')
    const shown = await ask('GET', `/missions/${encodeId('mission', id)}/tasks`)
    const [view] = shown.body['items'] as Body[]
    assert.deepEqual([view?.['verifier_score'], view?.['output_checksum']], ['0.95', output_checksum])
  })

  test('[MIS-173] [MIS-381] a worker that is unsure, or gives no verdict in time, leaves the decision to a person', async () => {
    const verify = [{ worker: true as const }]
    const { id } = await http.room.run(aPlan(planTask('a', { verify }), planTask('b', { verify })))
    const a = await taskOf(id)
    const at = `/mission-tasks/${encodeId('mission_task', a.id)}`
    const verdict = { attempt: 1, output_checksum: a.output_checksum, verdict: 'unsure', feedback: 'Who knows.' }
    for (const [path, body] of [
      ['verification', { attempt: 1 }],
      ['verdict', verdict],
    ] as const) {
      assert.equal((await post(`${at}/${path}`, body, http.api.ours.people.reader.key)).status, 403)
      assert.equal(
        codeOf(await post(`${at}/${path}`, body, http.api.theirs.people.writer.key)),
        '404 missions.task.not_found',
      )
    }
    assert.equal((await post(`${at}/verdict`, { ...verdict, score: 1.1 })).status, 422)
    assert.equal((await post(`${at}/verdict`, verdict)).body['state'], 'awaiting_human')
    http.room.clock.travel(600_000)
    http.room.others.push({ kind: 'mission', id })
    await http.room.rest()
    assert.deepEqual(await http.room.statesOf(id), { a: 'awaiting_human', b: 'awaiting_human' })
    const reasons = (await payloadsOf(id, 'task_human_review_requested')).map(({ reason }) => reason)
    assert.deepEqual(reasons, ['The verifier is unsure: Who knows.', 'No verdict came in time.'])
    for (const index of [0, 1]) await http.room.decide((await taskOf(id, index)).review_command_id ?? '', 'approved')
    await http.room.rest()
    assert.equal((await http.room.missionOf(id)).state, 'completed')
  })

  test('[MIS-176] [MIS-177] [MIS-178] [MIS-207] [MIS-327] [MIS-380] a person approves an output, has it done again, rejects it for good, or cancels the task', async () => {
    const verify = [{ person: {} }]
    const names = ['a', 'b', 'c', 'd']
    const { id } = await http.room.run(aPlan(...names.map((name) => planTask(name, { verify })), planTask('plain')))
    const at = (task: string) => `/missions/${encodeId('mission', id)}/tasks/${encodeId('mission_task', task)}`
    const [a, b, c, d, plain] = await http.room.tasksOf(id)
    assert.ok(a && b && c && d && plain)
    for (const verb of ['approve', 'reject']) {
      const body = { reason: 'No.' }
      assert.equal((await post(`${at(a.id)}/${verb}`, body, http.api.ours.people.reader.key)).status, 403)
      assert.equal(
        codeOf(await post(`${at(a.id)}/${verb}`, body, http.api.theirs.people.writer.key)),
        '404 missions.mission.not_found',
      )
      assert.equal(codeOf(await post(`${at(id)}/${verb}`, body)), '404 missions.task.not_found')
      const late = await post(`${at(plain.id)}/${verb}`, body)
      assert.equal(codeOf(late), '409 missions.task.wrong_state')
      assert.equal(((late.body['facts'] as Body)['task'] as Body)['state'], 'completed')
    }
    assert.equal((await post(`${at(a.id)}/reject`, { retry: 'yes' })).status, 422)
    assert.deepEqual(await http.room.statesOf(id), {
      a: 'awaiting_human',
      b: 'awaiting_human',
      c: 'awaiting_human',
      d: 'awaiting_human',
      plain: 'completed',
    })
    assert.equal((await post(`${at(a.id)}/approve`, {})).status, 200)
    assert.equal((await post(`${at(b.id)}/reject`, { retry: true, reason: 'More.' })).status, 200)
    assert.equal((await post(`${at(c.id)}/reject`, { reason: 'Never.' })).status, 200)
    assert.equal((await post(`${at(d.id)}/cancel`, { reason: 'Not needed.' })).status, 200)
    await http.room.rest()
    const states = { a: 'completed', b: 'awaiting_retry', c: 'failed', d: 'cancelled', plain: 'completed' }
    assert.deepEqual(await http.room.statesOf(id), states)
    assert.deepEqual(
      (await payloadsOf(id, 'task_human_rejected')).map(({ reason, retries_remaining }) => [reason, retries_remaining]),
      [
        ['More.', 3],
        ['Never.', 0],
      ],
    )
    const decisions = await http.room.rows(
      `select event_type, actor_type, actor_id from missions.orchestration_events
       where run_id = $1 and event_type in ('task_human_approved', 'task_human_rejected', 'task_cancelled') order by event_type`,
      [id],
    )
    const human = { actor_type: 'human', actor_id: `user:${http.api.ours.people.writer.principal.userId}` }
    assert.deepEqual(
      decisions,
      ['task_cancelled', 'task_human_approved', 'task_human_rejected', 'task_human_rejected'].map((event_type) => ({
        event_type,
        ...human,
      })),
    )
    assert.equal(codeOf(await post(`${at(a.id)}/approve`, {})), '409 missions.task.wrong_state')
  })
})
