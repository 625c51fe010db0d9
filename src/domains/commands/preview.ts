/** Decides about a request without recording it: what policy says, who would be asked and can be reached, and what would be done. Writes nothing. */
import type { Actor } from '#kernel/actor'
import { type ApprovalRequest, findRequestBlocked } from '#domains/approvals'
import type { CommandState } from '#kernel/machines/command'
import type { PolicyResult } from '#kernel/policy/evaluate'
import { accept, type Decision } from '#kernel/refusal'
import type { EffectClass } from './catalog/effect-definition.ts'
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import type { StoredCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { foldFresh } from './drive.ts'
import { planCommand } from './plan.ts'
import { checkRequest, rowOf, type SubmitCommand } from './submit.ts'

type PreviewedApproval = {
  readonly approver: string
  readonly approval_type: string
  readonly why: string
  /** Why nobody could decide today; null: somebody can. */
  readonly blocked_by: { readonly code: string; readonly reason: string; readonly hint: string } | null
}

type PreviewedEffect = {
  readonly effect_type: string
  readonly effect_class: EffectClass
  readonly reversibility: string | null
  /** The compensation that would undo it. */
  readonly undone_by: string | null
}

export type CommandPreview = {
  readonly task_name: string
  readonly command_type: string
  /** Where the command would be when it first calls, asks or waits. */
  readonly status: CommandState
  readonly error: string | null
  readonly error_class: string | null
  /** Until when it would wait for input, or because a rule delays it. */
  readonly waits_until: Date | null
  readonly missing_fields: readonly string[]
  /** Null where the payload does not get that far. */
  readonly policy: Pick<PolicyResult, 'decision' | 'reasons' | 'trace' | 'policy_version'> | null
  readonly approvals: readonly PreviewedApproval[]
  readonly effects: readonly PreviewedEffect[]
}

export async function previewCommand(
  deps: CommandDeps,
  by: Actor,
  input: SubmitCommand,
): Promise<Decision<CommandPreview>> {
  const checked = checkRequest(deps, input)
  if (!checked.ok) return checked
  const command: StoredCommand = { ...unborn, ...rowOf(deps, by, input, checked.value, deps.now()) }
  const turn = { token: '', name: 'preview' }
  const { catalog, random } = deps
  const { draft, next } = await foldFresh(deps, command, { catalog, random, turn, hasParents: false })
  const { now, write } = draft
  const told = (type: string) => write.events.find(({ event_type }) => event_type === type)?.payload
  // Recorded as it is by the fold of this very call.
  const policy = told('policy_evaluated') as CommandPreview['policy'] | undefined
  const approvals = next.t === 'ask' ? await previewApprovals(deps, next.requests) : accept([])
  if (!approvals.ok) return approvals
  return accept({
    task_name: checked.value.task.spec.name,
    command_type: command.command_type,
    status: now.command.status,
    error: now.command.error,
    error_class: now.command.error_class,
    waits_until: next.t === 'wait' ? next.until : null,
    missing_fields: (told('input_requested')?.['missing_fields'] as readonly string[] | undefined) ?? [],
    policy: policy ?? null,
    approvals: approvals.value,
    effects: policy ? previewEffects(deps, checked.value.task, now.command) : [],
  })
}

/** The columns that a command gets only later. */
const unborn = {
  cancellation_requested: false,
  runtime_workflow_id: null,
  plan: null,
  result: null,
  error: null,
  error_class: null,
  attempt: 1,
  run_after: null,
  turn_token: null,
  turn_until: null,
  completed_at: null,
} as const

async function previewApprovals(
  { db, approvalTypes }: CommandDeps,
  requests: readonly ApprovalRequest[],
): Promise<Decision<readonly PreviewedApproval[]>> {
  const approvals: PreviewedApproval[] = []
  for (const request of requests) {
    const blocked = await findRequestBlocked(db, approvalTypes, request)
    if (!blocked.ok) return blocked
    const { approver = '', approvalType, packet } = request
    approvals.push({ approver, approval_type: approvalType, why: packet.why, blocked_by: blocked.value })
  }
  return accept(approvals)
}

/** What the plan would do; a plan that cannot be made does nothing, and the preview says why. */
function previewEffects(
  { catalog, newId }: Pick<CommandDeps, 'newId'> & { readonly catalog: Catalog },
  task: CompiledTask,
  command: StoredCommand,
): readonly PreviewedEffect[] {
  const terms = { policy: { decision: 'allow' as const, metadata: {} }, isApproved: false }
  const planned = planCommand(catalog, task, { command, effects: [] }, terms, newId)
  if (!planned.ok) return []
  return planned.value.effects.map(({ effect_type, reversibility, declared_compensation }) => ({
    effect_type,
    effect_class: catalog.effects.get(effect_type)?.definition.class ?? 'opaque',
    reversibility,
    undone_by: declared_compensation,
  }))
}
