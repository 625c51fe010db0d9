/** Hooks: what is checked with the request, hooks that end at once or cannot be submitted, and the labels that they take. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { MISSION_KIND } from './deps.ts'
import { listBrokenHooks } from './auxiliary-rows.ts'

describe('hooks of attempts', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const echo = (subject: unknown) => ({ task: 'Echo', payload: { subject } })
  const attempt = (path: string) => ({ $from: 'attempt', path })

  test('a reference of a hook that leads nowhere is refused with the request', async () => {
    const wrong: readonly (readonly [unknown, RegExp])[] = [
      [{ $from: 'attemp', path: '/title' }, /attemp/],
      [attempt('/titel'), /Did you mean "\/title"/],
      [attempt('/title/x'), /title/],
      [attempt('title'), /begins with a slash/],
    ]
    for (const [subject, says] of wrong)
      for (const name of ['before_run', 'after_run']) {
        const asked = room.create(aPlan(planTask('x')), { hooks: { [name]: echo(subject) } } as never)
        await assert.rejects(asked, (error: Error) => {
          assert.match(error.message, /missions\.config\.invalid/)
          assert.match(error.message, says)
          return true
        })
      }
    const { state } = await room.run(aPlan(planTask('x')), { hooks: { after_run: echo(attempt('/title')) } } as never)
    assert.equal(state, 'completed')
  })

  test('[MIS-015] every attempt has its hook, also if more end at once than one step submits', async () => {
    const tasks = Array.from({ length: 40 }, (_, n) => planTask(`h${n}`))
    const { id, state } = await room.run(aPlan(...tasks), { hooks: { after_run: echo('x') } } as never)
    const hooks = await room.rows(
      `select from missions.orchestration_auxiliaries as x join concord.commands as c on c.command_id = x.command_id
where x.run_id = $1 and x.kind = 'after_run' and c.status = 'succeeded'`,
      [id],
    )
    assert.deepEqual([state, hooks.length], ['completed', 40])
  })

  test('[MIS-015] a hook that cannot be submitted is recorded once, and changes nothing', async () => {
    const names = ['r0', 'r1', 'r2']
    for (const name of names) room.plays.set(name, 'waits')
    const hooks = { after_run: echo(attempt('/title')) }
    const { id } = await room.run(aPlan(...names.map((name) => planTask(name))), { hooks } as never)
    // As if the catalog had changed since the request.
    await room.rows(
      `update missions.orchestration_runs set config = jsonb_set(config, '{hooks,after_run,task}', '"Gone"') where id = $1`,
      [id],
    )
    for (const { command_id } of await room.tasksOf(id)) {
      await room.decide(command_id ?? '', 'approved')
      room.others.push({ kind: MISSION_KIND, id })
      await room.rest()
    }
    assert.equal((await room.missionOf(id)).state, 'completed')
    const refused = (await listBrokenHooks(room.db, id)).map(({ name, attempt: of, status }) => [name, of, status])
    assert.deepEqual(
      refused,
      names.map(() => ['after_run', 1, 'refused']),
    )
  })

  test('a hook has the labels of the attempt that it gets', async () => {
    room.plays.set('reads', 'waits')
    const hooks = { after_run: echo(attempt('/title')) }
    const { id } = await room.run(aPlan(planTask('reads')), { hooks } as never)
    const [task] = await room.tasksOf(id)
    const text = `update concord.commands set labels = '["untrusted_content"]' where command_id = $1`
    await room.rows(text, [task?.command_id])
    await room.decide(task?.command_id ?? '', 'approved')
    await room.rest()
    const [hook] = await room.rows<{ labels: unknown }>(
      `select labels from concord.commands where idempotency_key = $1`,
      [`mission:${task?.id}:1:after_run`],
    )
    assert.match(JSON.stringify(hook?.labels), /untrusted_content/)
  })
})
