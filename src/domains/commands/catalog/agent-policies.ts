/** Rules that `openCatalog` adds to every task that is open to agents. A task cannot leave them out; none of them allows anything by itself. */
import { definePolicy, type PolicyDefinition } from './definitions.ts'
import { isOutside, type PolicyInput } from '#kernel/policy/policy'
import { delay, deny } from './answers.ts'
import { factsOf, rule } from './shipped-policies.ts'

/** What the gateway knows of the run of a command; null: the command has no run. */
function scopeOf({ context }: PolicyInput): { readonly gaps?: unknown; readonly is_gated?: unknown } | null {
  const scope = factsOf(context['facts'])['agent_scope']
  return scope === null ? null : factsOf(scope)
}

/** A run does what its requester may do today, its role, every run above it and its manifest permit, and nothing that is forbidden to one of them. */
const agentScope = rule('agent_scope', 'permission', (input) => {
  const scope = scopeOf(input)
  if (scope === null) return undefined
  if (!Array.isArray(scope.gaps)) return deny('The scope of the run is not known.')
  return scope.gaps.length === 0 ? undefined : deny(...scope.gaps.map(String))
})

/** The definition of an agent can ask for an approval that the task itself does not. */
const agentGate = rule('agent_gate', 'approval_requirement', (input) => {
  const scope = scopeOf(input)
  if (scope === null || scope.is_gated === false) return undefined
  if (scope.is_gated !== true) return deny('It is not known whether the agent has an approval gate for this tool.')
  return { decision: 'require_approval', reasons: ['The agent has an approval gate for this tool.'] }
})

const standingOf = ({ context }: PolicyInput) => factsOf(context['facts'])['agent_standing']

/** The statements that begin something ask for stops themselves. A command that was on record before the stop is decided after the lift. */
const notStopped = rule('not_stopped', 'permission', (input) => {
  const standing = standingOf(input)
  if (standing === null) return undefined
  const { stop_id } = factsOf(standing)
  if (stop_id === undefined) return deny('It is not known whether the agent is stopped.')
  return stop_id === null ? undefined : delay(LOOK_AGAIN_MS, 'Agents are stopped.')
})

const LOOK_AGAIN_MS = 60_000
const PATHS_MAX = 3

/** An agent that has read untrusted content acts outside only with the approval of a person, who sees the way from the source. */
const untrustedContent = rule('untrusted_content', 'external_sharing', (input) => {
  const standing = standingOf(input)
  if (standing === null) return undefined
  const { labels, outward, mixed } = factsOf(standing)
  if (!Array.isArray(labels) || !Array.isArray(outward) || !Array.isArray(mixed))
    return deny('It is not known what the agent has read.')
  const acts = outward.length > 0 || isOutside(input)
  const reasons = [
    ...labels.slice(0, PATHS_MAX).map((label) => `Untrusted content has reached it: ${sayPath(String(label))}.`),
    ...(labels.length > PATHS_MAX ? [`Untrusted content has reached it from ${labels.length} sources.`] : []),
    ...mixed.map((effect) => `${String(effect)} gets a value from untrusted content.`),
  ]
  // Those who approve commands of this type.
  return acts && reasons.length > 0 ? { decision: 'require_approval', reasons, required_approvals: [] } : undefined
})

/** From the source to the last place. */
export function sayPath(label: string): string {
  return label
    .replace(/^untrusted:/, '')
    .split('>')
    .join(' → ')
}

export const agentPolicies: readonly PolicyDefinition[] = [
  definePolicy(agentGate, { facts: ['agent_scope'] }),
  definePolicy(agentScope, { facts: ['agent_scope'] }),
  definePolicy(notStopped, { facts: ['agent_standing'] }),
  definePolicy(untrustedContent, { facts: ['agent_standing', 'inside'] }),
]
