/** fast-check with the planned seed and number of runs; `properties.ts` puts it where tests import `fast-check`. */
import fc from 'fast-check'
import { countAssertion } from './assertions.ts'
import { planProperties, runsOf } from './property-plan.ts'

export * from 'fast-check'

/** The default of fast-check, for a property without a number of runs. */
const USUAL_RUNS = 100

const plan = planProperties(process.env)
if (!plan.ok) throw new Error(plan.says)
if (plan.seed !== undefined) fc.configureGlobal({ seed: plan.seed })

// `configureGlobal` would not do: the number of a property overrides it. The cast covers all overloads with one body.
const assert = ((property, params) => {
  countAssertion()
  return fc.assert(property, { ...params, numRuns: runsOf(plan, params?.numRuns ?? USUAL_RUNS) })
}) as typeof fc.assert

export default { ...fc, assert }
