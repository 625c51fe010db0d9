/** Reservations and direct executions over HTTP. */
import { durationField, idField, pageView } from '#contract'
import {
  askForDirect,
  digestWork,
  directJobBody,
  jobView,
  keyOfDirect,
  readReservations,
  releaseReservation,
  renewReservation,
  reservationView,
  reserveBody,
  type Scheduler,
  toJobView,
  toReservationView,
  waitForReservation,
} from '#domains/scheduler'
import { encodeId } from '#kernel/ids'
import { accept, refuse } from '#kernel/refusal'
import { bodyProblems } from './problem.ts'
import { type Call, routes, shown } from './resource.ts'
import {
  change,
  fullPage,
  knownJob,
  list,
  post,
  requireScheduler,
  type SchedulerRouteDeps,
  withScheduler,
} from './scheduler-api.ts'

const WAIT_MAX_MS = 60_000
/** The default time that a direct execution waits for the job in flight. */
const START_WAIT_MS = 10_000

const refuseWait = () =>
  refuse('duration', 'A request can wait for at most 60s.', { hint: 'Wait for 60s, then send the request again.' })
const waitField = durationField('10s', { ms: WAIT_MAX_MS, refuse: refuseWait }).optional().meta({
  description: 'How long to wait while the slot is taken, up to 60s. Without it, a taken slot is refused immediately.',
})
const reserveRequest = reserveBody.extend({ wait: waitField }).meta({ id: 'ReserveSchedulerSlot' })
const renewRequest = reserveBody.pick({ expires_in: true }).meta({ id: 'RenewSchedulerReservation' })
const directRequest = directJobBody
  .extend({ wait: waitField })
  .meta({ id: 'RunSchedulerJobDirectly', ...directJobBody.meta() })

const reservation = { reservation_id: idField('reservation') }
const reservationFact = ({ reservation_id: id }: { readonly reservation_id: string }) => ({
  reservation_id: encodeId('reservation', id),
})

/** Aborts the wait when the caller disconnects or the server shuts down. */
function leavingOf({ deps: { closing }, signal }: Pick<Call<SchedulerRouteDeps>, 'deps' | 'signal'>): AbortSignal {
  return closing ? AbortSignal.any([signal, closing]) : signal
}

export const schedulerSlotRoutes = routes({
  listSchedulerReservations: list('/scheduler/reservations', {
    summary: 'List the reservations for direct executions, newest first',
    role: 'reader',
    allow: requireScheduler,
    page: [pageView(reservationView, 'SchedulerReservationPage'), 'A page.'],
    problems: [404],
    scope: () => [],
    read(call, from, limit) {
      const before = from?.[0] === undefined ? {} : { before: from[0] }
      const done = withScheduler(call, (scheduler) => readReservations(scheduler, { limit, ...before }))
      return shown(done, (rows) => fullPage(rows, limit, toReservationView, ({ reservation_id }) => reservation_id))
    },
  }),
  reserveSchedulerSlot: post('/scheduler/reservations', {
    summary: 'Reserve the slot: no queued job starts until it is released or expires',
    role: 'writer',
    body: [reserveRequest, 'The reservation'],
    answers: { 201: ['The reservation.', reservationView] },
    problems: [404, 409],
    async handle(call) {
      const { wait: _, ...body } = call.sent
      const stop = leavingOf(call)
      return change(call, { operation: 'reserve' }, toReservationView, (scheduler, __, { wait }) =>
        call.deps.waiters(call.body.wait, (timeoutMs) =>
          waitForReservation(scheduler, body, { timeoutMs, wait, stop }),
        ),
      )
    },
  }),
  renewSchedulerReservation: post('/scheduler/reservations/{reservation_id}/renew', {
    summary: 'Extend a reservation; it is never shortened',
    role: 'writer',
    params: reservation,
    body: [renewRequest, 'The new lifetime, optional'],
    answers: { 200: ['The reservation.', reservationView] },
    problems: [404, 409],
    handle: (call) =>
      change(call, { operation: 'renew', facts: reservationFact(call.params) }, toReservationView, (scheduler) =>
        renewReservation(scheduler, call.params.reservation_id, call.body.expires_in),
      ),
  }),
  releaseSchedulerReservation: post('/scheduler/reservations/{reservation_id}/release', {
    summary: 'Release a reservation, so that the queue continues',
    role: 'writer',
    params: reservation,
    answers: { 200: ['The reservation.', reservationView] },
    problems: [404, 409, ...bodyProblems],
    handle: (call) =>
      change(call, { operation: 'release', facts: reservationFact(call.params) }, toReservationView, (scheduler) =>
        releaseReservation(scheduler, call.params.reservation_id),
      ),
  }),
  runSchedulerJobDirectly: post('/scheduler/direct_runs', {
    summary: 'Run one job directly, ahead of the queue',
    description:
      'The job starts when nothing else is in flight. GET the job, or follow its log, to see its progress. A job that does not get the slot ' +
      'within `wait` (10s by default) is cancelled.',
    role: 'writer',
    body: [directRequest, 'The work'],
    answers: {
      200: ['The job of the same request with this key.', jobView],
      202: ['The accepted job. The queue waits for it.', jobView],
    },
    problems: [404, 409],
    async handle(call) {
      const { wait: _, ...body } = call.sent
      const { wait: waitMs, ...wanted } = call.body
      const stop = leavingOf(call)
      const reservedBy = `user ${call.principal.userId}`
      const asked = {
        operation: 'run_directly',
        may: [wanted],
        runs: (scheduler: Scheduler) => digestWork(scheduler, [wanted]),
        creates: 'job',
        repeats: { key: keyOfDirect(wanted), known: knownJob },
      } as const
      return change(call, asked, toJobView, async (scheduler, { newId: jobId, ...recorded }, { wait, follow }) => {
        const startByMs = scheduler.deps.now().getTime() + (waitMs ?? START_WAIT_MS)
        const direct = await call.deps.waiters(waitMs, (timeoutMs) =>
          askForDirect(scheduler, body, { reservedBy, timeoutMs, wait, stop, jobId, ...recorded }),
        )
        if (!direct.ok) return direct
        follow(direct.value, startByMs)
        return accept(direct.value.job)
      })
    },
  }),
})
