/** Candidates and erasures follow their commands: the question that stands is linked, and what ended without them is closed. */
import { dropErasure, findCandidate, type MemoryDeps, saveCandidate } from '#domains/memory'
import type { CommandState } from '#kernel/machines/command'
import { statement } from '#store'

type Behind = {
  readonly memory_candidate_id: string
  readonly workspace_id: string
  readonly command_status: CommandState
  readonly is_ended: boolean
  readonly approval_id: string | null
}

const BATCH = 200

const listBehind = statement<Behind>(
  'memory_list_behind',
  `select c.memory_candidate_id, c.workspace_id, k.status as command_status, k.completed_at is not null as is_ended, a.approval_id
from concord.memory_candidates as c
join concord.commands as k on k.command_id = c.command_id
left join lateral (select approval_id from concord.approvals
  where command_id = c.command_id and status = 'pending' and domain_effect_id is null order by created_at, approval_id limit 1) as a on true
where c.status in ('proposed', 'awaiting_approval')
  and (k.completed_at is not null or (a.approval_id is not null and (c.approval_id is distinct from a.approval_id or c.status = 'proposed')))
order by c.created_at limit ${BATCH}`,
)

const linkApproval = statement<never>(
  'memory_link_approval',
  `update concord.memory_candidates set approval_id = $3 where memory_candidate_id = $1 and workspace_id = $2 and status = 'awaiting_approval'`,
)

const listDropped = statement<{ readonly memory_erasure_id: string; readonly workspace_id: string }>(
  'memory_list_dropped',
  `select e.memory_erasure_id, e.workspace_id from concord.memory_erasures as e join concord.commands as k on k.command_id = e.command_id
where e.outcome is null and k.completed_at is not null order by e.requested_at limit ${BATCH}`,
)

/** How many were brought up to date; the caller comes again. */
export async function followCandidates(
  memory: Pick<MemoryDeps, 'db' | 'newId' | 'now'>,
  { traceId }: { readonly traceId: string },
): Promise<number> {
  const { db, newId } = memory
  const actor = { id: 'system', kind: 'system', traceId } as const
  const at = memory.now()
  const behind = await db.run(listBehind)
  for (const row of behind) {
    await db.transaction(async (tx) => {
      const candidate = await findCandidate(tx, row.workspace_id, row.memory_candidate_id)
      if (!candidate) return
      // Another process may have been first; the machine's compare and set leaves its result alone.
      if (row.is_ended) {
        const to = row.command_status === 'expired' ? 'expired' : 'rejected'
        const payload = { command_status: row.command_status }
        await saveCandidate(tx, candidate, to, actor, { at, newId, payload })
      } else if (candidate.status === 'proposed') {
        const set = { approval_id: row.approval_id }
        await saveCandidate(tx, candidate, 'awaiting_approval', actor, { at, newId, set })
      } else await tx.run(linkApproval, [candidate.memory_candidate_id, candidate.workspace_id, row.approval_id])
    })
  }
  const dropped = await db.run(listDropped)
  for (const { memory_erasure_id: erasureId, workspace_id: workspaceId } of dropped)
    await dropErasure(db, { workspaceId, erasureId }, at)
  return behind.length + dropped.length
}
