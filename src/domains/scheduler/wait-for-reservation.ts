/** The patient way to a reservation: asks again until the slot is free or the caller's time is over. */
import type { z } from 'zod'
import type { Decision } from '#kernel/refusal'
import type { reserveBody } from './contract.ts'
import { reserve } from './reservations.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredReservation } from './stored-rows.ts'

/** Waiting is the caller's: a timer in a program, a step of the clock in a test. */
export type Sleep = (ms: number) => Promise<void>

const POLL_MS = 50

/** Refuses as `reserve` does when `timeoutMs` has passed; who waits gets no turn reserved for it. */
export async function waitForReservation(
  scheduler: Scheduler,
  body: z.input<typeof reserveBody>,
  { timeoutMs, sleep, stop }: { readonly timeoutMs: number; readonly sleep: Sleep; readonly stop?: AbortSignal },
): Promise<Decision<StoredReservation>> {
  const until = nowMs(scheduler) + timeoutMs
  for (;;) {
    const reserved = reserve(scheduler, body)
    const leftMs = until - nowMs(scheduler)
    if (reserved.ok || reserved.code !== 'scheduler.reservation.busy' || leftMs <= 0) return reserved
    if (stop?.aborted === true) return reserved
    await sleep(Math.min(POLL_MS, leftMs))
  }
}
