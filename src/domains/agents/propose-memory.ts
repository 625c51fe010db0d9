/** The tool `propose_memory`: a run proposes a memory within its scope, and the command `Write Memory` decides about it as about every other proposal. */
import {
  actingFor,
  allow,
  cancelCommand,
  defineCommand,
  defineEffect,
  type Definition,
  type EffectCall,
  EffectFailure,
  findPresentRights,
  proposeMemory,
  readCommand,
  RUN_ONLY,
} from '#domains/commands'
import { type ProposedMemory, type RunScope, runScope } from '#domains/memory'
import { bySystem } from '#kernel/actor'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { StoredAgentRun } from './agent-run.ts'
import { byReference, readWhole, wholeInputs } from './call-content.ts'
import type { AgentDeps } from './deps.ts'
import { findRunOfCall, skillOf } from './tools.ts'

/** `deps` is called by the first call, because the catalog opens before the room. */
export function proposeMemoryDefinitions(deps: () => AgentDeps): readonly Definition[] {
  const input = byReference(wholeInputs.propose_memory)
  const propose = defineEffect('agent.propose_memory', {
    input,
    class: 'keyed',
    outward: false,
    async do({ input: named, ...call }) {
      const { subject, content, ...rest } = await readWhole(deps().commands.db, call, named, wholeInputs.propose_memory)
      return proposeInScope(deps(), call, { ...rest, ...subject, content: content as JsonObject })
    },
    undo: {
      class: 'keyed',
      do: ({ result, workspaceId, traceId }) => withdraw(deps(), { ...result, workspaceId, traceId }),
    },
  })
  return defineCommand('propose_memory', {
    description: 'Proposes a memory. A person decides whether it is kept. Returns the id of the candidate.',
    input,
    policy: allow,
    steps: (given) => [propose(given)],
    uses: [propose],
    task: { ingress_types: ['agent_action'], memory_write_possible: true, metadata: { [RUN_ONLY]: true } },
  }).definitions
}

type Call = Omit<EffectCall, 'payload'>

async function proposeInScope(deps: AgentDeps, call: Call, proposed: ProposedMemory) {
  const { commands } = deps
  const { workspaceId, commandId, idempotencyKey, traceId } = call
  if (!commands.memory) throw new EffectFailure('internal_error', 'This process has no memory store.', 'no')
  const [run] = await commands.db.run(findRunOfCall, [commandId])
  const command = await readCommand(commands.db, workspaceId, commandId)
  const principal = run && command.ok ? await findPresentRights(deps.commands, command.value.command) : undefined
  if (!run || !command.ok || !principal)
    throw new EffectFailure('permission_denied', 'The requester may no longer act.', 'no')
  const { agent } = command.value.command.context
  const by = agent === undefined ? principal : { ...principal, agent: { name: agent, tools: [] } }
  const made = await proposeMemory(commands, commands.memory, actingFor(by, traceId), {
    workspaceId,
    memory: proposed,
    idempotencyKey,
    requestId: command.value.command.context.request_id,
    run: { agentRunId: run.agent_run_id, swarmRunId: run.swarm_run_id, scope: scopeOf(run, proposed), commandId },
  })
  // A stop came after the begin of this effect: it begins again after the lift.
  if (!made.ok && made.code === 'commands.agent.stopped')
    throw new EffectFailure('temporary_database_error', made.reason, 'no')
  if (!made.ok) {
    const isOutside = made.code === 'memory.scope.exceeded' || made.code === 'memory.consent.missing'
    throw new EffectFailure(isOutside ? 'permission_denied' : 'validation_error', made.reason, 'no')
  }
  return {
    memory_candidate_id: encodeId('memory_candidate', made.value.candidate.memory_candidate_id),
    command_id: encodeId('command', made.value.command.command_id),
  }
}

/** A run without a subject proposes about every subject, in the types of its manifest and without a schema. */
function scopeOf({ memory_scope, ...run }: StoredAgentRun, { subject_type, subject_id }: ProposedMemory): RunScope {
  const scope = runScope.safeParse(memory_scope)
  if (scope.success) return scope.data
  return runScope.parse({
    subject_type,
    subject_id,
    allowed_memory_types: skillOf(run)?.memory_scope?.write ?? [],
    allow_semantic_retrieval: false,
    max_results: 0,
  })
}

type Proposed = { readonly command_id: string; readonly workspaceId: string; readonly traceId: string }

/** Ends the command that would write the memory. A memory that a person has let in meanwhile stays. */
async function withdraw({ commands }: AgentDeps, { command_id, workspaceId, traceId }: Proposed): Promise<void> {
  const id = decodeId('command', command_id)
  if (!id.ok) throw new EffectFailure('validation_error', id.reason, 'no')
  const reason = 'The agent run that proposed it was undone.'
  await cancelCommand(commands, bySystem(traceId), { workspaceId, commandId: id.value, reason })
}
