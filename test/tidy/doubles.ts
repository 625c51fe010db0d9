/** An exported name means one thing: whoever searches for it finds one definition. */
import { findDoubles, readGraph } from '../../scripts/source/graph.ts'
import type { Finding } from './finding.ts'
import { isProduction } from './size.ts'
import type { Tree } from './tree.ts'

/** Those that had several meanings when the check came. Names are taken out, never put in. */
const allowedDoubles: ReadonlySet<string> = new Set(
  `
  ApprovalView ArchiveFinding ArchivedHistory ArtifactView Catalog Finding Firing Found Held
  Lineage MigrateOptions Migration NextMove Outcome Page RandomBytes ReadBack Reader RunningServer ScheduleSpec
  ScheduleView Sleep Sql Statement StopReason StoredNotification StoredSchedule Subject Tx Wake addArtifacts bySystem
  changeSchedule changeScheduleBody checkApproved claimNext contractOf createSchedule finding
  fireSchedule isPassing listNotifications listSchedules loadMigrations lockQuestions nameOf
  networkMountName nextOccurrences notificationView openFailpoints personOf planCommand readText refuseFile
  refuseMissing runProgram saveCancelled scheduleView showText statement takeTurn toNotificationView
  toScheduleView
  `
    .trim()
    .split(/\s+/),
)

export function checkDoubles(tree: Tree, allowed: ReadonlySet<string> = allowedDoubles): Finding[] {
  return findDoubles(readGraph(tree, isProduction))
    .filter(([name]) => !allowed.has(name))
    .map(([name, files]) => ({
      path: files[0] ?? '',
      problem: `${name} has other meanings in ${files.slice(1).join(', ')}`,
    }))
}

/** What the list still allows and nobody needs any more. */
export function staleDoubles(tree: Tree, allowed: ReadonlySet<string> = allowedDoubles): string[] {
  const still = new Set(findDoubles(readGraph(tree, isProduction)).map(([name]) => name))
  return [...allowed].filter((name) => !still.has(name))
}
