/** Parses a rule declared as data strictly and compiles it to the same type as a rule in code. */
import { didYouMean } from '../nearest.ts'
import { accept, type Decision, quote, type Refusal, refuse } from '../refusal.ts'
import { type Condition, compileCondition, operators, type Test } from './condition.ts'
import {
  isPolicyCategory,
  isPolicyDecision,
  type PolicyAnswer,
  type PolicyRule,
  policyCategories,
  policyDecisions,
} from './rule.ts'

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
  if (!isTexts(approvals)) return flaw(`${path}.required_approvals`, 'must be a list of texts')
  if (!isObject(metadata)) return flaw(`${path}.metadata`, 'must be an object')
  // Copied, so that the owner of the data cannot change a compiled rule.
  return accept({
    decision,
    reasons: [...reasons],
    required_approvals: [...approvals],
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
  return refuse('policy.rule.invalid', `${path} ${reason}`, { path })
}
