/** The tools of a run as its agent sees them, and what a reading tool has found, for the eyes of the agent alone. */
import {
  type CompiledTask,
  DELEGATION,
  findPresentRights,
  findTool,
  startsRun,
  toolSchema,
  toolSlug,
} from '#domains/commands'
import { findArtifact, mayRead, readArtifactText } from '#domains/artifacts'
import { readMemory } from '#domains/memory'
import { decodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { ManifestTool, StoredAgentRun } from './agent-run.ts'
import type { AgentCall, AgentObservation, AgentTool } from './agent-runtime.ts'
import type { AgentDeps } from './deps.ts'
import { type CallCommand, observeCommand, toolOf } from './observe-call.ts'
import type { FoundRun } from './read-run.ts'

/** The tools by the names that the manifest uses. Refuses a name that no task open to agents has. */
export function resolveTools(
  { commands: { catalog } }: AgentDeps,
  named: readonly string[],
): Decision<readonly ManifestTool[]> {
  const tools = new Map<string, ManifestTool>()
  for (const name of named) {
    const tool = findTool(catalog, name)
    if (!tool.ok) return tool
    const { spec, type } = tool.value
    if (startsRun(type)) return refuse('agents.tool.outside_scope', `${quote(spec.name)}: ${DELEGATION}`)
    const slug = toolSlug(spec.name)
    tools.set(slug, { name: slug, command_type: type.name, mode: modeOf(tool.value) })
  }
  return accept([...tools.values()])
}

function modeOf({ spec, type }: CompiledTask): string {
  if (type.execution_mode) return type.execution_mode
  if (spec.approval_required || type.approval.required) return 'approval_gated_async'
  return spec.sync_allowed ? 'sync' : 'async'
}

/** A tool that the catalog no longer has is not offered; a call of it is refused. */
export function visibleTools({ commands: { catalog } }: AgentDeps, run: StoredAgentRun): readonly AgentTool[] {
  return run.allowed_tools
    .filter((name) => !run.forbidden_tools.includes(name))
    .flatMap((name): AgentTool[] => {
      const tool = findTool(catalog, name)
      if (!tool.ok) return []
      // A JSON Schema is JSON.
      const input = toolSchema(tool.value) as unknown as JsonObject
      return [{ name, description: tool.value.spec.description, input }]
    })
}

const MEMORIES_MAX = 100

/** What the tool has found is in the observation alone, not in the result of its command. */
export function isReadingTool(call: AgentCall): boolean {
  const tool = toolOf(call)
  return tool === 'retrieve_memory' || tool === 'read_artifact'
}

/** The content that a reading tool has found. Undefined: the tool reads nothing. It is read as the requester, and the read is on record. */
export async function readFound(
  deps: AgentDeps,
  found: FoundRun,
  call: AgentCall,
  command: CallCommand,
): Promise<Omit<AgentObservation, 'callId'> | undefined> {
  const tool = toolOf(call)
  if (command.status !== 'succeeded' || !isReadingTool(call)) return undefined
  const result = command.result as JsonObject | null
  const content = await (tool === 'retrieve_memory' ? readMemories : readArtifact)(deps, found, result ?? {})
  return observeCommand(command, tool, content)
}

async function readMemories(deps: AgentDeps, { run, origin }: FoundRun, result: JsonObject): Promise<JsonValue> {
  const { memory } = deps.commands
  const ids = Array.isArray(result['memory_ids']) ? result['memory_ids'].slice(0, MEMORIES_MAX) : []
  const principal = await findPresentRights(deps.commands, { ...origin, workspace_id: run.workspace_id })
  if (!memory || !principal) return { memories: [] }
  const reader = { id: origin.requested_by, traceId: origin.context.trace_id, principal }
  const memories: JsonObject[] = []
  for (const each of ids) {
    const id = decodeId('memory', String(each))
    const read =
      id.ok &&
      (await readMemory(memory, reader, { workspaceId: run.workspace_id, memoryId: id.value, activeOnly: true }))
    if (read && read.ok) {
      const { memory_type, content, confidence } = read.value
      memories.push({ memory_id: String(each), memory_type, content, confidence: Number(confidence) })
    }
  }
  return { memories }
}

const TEXT_BYTES_MAX = 262_144

async function readArtifact(deps: AgentDeps, { run, origin }: FoundRun, result: JsonObject): Promise<JsonValue> {
  const { artifacts, db } = deps.commands
  const shown = typeof result['artifact_id'] === 'string' ? result['artifact_id'] : ''
  const id = decodeId('artifact', shown)
  const principal = await findPresentRights(deps.commands, { ...origin, workspace_id: run.workspace_id })
  if (!artifacts || !id.ok || !principal) return null
  const artifact = await findArtifact(db, run.workspace_id, id.value)
  if (!artifact || !mayRead(artifact, principal) || artifact.size_bytes > TEXT_BYTES_MAX) return null
  const text = await readArtifactText(artifacts, artifact)
  return text.ok ? { artifact_id: shown, text: text.value } : null
}
