/** Undoes what a run did: its commands in reverse order, each by an Undo Command. A child of it is undone by its own Spawn Subagent command. */
import {
  COMMAND_KIND,
  type EffectCall,
  EffectFailure,
  EffectPending,
  undoByDecision,
  type UndoCall,
  type UndoState,
} from '#domains/commands'
import { decodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { Process } from '#runtime'
import { statement } from '#store'
import type { StoredAgentRun } from '../agent-run.ts'
import type { AgentDeps } from '../deps.ts'

/** $1 run, $2 workspace. The newest first. Reads change nothing and commands that are undone already have nothing left. A memory that it proposed is withdrawn by the undo of the proposal. */
const listCommands = statement<{ readonly command_id: string; readonly is_open: boolean }>(
  'swarms.list_run_commands',
  `select c.command_id, c.completed_at is null as is_open from concord.commands as c
where c.agent_run_id = $1::uuid and c.workspace_id = $2::uuid and c.context ? 'follower' order by c.created_at desc, c.command_id desc`,
)

type Undoing = {
  readonly workspaceId: string
  readonly requestId: string
  readonly traceId: string
  readonly follower: Process
}

type Undone = {
  readonly state: UndoState
  /** The commands that could not be undone. Each of their Undo Commands alerts operators. */
  readonly failed: readonly string[]
}

/** The newest first. */
export async function listCommandsOf(
  { commands: { db } }: AgentDeps,
  { agent_run_id, workspace_id }: Pick<StoredAgentRun, 'agent_run_id' | 'workspace_id'>,
): Promise<readonly string[]> {
  const found = await db.run(listCommands, [agent_run_id, workspace_id])
  return found.map(({ command_id }) => command_id)
}

async function undoCommandsOf(deps: AgentDeps, agentRunId: string, undoing: Undoing): Promise<Undone> {
  const commands = await deps.commands.db.run(listCommands, [agentRunId, undoing.workspaceId])
  if (commands.some(({ is_open }) => is_open)) return { state: 'open', failed: [] }
  return undoEach(
    deps,
    commands.map(({ command_id }) => command_id),
    undoing,
  )
}

/** One after the other: the next undo begins when the one before has ended, also if that one failed. A repeat continues where it stands. */
export async function undoEach(
  deps: AgentDeps,
  commandIds: readonly string[],
  { traceId, ...undoing }: Undoing,
): Promise<Undone> {
  let state: UndoState = 'none'
  const failed: string[] = []
  for (const commandId of commandIds) {
    const undone = await undoByDecision(deps.commands, { traceId }, { ...undoing, commandId })
    if (undone === 'open') return { state: 'open', failed }
    if (undone === 'failed') failed.push(commandId)
    if (undone === 'done') state = 'done'
  }
  return { state: failed.length > 0 ? 'failed' : state, failed }
}

const undoingOf = ({ commandId, workspaceId, traceId, idempotencyKey }: EffectCall): Undoing => ({
  workspaceId,
  requestId: idempotencyKey,
  traceId,
  follower: { kind: COMMAND_KIND, id: commandId },
})

/** The run that the undone effect names in its result. */
export function runIn({ undone }: UndoCall, field: 'child_agent_run_id' | 'coordinator_agent_run_id'): string {
  const shown = (undone.result as JsonObject | null)?.[field]
  const id = decodeId('agent_run', typeof shown === 'string' ? shown : '')
  if (!id.ok) throw new EffectFailure('internal_error', id.reason, 'no')
  return id.value
}

/** The undo of an effect that started a run. Its command is woken when an Undo Command ends. */
export async function undoRun(
  deps: AgentDeps,
  call: EffectCall,
  agentRunId: string,
  name: string,
): Promise<JsonObject> {
  const found = await findUndone(deps, call, agentRunId)
  if (!found.found) throw EffectPending.ofProcess(COMMAND_KIND, agentRunId)
  call.emit(name)
  return found.result
}

export async function findUndone(deps: AgentDeps, call: EffectCall, agentRunId: string) {
  const { state } = await undoCommandsOf(deps, agentRunId, undoingOf(call))
  if (state === 'open') return { found: false } as const
  if (state === 'failed') throw new EffectFailure('internal_error', 'An action of the agent could not be undone.', 'no')
  return { found: true, result: { undone: state === 'done' } } as const
}
