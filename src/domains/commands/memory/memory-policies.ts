/** The rules of memory commands, and the facts they decide on: judgements about the candidate, never what it says. */
import { assessCandidate, findCandidate, getErasure, hasConsent, type MemoryDeps, previewForget } from '#domains/memory'
import type { Facts, PolicyAnswer, PolicyInput, PolicyRule } from '#kernel/policy/rule'
import { definePolicy, type PolicyDefinition } from '../catalog/definitions.ts'
import type { StoredCommand } from '../command-table.ts'
import type { FactSources } from '../gather-facts.ts'

const allow: PolicyAnswer = { decision: 'allow' }
const deny = (...reasons: string[]): PolicyAnswer => ({ decision: 'deny', reasons })
const ask = (...reasons: string[]): PolicyAnswer => ({
  decision: 'require_approval',
  reasons,
  required_approvals: ['data_owner'],
})

const factsOf = (value: unknown): Facts =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Facts) : {}
const factOf = ({ context }: PolicyInput, name: string) => factsOf(context['facts'])[name]
const reasonsOf = (facts: Facts) => (Array.isArray(facts['reasons']) ? facts['reasons'].map(String) : [])

/** The four write rules, as the memory room judged them. */
const memoryWrite: PolicyRule = {
  name: 'memory_write',
  category: 'approval_requirement',
  actions: '*',
  decide: (input) => {
    const facts = factsOf(factOf(input, 'memory_write'))
    switch (facts['decision']) {
      case 'write':
      case 'known':
        return allow
      case 'ask':
        return ask(...reasonsOf(facts))
      default:
        return deny(...reasonsOf(facts), 'This memory is not written.')
    }
  },
}

/** Before every memory write: the class of what would be kept. */
const memoryDataSafety: PolicyRule = {
  name: 'memory_data_safety',
  category: 'data_safety',
  actions: '*',
  decide: (input) => {
    switch (factsOf(factOf(input, 'memory_write'))['sensitivity']) {
      case 'public':
      case 'internal':
        return allow
      case 'confidential':
      case 'pii':
      case 'payment':
        return ask('What would be kept is sensitive.')
      default:
        return deny('The class of the data is not known.')
    }
  },
}

const memoryForget: PolicyRule = {
  name: 'memory_forget',
  category: 'data_safety',
  actions: '*',
  decide: (input) => {
    const holds = factOf(input, 'memory_holds')
    return holds === 0 ? allow : deny('A hold stands on this subject or on something made from it, or nobody knows.')
  },
}

export const memoryPolicies: readonly PolicyDefinition[] = [
  definePolicy(memoryWrite, { facts: ['memory_write'] }),
  definePolicy(memoryDataSafety, { facts: ['memory_write'] }),
  definePolicy(memoryForget, { facts: ['memory_holds'] }),
]

const idIn = ({ payload }: StoredCommand, field: string): string => {
  const id = payload[field]
  return typeof id === 'string' ? id : ''
}

export function memoryFacts(memory: MemoryDeps): FactSources {
  const ownCandidate = async (command: StoredCommand) => {
    const candidateId = idIn(command, 'memory_candidate_id')
    const candidate = await findCandidate(memory.db, command.workspace_id, candidateId)
    // A command decides its own candidate and nobody else's.
    return candidate?.command_id === command.command_id ? candidate : undefined
  }
  return {
    memory_write: async (_world, command) => {
      const candidate = await ownCandidate(command)
      if (!candidate) return { decision: 'reject', reasons: ['There is no such candidate.'] }
      const { trace_id: traceId } = command.context
      const actor = { id: 'system', kind: 'system', traceId } as const
      const { workspace_id: workspaceId, memory_candidate_id: candidateId } = candidate
      const assessed = await assessCandidate(memory, actor, { workspaceId, candidateId })
      return assessed.ok ? assessed.value : { decision: 'reject', reasons: [assessed.reason] }
    },
    memory_consent: async (_world, command) => {
      const candidate = await ownCandidate(command)
      return candidate !== undefined && hasConsent(memory.db, command.workspace_id, candidate, memory.now())
    },
    memory_holds: async (_world, command) => {
      const erasureId = idIn(command, 'memory_erasure_id')
      const found = await getErasure(memory.db, { workspaceId: command.workspace_id, erasureId })
      if (!found.ok || found.value.command_id !== command.command_id || found.value.subject_id === null) return null
      const { subject_type, subject_id } = found.value
      return (await previewForget(memory, command.workspace_id, { subject_type, subject_id })).hold_count
    },
  }
}
