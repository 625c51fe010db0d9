/** The graded capabilities of a runtime. A catalog that needs more than its runtime offers is refused before anything runs. */
import { type RuntimeCapability, runtimeCapabilities } from '#kernel/saga/catalog'

/** Provided by the engine, composed by us on top of it, or missing. */
type Grade = 'native' | 'composed' | 'none'

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
