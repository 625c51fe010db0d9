/** Conditions on the facts of a question, as data: a path, an operator, a value. */
import { accept, type Decision, quote, type Refusal, refuse } from '../refusal.ts'
import { compareDecimals, isDecimal } from './decimal.ts'
import type { PolicyInput } from './rule.ts'

export const operators = [
  'eq',
  'ne',
  'in',
  'not_in',
  'gt',
  'gte',
  'lt',
  'lte',
  'contains',
  'starts_with',
  'present',
  'absent',
] as const
type Operator = (typeof operators)[number]

export type Condition = {
  /** `action`, or names joined by dots from `command`, `task` or `context`: `command.payload.amount`. */
  readonly path: string
  readonly op: Operator
  /** A list for `in` and `not_in`; omitted for `present` and `absent`. */
  readonly value?: unknown
}

export type Test = (input: PolicyInput) => boolean

const roots: readonly string[] = ['action', 'command', 'task', 'context']

export function compileCondition(condition: Condition): Decision<Test> {
  const { path, op, value } = condition
  const names = path.split('.')
  if (names.includes('') || !roots.includes(names[0] ?? '') || (names[0] === 'action' && names.length > 1)) {
    return flaw(`the path ${quote(path)} must start with ${roots.join(', ')} and continue with names and dots`)
  }
  const wrong = findFlaw(op, value)
  if (wrong !== undefined) return flaw(`${quote(path)} ${wrong}`)
  return accept((input) => holds(op, readPath(input, names), value, path))
}

function flaw(reason: string): Refusal {
  return refuse('policy.rule.invalid', reason)
}

function findFlaw(op: Operator, value: unknown): string | undefined {
  switch (op) {
    case 'in':
    case 'not_in':
      return Array.isArray(value) && value.every(isPlain) ? undefined : `${op} needs a list of plain values`
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return isDecimal(value) ? undefined : `${op} needs a number or a decimal text`
    case 'eq':
    case 'ne':
    case 'contains':
      return isPlain(value) ? undefined : `${op} needs a text, a number, true, false or null`
    case 'starts_with':
      return typeof value === 'string' ? undefined : `${op} needs a text`
    case 'present':
    case 'absent':
      return value === undefined ? undefined : `${op} takes no value`
  }
}

/** Reads own fields only: `constructor` and `__proto__` are absent unless they were sent. */
function readPath(input: PolicyInput, names: readonly string[]): unknown {
  let at: unknown = input
  for (const name of names) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined
    at = (at as Record<string, unknown>)[name]
  }
  return at
}

/** An absent value satisfies only `absent`, not even `ne`: a rule that needs it adds a condition of its own. */
function holds(op: Operator, found: unknown, value: unknown, path: string): boolean {
  if (op === 'absent') return found === undefined || found === null
  if (found === undefined || (found === null && value !== null)) return false
  switch (op) {
    case 'present':
      return true
    case 'eq':
      return found === value
    case 'ne':
      return found !== value
    case 'in':
      return Array.isArray(value) && value.includes(found)
    case 'not_in':
      return Array.isArray(value) && !value.includes(found)
    case 'contains':
      return typeof found === 'string'
        ? typeof value === 'string' && found.includes(value)
        : hasItem(found, value, path)
    case 'starts_with':
      if (typeof found === 'string' && typeof value === 'string') return found.startsWith(value)
      throw new TypeError(`${path} is not a text`)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return compares(op, found, value, path)
  }
}

/** Throws, which counts as deny: otherwise a text that is not a number would bypass a limit on `amount`. */
function compares(op: 'gt' | 'gte' | 'lt' | 'lte', found: unknown, value: unknown, path: string): boolean {
  if (!isDecimal(found) || !isDecimal(value)) throw new TypeError(`${path} is not a number`)
  const order = compareDecimals(found, value)
  return op === 'gt' ? order > 0 : op === 'gte' ? order >= 0 : op === 'lt' ? order < 0 : order <= 0
}

function hasItem(found: unknown, value: unknown, path: string): boolean {
  if (Array.isArray(found)) return found.includes(value)
  throw new TypeError(`${path} is neither a text nor a list`)
}

function isPlain(value: unknown): boolean {
  return value === null || ['string', 'boolean'].includes(typeof value) || Number.isFinite(value)
}
