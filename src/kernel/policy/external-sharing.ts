/** The rule `external_sharing`: what leaves the organisation needs the consent of the owner of the data. */
import type { Facts, PolicyAnswer, PolicyInput, PolicyRule } from './rule.ts'

const ask: PolicyAnswer = {
  decision: 'require_approval',
  reasons: ['External sharing requires approval.'],
  required_approvals: ['data_owner'],
}

/**
 * Its `allow` is consent like any other: put it on the list for actions that share something, beside rules that say who may.
 * A list of destinations is external if one of them is; what is neither text nor such a list cannot be told to be internal.
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
