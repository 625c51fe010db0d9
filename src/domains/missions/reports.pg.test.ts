/** Reports: which tasks leave one, of which type and with which content, and the one of the mission after every kind of death. */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { builtInArtifactTypes, openArtifactTypes, openDiskStore, readArtifactText } from '#domains/artifacts'
import { cancelCommand } from '#domains/commands'
import { aBlobFolder, CONTENT_BYTES_MAX } from '#test/artifacts'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, TRACE } from '#test/tenant'
import { missionTaskTypes } from '#kernel/machines/mission'
import { fileReport, listReports, readMissionReport } from './reports.ts'

const DEATHS = 12

describe('reports of missions', () => {
  let room: MissionRoom
  let folder: string
  let isStoreDown = false
  /** How many reads and transactions of turns are left before one of them dies. */
  let livesFor = Infinity

  before(async () => {
    folder = await aBlobFolder()
    const dies = () => livesFor-- === 0
    room = await openMissionRoom({
      dies,
      wrap: (world) => {
        const store = openDiskStore({ folder, newId: world.newId, contentBytesMax: CONTENT_BYTES_MAX })
        const put = (...given: Parameters<typeof store.put>) => {
          if (isStoreDown) throw new Error('The disk is full.')
          return store.put(...given)
        }
        const types = accepted(openArtifactTypes(builtInArtifactTypes))
        return { ...world, artifacts: { ...world, types, stores: [{ ...store, put }] } }
      },
    })
  })
  after(async () => {
    await room.close()
    await rm(folder, { recursive: true, force: true })
  })

  const deps = () => ({ commands: room.world })
  const workspaceId = () => room.tenant.workspace.id
  const reportsOf = async (missionId: string) =>
    (await listReports(room.db, workspaceId(), { before: null, limit: 100, missionId })).toReversed()
  const countOf = async () =>
    (
      await room.rows<{ n: number }>(`select count(*)::int as n from concord.artifacts where artifact_type = 'report'`)
    )[0]?.n

  test('[MIS-304] [MIS-306] [MIS-311] [MIS-368] each completed task leaves a report of its type with the task in it', async () => {
    const { id } = await room.run(aPlan(...missionTaskTypes.map((type) => planTask(type, { task_type: type }))))
    const tasks = new Map((await room.tasksOf(id)).map((task) => [task.id, task]))
    const reports = await reportsOf(id)
    const ofTasks = reports.filter(({ orchestration_task_id }) => orchestration_task_id !== null)
    assert.deepEqual(
      Object.fromEntries(ofTasks.map((each) => [tasks.get(each.orchestration_task_id ?? '')?.title, each.report_type])),
      {
        research: 'research',
        analysis: 'research',
        writing: 'delivery',
        coding: 'delivery',
        verification: 'audit',
        review: 'audit',
        synthesis: 'summary',
        other: 'delivery',
      },
    )
    assert.equal(ofTasks.length, 8)
  })

  test('[MIS-305] [MIS-307] [MIS-309] [MIS-386] a failure is an incident, a skipped task leaves nothing, and the mission has one report', async () => {
    room.plays.set('broken', 'fails')
    const plan = aPlan(
      planTask('notes'),
      planTask('broken', { task_type: 'research' }),
      planTask('never', { depends_on: ['broken'] }),
    )
    const { id } = await room.run(plan)
    const run = await room.missionOf(id)
    const reports = await reportsOf(id)
    assert.deepEqual(reports.map(({ title, report_type }) => `${title}: ${report_type}`).toSorted(), [
      'Release 2.4: incident',
      'broken: incident',
      'notes: delivery',
    ])
    const { report, text } = accepted(await readMissionReport(deps(), workspaceId(), id))
    assert.equal(report.id, run.report_id)
    assert.match(text ?? '', /^# Release 2\.4\n\n/)
    for (const part of [
      /State: failed/,
      /1 of 3 completed, 1 failed/,
      /1\. notes: completed\n\n\{"from"/,
      /broken fails/,
      /never: skipped/,
    ])
      assert.match(text ?? '', part)
    // A report of a task without an artifact of its own has the content of the mission.
    assert.ok(reports.every(({ artifact_id }) => artifact_id === report.artifact_id))
    assert.equal(await room.statusOf(run.command_id), 'failed')
  })

  test('[MIS-309] a cancelled mission has a summary', async () => {
    room.plays.set('held', 'waits')
    const { id, gate_command_id } = await room.create(aPlan(planTask('held')))
    assert.equal(gate_command_id, null)
    await room.rest()
    const { command_id } = await room.missionOf(id)
    const { principal } = room.tenant.people.writer
    const by = { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
    accepted(await cancelCommand(room.world, by, { workspaceId: workspaceId(), commandId: command_id, reason: 'no' }))
    await room.rest()
    assert.deepEqual(
      [(await room.missionOf(id)).state, ...(await reportsOf(id)).map(({ report_type }) => report_type)],
      ['cancelled', 'summary'],
    )
    const early = await readMissionReport(deps(), workspaceId(), (await room.create(aPlan(planTask('x')))).id)
    assert.ok(!early.ok && early.code === 'missions.report.not_written')
  })

  test('a report that was filed before the end takes the place of the one that follows from it', async () => {
    room.plays.set('rich', 'waits')
    const { id, report_id } = await room.run(aPlan(planTask('rich')))
    assert.equal(report_id, null)
    const [task] = await room.tasksOf(id)
    const [made] = await room.rows<{ artifact_id: string }>('select artifact_id from concord.artifacts limit 1')
    const { principal } = room.tenant.people.writer
    const filed = {
      report_type: 'research' as const,
      title: 'What we found',
      artifact_id: made?.artifact_id ?? '',
      workspaceId: workspaceId(),
    }
    accepted(await fileReport(deps(), principal, { ...filed, task_id: task?.id ?? '' }))
    const unknown = await fileReport(deps(), principal, { ...filed, task_id: id })
    assert.ok(!unknown.ok && unknown.code === 'missions.task.not_found')
    await room.decide(task?.command_id ?? '', 'approved')
    await room.rest()
    assert.deepEqual(
      (await reportsOf(id)).map(({ title, report_type }) => [title, report_type]),
      [
        ['What we found', 'research'],
        ['Release 2.4', 'summary'],
      ],
    )
  })

  test('[MIS-310] [MIS-342] a store that is down stops no mission and no task behind another, and the report is written when it is back', async () => {
    isStoreDown = true
    const long = Array.from({ length: 12 }, (_, at) => planTask(`p${at}`, { title: `${at} ${'long '.repeat(80)}` }))
    const from = { task: 'Step', payload: { name: 'last', from: { $from: 'p0', path: '/name' } } }
    const plan = aPlan(...long, planTask('last', { depends_on: ['p0'], run: from }))
    const { id, command_id, report_id, run_after } = await room.run(plan)
    assert.deepEqual([report_id, await room.statusOf(command_id)], [null, 'succeeded'])
    assert.ok(run_after && run_after > room.world.now())
    assert.match((await room.tasksOf(id)).at(-1)?.output_summary ?? '', /"from":"p0"/)
    isStoreDown = false
    room.others.push({ kind: 'mission', id })
    await room.rest()
    const { report } = accepted(await readMissionReport(deps(), workspaceId(), id))
    const [row] = await room.rows<{ location: string; checksum: string }>(
      'select * from concord.artifacts where artifact_id = $1',
      [report.artifact_id],
    )
    assert.match(row?.location ?? '', /^disk:/)
    assert.ok(room.world.artifacts && row)
    assert.match(accepted(await readArtifactText(room.world.artifacts, row)), /State: completed/)
    assert.equal((await room.missionOf(id)).run_after, null)
  })

  test('[MIS-309] [MIS-310] a process that dies before any statement of a mission leaves one report of each', async () => {
    const before_ = (await countOf()) ?? 0
    const driven = async (name: string) => {
      const { id } = await room.run(aPlan(planTask(name)))
      const types = (await reportsOf(id)).map(({ report_type }) => report_type)
      assert.deepEqual(types, ['delivery', 'summary'], name)
    }
    livesFor = 1_000_000
    await driven('whole')
    const points = 1_000_000 - livesFor
    // The last points are the end of the task, the end of the mission and the report.
    for (let point = points - DEATHS; point < points; point++) {
      livesFor = point
      await driven(`dies at ${point}`)
      assert.equal(livesFor < 0, true)
    }
    assert.equal(await countOf(), before_ + DEATHS + 1)
  })
})
