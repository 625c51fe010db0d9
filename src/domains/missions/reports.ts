/**
 * Reports: one for each task that ended with an output or failed, in the transaction of its end, and one for the mission, after its end. The content of a
 * report is an artifact.
 */
import { z } from 'zod'
import { idField, idView, orNull, pageView, textField, timeView } from '#contract'
import { findArtifact, getArtifact, readArtifactText, writeArtifact } from '#domains/artifacts'
import { labelReader } from '#domains/commands'
import type { Principal } from '#domains/identity'
import { bySystem } from '#kernel/actor'
import { decodeId, encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Db, type Paged, pageText, scoped, statement, type Tx } from '#store'
import type { Rows } from '#store/rows'
import type { MissionDeps } from './deps.ts'
import { listBrokenHooks } from './auxiliary-rows.ts'
import { listTasks } from './mission-task.ts'
import { findMission, lockMission, type StoredMission, type StoredTask } from './mission.ts'
import { reportText, reportTypeOf, reportTypeOfMission, reportTypes } from './report-text.ts'

const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'
const REPORTS = 'missions.agent_reports'

type StoredReport = Rows['missions.agent_reports']

/**
 * $1 the rows as JSON. Somebody may have reported about a task before it ended: then nothing is added, except that a failure is always reported.
 */
const insertTaskReports = statement<never>(
  'missions.insert_task_reports',
  `insert into ${REPORTS} (workspace_id, agent_id, report_type, title, artifact_id, created_at, orchestration_task_id)
select r.workspace_id, r.agent_id, r.report_type, r.title, r.artifact_id, r.created_at, r.orchestration_task_id
from jsonb_populate_recordset(null::${REPORTS}, $1::jsonb) as r
where not exists (select from ${REPORTS} as e
  where e.orchestration_task_id = r.orchestration_task_id and (e.report_type = 'incident') = (r.report_type = 'incident'))`,
)

/** In the transaction that ends the tasks. */
export async function reportTasks(tx: Tx, ended: readonly StoredTask[]): Promise<void> {
  const rows = ended.flatMap((task) => {
    const report_type = reportTypeOf(task)
    const output = decodeId('artifact', task.output_ref ?? '')
    const { workspace_id, agent_id, title, completed_at: created_at, id: orchestration_task_id } = task
    const artifact_id = output.ok ? output.value : null
    return report_type === null
      ? []
      : [{ workspace_id, agent_id, report_type, title, artifact_id, created_at, orchestration_task_id }]
  })
  if (rows.length > 0) await tx.run(insertTaskReports, [JSON.stringify(rows)])
}

/**
 * $1 mission, $2 type, $3 title, $4 artifact or null, $5 time. Reports of tasks without an artifact of their own get that of the mission.
 */
const insertMissionReport = statement<never>(
  'missions.insert_mission_report',
  `with made as (
  insert into ${REPORTS} (workspace_id, agent_id, report_type, title, artifact_id, created_at)
  select r.workspace_id, r.coordinator_agent_id, $2, $3, $4::uuid, $5 from ${RUNS} as r where r.id = $1::uuid returning id
), told as (
  update ${REPORTS} as t set artifact_id = $4::uuid from ${TASKS} as k
  where k.run_id = $1::uuid and t.orchestration_task_id = k.id and t.artifact_id is null and $4::uuid is not null
)
update ${RUNS} as r set report_id = made.id from made where r.id = $1::uuid`,
)

/** After the end of a mission. False: the content could not be stored, and the next turn tries again. */
export async function reportMission(deps: MissionDeps, run: StoredMission, traceId: string): Promise<boolean> {
  if (run.report_id !== null) return true
  const { db, now } = deps.commands
  const artifactId = await writeContent(deps, run, traceId).catch(() => undefined)
  if (artifactId === undefined) return false
  await db.transaction(async (tx) => {
    const locked = await lockMission(tx, run.id)
    if (locked?.report_id !== null) return
    await tx.run(insertMissionReport, [run.id, reportTypeOfMission(run), run.title, artifactId, now()])
  })
  return true
}

/** The step is the mission, so a turn that is given again finds what it wrote. Null: this process stores no artifacts, or the text is not allowed as one. */
async function writeContent({ commands }: MissionDeps, run: StoredMission, traceId: string): Promise<string | null> {
  if (!commands.artifacts) return null
  const { workspace_id: workspaceId, command_id: commandId } = run
  const tasks = await listTasks(commands.db, run.id)
  const read = tasks.flatMap(({ command_id }) => command_id ?? [])
  await labelReader(commands, run, 'command', read)
  const written = await writeArtifact(commands.artifacts, bySystem(traceId), {
    workspaceId,
    commandId,
    createdBy: run.created_by,
    step: 'report',
    type: 'report',
    title: run.title,
    content: {
      text: reportText(run, tasks, await listBrokenHooks(commands.db, run.id)),
      content_type: 'text/markdown',
    },
  })
  return written.ok ? written.value.artifact_id : null
}

export const reportView = z
  .object({
    report_id: z.int().meta({ example: 7 }),
    report_type: z.enum(reportTypes),
    title: z.string().meta({ example: 'Release 2.4' }),
    task_id: idView('mission_task').nullable().meta({ description: 'The task that it is about.' }),
    artifact_id: idView('artifact').nullable().meta({ description: 'Its content.' }),
    created_at: timeView(),
  })
  .meta({ id: 'MissionReport', description: 'What a task or a mission reported.' })
export const reportPageView = pageView(reportView, 'MissionReportPage')
export const reportType = z.enum(reportTypes).meta({ example: 'research' })
export const missionReportView = reportView
  .extend({ mission_id: idView('mission'), text: z.string().nullable().meta({ example: '# Release 2.4' }) })
  .meta({ id: 'MissionReportText' })

export const fileReportBody = z
  .strictObject({
    report_type: reportType,
    title: textField(500, { charsMin: 1 }).meta({ example: 'What we found' }),
    artifact_id: idField('artifact').meta({ description: 'Its content.' }),
    task_id: idField('mission_task').optional().meta({ description: 'The task that it is about.' }),
  })
  .meta({ id: 'FileMissionReport' })

export const toReportView = (report: StoredReport): z.infer<typeof reportView> => ({
  report_id: report.id,
  report_type: report.report_type,
  title: report.title,
  task_id: orNull(report.orchestration_task_id, (id) => encodeId('mission_task', id)),
  artifact_id: orNull(report.artifact_id, (id) => encodeId('artifact', id)),
  created_at: formatInstant(report.created_at),
})

/** $1 workspace, $2 before the number, $3 limit, $4 type, $5 mission: its own report and those of its tasks. */
const listReportRows = statement<StoredReport & Paged>(
  'missions.list_reports',
  pageText(`select t.* from ${REPORTS} as t left join ${TASKS} as k on k.id = t.orchestration_task_id
    where t.workspace_id = $1::uuid and ($2::int is null or t.id < $2) and ($4::text is null or t.report_type = $4)
      and ($5::uuid is null or k.run_id = $5 or t.id = (select r.report_id from ${RUNS} as r where r.id = $5 and r.workspace_id = $1::uuid))
    order by t.id desc limit $3`),
)
type ReportFilter = {
  readonly before: number | null
  readonly limit: number
  readonly type?: string | undefined
  readonly missionId?: string | undefined
}
export function listReports(db: Db, workspaceId: string, { before, limit, type, missionId }: ReportFilter) {
  const values = [workspaceId, before, limit, type ?? null, missionId ?? null]
  return scoped(db, workspaceId).read((tx) => tx.run(listReportRows, values))
}

/** $1 workspace, $2 number. */
const findReport = statement<StoredReport>(
  'missions.find_report',
  `select t.* from ${REPORTS} as t where t.workspace_id = $1::uuid and t.id = $2`,
)

/** The report of a mission with its text. */
export async function readMissionReport({ commands: { db, artifacts } }: MissionDeps, workspaceId: string, id: string) {
  const found = await scoped(db, workspaceId).read(async (tx): Promise<Decision<StoredReport>> => {
    const run = await findMission(tx, workspaceId, id)
    if (!run) return refuse('missions.mission.not_found', 'There is no such mission.')
    const [report] = run.report_id === null ? [] : await tx.run(findReport, [workspaceId, run.report_id])
    if (report) return accept(report)
    return refuse('missions.report.not_written', `The mission is ${run.state} and has no report yet.`)
  })
  if (!found.ok) return found
  const { artifact_id: artifactId } = found.value
  const artifact = artifactId === null ? undefined : await findArtifact(db, workspaceId, artifactId)
  const text = artifact && artifacts ? await readArtifactText(artifacts, artifact) : accept(null)
  return text.ok ? accept({ report: found.value, text: text.value }) : text
}

/** $1 workspace, $2 type, $3 title, $4 artifact, $5 task or null, $6 time. Nothing if the task is not of the workspace. */
const insertReport = statement<StoredReport>(
  'missions.insert_report',
  `insert into ${REPORTS} as t (workspace_id, report_type, title, artifact_id, orchestration_task_id, created_at)
select $1::uuid, $2, $3, $4::uuid, $5::uuid, $6
where $5::uuid is null or exists (select from ${TASKS} as k where k.id = $5::uuid and k.workspace_id = $1::uuid) returning t.*`,
)
type NewReport = z.output<typeof fileReportBody> & { readonly workspaceId: string }

/** Files a report of a person or of what works for one. The report that would follow from the end of the task is then left out. */
export async function fileReport(
  { commands: { db, now } }: MissionDeps,
  by: Principal,
  { workspaceId, report_type, title, artifact_id, task_id }: NewReport,
): Promise<Decision<StoredReport>> {
  const artifact = await getArtifact(db, by, workspaceId, artifact_id)
  if (!artifact.ok) return artifact
  const values = [workspaceId, report_type, title, artifact_id, task_id ?? null, now()]
  const [report] = await scoped(db, workspaceId).transaction((tx) => tx.run(insertReport, values))
  return report ? accept(report) : refuse('missions.task.not_found', 'There is no such task.', { path: 'task_id' })
}
