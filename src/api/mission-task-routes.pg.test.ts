/** What people do with tasks of missions over HTTP: cancel, another attempt at once, and why a task stands where it stands. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeId, encodeId } from '#kernel/ids'
import { missionTaskMachine } from '#kernel/machines/mission'
import { type Body, useMissionApi } from '#test/mission-api'
import { aPlan, planTask } from '#test/missions'
import { aPerson } from '#test/tenant'

describe('actions on tasks of missions over HTTP', () => {
  const http = useMissionApi()
  const { ask } = http
  /** A mission whose first task waits for a person, with one task of each rule behind it. */
  const start = async () => {
    http.room.plays.set('held', 'waits')
    const { id } = await http.room.run(
      aPlan(
        planTask('held'),
        planTask('behind', { depends_on: ['held'] }),
        planTask('after', { depends_on: ['held'], trigger_rule: 'all_done' }),
      ),
    )
    return id
  }
  const pathOf = async (id: string, tempId: string) => {
    const task = (await http.room.tasksOf(id)).find(({ spec }) => spec.temp_id === tempId)
    return `/missions/${encodeId('mission', id)}/tasks/${encodeId('mission_task', task?.id ?? '')}`
  }
  const put = async (id: string, tempId: string, state: keyof typeof missionTaskMachine.states) => {
    const type = missionTaskMachine.states[state]
    await http.room.db.query(
      `update missions.orchestration_tasks set state = $3, state_type = $4::text, completed_at = case when $4::text = 'terminal' then now() end,
         duration_ms = case when $4::text = 'terminal' then 0 end where run_id = $1 and spec->>'temp_id' = $2`,
      [id, tempId, state, type],
    )
  }

  test('[MIS-182] a person cancels a task in each of its eight open states: its command ends, and the rules behind it decide', async () => {
    const by = `user:${http.api.ours.people.writer.principal.userId}`
    const open = Object.entries(missionTaskMachine.states).flatMap(([state, type]) =>
      type === 'terminal' ? [] : [state as keyof typeof missionTaskMachine.states],
    )
    assert.equal(open.length, 8)
    for (const state of open) {
      const id = await start()
      const path = await pathOf(id, 'held')
      await put(id, 'held', state)
      const cancelled = await ask('POST', `${path}/cancel`, { reason: 'Not needed.' })
      assert.deepEqual(
        [cancelled.status, cancelled.body['state'], cancelled.body['error']],
        [200, 'cancelled', 'Not needed.'],
      )
      assert.ok(cancelled.body['completed_at'])
      const [task] = await http.room.tasksOf(id)
      assert.equal(await http.room.statusOf(task?.command_id ?? ''), 'cancelled', state)
      assert.deepEqual(await http.room.statesOf(id), { held: 'cancelled', behind: 'skipped', after: 'queued' })
      const [event] = (await http.room.eventsOf(id)).filter(({ event_type }) => event_type === 'task_cancelled')
      assert.deepEqual([event?.payload, event?.actor_type], [{ cancelled_by: by }, 'human'])
      await http.room.rest()
      assert.deepEqual(await http.room.statesOf(id), { held: 'cancelled', behind: 'skipped', after: 'completed' })
      assert.equal((await http.room.missionOf(id)).state, 'failed')
      const again = await ask('POST', `${path}/cancel`, {})
      assert.deepEqual([again.status, again.body['code']], [409, 'missions.task.wrong_state'])
      const facts = again.body['facts'] as Body
      assert.deepEqual(
        [facts['from'], facts['to'], (facts['task'] as Body)['state']],
        ['cancelled', 'cancelled', 'cancelled'],
      )
    }
  })

  test('[MIS-182] a person cancels a task whose attempt has ended, and which waits for a person or another attempt', async () => {
    http.room.plays.set('broken', 'breaks')
    const { id } = await http.room.run(aPlan(planTask('broken'), planTask('judged', { verify: [{ worker: true }] })))
    const [{ command_id } = { command_id: null }] = await http.room.tasksOf(id)
    while ((await http.room.statusOf(command_id ?? '')) !== 'failed') {
      http.api.world.travel(600_000)
      await http.room.settle(command_id ?? '')
    }
    await http.room.rest()
    assert.deepEqual(await http.room.statesOf(id), { broken: 'awaiting_retry', judged: 'awaiting_human' })
    // A person runs the command again, and no turn has seen its end.
    http.room.plays.delete('broken')
    await ask('POST', `/commands/${encodeId('command', command_id ?? '')}/retry`, {})
    await http.room.settle(command_id ?? '')
    assert.equal(await http.room.statusOf(command_id ?? ''), 'succeeded')
    for (const name of ['broken', 'judged']) {
      const cancelled = await ask('POST', `${await pathOf(id, name)}/cancel`, {})
      assert.deepEqual([cancelled.status, cancelled.body['state']], [200, 'cancelled'], name)
    }
    await http.room.rest()
    assert.equal((await http.room.missionOf(id)).state, 'failed')
    const { body } = await ask('GET', `/missions/${encodeId('mission', id)}`)
    assert.deepEqual(
      (body['next'] as Body[]).map((step) => step['do']),
      ['fork'],
    )
  })

  test('an attempt that has ended is not cancelled: its result counts', async () => {
    const id = await start()
    const [task] = await http.room.tasksOf(id)
    await http.room.decide(task?.command_id ?? '', 'approved')
    assert.equal(await http.room.statusOf(task?.command_id ?? ''), 'succeeded')
    const late = await ask('POST', `${await pathOf(id, 'held')}/cancel`, {})
    assert.deepEqual([late.status, late.body['code']], [409, 'missions.task.wrong_state'])
    await http.room.rest()
    assert.equal((await http.room.missionOf(id)).state, 'completed')
  })

  test('a task that waits for another attempt begins it at once when a person asks; every other state is 409 with the fresh row', async () => {
    http.room.plays.set('flaky', 'breaks')
    const { id } = await http.room.run(aPlan(planTask('flaky')))
    const [{ command_id } = { command_id: null }] = await http.room.tasksOf(id)
    while ((await http.room.statusOf(command_id ?? '')) !== 'failed') {
      http.api.world.travel(600_000)
      await http.room.settle(command_id ?? '')
    }
    await http.room.rest()
    assert.deepEqual(await http.room.statesOf(id), { flaky: 'awaiting_retry' })
    http.room.plays.delete('flaky')
    const path = await pathOf(id, 'flaky')
    assert.match(String((await ask('GET', `${path}/why`)).body['summary']), /^Attempt 1 failed: .* due at /)
    assert.equal((await ask('POST', `${path}/retry`, {})).status, 200)
    await http.room.rest()
    await http.room.settle(command_id ?? '')
    await http.room.rest()
    assert.deepEqual(
      [(await http.room.missionOf(id)).state, (await http.room.tasksOf(id))[0]?.attempt_number],
      ['completed', 2],
    )
    for (const state of Object.keys(missionTaskMachine.states) as (keyof typeof missionTaskMachine.states)[]) {
      if (state === 'awaiting_retry') continue
      await put(id, 'flaky', state)
      const refused = await ask('POST', `${path}/retry`, {})
      assert.deepEqual([refused.status, refused.body['code']], [409, 'missions.task.wrong_state'], state)
      assert.deepEqual(((refused.body['facts'] as Body)['task'] as Body)['state'], state)
    }
  })

  test('why says what a task waits for and who is asked, and the command of the mission says it too', async () => {
    const id = await start()
    const why = async (tempId: string) => String((await ask('GET', `${await pathOf(id, tempId)}/why`)).body['summary'])
    assert.match(
      await why('held'),
      /^Attempt 1 runs as cmd_\w+, which is waiting for approval\. role:owner is asked with appr_\w+\.$/,
    )
    assert.match(await why('behind'), /waits for .*held.*\(active\) \(all_success/)
    const { command_id } = await http.room.missionOf(id)
    const explained = await ask('GET', `/commands/${encodeId('command', command_id)}/explanation`)
    assert.match(
      String(explained.body['summary']),
      /Its mission mission_\w+ is running\. role:owner is asked about "held" with appr_/,
    )
    await ask('POST', `${await pathOf(id, 'held')}/cancel`, { reason: 'Not needed.' })
    assert.equal(await why('held'), 'It is cancelled: Not needed.')
    assert.match(
      await why('behind'),
      /was skipped because of .*held.*\(cancelled\).* "held" is cancelled: Not needed\.$/,
    )
    const gated = await http.room.create(aPlan(planTask('one')))
    await http.room.settle(gated.command_id)
    await http.room.rest()
    const waiting = await ask('GET', `/commands/${encodeId('command', gated.command_id)}/explanation`)
    assert.match(String(waiting.body['summary']), /is awaiting approval\. user_\w+ is asked about its plan with appr_/)
  })

  test('[MIS-321] [MIS-369] tasks of another workspace look like missing ones, and colleagues and readers may not act', async () => {
    const id = await start()
    const path = await pathOf(id, 'held')
    const before_ = [await http.room.tasksOf(id), await http.room.eventsOf(id)]
    const { key } = http.api.theirs.people.admin
    const absent = `/missions/${encodeId('mission', '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161')}/tasks/${path.split('/').at(-1)}`
    for (const [method, verb] of [
      ['POST', 'cancel'],
      ['POST', 'retry'],
      ['GET', 'why'],
    ] as const) {
      const body = method === 'GET' ? undefined : {}
      const [foreign, missing] = await Promise.all(
        [path, absent].map(async (at) => {
          const { status, body: found } = await ask(method, `${at}/${verb}`, body, key)
          return [status, found['code']]
        }),
      )
      assert.deepEqual(
        [foreign, missing],
        [
          [404, 'missions.mission.not_found'],
          [404, 'missions.mission.not_found'],
        ],
      )
      const noTask = await ask(method, `${path.replace(/task_\w+$/, encodeId('mission_task', id))}/${verb}`, body)
      assert.deepEqual([noTask.status, noTask.body['code']], [404, 'missions.task.not_found'])
    }
    const colleague = await aPerson(http.api.world, http.api.ours, 'writer')
    for (const verb of ['cancel', 'retry'])
      for (const who of [colleague.key, http.api.ours.people.reader.key])
        assert.equal((await ask('POST', `${path}/${verb}`, {}, who)).status, 403, verb)
    assert.deepEqual([await http.room.tasksOf(id), await http.room.eventsOf(id)], before_)
    assert.ok(decodeId('mission_task', path.split('/').at(-1) ?? '').ok)
  })
})
