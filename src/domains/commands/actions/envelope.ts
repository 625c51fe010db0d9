/**
 * The envelope of a run: calls that people approved before it started. A call that would ask for an approval is covered if it is within every bound, and if the
 * people who approved the envelope could approve this very call today. The commit that lets it through counts the use.
 */
import { hash } from 'node:crypto'
import { type ApprovalRequest, findRequestStandings } from '#domains/approvals'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { type CallToCover, type EnvelopeAnswer, type EnvelopeCalls, findDeviations } from '#kernel/policy/envelope'
import { type Sql, statement } from '#store'
import type { Write } from '../change.ts'
import type { StoredCommand } from '../command-table.ts'
import type { CommandDeps } from '../deps.ts'

/** The command type of the envelope itself, and the effect that starts its task. */
export const RUN_UNDER_ENVELOPE = 'run_under_envelope'
export const ENVELOPE_START = 'envelope.start'

/** The key of the one command that an envelope starts. */
export const envelopeKey = (envelopeId: string) => `envelope:${envelopeId}`

/** The payload of the effect that starts the task: it was approved. */
export type EnvelopeTerms = {
  readonly task_name: string
  /** `agentHash` of the run that people would start. */
  readonly agent_hash: string
  readonly expires_in_minutes: number
  readonly calls: readonly EnvelopeCalls[]
}

/** The columns of a run that follow from the definition of its agent and from its input. */
const AGENT_COLUMNS = [
  'goal',
  'manifest',
  'forbidden_tools',
  'allowed_connectors',
  'memory_scope',
  'context_scope',
  'model_config',
  'runtime_config',
  'termination',
] as const
type AgentColumn = Exclude<(typeof AGENT_COLUMNS)[number], 'manifest'>
type AgentColumns = Readonly<Record<AgentColumn, JsonValue>> & { readonly manifest: JsonObject }

type EnvelopeRow = {
  readonly envelope_id: string
  readonly created_at: Date
  readonly terms: EnvelopeTerms
  readonly agent: AgentColumns
  readonly calls_used: number
  readonly approved_by: readonly string[]
}

/**
 * The envelope of the run $1 in the workspace $2, with the uses of the task $3. Only while it waits for the command that it started, and only for a run of that command: the
 * key of a command is unique, and only the effect of the envelope writes the note in its context.
 */
const findEnvelope = statement<EnvelopeRow>(
  'commands_find_envelope',
  `select e.command_id as envelope_id, e.created_at, f.effect_payload as terms,
  jsonb_build_object(${AGENT_COLUMNS.map((column) => `'${column}', r.${column}`).join(', ')}) as agent,
  coalesce((select u.calls_used from concord.envelope_calls as u
    where u.envelope_id = e.command_id and u.workspace_id = e.workspace_id and u.task_name = $3::text), 0) as calls_used,
  array(select distinct v.person from concord.approvals as a, unnest(a.approved_by) as v (person)
    where a.command_id = e.command_id and a.workspace_id = e.workspace_id and a.status = 'approved'
      and a.superseded_by is null and a.domain_effect_id is null) as approved_by
from concord.agent_runs as r
join concord.commands as c on c.command_id = r.command_id and c.workspace_id = r.workspace_id
join concord.commands as e on e.command_id = (c.context #>> '{metadata,envelope_id}')::uuid and e.workspace_id = c.workspace_id
join concord.domain_effects as f on f.command_id = e.command_id and f.workspace_id = e.workspace_id
where r.agent_run_id = $1::uuid and r.workspace_id = $2::uuid and r.parent_agent_run_id is null and c.agent_run_id is null
  and c.idempotency_key = 'envelope:' || e.command_id and c.requested_by = e.requested_by and c.task_name = f.effect_payload->>'task_name'
  and e.command_type = '${RUN_UNDER_ENVELOPE}' and e.completed_at is null and not e.cancellation_requested
  and f.effect_type = '${ENVELOPE_START}' and f.status = 'executing'`,
)

const MINUTE_MS = 60_000

/** Null: the run has no envelope. */
export async function askEnvelope(
  { db, approvalTypes, now }: Pick<CommandDeps, 'db' | 'approvalTypes' | 'now'>,
  { agent_run_id, workspace_id }: Pick<StoredCommand, 'agent_run_id' | 'workspace_id'>,
  call: CallToCover,
  requests: readonly ApprovalRequest[],
): Promise<EnvelopeAnswer | null> {
  const [row] = agent_run_id === null ? [] : await db.run(findEnvelope, [agent_run_id, workspace_id, call.task_name])
  if (!row) return null
  const { envelope_id, terms, calls_used, approved_by, created_at } = row
  const expires_at = new Date(created_at.getTime() + terms.expires_in_minutes * MINUTE_MS)
  const state = { agent_hash: agentHash(row.agent), calls_used, at: now() }
  const deviations = findDeviations({ ...terms, expires_at }, call, state)
  const standings = await findRequestStandings(db, approvalTypes, workspace_id, requests, approved_by)
  const couldApprove = standings.ok && standings.value.every(({ blocked }) => blocked === undefined)
  const calls_max = terms.calls.find(({ task_name }) => task_name === call.task_name)?.calls_max ?? 0
  return {
    envelope_id,
    approved_by,
    calls_max,
    deviations: couldApprove ? deviations : [...deviations, 'those who approved it could not approve this call today'],
  }
}

/** The id of the run is in its manifest, and not known before it starts. */
export function agentHash({ manifest: { agent_run_id: _id, ...manifest }, ...columns }: AgentColumns): string {
  return hash('sha256', canonicalJson({ ...columns, manifest }))
}

/** The commit of a covered call found no use left: another call was faster. The command is decided again, and asks. */
export class EnvelopeUsedUp extends Error {}

/** $1 envelope, $2 workspace, $3 task, $4 most. No row: it is used up, or has ended. */
const countUse = statement<{ readonly calls_used: number }>(
  'commands_count_envelope_use',
  `insert into concord.envelope_calls as u (envelope_id, workspace_id, task_name, calls_used, calls_max)
select e.command_id, e.workspace_id, $3::text, 1, $4::integer from concord.commands as e
where e.command_id = $1::uuid and e.workspace_id = $2::uuid and e.completed_at is null and not e.cancellation_requested
on conflict (envelope_id, task_name) do update set calls_used = u.calls_used + 1 where u.calls_used < u.calls_max
returning u.calls_used`,
)

const useIn = ({ events }: Write) => events.find(({ event_type }) => event_type === 'envelope_used')

/** A write with a use is a transaction of its own. */
export const usesEnvelope = (write: Write): boolean => useIn(write) !== undefined

/** In the transaction that lets the call through. */
export function countEnvelopeUse(write: Write): ((tx: Sql) => Promise<void>) | undefined {
  const used = useIn(write)
  if (!used) return undefined
  const { envelope_id, task_name, calls_max } = used.payload
  return async (tx) => {
    const [row] = await tx.run(countUse, [envelope_id, write.command.workspace_id, task_name, calls_max])
    if (!row) throw new EnvelopeUsedUp()
  }
}
