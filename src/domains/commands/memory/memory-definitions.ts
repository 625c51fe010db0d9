/** Everything that memory brings into the catalog of an installation. */
import type { MemoryDeps } from '#domains/memory'
import type { Definition } from '../catalog/definitions.ts'
import { memoryEffects } from './memory-effects.ts'
import { memoryPolicies } from './memory-policies.ts'
import { memoryTypeDefinitions } from './memory-types.ts'

export function memoryDefinitions(memory: MemoryDeps): readonly Definition[] {
  return [...memoryPolicies, ...memoryTypeDefinitions, ...memoryEffects(memory)]
}
