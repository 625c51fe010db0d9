/** The policies of every installation. Denied by default: a command runs only if some rule allows it and no rule objects. */
import { allow, deny, needInput } from './answers.ts'
import { definePolicy, type PolicyDefinition } from './definitions.ts'
import {
  externalSharing,
  type Facts,
  isOutside,
  type PolicyAnswer,
  type PolicyInput,
  type PolicyRule,
} from '#kernel/policy/policy'
import { type DataClass, dataClasses, decideDataSafety } from '#kernel/data-class'

const ask = (reason: string, ...approvers: string[]): PolicyAnswer => ({
  decision: 'require_approval',
  reasons: [reason],
  required_approvals: approvers,
})

export const factsOf = (value: unknown): Facts =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Facts) : {}
const payloadOf = ({ command }: PolicyInput) => factsOf(command['payload'])
const metadataOf = ({ context }: PolicyInput) => factsOf(context['metadata'])
const listOf = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : [])

/** A rule about every action. */
export function rule(name: string, category: PolicyRule['category'], decide: PolicyRule['decide']): PolicyRule {
  return { name, category, actions: '*', decide }
}

/** Writers, administrators and Concord's own schedules may act; readers may not. An agent has at most its requester's rights. */
const permission = rule('permission', 'permission', (input) => {
  const role = metadataOf(input)['role']
  if (role === 'writer' || role === 'admin' || role === 'system') return allow()
  return deny('The requester may not act in this workspace.')
})

/** `estimated_cost_units` in the payload against the task's `cost_limit_units`; a higher cost needs an approval. */
const cost = rule('cost', 'cost', (input) => {
  const estimate = Number(payloadOf(input)['estimated_cost_units'] ?? 0)
  const limit = Number(factsOf(input.task['metadata'])['cost_limit_units'] ?? 100)
  if (!Number.isFinite(estimate) || estimate < 0) return deny('The estimated cost is not an amount.')
  return estimate > limit ? ask(`The estimated cost of ${estimate} is above ${limit}.`, 'budget_owner') : allow()
})

const risk = rule('risk', 'risk', ({ task }) => {
  if (task['risk_level'] === 'low' || task['risk_level'] === 'medium') return allow()
  return ask('A task of high risk needs an approval.', 'risk_owner')
})

/** An agent chooses the destination of a tool that calls another system or notifies. The contract only says that the tool does so. */
const isHandedOver = ({ context, task }: PolicyInput) =>
  context['run_as'] === 'agent' &&
  (listOf(task['connector_requirements']).length > 0 || task['notification_required'] === true)

/** Customer data never goes to external addresses; other data that is not public needs an approval. */
const dataSafety = rule('data_safety', 'data_safety', (input) => {
  const named = dataClasses.find((known) => known === input.command['data_class'])
  if (named === undefined) return deny('The class of the data is not known.')
  // A payload holds a secret only as a reference, and a reference is internal data.
  const dataClass: DataClass = named === 'secret' ? 'internal' : named
  const isNamed = isOutside(input)
  if (!isNamed && isHandedOver(input) && decideDataSafety(dataClass, true) === 'deny')
    return ask(`An agent would hand data of the class ${dataClass} to another system.`, 'data_owner')
  switch (decideDataSafety(dataClass, isNamed)) {
    case 'deny':
      return deny(`Data of the class ${dataClass} does not leave the organisation.`)
    case 'require_approval':
      return ask(`Data of the class ${dataClass} would leave the organisation.`, 'data_owner')
    case 'allow':
    case 'redact':
      return allow()
  }
})

/** A memory about a person needs that person's consent. The consent is a stored fact, never a flag of the payload. */
const memoryConsent = rule('memory_consent', 'memory_consent', (input) => {
  const facts = factsOf(input.context['facts'])
  return facts['memory_consent'] === true
    ? allow()
    : ask('Writing a memory needs the consent of its subject.', 'data_owner')
})

const approvalRequirement = rule('approval_requirement', 'approval_requirement', ({ task }) => {
  return task['approval_required'] === true
    ? { decision: 'require_approval', reasons: ['The contract asks for an approval.'] }
    : allow()
})

const RATE_PER_HOUR = 1_000
const RATE_DELAY_MS = 60_000

/** Commands of one type above the hourly limit are delayed, not denied. */
const rate = rule('rate', 'rate_quota', ({ context, task }) => {
  const count = Number(factsOf(context['facts'])['commands_last_hour'] ?? 0)
  const limit = Number(factsOf(task['metadata'])['commands_per_hour'] ?? RATE_PER_HOUR)
  if (count < limit) return allow()
  return {
    decision: 'delay',
    reasons: [`${count} such commands in the last hour; the limit is ${limit}.`],
    metadata: { delay_ms: RATE_DELAY_MS },
  }
})

/** Compares the `data_roles` of the task with the org roles of the requester. */
const dataAccess = rule('data_access', 'data_access', (input) => {
  const needed = listOf(factsOf(input.task['metadata'])['data_roles'])
  const held = listOf(metadataOf(input)['org_roles'])
  const isAdmin = metadataOf(input)['role'] === 'admin'
  return needed.length === 0 || isAdmin || needed.some((role) => held.includes(role))
    ? allow()
    : deny('The requester may not read this data.')
})

/**
 * A stored credential does not entitle a user to a connector: the project grants access, and the grants are a fact. A task calls only
 * the connectors in its `connector_requirements`, so the rule checks just these. Without the fact, none is granted.
 */
const connectorScope = rule('connector_scope', 'connector_scope', (input) => {
  const allowed = listOf(factsOf(input.context['facts'])['connector_scopes'])
  const missing = listOf(input.task['connector_requirements']).filter((name) => !allowed.includes(name))
  return missing.length === 0 ? allow() : deny(`No access to ${missing.join(', ')}.`)
})

const paymentTokenRequired = rule('payment_token_required', 'cost', (input) => {
  const token = payloadOf(input)['payment_token']
  if (typeof token === 'string' && token !== '') return allow()
  return needInput('payment_token', 'A payment token is needed.')
})

const cancellationPolicyDisclosed = rule('cancellation_policy_disclosed', 'approval_requirement', (input) => {
  const summary = payloadOf(input)['cancellation_policy_summary']
  if (typeof summary === 'string' && summary.trim() !== '') return allow()
  return needInput('cancellation_policy_summary', 'The cancellation policy must be shown.')
})

const SECOND_APPROVER_ABOVE = 500
const SECOND_APPROVER_CURRENCY = 'USD'

/**
 * Every booking needs an approval, and a second one above the limit. A price in another currency, or one that is not a number,
 * counts as above the limit. A flag in the payload that claims consent is ignored.
 */
const approvalRequiredForBooking = rule('approval_required_for_booking', 'approval_requirement', (input) => {
  const { total_price: price, currency } = payloadOf(input)
  const terms = factsOf(input.task['metadata'])
  const limit = Number(terms['second_approver_above'] ?? SECOND_APPROVER_ABOVE)
  const isWithin =
    currency === (terms['second_approver_currency'] ?? SECOND_APPROVER_CURRENCY) &&
    (typeof price === 'number' || (typeof price === 'string' && price.trim() !== '')) &&
    Number(price) <= limit
  const approvers = isWithin ? ['booking_approver'] : ['booking_approver', 'budget_owner']
  return ask('A booking needs an approval.', ...approvers)
})

export const shippedPolicies: readonly PolicyDefinition[] = [
  definePolicy(permission),
  definePolicy(cost),
  definePolicy(risk),
  definePolicy(dataSafety, { facts: ['inside'] }),
  definePolicy(externalSharing, { facts: ['inside'] }),
  definePolicy(memoryConsent, { facts: ['memory_consent'] }),
  definePolicy(approvalRequirement),
  definePolicy(rate, { facts: ['commands_last_hour'] }),
  definePolicy(dataAccess),
  definePolicy(connectorScope, { facts: ['connector_scopes'] }),
  definePolicy(paymentTokenRequired),
  definePolicy(cancellationPolicyDisclosed),
  definePolicy(approvalRequiredForBooking),
]
