/**
 * What a runtime can do, graded, and the check at start-up: a catalog that needs more than its runtime has is refused
 * before anything runs, never at the first failure.
 */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type RuntimeCapability, runtimeCapabilities } from '#kernel/saga/capabilities'
import type { CatalogRuntime } from '#kernel/saga/manifests'

/** By the engine itself, by us on top of it, or not at all. */
const grades = ['native', 'composed', 'none'] as const
type Grade = (typeof grades)[number]

export type RuntimeProfile = {
  readonly name: string
  readonly engine: string
  readonly engineVersion: string
  readonly capabilities: Readonly<Record<RuntimeCapability, Grade>>
  /** What a grade alone would hide. */
  readonly notes: Readonly<Partial<Record<RuntimeCapability, string>>>
}

/** What the runtime has, in the order of the kernel's list: native or composed. */
export function capabilitiesOf({ capabilities }: RuntimeProfile): readonly RuntimeCapability[] {
  return runtimeCapabilities.filter((capability) => capabilities[capability] !== 'none')
}

/** For `validateCatalog`, which finds an operation whose needs are not met, with all other faults of the catalog. */
export function catalogRuntime(profile: RuntimeProfile): CatalogRuntime {
  return { name: profile.name, capabilities: capabilitiesOf(profile) }
}

export type CapabilityNeed = { readonly capability: RuntimeCapability; readonly by: string; readonly grade?: Grade }

const rank: Readonly<Record<Grade, number>> = { none: 0, composed: 1, native: 2 }

/** All gaps at once; a need without a grade is met by `composed`. */
export function decideCapabilities(profile: RuntimeProfile, needs: readonly CapabilityNeed[]): Decision<void> {
  const gaps = needs.filter(
    ({ capability, grade = 'composed' }) => rank[profile.capabilities[capability]] < rank[grade],
  )
  if (gaps.length === 0) return accept(undefined)
  const told = gaps.map(({ capability, by, grade = 'composed' }) => {
    const has = profile.capabilities[capability]
    return has === 'none' ? `${by} needs ${capability}` : `${by} needs ${capability} ${grade}, which is ${has}`
  })
  return refuse('runtime.capability.missing', `the runtime ${profile.name} does not have it: ${told.join('; ')}`, {
    path: 'runtime',
    hint: 'Choose another runtime, or take the operation out of the catalog.',
    facts: { gaps: gaps.map(({ capability, by }) => ({ capability, by })) },
  })
}
