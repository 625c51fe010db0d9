/** Checks a whole catalog before anything runs, and reports all errors at once. */
import { nearest } from '../nearest.ts'
import { accept, type Decision, quote, refuse } from '../refusal.ts'
import { findCycles } from './cycles.ts'
import { type Catalog, type CatalogRuntime, type Entry, listEntries } from './manifests.ts'

export const catalogRules = [
  'duplicate_name',
  'unknown_operation',
  'missing_compensation',
  'chain_too_deep',
  'cycle',
  'false_inverse',
  'missing_capability',
] as const

export type Finding = {
  readonly rule: (typeof catalogRules)[number]
  /** The faulty operation or compensation. */
  readonly subject: string
  readonly message: string
}

const DEPTH_MAX = 2

export type CatalogLimits = { readonly maxDepth?: number }

/** An accepted catalog is consistent and runs on this runtime; a refused one lists all findings in `facts.findings`. */
export function validateCatalog(
  catalog: Catalog,
  runtime: CatalogRuntime,
  { maxDepth = DEPTH_MAX }: CatalogLimits = {},
): Decision<Catalog> {
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

function findDuplicates(entries: readonly Entry[]): readonly Finding[] {
  const names = entries.map(({ name }) => name)
  const twice = [...new Set(names.filter((name, at) => names.indexOf(name) !== at))]
  return twice.map((name) => ({ rule: 'duplicate_name', subject: name, message: `${quote(name)} is declared twice` }))
}

function findUnknown(entries: readonly Entry[]): readonly Finding[] {
  const known = new Set(entries.map(({ name }) => name))
  return entries.flatMap(({ name, of }) => {
    if (of === undefined || known.has(of)) return []
    const near = nearest(of, known)
    const hint = near === undefined ? '' : `, did you mean ${quote(near)}?`
    const message = `${quote(name)} undoes ${quote(of)}, which is not declared${hint}`
    return [{ rule: 'unknown_operation' as const, subject: name, message }]
  })
}

function findMissing(entries: readonly Entry[]): readonly Finding[] {
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
function findDeep(entries: readonly Entry[], maxDepth: number): readonly Finding[] {
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
    const message = `${quote(name)} is ${depth} compensations deep, the limit is ${maxDepth}: ${path}`
    return [{ rule: 'chain_too_deep' as const, subject: name, message }]
  })
}

function findFalseInverses(entries: readonly Entry[]): readonly Finding[] {
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

function findMissingCapabilities(entries: readonly Entry[], runtime: CatalogRuntime): readonly Finding[] {
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
