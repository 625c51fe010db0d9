/** Random missions end as a naive model says, also when the process dies in the middle of turns. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { findBrokenInvariants } from '#domains/commands'
import { triggerRules } from '#kernel/dag/readiness'
import { endsOf, missionEndOf } from '#test/mission-model'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { proofSize } from '#test/proof-size'
import { missionInvariants } from './mission-invariants.ts'
import fc from 'fast-check'

/** For each earlier task whether this one depends on it. */
const edges = fc.array(fc.boolean(), { minLength: 7, maxLength: 7 })
const shapes = fc
  .array(fc.record({ rule: fc.constantFrom(...triggerRules), isFailing: fc.boolean(), edges }), {
    minLength: 1,
    maxLength: 7,
  })
  .map((tasks) =>
    tasks.map(({ edges: before, ...task }, index) => ({
      ...task,
      upstream: before.slice(0, index).flatMap((isEdge, at) => (isEdge ? [at] : [])),
    })),
  )

describe('random missions', () => {
  let room: MissionRoom
  let deaths: readonly boolean[] = []
  let asked = 0
  before(async () => {
    // Deaths come to an end, so that a mission does too.
    room = await openMissionRoom({ dies: () => deaths[asked++] ?? false })
  })
  after(() => room.close())

  /** The clock of the room is not that of the server, so a command that waits looks overdue. */
  const broken = async () =>
    (await findBrokenInvariants(room.db, undefined, missionInvariants)).filter(({ code }) => code.startsWith('M'))

  test('[MIS-003] the end of every task, the counters, the cards, the reports and the outcome are those of the model, and no work runs twice', async () => {
    await fc.assert(
      fc.asyncProperty(shapes, fc.array(fc.boolean(), { maxLength: 60 }), async (plan, dying) => {
        deaths = dying
        asked = 0
        room.plays.clear()
        room.calls.splice(0)
        for (const [index, { isFailing }] of plan.entries()) if (isFailing) room.plays.set(`t${index}`, 'fails')
        const tasks = plan.map((shape, index) =>
          planTask(`t${index}`, {
            trigger_rule: shape.rule,
            depends_on: shape.upstream.map((at) => `t${at}`),
          }),
        )
        const run = await room.run(aPlan(...tasks))
        const model = endsOf(plan)
        assert.deepEqual(Object.values(await room.statesOf(run.id)), model)
        assert.equal(run.state, missionEndOf(plan, model))
        assert.deepEqual(
          [run.task_count, run.tasks_completed, run.tasks_failed],
          [plan.length, ...['completed', 'failed'].map((end) => model.filter((state) => state === end).length)],
        )
        const worked = model.flatMap((state, index) => (state === 'skipped' ? [] : [`t${index}`]))
        assert.deepEqual(room.calls.toSorted(), worked.toSorted())
        const cards = await room.rows<{ status: string }>(
          `select b.status from missions.board_tasks b join missions.orchestration_tasks t on t.board_task_id = b.id where t.run_id = $1`,
          [run.id],
        )
        assert.ok(cards.length === plan.length && cards.every(({ status }) => status === 'done'))
        const reports = await room.rows<{ title: string; report_type: string }>(
          `select t.title, e.report_type from missions.agent_reports e join missions.orchestration_tasks t on t.id = e.orchestration_task_id
           where t.run_id = $1`,
          [run.id],
        )
        const reported = model.flatMap((state, index) =>
          state === 'skipped' ? [] : [`t${index} ${state === 'failed' ? 'incident' : 'delivery'}`],
        )
        assert.deepEqual(
          reports.map(({ title, report_type }) => `${title} ${report_type}`).toSorted(),
          reported.toSorted(),
          'one report for each task that ended with an output or failed',
        )
        const [own] = await room.rows<{ report_type: string }>(
          'select report_type from missions.agent_reports where id = $1',
          [run.report_id],
        )
        assert.equal(own?.report_type, run.state === 'failed' ? 'incident' : 'summary')
        const events = await room.eventsOf(run.id)
        assert.equal(events.filter(({ event_type }) => event_type === 'task_started').length, worked.length)
      }),
      { numRuns: proofSize(8, 60) },
    )
    assert.deepEqual(await broken(), [])
  })

  test('each invariant finds the rows that break it', async () => {
    deaths = []
    room.plays.set('x', 'waits')
    const { id, command_id } = await room.run(
      aPlan(planTask('w'), planTask('x', { depends_on: ['w'] }), planTask('y', { depends_on: ['x'] })),
    )
    const ended = await room.run(aPlan(planTask('w')))
    const [w, x, y] = (await room.tasksOf(id)).map((task) => task.id)
    const asEnded = `state = 'failed', state_type = 'terminal', completed_at = now()`
    for (const [code, found, change] of [
      ['M01', id, `update missions.orchestration_runs set tasks_failed = 3 where id = '${id}'`],
      ['M02', x, `update missions.orchestration_runs set ${asEnded} where id = '${id}'`],
      [
        'M03',
        x,
        `update missions.orchestration_tasks set completed_at = started_at + interval '1 hour' where id = '${w}'`,
      ],
      ['M04', w, `update missions.orchestration_tasks set attempt_number = 2 where id = '${w}'`],
      ['M05', y, `update missions.orchestration_tasks set remaining = 0 where id = '${y}'`],
      [
        'M06',
        id,
        `update concord.commands set status = 'failed', completed_at = now() where command_id = '${command_id}'`,
      ],
      ['M08', w, `update missions.agent_reports set orchestration_task_id = null where orchestration_task_id = '${w}'`],
      ['M08', ended.id, `update missions.orchestration_runs set report_id = null where id = '${ended.id}'`],
    ] as const) {
      const undone = new Error('undone')
      await room.db
        .transaction(async (tx) => {
          await tx.query(change)
          const { sql = '' } = missionInvariants.find((each) => each.code === code) ?? {}
          const ids = (await tx.query<{ id: string }>(sql)).map((row) => row.id)
          assert.ok(ids.includes(found ?? ''), `${code} finds ${ids.join(', ')}`)
          throw undone
        })
        .catch((error: unknown) => assert.equal(error, undone))
    }
    assert.deepEqual(await broken(), [])
  })
})
