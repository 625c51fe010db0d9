/** One thing that `concord doctor` looked at: how it is, and what to do about it. */
import type { Refusal } from '#kernel/refusal'
import { hintOf } from '#refusals'

export type Finding = {
  readonly check: string
  readonly state: 'well' | 'note' | 'broken'
  readonly found: string
  readonly next?: string
}

export function broken(check: string, refusal: Refusal): Finding {
  return { check, state: 'broken', found: refusal.reason, next: hintOf(refusal) }
}
