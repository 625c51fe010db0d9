/**
 * Proves the authority of runs: the hash of each covers its row and the hash of its parent, up to the person who asked, and each parent contains its child.
 * For one run the hashes are also compared with the events of their start, which the database never changes.
 */
import { hash } from 'node:crypto'
import { authorityText } from '#kernel/agents/authority'
import { decideSpawn } from '#kernel/agents/spawn'
import { canonicalJson } from '#kernel/canonical-json'
import { type Sql, statement } from '#store'
import type { StoredAgentRun } from '../agent-run.ts'

export const authorityFaults = [
  'no_parent',
  'no_person',
  'other_hash',
  'other_parent',
  'other_manifest',
  'other_event',
  'wider_than_parent',
] as const
type AuthorityFault = (typeof authorityFaults)[number]

export type AuthorityProof = {
  readonly agentRunId: string
  /** Null: it is proven. */
  readonly fault: AuthorityFault | null
}

const unlimited = { maxDepth: Infinity, maxAgents: Infinity, agentCount: 0, maxTotalSteps: Infinity, stepsTaken: 0 }

/** `runs` with all runs above them; `requestedBy` is the person at the top. Pure. */
export function verifyAuthority(runs: readonly StoredAgentRun[], requestedBy: string): readonly AuthorityProof[] {
  const byId = new Map(runs.map((run) => [run.agent_run_id, run]))
  return runs.map((run) => ({ agentRunId: run.agent_run_id, fault: faultOf(run, byId, requestedBy) }))
}

function faultOf(
  run: StoredAgentRun,
  runs: ReadonlyMap<string, StoredAgentRun>,
  requestedBy: string,
): AuthorityProof['fault'] {
  const parent = run.parent_agent_run_id === null ? undefined : runs.get(run.parent_agent_run_id)
  if (run.parent_agent_run_id !== null && !parent) return 'no_parent'
  if (parent && run.parent_authority_hash !== parent.authority_hash) return 'other_parent'
  const origin = parent ? { parentHash: parent.authority_hash ?? '' } : { userId: requestedBy }
  if (hash('sha256', authorityText(run, origin)) !== run.authority_hash) return 'other_hash'
  if (hash('sha256', canonicalJson(run.manifest)) !== run.manifest_hash) return 'other_manifest'
  return parent && isWider(run, parent) ? 'wider_than_parent' : null
}

function isWider(run: StoredAgentRun, parent: StoredAgentRun): boolean {
  const above = { ...parent, allowed_child_roles: [], cost_left: null }
  const { decision } = decideSpawn({ ...run, max_cost: null }, above, unlimited)
  return decision === 'denied' || run.spawn_depth !== parent.spawn_depth + 1
}

export type ChainLink = { readonly run: StoredAgentRun; readonly fault: AuthorityFault | null }

type ChainRow = StoredAgentRun & {
  readonly requested_by: string
  readonly noted_hash: string | null
  readonly noted_manifest_hash: string | null
}

/**
 * $1 run, $2 workspace. The run with all runs above it, the highest first. `union` ends also where rows form a circle. What the start has
 * noted is null where the events of a run are archived.
 */
const listChain = statement<ChainRow>(
  'agents.list_authority_chain',
  `with recursive chain as (
     select r.agent_run_id, r.parent_agent_run_id from concord.agent_runs as r where r.agent_run_id = $1::uuid and r.workspace_id = $2::uuid
     union
     select p.agent_run_id, p.parent_agent_run_id from chain
       join concord.agent_runs as p on p.agent_run_id = chain.parent_agent_run_id and p.workspace_id = $2::uuid)
   select r.*, c.requested_by, e.payload->>'authority_hash' as noted_hash, e.payload->>'manifest_hash' as noted_manifest_hash
     from chain join concord.agent_runs as r using (agent_run_id) join concord.commands as c on c.command_id = r.command_id
     left join concord.domain_events as e on e.agent_run_id = r.agent_run_id and e.event_type = 'agent_run_started'
    order by r.spawn_depth, r.created_at`,
)

/** The links from the person who asked to the run, the highest first. */
export async function proveAuthority(sql: Sql, { agent_run_id, workspace_id }: StoredAgentRun) {
  const rows = await sql.run(listChain, [agent_run_id, workspace_id])
  const requestedBy = rows[0]?.requested_by ?? ''
  const proofs = verifyAuthority(rows, requestedBy)
  const links = rows.map((run, at): ChainLink => {
    const isOrphan = run.parent_agent_run_id === null && !requestedBy.startsWith('user:')
    const isOther =
      (run.noted_hash ?? run.authority_hash) !== run.authority_hash ||
      (run.noted_manifest_hash ?? run.manifest_hash) !== run.manifest_hash
    return { run, fault: proofs[at]?.fault ?? (isOrphan ? 'no_person' : isOther ? 'other_event' : null) }
  })
  return { requestedBy, links }
}
