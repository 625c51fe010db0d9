/** The work of the shipped schedules, room by room, and keeping the runtime in sync with all schedules. */
import { type ApprovalDeps, escalateApprovals, expireApprovals, remindApprovers } from '#domains/approvals'
import { type Definition, defineMaintenance } from '#domains/commands'
import { type CommandScheduleDeps, syncCommandSchedules } from '#domains/command-schedules'
import type { Connectors } from '#domains/connectors'
import { every, FINISHED } from './lifecycle.ts'
import type { Log } from './log.ts'

/** `approvals` is called at the first run, because the catalog opens before the rooms. Without connectors there is nothing to sync. */
export function openMaintenance(approvals: () => ApprovalDeps, connectors: Connectors): readonly Definition[] {
  return [
    ...defineMaintenance({
      command_type: 'expire_approvals',
      task_name: 'Expire Pending Approvals',
      description: 'Expires approvals whose deadline has passed, and sends the reminders that are due.',
      run: ({ traceId, signal }) => sweepApprovals(approvals(), traceId, signal),
    }),
    ...(connectors.definitions.length === 0 ? [] : syncOf(connectors)),
  ]
}

/** A connector that fails is reported in the result; the others continue. */
function syncOf(connectors: Connectors): readonly Definition[] {
  return defineMaintenance({
    command_type: 'sync_connector_metadata',
    task_name: 'Sync Connector Metadata',
    description: 'Puts on record what each connector offers, how it fares, and what its other side says about itself.',
    run: async ({ workspaceId, signal }) => {
      const synced = await connectors.sync({ workspaceId, signal })
      return { connectors: [...synced], failed: synced.filter(({ error }) => error !== null).length }
    },
  })
}

/** A fallback for the turns of the approvals, which do the same on time. Also covers approvals that have no turn. */
async function sweepApprovals(deps: ApprovalDeps, traceId: string, signal: AbortSignal) {
  const notify = deps.notify ?? (() => Promise.resolve())
  let expired = 0
  let failed = 0
  for (let more = true; more && !signal.aborted; ) {
    const swept = await expireApprovals(deps, { traceId })
    expired += swept.expired
    failed += swept.failed.length
    // A batch in which everything failed would be selected again.
    more = swept.more && swept.expired > 0
  }
  const escalated = await escalateApprovals(deps, notify, { traceId })
  const reminded = await remindApprovers(deps, notify, { traceId })
  failed += escalated.failed.length + reminded.failed.length
  return { expired, escalated: escalated.escalated.length, reminded: reminded.sent, failed }
}

const HOMELESS_MS = 2_000

/** Syncs the runtime with the schedules at the start, and repeats it until every schedule of the catalog has a workspace. */
export async function keepSchedules(deps: CommandScheduleDeps, log: Log): Promise<() => Promise<void>> {
  let reported = ''
  const sync = async () => {
    const { arranged, removed, homeless, problems } = await syncCommandSchedules(deps)
    const waiting = homeless.join(', ')
    if (waiting !== '' && waiting !== reported)
      log.warn({ homeless }, `no workspace yet for ${waiting}; they fire once there is one`)
    reported = waiting
    for (const problem of problems) log.warn({}, problem)
    if (removed.length > 0)
      log.info({ removed }, `removed schedules that are no longer in the catalog: ${removed.join(', ')}`)
    log.debug({ arranged }, 'the schedules are in sync')
    return waiting === '' ? FINISHED : undefined
  }
  // The first sync is part of the start. A database that fails it would fail everything else.
  return (await sync()) === FINISHED ? () => Promise.resolve() : every(HOMELESS_MS, sync, log)
}
