/** Writes a fault plan into the environment of a child process. A plan that the child could not read fails the test that made it. */
import { type FailpointName, failpointNames, parsePlan, type PlannedFault } from '../../src/store/failpoints.ts'

export type { FailpointName, PlannedFault }

export function faultEnv(plan: readonly PlannedFault[]): { readonly CONCORD_FAULTS: string } {
  const unknown = plan.filter(({ point }) => !failpointNames.includes(point)).map(({ point }) => point)
  if (unknown.length > 0) throw new Error(`The fault plan names ${unknown.join(', ')}, which is not a failpoint.`)
  const text = JSON.stringify(plan)
  parsePlan(text)
  return { CONCORD_FAULTS: text }
}
