/** fast-check with the planned seed and number of runs; `properties.ts` puts it where tests import `fast-check`. */
import fc from 'fast-check'
import { countAssertion } from './assertions.ts'
import { planProperties, runsOf } from './property-plan.ts'

export * from 'fast-check'

/** fast-check's own number, for a property that names none. */
const USUAL_RUNS = 100

const plan = planProperties(process.env)
if (!plan.ok) throw new Error(plan.says)
if (plan.seed !== undefined) fc.configureGlobal({ seed: plan.seed })

// Not by `configureGlobal`: the number that a property names itself goes before that one. The cast: one body has all its forms.
const assert = ((property, params) => {
  countAssertion()
  return fc.assert(property, { ...params, numRuns: runsOf(plan, params?.numRuns ?? USUAL_RUNS) })
}) as typeof fc.assert

export default { ...fc, assert }
