/** The declarations of operations and compensations at registration. */
import type { RuntimeCapability } from './capabilities.ts'

export type OperationManifest = {
  readonly operation: string
  /** The names of its external effects, such as `hotel_booking.book_hotel`. */
  readonly produces: readonly string[]
  readonly requires_compensation: boolean
  /** Which effect undoes which; only the operation can declare it. */
  readonly inverses?: Readonly<Record<string, string>>
  /** Payments, multi-leg bookings and regulated flows name `saga_compensation_native` here. */
  readonly requires_capabilities?: readonly RuntimeCapability[]
}

export type CompensationManifest = {
  readonly compensation: string
  /** The operation that it undoes or, in a declared cascade, the compensation that it undoes. */
  readonly of: string
  readonly produces: readonly string[]
  /** True when everything it produces is the inverse of something its parent produces. */
  readonly counter_effects: boolean
  /** True when it must be compensable itself, so that a further compensation has to be declared. Default: false. */
  readonly requires_compensation?: boolean
  readonly inverses?: Readonly<Record<string, string>>
  readonly requires_capabilities?: readonly RuntimeCapability[]
}

export type Catalog = {
  readonly operations: readonly OperationManifest[]
  readonly compensations: readonly CompensationManifest[]
}

/** The runtime that will execute the catalog. */
export type CatalogRuntime = { readonly name: string; readonly capabilities: readonly RuntimeCapability[] }

/** Either of the two, under one name: the unit that the catalog checks iterate over. */
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
