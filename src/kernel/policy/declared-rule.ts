/** Parses a rule declared as data strictly and compiles it to the same type as a rule in code. */
import { didYouMean } from '../nearest.ts'
import { accept, type Decision, quote, type Refusal, refuse } from '../refusal.ts'
import {
  isPolicyCategory,
  APPROVERS_MAX,
  isPolicyDecision,
  isRequiredApproval,
  type PolicyAnswer,
  policyCategories,
  policyDecisions,
  type PolicyInput,
  type PolicyRule,
} from './policy.ts'

/** When all conditions of `when` hold, the answer is `answer`, otherwise `otherwise`, or no opinion without one. */
export type DeclaredRule = Omit<PolicyRule, 'decide'> & {
  readonly when: readonly Condition[]
  readonly answer: PolicyAnswer
  readonly otherwise?: PolicyAnswer
}

const fields = {
  rule: ['name', 'category', 'actions', 'when', 'answer', 'otherwise'],
  condition: ['path', 'op', 'value'],
  answer: ['decision', 'reasons', 'required_approvals', 'metadata'],
}

export function compileDeclaredRule(input: unknown): Decision<PolicyRule> {
  const rule = readObject(input, 'rule', fields.rule)
  if (!rule.ok) return rule
  const { name, category, actions, when, otherwise } = rule.value
  if (typeof name !== 'string' || name === '') return flaw('name', 'must be a text')
  if (!isPolicyCategory(category)) return flaw('category', `must be one of ${policyCategories.join(', ')}`)
  if (actions !== '*' && !(isTexts(actions) && actions.length > 0))
    return flaw('actions', 'must be "*" or a list of names')
  if (!Array.isArray(when)) return flaw('when', 'must be a list of conditions')
  const tests: Test[] = []
  for (const [at, condition] of when.entries()) {
    const test = readCondition(condition, `when[${at}]`)
    if (!test.ok) return test
    tests.push(test.value)
  }
  const yes = readAnswer(rule.value['answer'], 'answer')
  if (!yes.ok) return yes
  const no = otherwise === undefined ? accept(undefined) : readAnswer(otherwise, 'otherwise')
  if (!no.ok) return no
  const decide: PolicyRule['decide'] = (question) => (tests.every((test) => test(question)) ? yes.value : no.value)
  return accept({ name, category, actions: actions === '*' ? actions : [...actions], decide })
}

function readCondition(input: unknown, path: string): Decision<Test> {
  const condition = readObject(input, path, fields.condition)
  if (!condition.ok) return condition
  const { path: subject, op: named, value } = condition.value
  const op = operators.find((known) => known === named)
  if (typeof subject !== 'string') return flaw(`${path}.path`, 'must be a text')
  if (op === undefined) return flaw(`${path}.op`, `must be one of ${operators.join(', ')}`)
  const test = compileCondition({ path: subject, op, value })
  return test.ok ? test : { ...test, path }
}

function readAnswer(input: unknown, path: string): Decision<PolicyAnswer> {
  const answer = readObject(input, path, fields.answer)
  if (!answer.ok) return answer
  const { decision, reasons = [], required_approvals: approvals = [], metadata = {} } = answer.value
  if (!isPolicyDecision(decision)) return flaw(`${path}.decision`, `must be one of ${policyDecisions.join(', ')}`)
  if (!isTexts(reasons)) return flaw(`${path}.reasons`, 'must be a list of texts')
  if (!Array.isArray(approvals) || !approvals.every(isRequiredApproval))
    return flaw(
      `${path}.required_approvals`,
      `must be a list of roles, or of { role, count } with a count of 1 to ${APPROVERS_MAX}`,
    )
  if (!isObject(metadata)) return flaw(`${path}.metadata`, 'must be an object')
  // Copied, so that the owner of the data cannot change a compiled rule.
  return accept({
    decision,
    reasons: [...reasons],
    required_approvals: structuredClone(approvals),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata: structuredClone(metadata) }),
  })
}

function readObject(
  input: unknown,
  path: string,
  known: readonly string[],
): Decision<Readonly<Record<string, unknown>>> {
  if (!isObject(input)) return flaw(path, 'must be an object')
  const unknown = Object.keys(input).find((key) => !known.includes(key))
  if (unknown === undefined) return accept(input)
  return { ...flaw(path, `has no field ${quote(unknown)}`), ...didYouMean(unknown, known) }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}

function flaw(path: string, reason: string): Refusal {
  return refuse('policy.rule.invalid', `The field ${path} ${reason}.`, { path })
}

const operators = [
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

/** A condition on the facts of a question, as data. */
export type Condition = {
  /** `action`, or names joined by dots from `command`, `task` or `context`: `command.payload.amount`. */
  readonly path: string
  readonly op: Operator
  /** A list for `in` and `not_in`; omitted for `present` and `absent`. */
  readonly value?: unknown
}

type Test = (input: PolicyInput) => boolean

const roots: readonly string[] = ['action', 'command', 'task', 'context']

function compileCondition(condition: Condition): Decision<Test> {
  const { path, op, value } = condition
  const names = path.split('.')
  if (names.includes('') || !roots.includes(names[0] ?? '') || (names[0] === 'action' && names.length > 1)) {
    return refuse(
      'policy.rule.invalid',
      `The path ${quote(path)} must start with ${roots.join(', ')} and continue with names and dots.`,
    )
  }
  const wrong = findFlaw(op, value)
  if (wrong !== undefined) return refuse('policy.rule.invalid', `The condition on ${quote(path)} is invalid: ${wrong}.`)
  return accept((input) => holds(op, readPath(input, names), value, path))
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

/** Up to 40 digits on each side: more is not an amount, and a text of a million digits must not become a bigint. */
const FORM = /^-?\d{1,40}(?:\.\d{1,40})?$/

export function isDecimal(value: unknown): value is number | string {
  return typeof value === 'number' ? Number.isFinite(value) : typeof value === 'string' && FORM.test(value)
}

/**
 * Compares numbers and decimal texts exactly: amounts are sent as text, and `0.1 + 0.2` must not decide an amount of money. Returns a
 * negative number, zero or a positive number, as in sorting.
 */
export function compareDecimals(left: number | string, right: number | string): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right
  const [a, b] = [String(left), String(right)]
  // Numbers such as 1e300 have no plain form; at that size a float is exact enough to compare.
  if (!FORM.test(a) || !FORM.test(b)) return Number(a) - Number(b)
  const decimals = Math.max(countDecimals(a), countDecimals(b))
  const difference = scale(a, decimals) - scale(b, decimals)
  return difference > 0n ? 1 : difference < 0n ? -1 : 0
}

function countDecimals(text: string): number {
  return text.split('.')[1]?.length ?? 0
}

function scale(text: string, decimals: number): bigint {
  const [whole = '', fraction = ''] = text.split('.')
  return BigInt(whole + fraction.padEnd(decimals, '0'))
}
