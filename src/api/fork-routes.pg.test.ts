/** Forks over HTTP: what is carried, what runs again, and which effects stand in the way. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { allow, defineCommand, defineEffect } from '#domains/commands'
import { missionInvariants } from '#domains/missions'
import { call, openTestApi, type TestApi } from '#test/api'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { proofSize } from '#test/proof-size'
import { z } from 'zod'
import type { Api } from './api.ts'

type Body = Record<string, unknown>

const letter = z.object({ to: z.string() })
const post = defineEffect('fork.test_post', {
  input: letter,
  class: 'keyed',
  do: async ({ input }) => ({ to: input.to }),
  undo: async () => {},
})
/** A thing that is done once: the key of its contract is made from the payload. */
const posting = defineCommand('fork_test_post', {
  input: letter,
  key: 'fork_test_post:{to}',
  policy: () => allow(),
  steps: (input) => [post(input)],
  uses: [post],
  task: { name: 'Post' },
})

describe('forks over HTTP', () => {
  let api: TestApi
  let room: MissionRoom
  let app: Api
  before(async () => {
    api = await openTestApi()
    room = await openMissionRoom({ on: { clock: api.world, tenant: api.ours }, defines: posting.definitions })
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const uuidOf = (id: unknown) => String(id).replace(/^.*_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  const fork = async (id: string, body: Body, key = api.ours.people.writer.key) => {
    const headers = { 'x-workspace': 'main' }
    const at = `/missions/mission_${id.replaceAll('-', '')}/fork`
    const answer = await call(app, at, { method: 'POST', key, headers, body })
    return { status: answer.status, body: (await answer.json()) as Body }
  }
  const finish = async (made: Body) => {
    await room.settle(uuidOf(made['command_id']))
    await room.rest()
    return room.missionOf(uuidOf(made['mission_id']))
  }
  const config = { autonomy: 'full_auto' }
  const notes = planTask('notes')
  const send = planTask('send', {
    depends_on: ['notes'],
    run: { task: 'Step', payload: { name: 'send', from: { $from: 'notes', path: '/name' } } },
  })

  test('a fork carries what it does not touch, and does nothing twice that is not named', async () => {
    room.plays.set('send', 'fails')
    const origin = await room.run(aPlan(notes, send, planTask('other')))
    assert.equal(origin.state, 'failed')
    room.plays.clear()
    room.calls.length = 0
    // A family has one open run, also if two ask at the same time.
    const asked = await Promise.all([1, 2].map(() => fork(origin.id, { from: 'send', config })))
    const [made, early] = asked.toSorted((a, b) => a.status - b.status)
    assert.ok(made && early)
    assert.equal(made.status, 201, JSON.stringify(made.body))
    assert.deepEqual([early.status, early.body['code']], [409, 'missions.fork.open'])
    const run = await finish(made.body)
    assert.deepEqual([run.state, run.forked_from_id, run.tasks_completed], ['completed', origin.id, 3])
    assert.deepEqual(room.calls, ['send'])
    const [carried, again] = await room.tasksOf(run.id)
    const [from] = await room.tasksOf(origin.id)
    assert.deepEqual(
      [carried?.carried_from_id, carried?.output_summary, carried?.cost, again?.carried_from_id],
      [from?.id, from?.output_summary, '0.000000', null],
    )
    assert.equal(again?.output_summary, '{"from":"notes","name":"send"}')
    const created = (await room.eventsOf(run.id)).filter(({ event_type }) => event_type === 'task_created')
    assert.equal(created[0]?.payload['carried_from'], from?.id)

    // The effect of the fork stands, whichever mission of the family is forked.
    for (const id of [origin.id, run.id]) {
      const refused = await fork(id, { from: 'send', config })
      assert.deepEqual([refused.status, refused.body['code']], [409, 'missions.fork.effects_stand'])
      const { effects } = refused.body['facts'] as { effects: Body[] }
      assert.deepEqual(
        effects.map(({ task, effect_type }) => [task, effect_type]),
        [['send', 'mission.test_step']],
      )
    }
    const named = await fork(run.id, { from: 'send', refire: ['send'], config })
    assert.equal((await finish(named.body)).state, 'completed')
    assert.deepEqual(room.calls, ['send', 'send'])
    for (const { code, sql } of missionInvariants) assert.deepEqual(await room.rows(sql), [], code)
  })

  test('an effect of any attempt of a mission below stands in the way of a fork', async () => {
    const deep = planTask('deep', { verify: [{ person: {} }] })
    const payload = { goal: 'Below', plan: aPlan(deep) as never, config }
    const inner = planTask('inner', { run: { task: 'Run Mission', payload } })
    const origin = await room.run(aPlan(inner, planTask('plain')))
    const [{ command_id } = { command_id: null }] = await room.tasksOf(origin.id)
    const [below] = await room.rows<{ id: string }>(
      'select id from missions.orchestration_runs where command_id = $1',
      [command_id],
    )
    const taskBelow = async () => {
      const [task] = await room.tasksOf(below?.id ?? '')
      assert.ok(task)
      return task
    }
    const first = await taskBelow()
    room.plays.set('deep', 'fails')
    await room.decide(first.review_command_id ?? '', 'request_changes')
    await room.rest()
    room.clock.travel(600_000)
    room.others.push({ kind: 'mission', id: below?.id ?? '' })
    await room.rest()
    const last = await taskBelow()
    assert.deepEqual([last.state, last.attempt_number], ['failed', 2])
    assert.notEqual(last.command_id, first.command_id)
    assert.equal((await room.missionOf(origin.id)).state, 'failed')
    room.plays.clear()
    const refused = await fork(origin.id, { from: 'inner', config })
    assert.deepEqual([refused.status, refused.body['code']], [409, 'missions.fork.effects_stand'])
    const { effects } = refused.body['facts'] as { effects: Body[] }
    assert.deepEqual(
      effects.map(({ task, effect_type }) => [task, effect_type]),
      [['inner', 'mission.test_step']],
    )
    assert.equal((await fork(origin.id, { from: 'inner', refire: ['inner'], config })).status, 201)
  })

  test('a thing that its contract allows once is refused at the fork and by the pre-flight, until it is undone', async () => {
    const posted = planTask('posted', {
      depends_on: ['notes'],
      run: { task: 'Post', payload: { to: { $from: 'notes', path: '/name' } } },
    })
    const origin = await room.run(aPlan(notes, posted))
    assert.equal(origin.state, 'completed')
    const [, task] = await room.tasksOf(origin.id)
    const command_id = `cmd_${task?.command_id?.replaceAll('-', '')}`
    for (const refire of [[], ['posted']]) {
      const { status, body } = await fork(origin.id, { from: 'posted', refire, config })
      assert.deepEqual([status, body['code']], [409, 'missions.fork.effects_stand'])
      assert.ok(String(body['hint']).includes(`concord undo ${command_id}`), String(body['hint']))
      assert.deepEqual((body['facts'] as Body)['commands'], [{ task: 'posted', command_id }])
    }
    const post_ = async (at: string, body: Body) => {
      const headers = { 'x-workspace': 'main' }
      const answer = await call(app, at, { method: 'POST', key: api.ours.people.writer.key, headers, body })
      return (await answer.json()) as Body
    }
    const plan = aPlan(planTask('fixed', { run: { task: 'Post', payload: { to: 'notes' } } }))
    const before = await post_('/missions/preflight', { plan })
    assert.equal(before['is_ready'], false)
    const [missing] = before['missing'] as Body[]
    assert.deepEqual([missing?.['kind'], missing?.['name'], missing?.['tasks']], ['task', 'Post', ['fixed']])
    assert.ok(String(missing?.['reason']).startsWith(command_id))

    const undo = await post_(`/commands/${command_id}/undo`, {})
    await room.settle(uuidOf(undo['command_id']))
    await room.decide(uuidOf(undo['command_id']), 'approved')
    assert.equal((await post_('/missions/preflight', { plan }))['is_ready'], true)
    const made = await fork(origin.id, { from: 'posted', config })
    const run = await finish(made.body)
    assert.equal(run.state, 'completed', run.error_message ?? '')
  })

  test('whatever is forked, nothing succeeds twice that no request named', async () => {
    let seed = 7
    // The generator of Lehmer: the same rounds in every run.
    const below = (most: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % most
    }
    for (let round = 0; round < proofSize(2, 6); round++) {
      const names = Array.from({ length: 5 }, (_, index) => `r${round}-${index}`)
      const plan = aPlan(
        ...names.map((name, index) =>
          planTask(name, { depends_on: names.slice(0, index).filter(() => below(3) === 0) }),
        ),
      )
      const breakSome = () => {
        room.plays.clear()
        for (const name of names) if (below(3) === 0) room.plays.set(name, 'fails')
      }
      const named: string[] = []
      const succeeded: string[] = []
      const note = () => {
        succeeded.push(...room.calls.filter((name) => room.plays.get(name) !== 'fails'))
        room.calls.length = 0
      }
      breakSome()
      room.calls.length = 0
      let { id } = await room.run(plan)
      note()
      for (let forks = 0; forks < 2; forks++) {
        breakSome()
        const from = names[below(names.length)] ?? ''
        const first = await fork(id, { from, config })
        const effects = (first.body['facts'] as { effects?: { task: string }[] } | undefined)?.effects ?? []
        const refire = [...new Set(effects.map(({ task }) => task))]
        const made = first.status === 201 ? first : await fork(id, { from, refire, config })
        assert.equal(made.status, 201, JSON.stringify(made.body))
        named.push(...refire)
        id = (await finish(made.body)).id
        note()
      }
      const count = (list: readonly string[], name: string) => list.filter((each) => each === name).length
      for (const name of names) assert.ok(count(succeeded, name) <= 1 + count(named, name), `${name} of round ${round}`)
    }
    room.plays.clear()
  })

  test('another plan runs what it changes and what is behind it; bad requests are refused', async () => {
    const origin = await room.run(aPlan(notes, send))
    room.calls.length = 0
    const changed = aPlan(notes, send, planTask('log', { depends_on: ['notes'] }))
    const made = await fork(origin.id, { from: 'log', plan: changed, config })
    assert.equal((await finish(made.body)).state, 'completed')
    assert.deepEqual(room.calls, ['log'])
    const later = aPlan(planTask('notes', { title: 'Other notes' }), send)
    const stands = await fork(origin.id, { from: 'send', plan: later, config })
    assert.deepEqual(
      new Set((stands.body['facts'] as { effects: Body[] }).effects.map(({ task }) => task)),
      new Set(['notes', 'send']),
    )
    const unknown = await fork(origin.id, { from: 'snd' })
    assert.deepEqual([unknown.status, unknown.body['code']], [422, 'missions.fork.unknown_task'])
    assert.match(String(unknown.body['detail']), /Did you mean "send"/)
    assert.equal((await fork(origin.id, { from: 'send', refire: ['notes'] })).body['path'], 'refire')
    assert.equal((await fork(origin.id, { from: 'send' }, api.theirs.people.admin.key)).status, 404)
    assert.equal((await fork(origin.id, { from: 'send' }, api.ours.people.reader.key)).status, 403)
  })

  test('a fork does not use a carried output that has changed since it was verified', async () => {
    room.plays.set('send', 'fails')
    const origin = await room.run(aPlan(notes, send))
    room.plays.clear()
    room.calls.length = 0
    const [carried] = await room.tasksOf(origin.id)
    const other = `update concord.commands set result = '{"name":"other"}' where command_id = $1`
    await room.db.query(other, [carried?.command_id])
    const made = await fork(origin.id, { from: 'send', config })
    const run = await finish(made.body)
    assert.equal(run.state, 'failed')
    assert.match(run.error_message ?? '', /changed since it was verified/)
    assert.deepEqual(room.calls, [])
  })

  test('outcomes count what ended by agent, model and type, without what a fork carried over', async () => {
    const typed = (id: string) => planTask(id, { task_type: 'coding', suggested_model: 'small' })
    room.plays.set('third', 'fails')
    const origin = await room.run(aPlan(typed('first'), typed('second'), typed('third')))
    room.plays.clear()
    await finish((await fork(origin.id, { from: 'third', config })).body)
    const read = async (query: string) => {
      const headers = { 'x-workspace': 'main' }
      const answer = await call(app, `/missions/outcomes${query}`, { key: api.ours.people.reader.key, headers })
      return { status: answer.status, items: ((await answer.json()) as { items: Body[] }).items }
    }
    const { items } = await read('?task_type=coding')
    assert.equal(items.length, 1)
    const { agent, model, task_type, ended, completed, success, success_at_least: least } = items[0] ?? {}
    assert.deepEqual([agent, model, task_type, ended, completed, success], ['Step', 'small', 'coding', 4, 3, 0.75])
    assert.equal(Number(least).toFixed(4), '0.3006')
    assert.ok((await read('')).items.length > 1)
    assert.equal((await read('?task_type=codng')).status, 422)
  })
})
