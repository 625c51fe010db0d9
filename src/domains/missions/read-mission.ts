/** Reads of missions for people: always by workspace, so a foreign mission looks like a missing one. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Db, scoped, type Tx } from '#store'
import type { MissionDetail } from './contract.ts'
import { listEdges, listTaskPage, listTasks } from './mission-task.ts'
import { findMission, listMissionEvents, readStoredPlan, type StoredMission } from './mission.ts'
import { findApprovers } from './next-steps.ts'
import { missionPlan } from './plan.ts'

async function find(tx: Tx, workspaceId: string, id: string): Promise<Decision<StoredMission>> {
  const run = await findMission(tx, workspaceId, id)
  return run ? accept(run) : refuse('missions.mission.not_found', 'There is no such mission.')
}

export const requireMission = (db: Db, workspaceId: string, id: string) =>
  scoped(db, workspaceId).read((tx) => find(tx, workspaceId, id))

export function readMission(db: Db, workspaceId: string, id: string): Promise<Decision<MissionDetail>> {
  return scoped(db, workspaceId).read(async (tx): Promise<Decision<MissionDetail>> => {
    const run = await find(tx, workspaceId, id)
    if (!run.ok) return run
    const plan = missionPlan.safeParse(await readStoredPlan(tx, id))
    const tasks = await listTasks(tx, id)
    const approvers = (await findApprovers(tx, [run.value]))(run.value)
    const edges = await listEdges(tx, id)
    return accept({ run: run.value, approvers, plan: plan.success ? plan.data : null, tasks, edges })
  })
}

export function readMissionTasks(
  db: Db,
  workspaceId: string,
  id: string,
  { after, limit }: { readonly after: number; readonly limit: number },
) {
  return scoped(db, workspaceId).read(async (tx) => {
    const run = await find(tx, workspaceId, id)
    return run.ok ? accept(await listTaskPage(tx, id, after, limit)) : run
  })
}

export async function readMissionEvents(
  db: Db,
  workspaceId: string,
  id: string,
  page: { after: string; limit: number },
) {
  const run = await requireMission(db, workspaceId, id)
  return run.ok ? accept(await listMissionEvents(db, workspaceId, run.value, page)) : run
}
