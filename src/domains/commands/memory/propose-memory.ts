/** The one way into memory: a proposal becomes a candidate and the command that decides it, in one transaction. */
import type { Actor } from '#kernel/actor'
import {
  candidateIdOf,
  checkProposal,
  findCandidate,
  insertCandidate,
  isSameProposal,
  type MemoryDeps,
  type ProposedMemory,
  type RunScope,
  type StoredCandidate,
} from '#domains/memory'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { StoredCommand } from '../command-table.ts'
import { submitCommand } from '../submit.ts'
import type { CommandDeps } from '../deps.ts'
import { writeMemoryTask } from './memory-types.ts'

export type ProposingRun = { readonly agentRunId: string; readonly scope: RunScope; readonly stepIndex?: number }

export type ProposeMemory = {
  readonly workspaceId: string
  readonly memory: ProposedMemory
  readonly idempotencyKey?: string | undefined
  readonly requestId: string
  /** The run that proposes, through the gateway. */
  readonly run?: ProposingRun | undefined
}

export type MemoryProposal = {
  readonly candidate: StoredCandidate
  readonly command: StoredCommand
  readonly isNew: boolean
}

export async function proposeMemory(
  deps: CommandDeps,
  memory: MemoryDeps,
  by: Actor,
  { workspaceId, memory: proposed, idempotencyKey, requestId, run }: ProposeMemory,
): Promise<Decision<MemoryProposal>> {
  const within = run ? decideProposal(run.scope, proposed) : accept(null)
  if (!within.ok) return within
  const checked = checkProposal(memory.schemas, proposed, memory.now())
  if (!checked.ok) return checked
  const candidateId = idempotencyKey === undefined ? memory.newId() : candidateIdOf(workspaceId, idempotencyKey)
  const submitted = await submitCommand(deps, by, {
    workspaceId,
    taskName: writeMemoryTask,
    payload: { memory_candidate_id: candidateId },
    idempotencyKey,
    ingress: run ? 'agent_action' : 'user_request',
    requestId,
    ...(run ? { runAs: 'agent' as const } : {}),
    alongside: (tx, { command_id: commandId }) =>
      insertCandidate(tx, memory, by, {
        workspaceId,
        candidateId,
        commandId,
        memory: checked.value,
        agent: run,
      }),
  })
  if (!submitted.ok) return submitted
  const candidate = await findCandidate(memory.db, workspaceId, candidateId)
  if (!candidate) return refuse('memory.candidate.not_found', 'There is no such candidate.')
  const { command, isNew } = submitted.value
  if (!isNew && candidate.erased_at === null && !isSameProposal(candidate, checked.value)) return refuseReused(command)
  return accept({ candidate, command, isNew })
}

export function refuseReused({ command_id }: StoredCommand): Decision<never> {
  return refuse('key_reused', 'This key was used before for another request.', {
    hint: 'Use a new key for a new request, and the same key only to repeat the same request.',
    facts: { command_id: encodeId('command', command_id) },
  })
}

/** A run proposes about its own subject, in its own types and schemas. Pure. */
export function decideProposal(scope: RunScope, proposed: ProposedMemory): Decision<null> {
  const parts: readonly (readonly [string, boolean])[] = [
    ['subject', scope.subject_type === proposed.subject_type && scope.subject_id === proposed.subject_id],
    ['memory_type', scope.allowed_memory_types.includes(proposed.memory_type)],
    ['schema_name', proposed.schema_name === undefined || scope.write.includes(proposed.schema_name)],
  ]
  const wide = parts.find(([, isWithin]) => !isWithin)?.[0]
  if (wide === undefined) return accept(null)
  return refuse('memory.scope.exceeded', `The ${wide} is outside the memory scope of this run.`, { path: wide })
}
