/** What to do next after each refusal, for those that do not say it themselves: no code is without a next step. */
import type { Refusal } from './refusal.ts'
import type { RefusalCode } from './refusal-codes.ts'
import { houseHints } from './refusal-hints/house.ts'
import { schedulerHints } from './refusal-hints/scheduler.ts'
import { workHints } from './refusal-hints/work.ts'

/** Complete by its type: a code without a hint does not compile. */
export const refusalHints: Readonly<Record<RefusalCode, string>> = { ...houseHints, ...workHints, ...schedulerHints }

/** The hint that was written where it was refused, which knows the case; else the one of its code. */
export function hintOf(refusal: Pick<Refusal, 'code' | 'hint'>): string {
  return refusal.hint ?? refusalHints[refusal.code]
}
