/** Many missions at once: a turn of a mission costs what its own tasks cost, however many other missions are open. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { proofSize } from '#test/proof-size'
import { missionInvariants } from './mission-invariants.ts'

/** `npm run test:chaos -- --property-runs=20 src/domains/missions/load.chaos.test.ts` runs the whole design load of 500. */
const missions = proofSize(3, 25)
const TASKS = 50
/** 500 missions are 25,000 commands. */
const PATIENT_MS = 3_600_000
/** Turns that others cause, such as the due time of a neighbour, are no cost of a mission. */
const NOISE = 1.1

describe('the load of missions', () => {
  let room: MissionRoom
  let accesses = 0
  before(async () => {
    room = await openMissionRoom({
      dies: () => {
        accesses += 1
        return false
      },
    })
  })
  after(() => room.close())

  /** Rows of ten tasks, each of which waits for the one above it. */
  const plan = (tasks: number) =>
    aPlan(
      ...Array.from({ length: tasks }, (_, at) => planTask(`t${at}`, at < 10 ? {} : { depends_on: [`t${at - 10}`] })),
    )
  /** How often the turns of the missions went to the database, for each of them. */
  const costOf = async (count: number, tasks: number) => {
    accesses = 0
    const ids: string[] = []
    for (let nth = 0; nth < count; nth++) {
      const { id, command_id } = await room.create(plan(tasks), { autonomy: 'full_auto' })
      await room.settle(command_id)
      ids.push(id)
    }
    // A turn of each in between, so that all of them are open at the same time.
    for (;;) {
      if (!(await room.step())) break
    }
    for (const id of ids) {
      const { state, tasks_completed } = await room.missionOf(id)
      assert.deepEqual([state, tasks_completed], ['completed', tasks])
    }
    return accesses / count
  }

  test(`[MIS-010] ${missions} missions of ${TASKS} tasks at once end, and the turns of each cost no more than those of one alone`, {
    timeout: PATIENT_MS,
  }, async (t) => {
    const [small, alone] = [await costOf(1, 10), await costOf(1, TASKS)]
    const together = await costOf(missions, TASKS)
    t.diagnostic(JSON.stringify({ missions, tasks: missions * TASKS, small, alone, together }))
    assert.ok(together <= alone * NOISE, `${together} instead of ${alone}`)
    assert.ok(alone <= small * (TASKS / 10), `${TASKS} tasks cost ${alone}, 10 tasks ${small}`)
    for (const { code, sql } of missionInvariants) assert.deepEqual(await room.rows(sql), [], code)
  })
})
