/** The number of repetitions of a proof: few in `npm test`, many in `npm run test:chaos`, times `--property-runs`. */
import { planProperties } from './property-plan.ts'

export function proofSize(quick: number, long: number): number {
  const plan = planProperties(process.env)
  if (!plan.ok) throw new Error(plan.says)
  return plan.times * (plan.isLong ? long : quick)
}
