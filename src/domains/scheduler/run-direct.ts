/**
 * A direct execution from beginning to end: the next slot is reserved, the queue waits, the work is done here and now, and the
 * reservation is renewed while it takes longer than expected.
 */
import type { z } from 'zod'
import { accept, type Decision } from '#kernel/refusal'
import type { directJobBody } from './contract.ts'
import type { FinishedRun } from './finish-run.ts'
import { finishRunSurely, type OutcomeAlert } from './finish-surely.ts'
import { releaseReservation, renewReservation } from './reservations.ts'
import { type JobDeps, type RunningJob, startJob } from './run-job.ts'
import type { ClaimedRun } from './runner-port.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import { startDirectJob } from './start-direct-job.ts'
import { type Sleep, waitForReservation } from './wait-for-reservation.ts'

export type RunDirect = {
  readonly deps: JobDeps
  readonly reservedBy: string
  /** How long it waits for the slot: for other direct executions, and for the job of the queue that is in flight. */
  readonly timeoutMs: number
  readonly stop: AbortSignal
  readonly onStart?: (job: RunningJob) => void
  readonly alert: (alert: OutcomeAlert) => void
}

const LOOK_MS = 50

export async function runDirect(
  scheduler: Scheduler,
  body: z.input<typeof directJobBody>,
  { deps, reservedBy, timeoutMs, stop, onStart, alert }: RunDirect,
): Promise<Decision<FinishedRun>> {
  const sleep: Sleep = (ms) => deps.wait(ms, new AbortController().signal)
  const until = nowMs(scheduler) + timeoutMs
  const reserved = await waitForReservation(scheduler, { reserved_by: reservedBy }, { timeoutMs, sleep })
  if (!reserved.ok) return reserved
  const { reservation_id } = reserved.value
  const started = await startInSlot(scheduler, reservation_id, body, { until, sleep })
  if (!started.ok) {
    releaseReservation(scheduler, reservation_id)
    return started
  }
  const job = startJob(scheduler, deps, started.value)
  onStart?.(job)
  const end = () => job.end('stopped')
  stop.addEventListener('abort', end, { once: true })
  if (stop.aborted) end()
  const over = new AbortController()
  const renewing = renewUntil(scheduler, reservation_id, deps, over.signal)
  const outcome = await job.ended.finally(() => over.abort())
  scheduler.pass('run.ended')
  stop.removeEventListener('abort', end)
  const finished = await finishRunSurely(scheduler, started.value.runId, outcome, { sleep, alert })
  await renewing
  releaseReservation(scheduler, reservation_id)
  return finished.ok ? accept(finished.value) : finished
}

async function startInSlot(
  scheduler: Scheduler,
  reservationId: string,
  body: z.input<typeof directJobBody>,
  { until, sleep }: { readonly until: number; readonly sleep: Sleep },
): Promise<Decision<ClaimedRun>> {
  for (;;) {
    const started = startDirectJob(scheduler, reservationId, body)
    const isTaken = !started.ok && started.code === 'scheduler.reservation.slot_taken'
    if (!isTaken || nowMs(scheduler) >= until) return started
    renewReservation(scheduler, reservationId)
    await sleep(LOOK_MS)
  }
}

/** A third of its time: two renewals may fail before the queue starts beside it. */
async function renewUntil(scheduler: Scheduler, reservationId: string, deps: JobDeps, over: AbortSignal) {
  while (!over.aborted) {
    await deps.wait(scheduler.settings.reservationMs / 3, over)
    if (!over.aborted) renewReservation(scheduler, reservationId)
  }
}
