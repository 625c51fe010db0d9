/** What agents may propose asks a rule about data safety before anything leaves the organisation or is kept: a tool without one is not registered. Pure. */
import { quote } from '#kernel/refusal'
import { only } from './catalog-checks.ts'
import type { Definition } from './definitions.ts'
import { type CatalogFinding, finding } from './finding.ts'

/** Calls and syncs of other systems, notifications, memory writes, publications. */
const guarded = ['connector.', 'notification.', 'memory.', 'artifact.publish']

export function findUnsafeTools(definitions: readonly Definition[]): readonly CatalogFinding[] {
  const types = new Map(only(definitions, 'command_type').map((type) => [type.name, type]))
  const safe = new Set(
    only(definitions, 'policy').flatMap(({ rule }) => (rule.category === 'data_safety' ? [rule.name] : [])),
  )
  return only(definitions, 'task').flatMap(({ spec }) => {
    const type = types.get(spec.command_type)
    if (!type || !spec.ingress_types.includes('agent_action')) return []
    const sends = type.side_effects.find((effect) => guarded.some((prefix) => effect.startsWith(prefix)))
    if (sends === undefined || [...type.policies, ...spec.policy_checks].some((name) => safe.has(name))) return []
    const message = `${quote(spec.name)} is open to agents and does ${quote(sends)}, and no rule of the category data_safety is asked`
    return [finding('agent_data_safety', spec.name, message)]
  })
}
