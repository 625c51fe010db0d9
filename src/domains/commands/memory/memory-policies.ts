/** The rules of the memory commands and their facts. A fact is an assessment of the candidate and never contains its content. */
import { assessCandidate, findCandidate, getErasure, hasConsent, type MemoryDeps, previewForget } from '#domains/memory'
import type { Facts, PolicyAnswer, PolicyInput } from '#kernel/policy/policy'
import { definePolicy, type PolicyDefinition } from '../catalog/definitions.ts'
import { allow, deny } from '../catalog/answers.ts'
import { factsOf, rule } from '../catalog/shipped-policies.ts'
import type { StoredCommand } from '../command-table.ts'
import type { FactSources } from '../facts.ts'

const ask = (...reasons: string[]): PolicyAnswer => ({
  decision: 'require_approval',
  reasons,
  required_approvals: ['data_owner'],
})
const factOf = ({ context }: PolicyInput, name: string) => factsOf(context['facts'])[name]
const reasonsOf = (facts: Facts) => (Array.isArray(facts['reasons']) ? facts['reasons'].map(String) : [])

/** The assessment of the memory room as the answer of a rule. */
const memoryWrite = rule('memory_write', 'approval_requirement', (input) => {
  const facts = factsOf(factOf(input, 'memory_write'))
  switch (facts['decision']) {
    case 'write':
    case 'known':
      return allow()
    case 'ask':
      return ask(...reasonsOf(facts))
    default:
      return deny(...reasonsOf(facts), 'This memory is not written.')
  }
})

/** Checks the data class of the content before every memory write. */
const memoryDataSafety = rule('memory_data_safety', 'data_safety', (input) => {
  switch (factsOf(factOf(input, 'memory_write'))['sensitivity']) {
    case 'public':
    case 'internal':
      return allow()
    case 'confidential':
    case 'pii':
    case 'payment':
      return ask('The content of this memory is sensitive.')
    default:
      return deny('The class of the data is not known.')
  }
})

const memoryForget = rule('memory_forget', 'data_safety', (input) =>
  factOf(input, 'memory_holds') === 0
    ? allow()
    : deny('The subject, or something derived from it, is on hold, or its holds are unknown.'),
)

export const memoryPolicies: readonly PolicyDefinition[] = [
  definePolicy(memoryWrite, { facts: ['memory_write'] }),
  definePolicy(memoryDataSafety, { facts: ['memory_write'] }),
  definePolicy(memoryForget, { facts: ['memory_holds'] }),
]

export function idIn({ payload }: Pick<StoredCommand, 'payload'>, field: string): string {
  const id = payload[field]
  return typeof id === 'string' ? id : ''
}

export function memoryFacts(memory: MemoryDeps): FactSources {
  const ownCandidate = async (command: StoredCommand) => {
    const candidateId = idIn(command, 'memory_candidate_id')
    const candidate = await findCandidate(memory.db, command.workspace_id, candidateId)
    // A command may decide only the candidate that it was created with.
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
