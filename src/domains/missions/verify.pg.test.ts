/** Outputs are verified before other tasks use them: checks, verifiers, thresholds, retries of refused outputs, and reviews by people. */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { openDiskStore } from '#domains/artifacts'
import { allow, cancelCommand, defineCommand, defineEffect, EffectFailure } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { aBlobFolder, CONTENT_BYTES_MAX } from '#test/artifacts'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { testArtifactTypes } from '#test/projects/connectors'
import { accepted, TRACE } from '#test/tenant'
import type { Check } from './checks.ts'
import { missionInvariants } from './mission-invariants.ts'

/** The answers of a task, in the order of its calls; the last one is repeated. */
type Script = Map<string, readonly JsonValue[]>

function scripted(script: Script, seen: JsonObject[], book: string[], isBroken: (name: string) => boolean) {
  const input = z.object({ name: z.string(), of: z.json().optional(), text: z.string().optional() })
  const counts = new Map<string, number>()
  const answer = (name: string): JsonValue => {
    const answers = script.get(name) ?? [{ name }]
    const index = counts.get(name) ?? 0
    counts.set(name, index + 1)
    return answers[Math.min(index, answers.length - 1)] ?? null
  }
  const define = (name: string, effect: string, outward: boolean) => {
    const run = defineEffect(effect, {
      input,
      class: 'keyed',
      outward,
      async do({ input: asked, artifacts, idempotencyKey }) {
        if (isBroken(asked.name)) throw new EffectFailure('transient_connector_error', 'It breaks.', 'no')
        seen.push(JSON.parse(JSON.stringify(asked)) as JsonObject)
        if (outward) book.push(`${asked.name} ${idempotencyKey}`)
        const given = answer(asked.name)
        if (asked.text === undefined) return given
        const text = typeof given === 'string' ? given : asked.text
        const { artifact_id } = await artifacts.write({ type: 'report', title: 'A report', content: { text } })
        return { artifact_id }
      },
    })
    const type = effect.replace('.', '_')
    return defineCommand(type, {
      input,
      policy: allow,
      steps: (asked) => [run(asked)],
      uses: [run],
      task: { name, artifact_output_possible: true },
    }).definitions
  }
  return [
    ...define('Draft', 'draft.write', false),
    ...define('Judge', 'draft.judge', false),
    ...define('Pay', 'bank.pay', true),
  ]
}

describe('verification of outputs', () => {
  let room: MissionRoom
  let folder: string
  const script: Script = new Map()
  const seen: JsonObject[] = []
  const book: string[] = []
  before(async () => {
    folder = await aBlobFolder()
    room = await openMissionRoom({
      defines: scripted(script, seen, book, (name) => room.plays.get(name) === 'breaks'),
      wrap: (given) => {
        const { db, now, newId } = given
        const store = openDiskStore({ folder, newId, contentBytesMax: CONTENT_BYTES_MAX })
        return { ...given, artifacts: { db, now, newId, types: testArtifactTypes, stores: [store] } }
      },
    })
  })
  after(async () => {
    const broken = await room.rows<{ id: string }>(
      missionInvariants.map(({ sql }) => `select id::text as id from (${sql}) as q(id)`).join(' union all '),
      [],
    )
    assert.deepEqual(broken, [])
    await room.close()
    await rm(folder, { recursive: true, force: true })
  })

  const draft = (name: string, verify: Check[], task = 'Draft', more: JsonObject = {}) =>
    planTask(name, { run: { task, payload: { name, ...more } }, verify })
  const judge = (name: string, of: string): Check => ({
    task: 'Judge',
    payload: { name, of: { $from: of } },
  })
  const taskOf = async (id: string, index = 0) => {
    const task = (await room.tasksOf(id))[index]
    assert.ok(task)
    return task
  }
  const typesOf = async (id: string) =>
    (await room.eventsOf(id))
      .filter(({ event_type }) => event_type.startsWith('task_'))
      .map((event) => event.event_type)
  const payloadOf = async (id: string, type: string) =>
    (await room.eventsOf(id)).find(({ event_type }) => event_type === type)?.payload
  const later = async (id: string) => {
    room.clock.travel(600_000)
    room.others.push({ kind: 'mission', id })
    await room.rest()
  }
  const attemptsOf = async (id: string) =>
    room.rows<{ key: string; metadata: JsonObject }>(
      `select c.idempotency_key as key, c.context->'metadata' as metadata from concord.commands c
         join missions.orchestration_tasks t on c.idempotency_key like 'mission:' || t.id || ':%' where t.run_id = $1 order by c.created_at, c.command_id`,
      [id],
    )
  const cardOf = async (taskId: string) =>
    (
      await room.rows<{ status: string; error_message: string | null }>(
        `select status, error_message from missions.board_tasks where source_id = $1`,
        [taskId],
      )
    )[0]

  test('[MIS-171] [MIS-172] [MIS-258] [MIS-259] an output that passes completes its task, and only then is used', async () => {
    script.set('p1', ['# Notes\n## Risks\nnone'])
    script.set('j1', [{ score: 0.934, feedback: 'good' }])
    const first = draft(
      'p1',
      [{ artifact: { type: 'report', bytes_min: 5 } }, { sections: ['Risks'] }, judge('j1', 'p1')],
      'Draft',
      {
        text: 'x',
      },
    )
    const use = planTask('use', {
      depends_on: ['p1'],
      run: { task: 'Draft', payload: { name: 'use', of: { $from: 'p1', path: '/artifact_id' } } },
    })
    const { id, state } = await room.run(aPlan(first, use))
    assert.equal(state, 'completed')
    const task = await taskOf(id)
    assert.deepEqual(
      [task.state, task.verifier_score, task.verified_by, task.output_ref?.slice(0, 4), task.error_message],
      ['completed', '0.93', 'auto', 'art_', null],
    )
    assert.deepEqual((await typesOf(id)).slice(2, 9), [
      'task_queued',
      'task_assigned',
      'task_started',
      'task_output_submitted',
      'task_verification_started',
      'task_verification_passed',
      'task_queued',
    ])
    assert.deepEqual(await payloadOf(id, 'task_verification_passed'), {
      score: 0.934,
      verifier_feedback: null,
      output_checksum: task.output_checksum,
    })
    assert.equal((await payloadOf(id, 'task_output_submitted'))?.['output_ref'], task.output_ref)
    assert.deepEqual(seen.find(({ name }) => name === 'j1')?.['of'], { artifact_id: artifactOf(task.output_ref) })
    assert.equal(seen.find(({ name }) => name === 'use')?.['of'], artifactOf(task.output_ref))
    assert.equal((await cardOf(task.id))?.status, 'done')
  })
  const artifactOf = (ref: string | null) =>
    String(ref).replace(/^art_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

  test('[MIS-174] [MIS-179] [MIS-206] [MIS-260] a refused output is a new attempt with the reason, and is verified again', async () => {
    script.set('r1', [{ total: 'x' }, { total: 3 }])
    const schema = { type: 'object', properties: { total: { type: 'integer' } } }
    const { id } = await room.run(aPlan(draft('r1', [{ schema }]), planTask('after', { depends_on: ['r1'] })))
    const waiting = await taskOf(id)
    assert.deepEqual(
      [waiting.state, waiting.verifier_score, waiting.attempt_number, (await cardOf(waiting.id))?.status],
      ['awaiting_retry', '0.00', 1, 'assigned'],
    )
    assert.equal((waiting.due_at?.getTime() ?? 0) - waiting.updated_at.getTime(), 10_000)
    const failed = await payloadOf(id, 'task_verification_failed')
    assert.deepEqual([failed?.['score'], failed?.['retries_remaining']], [0, 3])
    assert.match(JSON.stringify(failed?.['verifier_feedback']), /total: type/)
    assert.equal((await taskOf(id, 1)).state, 'pending')
    await later(id)
    const done = await taskOf(id)
    assert.deepEqual([done.state, done.attempt_number, done.verifier_score], ['completed', 2, null])
    assert.deepEqual(await payloadOf(id, 'task_retrying'), {
      attempt_number: 2,
      backoff_seconds: 10,
      failure_type: 'quality',
    })
    const attempts = (await attemptsOf(id)).filter(({ key }) => key.includes(done.id))
    assert.deepEqual(
      attempts.map(({ key }) => key),
      [`mission:${done.id}:1`, `mission:${done.id}:2`],
    )
    assert.deepEqual([attempts[0]?.metadata['attempt'], attempts[0]?.metadata['feedback']], [1, undefined])
    assert.equal(attempts[1]?.metadata['attempt'], 2)
    assert.match(JSON.stringify(attempts[1]?.metadata['feedback']), /total: type/)
    assert.equal((await room.missionOf(id)).state, 'completed')
  })

  test('[MIS-175] a refused output without a retry left fails its task, with its score, and what depends on it is skipped', async () => {
    script.set('f1', [{ exit_code: 3 }])
    const task = { ...draft('f1', [{ exit_code: 0 }]), max_retries: 1 }
    const { id } = await room.run(aPlan(task, planTask('f2', { depends_on: ['f1'] })))
    await later(id)
    const failed = await taskOf(id)
    assert.deepEqual([failed.state, failed.attempt_number, failed.verifier_score], ['failed', 2, '0.00'])
    assert.ok(failed.completed_at !== null && failed.duration_ms !== null)
    const payload = await payloadOf(id, 'task_failed')
    assert.deepEqual([payload?.['total_attempts'], payload?.['total_cost']], [2, failed.cost])
    assert.match(JSON.stringify(payload?.['reason']), /exit code is not 0/)
    assert.equal((await taskOf(id, 1)).state, 'skipped')
    const run = await room.missionOf(id)
    assert.deepEqual([run.state, run.tasks_failed], ['failed', 1])
    assert.deepEqual(await cardOf(failed.id), { status: 'done', error_message: failed.error_message })
    assert.ok(!(await typesOf(id)).includes('task_crashed'))
  })

  test('[MIS-173] [MIS-176] [MIS-261] [MIS-262] between the thresholds a person decides: approved', async () => {
    script.set('h1j', [{ score: 0.6, feedback: 'It may do.' }])
    const { id } = await room.run(aPlan(draft('h1', [judge('h1j', 'h1')]), planTask('h2', { depends_on: ['h1'] })))
    const task = await taskOf(id)
    assert.deepEqual(
      [task.state, task.verifier_score, (await cardOf(task.id))?.status],
      ['awaiting_human', '0.60', 'review'],
    )
    const asked = await payloadOf(id, 'task_human_review_requested')
    assert.equal(asked?.['score'], 0.6)
    assert.match(JSON.stringify(asked?.['reason']), /It may do/)
    assert.equal((await taskOf(id, 1)).state, 'pending')
    await room.decide(task.review_command_id ?? '', 'approved')
    await room.rest()
    const done = await taskOf(id)
    assert.deepEqual([done.state, done.verified_by, done.error_message], ['completed', 'human', null])
    const approved = await payloadOf(id, 'task_human_approved')
    assert.equal(approved?.['approved_by'], `user:${room.tenant.people.writer.principal.userId}`)
    assert.equal((await room.missionOf(id)).state, 'completed')
  })

  test('[MIS-177] [MIS-178] [MIS-207] a person asks for changes, then rejects for good', async () => {
    const { id } = await room.run(aPlan(draft('c1', [{ person: {} }])))
    const first = await taskOf(id)
    assert.equal(first.state, 'awaiting_human')
    await room.decide(first.review_command_id ?? '', 'request_changes', 'Say more about risks.')
    await room.rest()
    const waiting = await taskOf(id)
    assert.deepEqual([waiting.state, waiting.attempt_number], ['awaiting_retry', 1])
    const person = `user:${room.tenant.people.writer.principal.userId}`
    assert.deepEqual(await payloadOf(id, 'task_human_rejected'), {
      rejected_by: person,
      reason: 'Say more about risks.',
      retries_remaining: 3,
    })
    await later(id)
    const second = await taskOf(id)
    assert.deepEqual([second.state, second.attempt_number], ['awaiting_human', 2])
    assert.equal(
      (await attemptsOf(id)).find(({ key }) => key.endsWith(':2'))?.metadata['feedback'],
      'Say more about risks.',
    )
    await room.decide(second.review_command_id ?? '', 'rejected', 'It is no use.')
    await room.rest()
    const failed = await taskOf(id)
    assert.deepEqual(
      [failed.state, failed.error_message, failed.command_id === null],
      ['failed', 'It is no use.', false],
    )
    assert.deepEqual((await typesOf(id)).slice(-2), ['task_human_rejected', 'task_failed'])
    assert.equal((await room.missionOf(id)).tasks_failed, 1)
  })

  test('[MIS-178] changes that a person asks for after the last retry fail the task', async () => {
    const { id } = await room.run(aPlan({ ...draft('c2', [{ person: {} }]), max_retries: 0 }))
    await room.decide((await taskOf(id)).review_command_id ?? '', 'request_changes', 'Again.')
    await room.rest()
    assert.equal((await taskOf(id)).state, 'failed')
    assert.deepEqual((await typesOf(id)).slice(-2), ['task_human_rejected', 'task_failed'])
  })

  test('a refused output whose effect stands is not repeated: a person gets the list', async () => {
    script.set('pay1', [{ exit_code: 1 }])
    const { id } = await room.run(aPlan(draft('pay1', [{ exit_code: 0 }], 'Pay')))
    await later(id)
    const task = await taskOf(id)
    assert.equal(task.state, 'awaiting_human')
    assert.equal(book.filter((line) => line.startsWith('pay1 ')).length, 1)
    const [asked] = await room.rows<{ payload: { effects: JsonObject[]; reason: string } }>(
      'select payload from concord.commands where command_id = $1',
      [task.review_command_id],
    )
    assert.deepEqual(
      asked?.payload.effects.map(({ effect_type }) => effect_type),
      ['bank.pay'],
    )
    assert.match(asked?.payload.reason ?? '', /bank\.pay/)
    await room.decide(task.review_command_id ?? '', 'approved')
    await room.rest()
    assert.equal((await taskOf(id)).state, 'completed')
    assert.equal(book.filter((line) => line.startsWith('pay1 ')).length, 1)
  })

  test('an output that changes after it was submitted is verified by nobody: a person is asked, and its approval is for the old one', async () => {
    script.set('x1j', [{ score: 0.6 }])
    const { id } = await room.run(aPlan(draft('x1', [judge('x1j', 'x1')]), planTask('x2', { depends_on: ['x1'] })))
    const task = await taskOf(id)
    assert.equal(task.state, 'awaiting_human')
    await room.db.query(`update concord.commands set result = '{"name":"other"}' where command_id = $1`, [
      task.command_id,
    ])
    await room.decide(task.review_command_id ?? '', 'approved')
    await room.rest()
    const failed = await taskOf(id)
    assert.equal(failed.state, 'failed')
    assert.match(failed.error_message ?? '', /The output has changed/)
    assert.equal((await taskOf(id, 1)).state, 'skipped')
  })

  test('a task does not get the result of another that has changed since it was verified', async () => {
    const use = planTask('y2', {
      depends_on: ['y1', 'gate'],
      run: { task: 'Draft', payload: { name: 'y2', of: { $from: 'y1' } } },
    })
    const { id } = await room.run(aPlan(draft('y1', [{ schema: {} }]), draft('gate', [{ person: {} }]), use))
    const [verified, gate] = await room.tasksOf(id)
    assert.equal(verified?.state, 'completed')
    await room.db.query(`update concord.commands set result = '{"name":"other"}' where command_id = $1`, [
      verified?.command_id,
    ])
    await room.decide(gate?.review_command_id ?? '', 'approved')
    await room.rest()
    const last = await taskOf(id, 2)
    assert.equal(last.state, 'failed')
    assert.match(last.error_message ?? '', /changed since it was verified/)
    assert.ok(!seen.some(({ name }) => name === 'y2'))
  })

  test('a verifier that fails or gives no verdict is unsure; a cancelled review cancels its task', async () => {
    room.plays.set('v1', 'fails')
    script.set('v2j', ['fine'])
    const broken = draft('v0', [{ task: 'Step', payload: { name: 'v1' } }])
    const { id } = await room.run(aPlan(broken, draft('v2', [judge('v2j', 'v2')])))
    const [first, second] = await room.tasksOf(id)
    assert.deepEqual([first?.state, second?.state], ['awaiting_human', 'awaiting_human'])
    assert.match(first?.error_message ?? '', /The verifier is failed: .*v1 fails/)
    assert.match(second?.error_message ?? '', /no verdict/)
    const by = byPerson(room.tenant.people.writer.principal, TRACE)
    const workspaceId = room.tenant.workspace.id
    accepted(await cancelCommand(room.world, by, { workspaceId, commandId: first?.review_command_id ?? '' }))
    await room.decide(second?.review_command_id ?? '', 'approved')
    await room.rest()
    assert.deepEqual(await room.statesOf(id), { v0: 'cancelled', v2: 'completed' })
  })

  test('a cancel of the mission ends its verifiers and its reviews', async () => {
    room.plays.set('k1', 'waits')
    const { id, command_id: commandId } = await room.run(
      aPlan(draft('k0', [{ task: 'Step', payload: { name: 'k1' } }]), draft('k2', [{ person: {} }])),
    )
    assert.deepEqual(await room.statesOf(id), { k0: 'verifying', k2: 'awaiting_human' })
    const reviews = (await room.tasksOf(id)).map(({ review_command_id }) => review_command_id)
    const by = byPerson(room.tenant.people.writer.principal, TRACE)
    accepted(await cancelCommand(room.world, by, { workspaceId: room.tenant.workspace.id, commandId }))
    await room.rest()
    assert.deepEqual(await room.statesOf(id), { k0: 'cancelled', k2: 'cancelled' })
    const open = await room.rows('select 1 from concord.commands where command_id = any($1) and completed_at is null', [
      reviews,
    ])
    assert.deepEqual(open, [])
    assert.equal(await room.statusOf(commandId), 'cancelled')
  })

  test('[MIS-205] an attempt that breaks after a refused one is the same command again, and is not verified before it ends', async () => {
    script.set('b1', [{ exit_code: 1 }, { exit_code: 0 }])
    const { id } = await room.run(aPlan(draft('b1', [{ exit_code: 0 }])))
    room.plays.set('b1', 'breaks')
    await later(id)
    const broken = (await taskOf(id)).command_id ?? ''
    for (let runs = 0; runs < 20 && (await taskOf(id)).state !== 'awaiting_retry'; runs++) {
      room.clock.travel(600_000)
      await room.settle(broken)
      await room.rest()
    }
    assert.deepEqual([(await taskOf(id)).state, (await taskOf(id)).attempt_number], ['awaiting_retry', 2])
    room.plays.delete('b1')
    await later(id)
    const task = await taskOf(id)
    assert.deepEqual([task.state, task.attempt_number, task.command_id], ['completed', 3, broken])
    const events = await room.eventsOf(id)
    const payloadsOf = (type: string, field: string) =>
      events.flatMap(({ event_type, payload }) => (event_type === type ? [payload[field]] : []))
    assert.deepEqual(payloadsOf('task_started', 'attempt_number'), [1, 2, 3])
    assert.deepEqual(payloadsOf('task_retrying', 'failure_type'), ['quality', 'infrastructure'])
    assert.equal(payloadsOf('task_verification_failed', 'score').length, 1)
  })
})
