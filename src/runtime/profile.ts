/**
 * The graded capabilities of a runtime, and the check at start-up: a catalog that needs more than its runtime offers is refused
 * before anything runs.
 */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type CatalogRuntime, runtimeCapabilities, type RuntimeCapability } from '#kernel/saga/catalog'

/** Provided by the engine, composed by us on top of it, or missing. */
export const grades = ['native', 'composed', 'none'] as const
export type Grade = (typeof grades)[number]

export type RuntimeProfile = {
  readonly name: string
  readonly engine: string
  readonly engineVersion: string
  readonly capabilities: Readonly<Record<RuntimeCapability, Grade>>
  /** Details that a grade alone would hide. */
  readonly notes: Readonly<Partial<Record<RuntimeCapability, string>>>
}

/** Returns the native and composed capabilities, in the order of the kernel's list. */
export function capabilitiesOf({ capabilities }: RuntimeProfile): readonly RuntimeCapability[] {
  return runtimeCapabilities.filter((capability) => capabilities[capability] !== 'none')
}

/** For `validateCatalog`, which reports unmet needs together with all other faults of the catalog. */
export function catalogRuntime(profile: RuntimeProfile): CatalogRuntime {
  return { name: profile.name, capabilities: capabilitiesOf(profile) }
}

export type CapabilityNeed = { readonly capability: RuntimeCapability; readonly by: string; readonly grade?: Grade }

const rank: Readonly<Record<Grade, number>> = { none: 0, composed: 1, native: 2 }

/** Reports all gaps at once; `composed` satisfies a need without a grade. */
export function decideCapabilities(profile: RuntimeProfile, needs: readonly CapabilityNeed[]): Decision<void> {
  const gaps = needs.filter(
    ({ capability, grade = 'composed' }) => rank[profile.capabilities[capability]] < rank[grade],
  )
  if (gaps.length === 0) return accept(undefined)
  const described = gaps.map(({ capability, by, grade = 'composed' }) => {
    const has = profile.capabilities[capability]
    return has === 'none' ? `${by} needs ${capability}` : `${by} needs ${capability} ${grade}, which is ${has}`
  })
  return refuse(
    'runtime.capability.missing',
    `The runtime ${profile.name} lacks capabilities: ${described.join('; ')}.`,
    {
      path: 'runtime',
      hint: 'Choose another runtime, or remove the operation from the catalog.',
      facts: { gaps: gaps.map(({ capability, by }) => ({ capability, by })) },
    },
  )
}
