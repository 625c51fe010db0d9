/** µs per decision with 10, 100 and 1,000 rules: the engine with and without its index, and a bare scan of predicates. */
import { evaluatePolicy } from '#kernel/policy/evaluate'
import { compileRules, type PolicyInput, type PolicyRule } from '#kernel/policy/policy'

const ACTIONS = 20
const ROUNDS = 5
const ROUND_MS = 60

/** Every rule reads two facts; only the last one allows the request, so no rule can stop early. */
function someRules(count: number, isIndexed: boolean): PolicyRule[] {
  return Array.from({ length: count }, (_, at) => {
    const action = `action${at % ACTIONS}`
    return {
      name: `rule${at}`,
      category: 'permission',
      actions: isIndexed ? [action] : '*',
      decide: (input) =>
        input.action === action && input.command['amount'] === at ? { decision: 'allow' } : undefined,
    }
  })
}

function microsPerCall(call: () => unknown): number {
  const rounds = Array.from({ length: ROUNDS }, () => {
    const start = performance.now()
    let calls = 0
    while (performance.now() - start < ROUND_MS) for (let at = 0; at < 50; at++, calls++) call()
    return ((performance.now() - start) * 1_000) / calls
  })
  return rounds.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? Number.NaN
}

console.log('rules   bare scan   engine, all   engine, indexed   indexed ÷ bare scan')
for (const count of [10, 100, 1_000]) {
  const last = count - 1
  const input: PolicyInput = { action: `action${last % ACTIONS}`, command: { amount: last }, task: {}, context: {} }
  const bare = someRules(count, false)
  const scan = microsPerCall(() => bare.filter((rule) => rule.decide(input) !== undefined).length)
  const [all, indexed] = [false, true].map((isIndexed) => {
    const policy = compileRules('bench', someRules(count, isIndexed))
    if (!policy.ok || evaluatePolicy(policy.value, input).decision !== 'allow')
      throw new Error('The policy does not allow the request of the bench.')
    return microsPerCall(() => evaluatePolicy(policy.value, input))
  })
  const cells = [scan, all, indexed].map((micros) => `${(micros ?? Number.NaN).toFixed(2)} µs`)
  console.log(
    [String(count).padStart(5), cells[0]?.padStart(11), cells[1]?.padStart(13), cells[2]?.padStart(17)].join(' '),
    ((indexed ?? Number.NaN) / scan).toFixed(2).padStart(21),
  )
}
