/** Approval types: the contract of each kind of question, the ones that come with Concord, and their registry. */
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { APPROVERS_MAX, isApproverCount, type RiskLevel, riskLevels } from '#kernel/policy/policy'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import {
  type ApprovalRequest,
  type AskedContract,
  type DecisionValue,
  decisionValues,
  isDecisionValue,
  type Resume,
  resumeSteps,
} from './stored-approval.ts'
import { type Asked, roleSlug } from './approver.ts'

/** `given`: the request names the approver. `requester`: the requester. A role: its members. A function: its result. */
type ApproverRule = 'given' | 'requester' | { readonly role: string } | ((request: ApprovalRequest) => Asked)

export type ApprovalType = {
  readonly name: string
  readonly version: string
  readonly about: 'command' | 'effect'
  readonly riskLevel: RiskLevel
  /** Arguments that a request must have. */
  readonly requiredFields: readonly string[]
  readonly approver: ApproverRule
  /** The number of distinct persons who must approve. */
  readonly quorum: number
  /** Whether the requester may decide. */
  readonly selfDecision: boolean
  /** Null never expires. */
  readonly expirationMinutes: number | null
  readonly decisionValues: readonly DecisionValue[]
  readonly meanings: Readonly<Partial<Record<DecisionValue, string>>>
  /** The decisions that need a reason. */
  readonly reasonRequired: readonly DecisionValue[]
  readonly editsAllowed: boolean
  /** Whether the approval of the person who edited the request counts for the edited content. Null: only if the risk is low. */
  readonly editorMayApprove: boolean | null
  readonly resume: Resume
  readonly remindersAfterMinutes: readonly number[]
  readonly escalation: { readonly afterMinutes: number; readonly role: string } | null
  /** The form for a decision: the name of a template, a JSON Schema, or both. */
  readonly ui: JsonObject
  /** Which invited people count. Set for all types by `openApprovalTypes`. */
  readonly invited: CountedInvited
}

export type ApprovalTypeInput = Pick<ApprovalType, 'name' | 'version' | 'riskLevel' | 'expirationMinutes'> &
  Partial<Omit<ApprovalType, 'resume' | 'invited'>> & { readonly resume?: Partial<Resume> }

export const gateResume: Resume = {
  on_approved: 'run_command',
  on_rejected: 'fail_command',
  on_request_changes: 'ask_for_input',
  on_expired: 'expire_command',
}
export const effectResume: Resume = {
  on_approved: 'effect_happened',
  on_rejected: 'effect_did_not_happen',
  on_request_changes: 'ask_again',
  on_expired: 'ask_again',
}

const NAME = /^[a-z][a-z0-9_]{0,63}$/
/** A year. */
export const MINUTES_MAX = 525_600

const isMinutes = (value: number) => Number.isInteger(value) && value >= 1 && value <= MINUTES_MAX

/** Fills in the defaults and throws on an impossible contract: it is code, so the process must not start with it. */
export function defineApprovalType(input: ApprovalTypeInput): ApprovalType {
  const type = fillIn(input)
  const why = faultOf(type)
  if (why !== undefined) throw new KernelFault('approvals.type.invalid', `The approval type ${type.name} ${why}.`)
  return Object.freeze(type)
}

/** The fault that `defineApprovalType` would throw, for a check that reports all faults at once. */
export function findApprovalTypeFault(input: ApprovalTypeInput): string | undefined {
  return faultOf(fillIn(input))
}

function fillIn(input: ApprovalTypeInput): ApprovalType {
  const about = input.about ?? 'command'
  return {
    about,
    requiredFields: [],
    approver: 'given',
    quorum: 1,
    selfDecision: false,
    decisionValues: about === 'command' ? decisionValues : ['approved', 'rejected'],
    meanings: {},
    reasonRequired: ['rejected', 'request_changes'],
    editsAllowed: false,
    editorMayApprove: null,
    remindersAfterMinutes: [],
    escalation: null,
    ui: {},
    invited: 'by_others',
    ...input,
    resume: { ...(about === 'command' ? gateResume : effectResume), ...input.resume },
  }
}

function faultOf(type: ApprovalType): string | undefined {
  const { expirationMinutes: expires, remindersAfterMinutes: reminders, escalation } = type
  if (!NAME.test(type.name)) return 'has a name that is not lower_snake_case with at most 64 characters'
  if (type.version === '') return 'has no version'
  if (!riskLevels.includes(type.riskLevel)) return 'has an unknown risk level'
  if (!isApproverCount(type.quorum)) return `needs a quorum of 1 to ${APPROVERS_MAX}`
  if (expires !== null && !isMinutes(expires)) return `expires after 1 to ${MINUTES_MAX} minutes, or never`
  if (!type.decisionValues.every(isDecisionValue)) return 'has an unknown decision value'
  // An approval that can only be approved would be meaningless.
  if (!type.decisionValues.includes('approved') || !type.decisionValues.includes('rejected'))
    return 'must allow approved and rejected'
  if (!type.reasonRequired.every((value) => type.decisionValues.includes(value) || value === 'request_changes')) {
    return 'requires a reason for a decision that it does not allow'
  }
  if (!Object.values(type.resume).every((step) => resumeSteps.includes(step))) return 'has an unknown resume step'
  if (type.about === 'effect' && type.editsAllowed) return 'is about an effect, which cannot be edited'
  const times = [...reminders, ...(escalation ? [escalation.afterMinutes] : [])]
  if (!times.every((minutes) => isMinutes(minutes) && (expires === null || minutes < expires))) {
    return 'reminds or escalates after it has expired'
  }
  if (reminders.some((minutes, index) => index > 0 && minutes <= (reminders[index - 1] ?? 0)))
    return 'has reminders out of order'
  if (escalation && roleSlug(escalation.role) === undefined) return 'escalates to an invalid role'
  return undefined
}

/** The part of the type that is copied to the row. `risk` is that of the request, which can be higher than that of the type. */
export function contractOf(type: ApprovalType, risk: RiskLevel): AskedContract {
  return {
    type_version: type.version,
    about: type.about,
    decision_values: type.decisionValues,
    meanings: type.meanings,
    reason_required: type.reasonRequired,
    edits_allowed: type.editsAllowed,
    editor_may_approve: type.editorMayApprove ?? risk === 'low',
    resume: type.resume,
    reminders_after_minutes: type.remindersAfterMinutes,
    escalation: type.escalation && {
      after_minutes: type.escalation.afterMinutes,
      role: roleSlug(type.escalation.role) ?? type.escalation.role,
    },
    ui: type.ui,
    counts_invited: type.invited === 'all',
    ...(type.invited === 'none' ? { counts_same_issuer: false } : {}),
  }
}

/**
 * `all`: also those whom the requester invited, or who invited the requester. `by_others` (default): those whom somebody else invited. `none`: nobody whose
 * credentials have an issuer in common with those of the requester.
 */
export type CountedInvited = 'all' | 'by_others' | 'none'

export type ApprovalTypes = {
  readonly invited: CountedInvited
  readonly names: readonly string[]
  find(name: string): Decision<ApprovalType>
}

/** A type of the installation may replace a built-in type of the same name; two own types must not share a name. */
export function openApprovalTypes(
  own: readonly ApprovalType[] = [],
  { invited = 'by_others' }: { readonly invited?: CountedInvited } = {},
): ApprovalTypes {
  const twice = own.find((type, index) => own.findIndex(({ name }) => name === type.name) !== index)
  if (twice) throw new KernelFault('approvals.type.duplicate', `There are two approval types ${twice.name}.`)
  const types = new Map([...builtInApprovalTypes, ...own].map((type) => [type.name, { ...type, invited }]))
  const names = [...types.keys()].toSorted()
  return {
    invited,
    names,
    find(name) {
      const type = types.get(name)
      if (type) return accept(type)
      return refuse('approvals.type.unknown', `There is no approval type ${quote(name)}.`, {
        path: 'approval_type',
        facts: { known: names },
        ...didYouMean(name, names),
      })
    },
  }
}

const HOUR = 60
const DAY = 24 * HOUR

/** Whether a command may run. The default for every command type. */
const commandApproval = defineApprovalType({
  name: 'command_approval',
  version: '1',
  riskLevel: 'medium',
  expirationMinutes: 3 * DAY,
  editsAllowed: true,
  remindersAfterMinutes: [4 * HOUR, DAY, 2 * DAY],
  meanings: {
    approved: 'Run it as shown.',
    rejected: 'Do not run it.',
    request_changes: 'Ask the requester for changes.',
  },
})

/**
 * Whether an effect happened, when the provider did not answer and cannot be queried. Never expires: an unknown effect stays
 * unknown, and it must not be repeated on a guess.
 */
const reconcileEffect = defineApprovalType({
  name: 'reconcile_effect',
  version: '1',
  about: 'effect',
  riskLevel: 'high',
  expirationMinutes: null,
  reasonRequired: ['approved', 'rejected'],
  remindersAfterMinutes: [HOUR, 4 * HOUR, DAY],
  meanings: { approved: 'It happened.', rejected: 'It did not happen.' },
})

/** Whether a command continues whose requester may no longer act. Never expires: without an answer nothing begins. */
const requesterGone = defineApprovalType({
  name: 'requester_gone',
  version: '1',
  about: 'effect',
  riskLevel: 'high',
  expirationMinutes: null,
  reasonRequired: ['approved', 'rejected'],
  remindersAfterMinutes: [HOUR, 4 * HOUR, DAY],
  resume: { on_approved: 'run_command', on_rejected: 'fail_command' },
  meanings: { approved: 'Continue without the requester.', rejected: 'End the command.' },
})

/** An exception to a rule. It always needs a reason and a person other than the requester. */
const override = defineApprovalType({
  name: 'override',
  version: '1',
  riskLevel: 'high',
  expirationMinutes: 4 * HOUR,
  decisionValues: ['approved', 'rejected'],
  reasonRequired: ['approved', 'rejected'],
  remindersAfterMinutes: [HOUR],
  meanings: { approved: 'Make an exception to the rule, for this reason.', rejected: 'Keep the rule.' },
})

/** A policy requires the decision of a higher role. */
const escalation = defineApprovalType({
  name: 'escalation',
  version: '1',
  riskLevel: 'high',
  expirationMinutes: DAY,
  reasonRequired: ['approved', 'rejected', 'request_changes'],
  remindersAfterMinutes: [2 * HOUR, 8 * HOUR],
})

export const builtInApprovalTypes: readonly ApprovalType[] = [
  commandApproval,
  reconcileEffect,
  requesterGone,
  override,
  escalation,
]
