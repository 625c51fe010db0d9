/** Decides a request without recording it: the policy decision, the approvers and whether they can decide, and the effects. */
import { z } from 'zod'
import { timeView } from '#contract'
import { type ApprovalRequest, findRequestStandings, findUsualWaits, showActor } from '#domains/approvals'
import type { Actor } from '#kernel/actor'
import { formatInstant } from '#kernel/instant'
import type { PolicyResult } from '#kernel/policy/evaluate'
import type { Facts, PolicyInput } from '#kernel/policy/policy'
import { accept, type Decision } from '#kernel/refusal'
import type { CompiledTask } from './catalog/open-catalog.ts'
import type { StoredCommand } from './command-table.ts'
import { commandStatus, submitCommandBody } from './contract.ts'
import type { CommandDeps } from './deps.ts'
import { foldFresh } from './drive.ts'
import { planCommand } from './plan.ts'
import { checkRequest, rowOf, type SubmitCommand } from './submit.ts'
import { undoOf } from './tasks.ts'

export const previewCommandBody = submitCommandBody
  .pick({ task_name: true, payload: true })
  .meta({ id: 'PreviewCommand', description: 'A request to be decided about without being recorded.' })

export const previewView = z
  .object({
    task_name: z.string(),
    command_type: z.string(),
    status: commandStatus.meta({ description: 'Where the command would be when it first calls, asks or waits.' }),
    error: z.string().nullable(),
    error_class: z.string().nullable(),
    contract_key: z.string().nullable().meta({ description: 'The key that the contract of the task would give it.' }),
    cancellation_mode: z.string().meta({ example: 'graceful' }),
    waits_until: timeView('Until when it would wait.').nullable(),
    missing_fields: z.array(z.string()),
    policy: z
      .object({
        decision: z.string().meta({ example: 'require_approval' }),
        reasons: z.array(z.string()),
        policy_version: z.string(),
        trace: z.array(z.object({ rule: z.string(), category: z.string(), answer: z.string() })),
      })
      .nullable()
      .meta({ description: 'What each rule says; null where the payload does not get that far.' }),
    approvals: z.array(
      z.object({
        approver: z.string().meta({ example: 'role:owner' }),
        approval_type: z.string(),
        approvals_required: z.int().meta({ example: 1, description: 'How many different persons must approve.' }),
        why: z.string(),
        blocked_by: z
          .object({ code: z.string(), reason: z.string(), hint: z.string() })
          .nullable()
          .meta({ description: 'Why nobody could decide today; null: somebody can.' }),
        could_decide: z.array(z.string()).meta({
          example: ['local:ada'],
          description: 'The persons whose approval would count today.',
        }),
        not_counted: z
          .array(z.object({ name: z.string(), reason: z.string() }))
          .meta({ description: 'Persons who are asked, and whose approval would not count.' }),
        usual_wait_ms: z.int().nullable().meta({
          example: 540_000,
          description:
            'The median time to a decision of this approver, of the last 500 approvals. Null: none is decided.',
        }),
      }),
    ),
    effects: z.array(
      z.object({
        effect_type: z.string(),
        effect_class: z.string().meta({ example: 'keyed' }),
        reversibility: z.string().nullable(),
        undone_by: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: 'CommandPreview', description: 'What would become of a request; nothing is recorded.' })

export type CommandPreview = z.infer<typeof previewView>

export async function previewCommand(
  deps: CommandDeps,
  by: Actor,
  input: SubmitCommand,
): Promise<Decision<CommandPreview>> {
  const checked = checkRequest(deps, input)
  if (!checked.ok) return checked
  const { task } = checked.value
  const command = rowOf(deps, by, input, checked.value, deps.now())
  const { catalog, random } = deps
  const turn = { token: '', name: 'preview' }
  const { draft, next } = await foldFresh(deps, command, { catalog, random, turn, hasParents: false })
  const { now, write } = draft
  const payloadOf = (type: string) => write.events.find(({ event_type }) => event_type === type)?.payload
  // Written by the fold above.
  const policy = payloadOf('policy_evaluated') as (PolicyResult & { readonly input: PolicyInput }) | undefined
  const approvals = next.t === 'ask' ? await previewApprovals(deps, command.workspace_id, next.requests) : accept([])
  if (!approvals.ok) return approvals
  return accept({
    task_name: task.spec.name,
    command_type: command.command_type,
    status: now.command.status,
    error: now.command.error,
    error_class: now.command.error_class,
    contract_key: command.contract_key,
    cancellation_mode: command.cancellation_mode,
    waits_until: next.t === 'wait' && next.until ? formatInstant(next.until) : null,
    missing_fields: (payloadOf('input_requested')?.['missing_fields'] as string[] | undefined) ?? [],
    policy: policy
      ? {
          decision: policy.decision,
          reasons: [...policy.reasons],
          policy_version: policy.policy_version,
          trace: policy.trace.map(({ rule, category, answer }) => ({ rule, category, answer })),
        }
      : null,
    approvals: approvals.value,
    effects: policy ? previewEffects(deps, task, now.command, factsIn(policy)) : [],
  })
}

/** The facts that the decision was made with. */
function factsIn({ input }: { readonly input: PolicyInput }): Facts {
  return (input.context['facts'] ?? {}) as Facts
}

async function previewApprovals(
  { db, approvalTypes }: CommandDeps,
  workspaceId: string,
  requests: readonly ApprovalRequest[],
): Promise<Decision<CommandPreview['approvals']>> {
  const standings = await findRequestStandings(db, approvalTypes, workspaceId, requests)
  if (!standings.ok) return standings
  const waits = await findUsualWaits(
    db,
    workspaceId,
    requests.map(({ approver = '' }) => approver),
  )
  return accept(
    requests.map(({ approver = '', approvalType, approvalsRequired = 1, packet }, at) => {
      const { blocked, could = [], notCounted = [] } = standings.value[at] ?? {}
      return {
        approver: showActor(approver),
        approval_type: approvalType,
        approvals_required: approvalsRequired,
        why: packet.why,
        blocked_by: blocked ? { code: blocked.code, reason: blocked.reason, hint: blocked.hint } : null,
        could_decide: [...could],
        not_counted: notCounted.map(({ name, reason }) => ({ name, reason })),
        usual_wait_ms: waits.get(approver) ?? null,
      }
    }),
  )
}

/** The effects of the plan. Empty when no plan can be made; the preview's error says why. */
function previewEffects(
  { catalog, newId }: CommandDeps,
  task: CompiledTask,
  command: StoredCommand,
  facts: Facts,
): CommandPreview['effects'] {
  const terms = { policy: { decision: 'allow' as const, metadata: {} }, isApproved: false, facts }
  const planned = planCommand(catalog, task, { command, effects: [] }, terms, newId)
  if (!planned.ok) return []
  return planned.value.effects.map(({ effect_type, reversibility, declared_compensation }) => ({
    effect_type,
    effect_class: (catalog.effects.get(effect_type)?.definition ?? undoOf(catalog, effect_type))?.class ?? 'opaque',
    reversibility,
    undone_by: declared_compensation,
  }))
}
