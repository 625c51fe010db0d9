/** The work behind the shipped schedules, room by room: a room that has some adds its line here, and its schedule is registered. */
import { type ApprovalDeps, escalateApprovals, expireApprovals, remindApprovers } from '#domains/approvals'
import { type Definition, defineMaintenance } from '#domains/commands'
import type { Connectors } from '#domains/connectors'

/** `approvals` is asked for at the first call: the catalog is there before the rooms are. Without connectors there is nothing to sync. */
export function openMaintenance(approvals: () => ApprovalDeps, connectors: Connectors): readonly Definition[] {
  return [
    ...defineMaintenance({
      command_type: 'expire_approvals',
      task_name: 'Expire Pending Approvals',
      description: 'Ends approvals whose time is over, and brings back those whose reminder is due.',
      run: ({ traceId, signal }) => sweepApprovals(approvals(), traceId, signal),
    }),
    ...(connectors.definitions.length === 0 ? [] : syncOf(connectors)),
  ]
}

/** A connector that cannot be looked at is part of the answer, not the end of it. */
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

/**
 * The net under the approvals' own turns, which do the same at the very moment: it finds what was asked before there were turns, or
 * what an operator has put back.
 */
async function sweepApprovals(deps: ApprovalDeps, traceId: string, signal: AbortSignal) {
  const notify = deps.notify ?? (() => Promise.resolve())
  let expired = 0
  let failed = 0
  for (let more = true; more && !signal.aborted; ) {
    const swept = await expireApprovals(deps, { traceId })
    expired += swept.expired
    failed += swept.failed.length
    // A full batch of nothing but failures would be the same batch again.
    more = swept.more && swept.expired > 0
  }
  const escalated = await escalateApprovals(deps, notify, { traceId })
  const reminded = await remindApprovers(deps, notify, { traceId })
  failed += escalated.failed.length + reminded.failed.length
  return { expired, escalated: escalated.escalated.length, reminded: reminded.sent, failed }
}
