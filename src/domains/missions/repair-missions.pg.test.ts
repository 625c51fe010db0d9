/** Cards and counters that do not agree with their rows, and their repair. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { missionInvariants } from './mission-invariants.ts'
import { repairMissions } from './repair-missions.ts'

describe('the repair of missions', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const asOwner = (text: string, values: unknown[] = []) =>
    room.db.transaction(async (tx) => {
      await tx.query('set local role none')
      await tx.query(text, values)
    })
  const repair = () => repairMissions({ commands: room.world })
  const broken = async () => {
    const found = await Promise.all(
      missionInvariants.map(async ({ code, sql }) => ((await room.rows(sql)).length > 0 ? [code] : [])),
    )
    return found.flat()
  }
  const cardsOf = (id: string) =>
    room.rows<{ title: string; status: string; planning_data: Record<string, unknown> }>(
      `select b.title, b.status, b.result, b.tags, b.priority, b.planning_data, b.parent_task_id is null as top from missions.board_tasks b
       where b.source_id = $1 or b.source_id in (select t.id::text from missions.orchestration_tasks t where t.run_id = $1::uuid) order by b.title`,
      [id],
    )

  test('[MIS-200] a card that cannot be written stops no task, and is right after the repair', async () => {
    room.plays.set('s1', 'waits')
    const { id } = await room.run(aPlan(planTask('s1'), planTask('s2', { depends_on: ['s1'] })))
    await asOwner(
      `create function missions.refuse_card() returns trigger language plpgsql as $$ begin raise exception 'no board'; end $$`,
    )
    await asOwner(
      'create trigger refuse before update on missions.board_tasks for each row execute function missions.refuse_card()',
    )
    const [s1] = await room.tasksOf(id)
    await room.decide(s1?.command_id ?? '', 'approved')
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'completed')
    assert.deepEqual(
      (await cardsOf(id)).map(({ status }) => status),
      ['in_progress', 'in_progress', 'inbox'],
    )
    assert.deepEqual(await broken(), ['M07'])
    assert.deepEqual(await repair(), { repaired: 0, failed: 1 })
    await asOwner('drop trigger refuse on missions.board_tasks')
    assert.deepEqual(await repair(), { repaired: 1, failed: 0 })
    assert.deepEqual(
      (await cardsOf(id)).map(({ status }) => status),
      ['done', 'done', 'done'],
    )
    assert.deepEqual(await broken(), [])
    assert.deepEqual(await repair(), { repaired: 0, failed: 0 })
  })

  test('deleted cards are made again, and fields of people are kept', async () => {
    room.plays.set('k1', 'fails')
    const { id } = await room.run(aPlan(planTask('k1'), planTask('k2', { depends_on: ['k1'] }), planTask('k3')))
    const before_ = await cardsOf(id)
    await asOwner(`delete from missions.board_tasks where source_id = $1 or title in ('k1', 'k2')`, [id])
    await asOwner(
      `update missions.board_tasks set title = 'k3 of mine', priority = 'urgent', status = 'inbox' where title = 'k3'`,
    )
    assert.deepEqual(await broken(), ['M07'])
    // Two at once do the same as one.
    await Promise.all([repair(), repair()])
    assert.deepEqual(
      await cardsOf(id),
      before_.map((card) => (card.title === 'k3' ? { ...card, title: 'k3 of mine', priority: 'urgent' } : card)),
    )
    assert.deepEqual(await broken(), [])
  })

  test('[MIS-196] a damaged counter or sum is corrected from the tasks', async () => {
    const { id } = await room.run(aPlan(planTask('c1'), planTask('c2')))
    const whole = await room.missionOf(id)
    await room.db.query(
      'update missions.orchestration_runs set task_count = 7, tasks_completed = 0, tasks_failed = 3, total_cost = 5, total_tokens = 9 where id = $1',
      [id],
    )
    assert.deepEqual(await broken(), ['M01', 'M07'])
    assert.deepEqual(await repair(), { repaired: 1, failed: 0 })
    assert.deepEqual(await room.missionOf(id), { ...whole, version_id: whole.version_id + 1 })
    assert.deepEqual(await broken(), [])
  })
})
