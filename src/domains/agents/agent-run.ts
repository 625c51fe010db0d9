/** An agent run: its row, its statements, its insert with the frozen manifest, and the request to cancel it. */
import { hash } from 'node:crypto'
import { EffectFailure } from '#domains/commands'
import type { Actor } from '#kernel/actor'
import { authorityText } from '#kernel/agents/authority'
import { canonicalJson } from '#kernel/canonical-json'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { agentRunMachine } from '#kernel/machines/agent'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { type Db, defineTable, insertRecord, pageText, type Paged, scoped, type Sql, statement, type Tx } from '#store'
import type { RowOf } from '#store/rows'
import { openReconcile } from '#turns'
import type { CancelReason } from './advance-run.ts'
import type { AgentTerms } from './agent-form.ts'
import { type AgentDeps, RUN_KIND, RUN_QUEUE } from './deps.ts'
import { runLog } from './events.ts'
import { deadlineAfter, earlier } from './limits.ts'
import { openRunAccount } from './run-account.ts'

/** What Concord notes on a run; it changes with the run. */
export type RunNotes = {
  readonly cancel?: { readonly reason: CancelReason; readonly why: string; readonly by: string }
  /** Failures of the runtime in a row. */
  readonly failures?: number
  readonly error?: string
}

export type StoredAgentRun = RowOf<
  'concord.agent_runs',
  {
    readonly allowed_tools: readonly string[]
    readonly forbidden_tools: readonly string[]
    readonly delegable_tools: readonly string[]
    readonly allowed_connectors: readonly string[]
    readonly memory_scope: JsonObject
    readonly context_scope: JsonObject
    readonly model_config: JsonObject
    readonly runtime_config: JsonObject & { readonly name: string }
    readonly manifest: JsonObject
    readonly termination: { readonly conditions?: readonly string[] }
    readonly labels: readonly string[]
    readonly metadata: RunNotes
  }
>

const TABLE = 'concord.agent_runs'
export const OPEN_RUN = 't.completed_at is null and t.cancelled_at is null'
/** Of a run, or of a swarm. */
export const hasEnded = ({ completed_at, cancelled_at }: Pick<StoredAgentRun, 'completed_at' | 'cancelled_at'>) =>
  completed_at !== null || cancelled_at !== null

export const runTable = defineTable<StoredAgentRun>()({
  name: TABLE,
  noun: 'agent_run',
  id: 'agent_run_id',
  tenant: 'workspace_id',
  machine: agentRunMachine,
  state: 'status',
  settable: {
    step_count: 'integer',
    cost_units: 'numeric',
    end_reason: 'text',
    metadata: 'jsonb',
    labels: 'jsonb',
    run_after: 'timestamptz',
    turn_token: 'uuid',
    turn_until: 'timestamptz',
  },
  log: runLog,
  links: ['workspace_id', 'command_id', 'agent_run_id', 'swarm_run_id'],
})

export async function getAgentRun(sql: Sql, workspaceId: string, id: string): Promise<Decision<StoredAgentRun>> {
  const found = await runTable.find(sql, workspaceId, id)
  return found ? accept(found) : refuse('agents.run.not_found', 'There is no such agent run.')
}

/** $1 command. The newest first: a retry of the command starts another run. */
const findOfCommand = statement<StoredAgentRun>(
  'agents.find_of_command',
  `select t.* from ${TABLE} as t where t.command_id = $1::uuid order by t.created_at desc, t.agent_run_id desc limit 1`,
)

export async function findRunOfCommand(sql: Sql, commandId: string): Promise<StoredAgentRun | undefined> {
  const [run] = await sql.run(findOfCommand, [commandId])
  return run
}

type ListRuns = {
  readonly workspaceId: string
  readonly status?: string | undefined
  readonly commandId?: string | undefined
  readonly swarmRunId?: string | undefined
  readonly beforeId: string | null
  readonly limit: number
}

const listNewest = statement<StoredAgentRun & Paged>(
  'agents.list_newest',
  pageText(`select t.* from ${TABLE} as t
    where t.workspace_id = $1::uuid and ($2::uuid is null or t.agent_run_id < $2) and ($4::text is null or t.status = $4)
      and ($5::uuid is null or t.command_id = $5) and ($6::uuid is null or t.swarm_run_id = $6)
    order by t.agent_run_id desc limit $3`),
)

export function listAgentRuns(db: Db, { workspaceId, status, commandId, swarmRunId, beforeId, limit }: ListRuns) {
  const values = [workspaceId, beforeId, limit, status ?? null, commandId ?? null, swarmRunId ?? null]
  return scoped(db, workspaceId).read((tx) => tx.run(listNewest, values))
}

/** A tool of a manifest: a task, its command type, and how it is executed. */
export type ManifestTool = { readonly name: string; readonly command_type: string; readonly mode: string }

export type NewAgentRun = {
  /** Omitted: a new id. */
  readonly agentRunId?: string | undefined
  /** True: its first turn is due when somebody wakes it. */
  readonly isIdle?: boolean | undefined
  readonly workspaceId: string
  readonly commandId: string
  readonly terms: AgentTerms
  readonly tools: readonly ManifestTool[]
  readonly goal: string
  /** What the agent gets to know beside its goal. */
  readonly context: JsonObject
  readonly memoryScope: JsonObject
  readonly requestedBy: string
  readonly parent?: StoredAgentRun | undefined
  readonly swarmRunId?: string | undefined
  /** The account that pays for a run without a parent. Omitted: its own. */
  readonly accountId?: string | undefined
  readonly delegableTools?: readonly string[] | undefined
}

/** Inserts the run with all that it may do, and wakes it with the commit. */
export async function insertAgentRun(
  tx: Tx,
  { now, newId, wake }: Pick<AgentDeps['commands'], 'now' | 'newId' | 'wake'>,
  by: Actor,
  { terms, tools, goal, context, parent, ...of }: NewAgentRun,
): Promise<StoredAgentRun> {
  const at = now()
  const id = of.agentRunId ?? newId()
  const defined = definedColumns({ terms, tools, goal, context, memoryScope: of.memoryScope })
  const scope = {
    ...defined,
    allowed_tools: tools.map(({ name }) => name),
    delegable_tools: of.delegableTools ?? [],
    max_steps: terms.limits.max_steps,
  }
  const parentHash = parent?.authority_hash ?? null
  const origin = parentHash === null ? { userId: of.requestedBy } : { parentHash }
  const manifest = { agent_run_id: id, ...defined.manifest }
  const { deadline_minutes: minutes, max_cost_units: maxCostUnits } = terms.limits
  const { workspaceId, commandId } = of
  const parentId = parent?.budget_account_id ?? of.accountId ?? null
  const account = await openRunAccount(tx, { runId: id, workspaceId, commandId, parentId, maxCostUnits, at })
  if (!account.ok) throw new EffectFailure('permission_denied', account.reason, 'no')
  const run = await insertRecord<StoredAgentRun>(tx, TABLE, {
    ...scope,
    agent_run_id: id,
    command_id: of.commandId,
    swarm_run_id: of.swarmRunId ?? null,
    parent_agent_run_id: parent?.agent_run_id ?? null,
    agent_name: terms.name,
    agent_role: terms.role,
    agent_version: terms.version,
    status: 'created',
    spawn_depth: parent ? parent.spawn_depth + 1 : 0,
    metadata: {},
    created_at: at,
    workspace_id: of.workspaceId,
    run_after: of.isIdle ? null : at,
    manifest,
    manifest_hash: hash('sha256', canonicalJson(manifest)),
    authority_hash: hash('sha256', authorityText(scope, origin)),
    parent_authority_hash: parentHash,
    // A child knows what its parent has read.
    labels: parent?.labels ?? [],
    deadline_at: earlier(deadlineAfter(at, minutes), parent?.deadline_at ?? null),
    budget_account_id: account.value,
    // That of a child is written in the same transaction, under the id of the child.
    invocation_id: parent ? id : null,
  })
  const payload = { manifest_hash: run.manifest_hash, authority_hash: run.authority_hash, agent_name: run.agent_name }
  await runTable.append(tx, run, by, { type: 'agent_run_started', at, newId, payload })
  if (!of.isIdle) await wake({ kind: RUN_KIND, id }, { tx, queue: RUN_QUEUE })
  return run
}

/** What a run gets from the definition of its agent and from its input. */
export type DefinedRun = Pick<NewAgentRun, 'terms' | 'tools' | 'goal' | 'context' | 'memoryScope'>

/** The columns of a run that follow from its definition and its input. People who approve an envelope approve exactly these. */
export function definedColumns({ terms, tools, goal, context, memoryScope }: DefinedRun) {
  return {
    goal,
    manifest: manifestOf(terms, tools),
    forbidden_tools: terms.forbidden_tools,
    allowed_connectors: terms.connectors,
    memory_scope: memoryScope,
    context_scope: context,
    model_config: terms.model,
    runtime_config: terms.runtime,
    termination: terms.termination,
  }
}

/** All that the agent sees, without the id of its run. It has the shape of the manifests that the registry resolves, with one skill: the agent itself. */
function manifestOf(terms: AgentTerms, tools: readonly ManifestTool[]): JsonObject {
  const { memory, limits } = terms
  return {
    agent_role: terms.role,
    skills: [
      {
        name: terms.name,
        version: terms.version,
        skill_version_id: null,
        instructions_ref: null,
        tools: tools.map((tool) => ({ ...tool })),
        memory_scope: {
          read: [...memory.read_scopes],
          write: memory.write_allowed ? [...memory.memory_types] : [],
        },
        artifact_scope: { write: [...terms.artifacts] },
      },
    ],
    approval_gates: [...terms.approval_gates],
    limits: { ...limits },
  }
}

type CancelRun = { readonly reason: CancelReason; readonly why: string }

/**
 * Requests the end of a run in the transaction of the caller: the next turn cancels its open commands, tells its runtime and ends it. A second request
 * changes nothing.
 */
export async function requestRunCancel(
  tx: Tx,
  { now, newId, wake }: Pick<AgentDeps['commands'], 'now' | 'newId' | 'wake'>,
  by: Actor,
  { workspace_id, agent_run_id }: Pick<StoredAgentRun, 'workspace_id' | 'agent_run_id'>,
  { reason, why }: CancelRun,
): Promise<boolean> {
  const [run] = await tx.run(lockRun, [agent_run_id, workspace_id])
  if (!run || hasEnded(run) || run.metadata.cancel) return false
  const at = now()
  const metadata: RunNotes = {
    ...run.metadata,
    cancel: { reason, why: redactText(why).slice(0, WHY_CHARS_MAX), by: by.id },
  }
  const isWaiting = run.status !== 'created' && run.status !== 'queued' && run.status !== 'cancelling'
  if (isWaiting) {
    const kind = by.kind === 'user' || by.kind === 'operator' ? by.kind : 'system'
    const moved = await runTable.transition(
      tx,
      run,
      'cancelling',
      { ...by, kind },
      { at, newId, set: { metadata, run_after: at } },
    )
    if (!moved.ok) throw new KernelFault('agents.run.moved', moved.reason)
  } else await tx.run(noteRun, [agent_run_id, metadata, at])
  await runTable.append(tx, run, by, { type: 'agent_run_cancel_requested', at, newId, payload: { reason } })
  await wake({ kind: RUN_KIND, id: agent_run_id }, { tx, queue: RUN_QUEUE })
  return true
}

const WHY_CHARS_MAX = 500

/** $1 run, $2 workspace. */
export const lockRun = statement<StoredAgentRun>(
  'agents.lock_run',
  `select t.* from ${TABLE} as t where t.agent_run_id = $1::uuid and t.workspace_id = $2::uuid for update`,
)

/** $1 run, $2 notes, $3 due at. Under the lock of the row. */
const noteRun = statement<never>(
  'agents.note_run',
  `update ${TABLE} set metadata = $2::jsonb, run_after = $3 where agent_run_id = $1::uuid`,
)

/** A run that idles begins its turns with the commit. */
export async function wakeRun(
  tx: Tx,
  { now, wake }: Pick<AgentDeps['commands'], 'now' | 'wake'>,
  run: StoredAgentRun,
): Promise<void> {
  await tx.run(noteRun, [run.agent_run_id, run.metadata, now()])
  await wake({ kind: RUN_KIND, id: run.agent_run_id }, { tx, queue: RUN_QUEUE })
}

/** Wakes runs that are due and have no living turn. */
export const reconcileRuns = openReconcile({
  room: 'agents',
  table: TABLE,
  id: 'agent_run_id',
  isOpen: OPEN_RUN,
  kind: RUN_KIND,
  queue: RUN_QUEUE,
})
