/** Old events of missions move into the archive table by batches, and every read of a mission stays as it was. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDb } from '#store'
import { openTestDb } from '#test/database'
import { aPlan, openMissionRoom, planTask } from '#test/missions'
import { accepted, aTenant, aWorld } from '#test/tenant'
import { archiveMissionEvents } from './archive-events.ts'
import { missionInvariants } from './mission-invariants.ts'
import { readMissionEvents } from './read-mission.ts'

const DAY_MS = 86_400_000

test('[MIS-274] [MIS-282] [MIS-283] events older than the age move in batches, a stop leaves none behind, and the timeline is the same', async (t) => {
  const opened = await openTestDb({ role: 'concord_engine' })
  const clock = aWorld(opened.db)
  const room = await openMissionRoom({ on: { clock, tenant: await aTenant(clock) } })
  const owner = openDb({ url: opened.url, applicationName: 'owner', poolMax: 1 })
  t.after(async () => {
    await owner.close()
    await room.close()
    await opened.close()
  })
  const old = await room.run(aPlan(planTask('o1'), planTask('o2', { depends_on: ['o1'] })))
  room.clock.travel(100 * DAY_MS)
  room.plays.set('w1', 'waits')
  const warm = await room.run(aPlan(planTask('n1')))
  const open = await room.run(aPlan(planTask('w1')))
  room.clock.travel(81 * DAY_MS)

  const counts = async () => {
    const [row] = await room.rows<{ live: number; archived: number }>(
      `select (select count(*)::int from missions.orchestration_events) as live, (select count(*)::int from missions.orchestration_events_archive) as archived`,
    )
    return row ?? { live: 0, archived: 0 }
  }
  const timeline = async (id: string, limit = 1_000) => {
    const events = accepted(await readMissionEvents(room.db, old.workspace_id, id, { after: '0', limit }))
    return events.map(({ id: event, event_type, payload, task_title }) => [event, event_type, payload, task_title])
  }
  const before = await counts()
  const told = await timeline(old.id)
  const first = await timeline(old.id, 4)
  const ids = told.map(([event]) => Number(event))
  assert.deepEqual(
    ids,
    ids.toSorted((a, b) => a - b),
  )
  assert.deepEqual(new Set(told.map(([, , , title]) => title)), new Set([null, 'o1', 'o2']))
  // An age that no mission has: nothing moves.
  assert.equal(await archiveMissionEvents(owner, { endedBefore: new Date(clock.now().getTime() - 200 * DAY_MS) }), 0)

  const endedBefore = new Date(clock.now().getTime() - 180 * DAY_MS)
  const stop = new AbortController()
  const stopping = new Proxy(owner, {
    get(target, name, self): unknown {
      if (name === 'transaction') stop.abort()
      return Reflect.get(target, name, self)
    },
  })
  assert.equal(await archiveMissionEvents(stopping, { endedBefore, signal: stop.signal, batch: 3 }), 3)
  assert.deepEqual(await counts(), { live: before.live - 3, archived: 3 })
  assert.deepEqual([await timeline(old.id), await timeline(old.id, 4)], [told, first])

  assert.equal(await archiveMissionEvents(owner, { endedBefore, batch: 5 }), told.length - 3)
  assert.deepEqual(await counts(), { live: before.live - told.length, archived: told.length })
  assert.deepEqual([await timeline(old.id), await timeline(old.id, 4)], [told, first])
  for (const { id } of [warm, open]) assert.ok((await timeline(id)).length > 5)
  assert.deepEqual(await room.rows('select distinct run_id from missions.orchestration_events_archive'), [
    { run_id: old.id },
  ])
  const starts = missionInvariants.find(({ code }) => code === 'M04')
  assert.deepEqual(await room.rows(starts?.sql ?? ''), [])
  await assert.rejects(archiveMissionEvents(room.db, { endedBefore: clock.now() }), { code: '42501' })
})
