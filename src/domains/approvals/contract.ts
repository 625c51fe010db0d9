/** The API shapes of this room: the view of an approval, and the body of a decision. */
import { z } from 'zod'
import { idView, orNull, textField, textView, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { JsonObject } from '#kernel/json-value'
import { statesOf } from '#kernel/machine'
import { approvalMachine } from '#kernel/machines/approval'
import type { Names, Origins } from '#domains/identity'
import { type Person, nameOfActor, personIdsOf, showActor } from './approver.ts'
import { findApprover, requestContract, type NextStep } from './decide-vote.ts'
import { blockCodes, type Standings } from './check-deciders.ts'
import { coAuthorsOf, decisionValues, resumeSteps, type StoredApproval } from './stored-approval.ts'

const HASH = '6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b'

const json = (description: string) => z.record(z.string(), z.unknown()).meta({ description })

export const approvalStatus = z.enum(statesOf(approvalMachine)).meta({ id: 'ApprovalStatus', example: 'pending' })

const blockedView = z
  .object({
    code: z.enum(blockCodes).meta({ example: 'role_without_members', description: 'Stable.' }),
    reason: textView('Nobody who may decide here has the role finance.', 'What is wrong.'),
    hint: textView('give somebody the role: concord people grant <name> finance.', 'What to do about it.'),
    possible: z.int().meta({ example: 0, description: 'How many persons could still approve.' }),
    required: z.int().meta({ example: 1, description: 'How many more approvals are needed.' }),
  })
  .meta({ id: 'ApprovalBlocked', description: 'Why an open approval cannot be decided.' })

const notCountedView = z
  .object({
    user_id: idView('user', 'Who.'),
    name: textView('local:dora', 'Their display names.'),
    reason: textView('has credentials that the requester issued', 'Why.'),
  })
  .meta({ id: 'NotCounted', description: 'A person who does not decide independently of the requester.' })

export const approvalView = z
  .object({
    approval_id: idView('approval', 'The approval.'),
    command_id: idView('command', 'The command that waits for it.'),
    domain_effect_id: idView('effect', 'The one effect it is about, if it is about one.').nullable(),
    approval_type: textView('command_approval', 'Its kind.'),
    status: approvalStatus,
    requested_by: idView('user', 'Who asks.'),
    requested_by_name: textView('local:ana', 'What people call who asks.').nullable(),
    approver: textView('role:finance', 'Who is asked: a person or an org role.'),
    approver_name: textView('local:dora', 'What people call who is asked; null for a role.').nullable(),
    approvers: z.array(z.string()).meta({ example: [], description: 'Named persons who may decide too.' }),
    approver_roles: z
      .array(z.string())
      .meta({ example: ['cfo'], description: 'Org roles whose members may decide too.' }),
    approvals_required: z.int().meta({ example: 1, description: 'How many persons must approve.' }),
    approved_by: z.array(z.string()).meta({ example: [], description: 'The persons who approved so far.' }),
    approved_by_names: z.array(z.string().nullable()).meta({ example: [], description: 'Their display names.' }),
    approved_for: z.array(z.string()).meta({
      example: [],
      description: 'In whose place each of them approved: their own, or that of the person they stand in for.',
    }),
    approved_for_names: z.array(z.string().nullable()).meta({ example: [], description: 'Their display names.' }),
    counted_elsewhere: z.array(z.string()).meta({
      example: [],
      description:
        'The names of persons who have approved another approval of this command. One person counts once per command, so they cannot approve this one.',
    }),
    may_decide: z.boolean().meta({ description: 'Whether it is yours to decide while it is open.' }),
    may_decide_for: textView('local:dora', 'The person in whose place you would decide; null: your own.').nullable(),
    decision_values: z.array(z.enum(decisionValues)).meta({ description: 'The decisions it takes.' }),
    meanings: z
      .record(z.string(), z.string())
      .meta({ example: { approved: 'Run it as shown.' }, description: 'What each decision means.' }),
    reason_required: z.array(z.enum(decisionValues)).meta({ description: 'Decisions that need a reason.' }),
    edits_allowed: z.boolean().meta({ description: 'Whether arguments may be changed with the approval.' }),
    edited: z
      .object({
        by: z.string().meta({ description: 'Who changed the request.' }),
        fields: z.array(z.string()),
        reason: z.string().nullable(),
        needs_confirmation: z.boolean().meta({
          description:
            'Whether another approver must confirm the change: the approval of its author does not count. The requester may confirm it too, if an approver made it and no agent proposed the command.',
        }),
      })
      .nullable()
      .meta({
        description:
          'What somebody other than the requester wrote into the request, with an approval or as input; null: nothing.',
      }),
    payload_hash: textView(HASH, 'Send it along to decide about exactly this.'),
    packet: json('The eight items to review. Hidden characters are shown as codes.'),
    expires_at: timeView('Without a decision by then it is refused; null never expires.').nullable(),
    created_at: timeView('When it was asked.'),
    decided_at: timeView('When it was decided.').nullable(),
    decided_by: idView('user', 'Who decided.').nullable(),
    decided_by_name: textView('local:dora', 'What people call who decided.').nullable(),
    decision_reason: textView('Within the budget.', 'The reason that was given, or why it was closed.').nullable(),
    superseded_by: idView('approval', 'The approval that took its place.').nullable(),
    blocked_by: blockedView.nullable().meta({
      description: 'Why nobody, or too few, can decide it as things are; null: somebody can. It goes with its cause.',
    }),
    not_counted: z.array(notCountedView).meta({
      description: 'People who are asked while it is open, and whose decision does not count.',
    }),
    counts_invited: z.boolean().meta({
      description:
        'Whether people count whose credentials came through the same hands as those of the requester: CONCORD_COUNT_INVITED_APPROVERS when it was asked.',
    }),
  })
  .meta({ id: 'Approval', description: 'A request for a decision, decided once.' })

export const approvalDetailView = approvalView
  .extend({
    arguments: json('The exact arguments, for forms. Show people the packet.'),
    ui: json('The layout of a form for it.'),
  })
  .meta({ id: 'ApprovalDetail', description: 'An approval with everything needed to decide.' })

export const resolveApprovalBody = z
  .strictObject({
    // Any text: the refusal of a wrong one lists the allowed decisions.
    decision: z.string().meta({
      enum: [...decisionValues],
      example: 'approved',
      description: 'One of `decision_values` of the approval.',
    }),
    reason: textField(2_000).optional().meta({ example: 'Within the budget.' }),
    payload_hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional()
      .meta({ example: HASH, description: 'The content that you looked at. Another content is refused.' }),
    edits: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({
        example: { amount: '80.00' },
        description: 'Arguments to replace, by name. They are validated and judged again before they run.',
      }),
  })
  .meta({ id: 'ResolveApproval', description: 'The decision of a person.' })

export const resolvedApprovalView = approvalView
  .extend({
    next: z
      .enum(['wait', ...resumeSteps])
      .meta({ example: 'run_command', description: 'What happens now; `wait` while others have to agree.' }),
  })
  .meta({
    id: 'ResolvedApproval',
    description: 'The approval after the decision; a fresh one if arguments were edited.',
  })

export type ApprovalView = z.infer<typeof approvalView>
export type ApprovalDetailView = z.infer<typeof approvalDetailView>
export type ResolvedApprovalView = z.infer<typeof resolvedApprovalView>

/** The ids of all persons in the views of these approvals, to look up their names once. */
export function personsNamed(approvals: readonly StoredApproval[], standings: Standings): readonly string[] {
  return personIdsOf([
    ...approvals.flatMap((each) => [
      each.requested_by,
      each.approver,
      each.decided_by,
      ...each.approved_by,
      ...each.approved_for,
    ]),
    ...approvals.flatMap(({ request_payload }) =>
      [request_payload.edits?.by ?? [], coAuthorsOf(request_payload)].flat(),
    ),
    ...[...standings.values()].flatMap(({ elsewhere }) => elsewhere),
  ])
}

/** The facts of a view that are not on the row, looked up once for a whole answer. */
type Around = {
  readonly names: Names
  readonly standings: Standings
  /** Of the viewer. */
  readonly origins: Origins | undefined
}

export function toApprovalView(
  approval: StoredApproval,
  viewer: Person,
  { names, standings, origins }: Around,
): ApprovalView {
  const named = (actor: string) => nameOfActor(actor, names)
  const contract = requestContract(approval)
  const { blocked, elsewhere = [], notCounted = [] } = standings.get(approval.approval_id) ?? {}
  const approver = findApprover(approval, { ...viewer, origins }, elsewhere)
  return {
    approval_id: encodeId('approval', approval.approval_id),
    command_id: encodeId('command', approval.command_id),
    domain_effect_id: orNull(approval.domain_effect_id, (id) => encodeId('effect', id)),
    approval_type: approval.approval_type,
    status: approval.status,
    requested_by: showActor(approval.requested_by),
    requested_by_name: named(approval.requested_by),
    approver: showActor(approval.approver),
    approver_name: named(approval.approver),
    approvers: (approval.request_payload.approvers ?? []).map(showActor),
    approver_roles: [...approval.approver_roles],
    approvals_required: approval.approvals_required,
    approved_by: approval.approved_by.map(showActor),
    approved_by_names: approval.approved_by.map(named),
    approved_for: placesOf(approval).map(showActor),
    approved_for_names: placesOf(approval).map(named),
    counted_elsewhere: elsewhere.map((actor) => named(actor) ?? showActor(actor)),
    may_decide: approver !== undefined,
    may_decide_for: approver === undefined || approver.userId === viewer.userId ? null : approver.externalId,
    decision_values: [...contract.decision_values],
    meanings: { ...contract.meanings },
    reason_required: [...contract.reason_required],
    edits_allowed: contract.edits_allowed,
    edited: editedView(approval, named),
    payload_hash: approval.payload_hash,
    packet: { ...approval.review_packet, requester: showActor(approval.review_packet.requester) },
    expires_at: orNull(approval.expires_at, formatInstant),
    created_at: formatInstant(approval.created_at),
    decided_at: orNull(approval.decided_at, formatInstant),
    decided_by: orNull(approval.decided_by, showActor),
    decided_by_name: approval.decided_by === null ? null : named(approval.decided_by),
    decision_reason: approval.decision_reason,
    superseded_by: orNull(approval.superseded_by, (id) => encodeId('approval', id)),
    blocked_by: blocked ?? null,
    not_counted: notCounted.map(({ userId, name, reason }) => ({ user_id: encodeId('user', userId), name, reason })),
    counts_invited: contract.counts_invited === true,
  }
}

/** In whose place each person approved; a missing entry is their own. */
const placesOf = ({ approved_by, approved_for }: StoredApproval) => [
  ...approved_for,
  ...approved_by.slice(approved_for.length),
]

/** The last change, or what somebody wrote before the requester changed something else. */
function editedView({ request_payload }: StoredApproval, named: (actor: string) => string | null) {
  const { edits, writers = {} } = request_payload
  const authors = coAuthorsOf(request_payload)
  const by = edits?.by ?? authors[0]
  if (by === undefined) return null
  const fields = edits?.fields ?? Object.keys(writers).filter((name) => writers[name] === by)
  const reason = edits?.reason ?? null
  return { by: named(by) ?? showActor(by), fields: [...fields], reason, needs_confirmation: authors.length > 0 }
}

export function toApprovalDetailView(approval: StoredApproval, viewer: Person, around: Around): ApprovalDetailView {
  const args: JsonObject = approval.request_payload.arguments ?? {}
  return {
    ...toApprovalView(approval, viewer, around),
    arguments: { ...args },
    ui: { ...requestContract(approval).ui },
  }
}

export function toResolvedApprovalView(
  approval: StoredApproval,
  viewer: Person,
  around: Around,
  next: NextStep,
): ResolvedApprovalView {
  return { ...toApprovalView(approval, viewer, around), next }
}
