/** Requests to memory: proposing a candidate, answering its approval, forgetting a subject, and updating both from their commands. */
import { type ApprovalDeps, type Decided, decideApproval, findPending, type StoredApproval } from '#domains/approvals'
import type { PersonActor } from '#kernel/actor'
import {
  candidateIdOf,
  checkProposal,
  dropErasure,
  findCandidate,
  getErasure,
  insertCandidate,
  insertErasure,
  isSameProposal,
  type MemoryDeps,
  previewForget,
  type ProposedMemory,
  type RunScope,
  saveCandidate,
  type StoredCandidate,
  type StoredErasure,
  type Subject,
  subjectDigest,
} from '#domains/memory'
import type { Actor } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { CommandState } from '#kernel/machines/command'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { eventIdOf, statement } from '#store'
import { systemActor } from '../change.ts'
import { findCommand, type StoredCommand } from '../command-table.ts'
import { submitCommand } from '../submit.ts'
import type { CommandDeps } from '../deps.ts'
import { labelReader } from '../labels.ts'
import { forgetMemoryTask, writeMemoryTask } from './memory-definitions.ts'

export type ProposingRun = {
  readonly agentRunId: string
  readonly scope: RunScope
  readonly stepIndex?: number
  /** The command of the run that proposes. The memory gets its labels, and its command is one of the run: a stop of the run or of its agent covers it. */
  readonly commandId?: string
  readonly swarmRunId?: string | null
}

export type ProposeMemory = {
  readonly workspaceId: string
  readonly memory: ProposedMemory
  readonly idempotencyKey?: string | undefined
  readonly requestId: string
  /** Set when an agent run proposes. */
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
    ...(run && { runAs: 'agent' as const }),
    ...(run?.commandId !== undefined && { run: { agentRunId: run.agentRunId, swarmRunId: run.swarmRunId ?? null } }),
    alongside: async (tx, command) => {
      if (run?.commandId !== undefined) await labelReader({ db: tx }, command, 'command', [run.commandId])
      const { command_id: commandId } = command
      return insertCandidate(tx, memory, by, { workspaceId, candidateId, commandId, memory: checked.value, agent: run })
    },
  })
  if (!submitted.ok) return submitted
  const candidate = await findCandidate(memory.db, workspaceId, candidateId)
  if (!candidate) return refuse('memory.candidate.not_found', 'There is no such candidate.')
  const { command, isNew } = submitted.value
  if (!isNew && candidate.erased_at === null && !isSameProposal(candidate, checked.value)) return refuseReused(command)
  return accept({ candidate, command, isNew })
}

function refuseReused({ command_id }: StoredCommand): Decision<never> {
  return refuse('key_reused', 'This key was used before for another request.', {
    facts: { command_id: encodeId('command', command_id) },
  })
}

/** A run may propose only about its own subject, in its own types and schemas. Pure. */
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

type DecideCandidate = {
  readonly workspaceId: string
  readonly candidateId: string
  readonly decision: 'approved' | 'rejected'
  readonly reason?: string | undefined
}

/** How often an answer looks for a question that is still to be asked. */
const ASKED_POLL_MS = 20
const ASKED_POLLS_MAX = 250

/** Returns the open approval about a candidate. A turn asks it, some 100 ms after the proposal was answered. */
async function findGate(
  { db, sleep }: Pick<CommandDeps, 'db' | 'sleep'>,
  workspaceId: string,
  commandId: string,
): Promise<StoredApproval | undefined> {
  const never = new AbortController().signal
  for (let poll = 0; ; poll++) {
    // Read before the approvals: one that is asked in between is found.
    const command = await findCommand(db, workspaceId, commandId)
    const pending = await findPending(db, { workspaceId, commandId })
    const gate = pending.find(({ domain_effect_id }) => domain_effect_id === null)
    const isUndecided = command?.command.status === 'created' || command?.command.status === 'validated'
    if (gate || !isUndecided || poll >= ASKED_POLLS_MAX) return gate
    await sleep(ASKED_POLL_MS, never)
  }
}

/** Answers the approval of the candidate's command. */
export async function decideCandidate(
  commands: Pick<CommandDeps, 'db' | 'sleep'>,
  approvals: ApprovalDeps,
  actor: PersonActor,
  { candidateId, ...answer }: DecideCandidate,
): Promise<Decision<Decided>> {
  const { workspaceId } = answer
  const candidate = await findCandidate(approvals.db, workspaceId, candidateId)
  if (!candidate) return refuse('memory.candidate.not_found', 'There is no such candidate.')
  const gate = await findGate(commands, workspaceId, candidate.command_id)
  if (!gate) {
    const state = candidate.status.replaceAll('_', ' ')
    return refuse('memory.candidate.nothing_pending', `No approval is open for this candidate: it is ${state}.`)
  }
  return decideApproval(approvals, actor, { ...answer, approvalId: gate.approval_id })
}

type RequestForget = {
  readonly workspaceId: string
  readonly subject: Subject
  readonly idempotencyKey?: string | undefined
  readonly requestId: string
}

type ForgetRequest = { readonly erasure: StoredErasure; readonly command: StoredCommand }

/** Writes the erasure and the command that performs it after an approval, in one transaction. */
export async function requestForget(
  deps: CommandDeps,
  memory: MemoryDeps,
  by: Actor,
  { workspaceId, subject, idempotencyKey, requestId }: RequestForget,
): Promise<Decision<ForgetRequest>> {
  const key = idempotencyKey === undefined ? undefined : eventIdOf('memory_erasure', workspaceId, idempotencyKey)
  const known = key === undefined ? undefined : await getErasure(memory.db, { workspaceId, erasureId: key })
  if (!known?.ok) {
    const { items } = await previewForget(memory, workspaceId, subject)
    if (items.length === 0)
      return refuse('memory.forget.nothing_known', 'Nothing is known about this subject.', { path: 'subject' })
  }
  const erasureId = key ?? memory.newId()
  const submitted = await submitCommand(deps, by, {
    workspaceId,
    taskName: forgetMemoryTask,
    payload: { memory_erasure_id: erasureId },
    idempotencyKey,
    ingress: 'user_request',
    requestId,
    alongside: (tx, { command_id: commandId }) =>
      insertErasure(tx, memory, by, { workspaceId, erasureId, commandId, subject }),
  })
  if (!submitted.ok) return submitted
  const erasure = await getErasure(memory.db, { workspaceId, erasureId })
  if (!erasure.ok) return erasure
  const { command } = submitted.value
  // The digest outlives the subject: a repeat of the request is recognised even after the erasure.
  if (erasure.value.subject_digest !== subjectDigest(erasureId, subject)) return refuseReused(command)
  return accept({ erasure: erasure.value, command })
}

/** A candidate whose command has ended, or whose approval is not linked yet. */
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

/** Links open approvals to their candidates, and closes candidates and erasures whose commands have ended. Returns how many rows were handled. */
export async function followCandidates(
  memory: Pick<MemoryDeps, 'db' | 'newId' | 'now'>,
  { traceId }: { readonly traceId: string },
): Promise<number> {
  const { db, newId } = memory
  const actor = { ...systemActor, traceId }
  const at = memory.now()
  const behind = await db.run(listBehind)
  for (const row of behind) {
    await db.transaction(async (tx) => {
      const candidate = await findCandidate(tx, row.workspace_id, row.memory_candidate_id)
      if (!candidate) return
      // Another process may have been first: the compare-and-set of the machine then changes nothing.
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
