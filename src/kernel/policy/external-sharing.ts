/** The rule `external_sharing`: data that leaves the organisation needs the consent of its owner. */
import type { Facts, PolicyAnswer, PolicyInput, PolicyRule } from './rule.ts'

const ask: PolicyAnswer = {
  decision: 'require_approval',
  reasons: ['External sharing requires approval.'],
  required_approvals: ['data_owner'],
}

/**
 * Its `allow` counts like any other: list it for actions that share data, beside rules that decide who may act.
 * A list of destinations is external if one of them is; a value that is neither text nor such a list cannot be proven internal.
 */
export const externalSharing: PolicyRule = {
  name: 'external_sharing',
  category: 'external_sharing',
  actions: '*',
  decide: decideExternalSharing,
}

export function decideExternalSharing({ command }: Pick<PolicyInput, 'command'>): PolicyAnswer {
  const payload = command['payload']
  const destination = isFacts(payload) ? (payload['destination'] ?? '') : ''
  const destinations: readonly unknown[] = Array.isArray(destination) ? destination : [destination]
  return destinations.some(isExternal) ? ask : { decision: 'allow' }
}

function isExternal(destination: unknown): boolean {
  if (typeof destination !== 'string') return true
  return destination.includes('@') || destination.startsWith('external:')
}

function isFacts(value: unknown): value is Facts {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
