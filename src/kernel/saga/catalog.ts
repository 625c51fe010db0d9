/** Checks a whole catalog before anything runs, and reports all errors at once. */
import { findCycle, type GraphNode, indexGraph, sortNodes, stableOrder } from '../dag/graph.ts'
import { nearest } from '../nearest.ts'
import { accept, type Decision, quote, refuse } from '../refusal.ts'

/** The possible capabilities of a durable runtime; a catalog that needs more than its runtime offers does not start. */
export const runtimeCapabilities = [
  'durable_workflows',
  'durable_steps',
  'queues',
  'schedules',
  'signals',
  'subworkflows',
  'effect_interception',
  'saga_compensation_native',
  'workflow_versioning',
] as const
export type RuntimeCapability = (typeof runtimeCapabilities)[number]

/** The declaration of an operation at registration. */
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

export type SagaCatalog = {
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

export function listEntries({ operations, compensations }: SagaCatalog): readonly Entry[] {
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

export const catalogRules = [
  'duplicate_name',
  'unknown_operation',
  'missing_compensation',
  'chain_too_deep',
  'cycle',
  'false_inverse',
  'missing_capability',
] as const

export type SagaFinding = {
  readonly rule: (typeof catalogRules)[number]
  /** The faulty operation or compensation. */
  readonly subject: string
  readonly message: string
}

const DEPTH_MAX = 2

export type CatalogLimits = { readonly maxDepth?: number }

/** An accepted catalog is consistent and runs on this runtime; a refused one lists all findings in `facts.findings`. */
export function validateCatalog(
  catalog: SagaCatalog,
  runtime: CatalogRuntime,
  { maxDepth = DEPTH_MAX }: CatalogLimits = {},
): Decision<SagaCatalog> {
  const entries = listEntries(catalog)
  const findings = [
    ...findDuplicates(entries),
    ...findUnknown(entries),
    ...findMissing(entries),
    ...findDeep(entries, maxDepth),
    ...findCycles(entries).map((cycle) => ({
      rule: 'cycle' as const,
      subject: cycle[0] ?? '',
      message: `a compensation leads back to the effect that it undoes: ${[...cycle, cycle[0] ?? ''].join(' → ')}`,
    })),
    ...findFalseInverses(entries),
    ...findMissingCapabilities(entries, runtime),
  ]
  if (findings.length === 0) return accept(catalog)
  const count = findings.length === 1 ? 'one error' : `${findings.length} errors`
  const messages = findings.map(({ message }) => message).join('; ')
  return refuse('saga.catalog.invalid', `The catalog has ${count}: ${messages}.`, { facts: { findings } })
}

function findDuplicates(entries: readonly Entry[]): readonly SagaFinding[] {
  const names = entries.map(({ name }) => name)
  const twice = [...new Set(names.filter((name, at) => names.indexOf(name) !== at))]
  return twice.map((name) => ({ rule: 'duplicate_name', subject: name, message: `${quote(name)} is declared twice` }))
}

function findUnknown(entries: readonly Entry[]): readonly SagaFinding[] {
  const known = new Set(entries.map(({ name }) => name))
  return entries.flatMap(({ name, of }) => {
    if (of === undefined || known.has(of)) return []
    const near = nearest(of, known)
    const hint = near === undefined ? '' : `, did you mean ${quote(near)}?`
    const message = `${quote(name)} undoes ${quote(of)}, which is not declared${hint}`
    return [{ rule: 'unknown_operation' as const, subject: name, message }]
  })
}

function findMissing(entries: readonly Entry[]): readonly SagaFinding[] {
  const undone = new Set(entries.flatMap(({ of }) => of ?? []))
  return entries
    .filter(({ name, needsCompensation }) => needsCompensation && !undone.has(name))
    .map(({ name }) => ({
      rule: 'missing_compensation',
      subject: name,
      message: `${quote(name)} requires a compensation and none is declared`,
    }))
}

/** The operation has depth 0, its compensation 1, the compensation of that 2. A circular chain is a cycle, not a depth. */
function findDeep(entries: readonly Entry[], maxDepth: number): readonly SagaFinding[] {
  const parents = new Map(entries.map(({ name, of }) => [name, of]))
  return entries.flatMap(({ name }) => {
    const chain = new Set([name])
    for (let parent = parents.get(name); parent !== undefined; parent = parents.get(parent)) {
      if (chain.has(parent)) return []
      chain.add(parent)
    }
    const depth = chain.size - 1
    if (depth <= maxDepth) return []
    const path = [...chain].reverse().join(' → ')
    const message = `${quote(name)} is ${depth} compensations deep; the limit is ${maxDepth}: ${path}`
    return [{ rule: 'chain_too_deep' as const, subject: name, message }]
  })
}

function findFalseInverses(entries: readonly Entry[]): readonly SagaFinding[] {
  const byName = new Map(entries.map((entry) => [entry.name, entry]))
  return entries.flatMap(({ name, of, isPureCounter, produces }) => {
    const parent = of === undefined ? undefined : byName.get(of)
    if (!isPureCounter || !parent) return []
    const undoing = new Set(
      parent.produces.flatMap((effect) =>
        Object.hasOwn(parent.inverses, effect) ? (parent.inverses[effect] ?? []) : [],
      ),
    )
    const strangers = produces.filter((effect) => !undoing.has(effect))
    const isIdle = produces.length === 0 && parent.produces.length > 0
    if (strangers.length === 0 && !isIdle) return []
    const what = isIdle ? 'it produces nothing' : `${strangers.map(quote).join(', ')} undoes none of its effects`
    const message = `${quote(name)} claims to be the exact inverse of ${quote(parent.name)}, but ${what}`
    return [{ rule: 'false_inverse' as const, subject: name, message }]
  })
}

function findMissingCapabilities(entries: readonly Entry[], runtime: CatalogRuntime): readonly SagaFinding[] {
  return entries.flatMap(({ name, needs }) =>
    [...new Set(needs)]
      .filter((capability) => !runtime.capabilities.includes(capability))
      .map((capability) => ({
        rule: 'missing_capability' as const,
        subject: name,
        message: `${quote(name)} needs ${capability}, which the runtime ${quote(runtime.name)} does not have`,
      })),
  )
}

/**
 * Finds cycles in the graph effect → compensation → counter-effect: a compensation must not lead to the effect that it undoes.
 * Returns one cycle for each connected group, as names of effects and compensations. Edges: an operation leads to its effects and
 * to its compensation; an effect leads to the compensations of its producers; a compensation leads to its own effects.
 */
export function findCycles(entries: readonly Entry[]): readonly (readonly string[])[] {
  const before = new Map<string, Set<string>>()
  const link = (from: string, to: string) => {
    before.set(from, before.get(from) ?? new Set())
    before.set(to, (before.get(to) ?? new Set()).add(from))
  }
  for (const { name, produces } of entries) for (const effect of produces) link(entryKey(name), effectKey(effect))
  for (const { name, of } of entries) {
    if (of === undefined) continue
    link(entryKey(of), entryKey(name))
    for (const parent of entries)
      if (parent.name === of) for (const effect of parent.produces) link(effectKey(effect), entryKey(name))
  }
  const cycles: string[][] = []
  let nodes: GraphNode[] = [...before].map(([id, from]) => ({ id, sequence: 0, dependsOn: [...from] }))
  for (;;) {
    const index = indexGraph(sortNodes(nodes))
    if (stableOrder(index).length === nodes.length) return cycles
    const cycle = new Set(findCycle(index).map(({ id }) => id))
    cycles.push([...cycle].map((key) => key.slice(key.indexOf(' ') + 1)))
    nodes = nodes
      .filter(({ id }) => !cycle.has(id))
      .map((node) => ({ ...node, dependsOn: node.dependsOn.filter((id) => !cycle.has(id)) }))
  }
}

/** An operation and an effect may share a name; they are two nodes. */
function entryKey(name: string): string {
  return `entry ${name}`
}

function effectKey(name: string): string {
  return `effect ${name}`
}
