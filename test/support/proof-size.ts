/** How much a proof by repetition repeats: a little in `npm test`, much in `npm run test:chaos`, times `--property-runs`. */
import { planProperties } from './property-plan.ts'

export function proofSize(quick: number, long: number): number {
  const plan = planProperties(process.env)
  if (!plan.ok) throw new Error(plan.says)
  return plan.times * (plan.isLong ? long : quick)
}
