/**
 * What an envelope covers: calls of an agent that people approved together, before its run started. A call is covered if it is within every bound of the
 * envelope. Every deviation is named, and the call then asks for its own approval. Pure.
 */
import { canonicalJson } from '../canonical-json.ts'
import type { JsonObject, JsonValue } from '../json-value.ts'
import { higherRisk } from './policy.ts'

/** A value that is not a number is never within a range. */
export type ArgumentBound =
  | 'any'
  | { readonly one_of: readonly JsonValue[] }
  | { readonly min?: number | undefined; readonly max: number }

/** The calls of one tool, as people have seen them. */
export type EnvelopeCalls = {
  readonly task_name: string
  readonly calls_max: number
  /** By argument. An argument without a bound is outside, and so is one that is left out, unless its bound is `any`. */
  readonly arguments: Readonly<Record<string, ArgumentBound>>
  /** Also when untrusted content has reached the agent. */
  readonly untrusted: boolean
  readonly effects: readonly string[]
  readonly risk_level: string
  readonly policy_version: string
  readonly command_version: string
}

export type Envelope = {
  /** Of all that the run of the agent gets from its definition and its input. */
  readonly agent_hash: string
  readonly expires_at: Date
  readonly calls: readonly EnvelopeCalls[]
}

/** A call that needs an approval, as it would run. */
export type CallToCover = {
  readonly task_name: string
  readonly arguments: JsonObject
  readonly is_untrusted: boolean
  readonly effects: readonly string[]
  readonly risk_level: string
  readonly policy_version: string
  readonly command_version: string
}

/** What is known when the call is made. */
export type EnvelopeState = { readonly agent_hash: string; readonly calls_used: number; readonly at: Date }

/** What the envelope says about a call. No deviations: it covers the call. */
export type EnvelopeAnswer = {
  readonly envelope_id: string
  readonly approved_by: readonly string[]
  readonly calls_max: number
  readonly deviations: readonly string[]
}

/** In plain words, for the people who are asked instead. Empty: the call is covered. */
export function findDeviations(envelope: Envelope, call: CallToCover, state: EnvelopeState): readonly string[] {
  const stated = envelope.calls.find(({ task_name }) => task_name === call.task_name)
  if (!stated) return [`it does not name ${call.task_name}`]
  const effects = call.effects.filter((type) => !stated.effects.includes(type))
  // An argument that is left out is outside too: the tool may take it to mean everything.
  const names = new Set([...Object.keys(stated.arguments), ...Object.keys(call.arguments)])
  const outside = [...names].filter((name) => !isWithin(ownOf(stated.arguments, name), ownOf(call.arguments, name)))
  return [
    ...(state.at >= envelope.expires_at ? ['it has expired'] : []),
    ...(state.agent_hash === envelope.agent_hash ? [] : ['the agent was defined differently']),
    ...(state.calls_used < stated.calls_max ? [] : [`all ${stated.calls_max} calls of ${call.task_name} are used`]),
    ...outside.map((name) => `the argument ${name} is outside of its bound`),
    ...effects.map((type) => `it does not name the effect ${type}`),
    ...(call.is_untrusted && !stated.untrusted ? ['untrusted content has reached the agent'] : []),
    ...(higherRisk(stated.risk_level, call.risk_level) === stated.risk_level ? [] : ['the risk is higher']),
    ...(call.policy_version === stated.policy_version ? [] : ['the policy was another one']),
    ...(call.command_version === stated.command_version ? [] : ['the contract was another one']),
  ]
}

function ownOf<T>(fields: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

function isWithin(bound: ArgumentBound | undefined, value: JsonValue | undefined): boolean {
  if (bound === 'any') return true
  if (bound === undefined || value === undefined) return false
  if ('one_of' in bound) return bound.one_of.some((each) => canonicalJson(each) === canonicalJson(value))
  const { min = Number.NEGATIVE_INFINITY, max } = bound
  return typeof value === 'number' && value >= min && value <= max
}
