/** What operations and compensations declare about themselves when they are registered. */
import type { RuntimeCapability } from './capabilities.ts'

export type OperationManifest = {
  readonly operation: string
  /** The names of the effects it has on the outside world, such as `hotel_booking.book_hotel`. */
  readonly produces: readonly string[]
  readonly requires_compensation: boolean
  /** Which effect undoes which: declared with the operation, for nobody else can know. */
  readonly inverses?: Readonly<Record<string, string>>
  /** Payments, bookings of several legs and regulated flows name `saga_compensation_native` here. */
  readonly requires_capabilities?: readonly RuntimeCapability[]
}

export type CompensationManifest = {
  readonly compensation: string
  /** The operation it undoes; for a declared cascade, the compensation it undoes. */
  readonly of: string
  readonly produces: readonly string[]
  /** True: everything it produces is the inverse of something its parent produces. */
  readonly counter_effects: boolean
  /** True: it must be undoable itself, so a further compensation has to be declared. Left out: false. */
  readonly requires_compensation?: boolean
  readonly inverses?: Readonly<Record<string, string>>
  readonly requires_capabilities?: readonly RuntimeCapability[]
}

export type Catalog = {
  readonly operations: readonly OperationManifest[]
  readonly compensations: readonly CompensationManifest[]
}

/** The runtime that is going to carry the catalog. */
export type CatalogRuntime = { readonly name: string; readonly capabilities: readonly RuntimeCapability[] }

/** Either of the two, under one name: what the checks of a catalog walk over. */
export type Entry = {
  readonly name: string
  readonly kind: 'operation' | 'compensation'
  readonly of: string | undefined
  readonly produces: readonly string[]
  readonly inverses: Readonly<Record<string, string>>
  readonly isPureCounter: boolean
  readonly needsCompensation: boolean
  readonly needs: readonly RuntimeCapability[]
}

export function listEntries({ operations, compensations }: Catalog): readonly Entry[] {
  return [
    ...operations.map((manifest) => entryOf(manifest.operation, manifest)),
    ...compensations.map((manifest) => entryOf(manifest.compensation, manifest)),
  ]
}

function entryOf(name: string, manifest: OperationManifest | CompensationManifest): Entry {
  const isUndo = 'of' in manifest
  return {
    name,
    kind: isUndo ? 'compensation' : 'operation',
    of: isUndo ? manifest.of : undefined,
    produces: manifest.produces,
    inverses: manifest.inverses ?? {},
    isPureCounter: isUndo && manifest.counter_effects,
    needsCompensation: manifest.requires_compensation ?? false,
    needs: manifest.requires_capabilities ?? [],
  }
}
