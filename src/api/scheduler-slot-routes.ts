/** Reservations and direct executions over HTTP. */
import { idField, pageView, parsedField } from '#contract'
import {
  askForDirect,
  directJobBody,
  jobView,
  readReservations,
  releaseReservation,
  renewReservation,
  reservationView,
  reserveBody,
  toJobView,
  toReservationView,
  waitForReservation,
} from '#domains/scheduler'
import { parseDuration } from '#kernel/duration'
import { type Decision, refuse } from '#kernel/refusal'
import { bodyProblems } from './problem.ts'
import { type Call, routes, shown } from './resource.ts'
import {
  fullPage,
  list,
  mayRun,
  post,
  requireScheduler,
  type SchedulerRouteDeps,
  viewFrom,
  withScheduler,
} from './scheduler-api.ts'

const WAIT_MAX_MS = 60_000
/** The default time that a direct execution waits for the job in flight. */
const START_WAIT_MS = 10_000

function parseWait(text: string): Decision<number> {
  const duration = parseDuration(text)
  if (!duration.ok || duration.value <= WAIT_MAX_MS) return duration
  return refuse('duration', 'A request can wait for at most 60s.', {
    hint: 'Wait for 60s, then send the request again.',
  })
}
const waitField = parsedField(parseWait).optional().meta({
  type: 'string',
  example: '10s',
  description: 'How long to wait while the slot is taken, up to 60s. Without it, a taken slot is refused immediately.',
})
const reserveRequest = reserveBody.extend({ wait: waitField }).meta({ id: 'ReserveSchedulerSlot' })
const renewRequest = reserveBody.pick({ expires_in: true }).meta({ id: 'RenewSchedulerReservation' })
const directRequest = directJobBody.extend({ wait: waitField }).meta({ id: 'RunSchedulerJobDirectly' })

const reservation = { reservation_id: idField('reservation') }

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
      const api = requireScheduler(call)
      if (!api.ok) return api
      const stop = leavingOf(call)
      const done = call.deps.waiters(call.body.wait, (timeoutMs) =>
        waitForReservation(api.value.scheduler, body, { timeoutMs, wait: api.value.wait, stop }),
      )
      return shown(done, toReservationView)
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
      viewFrom(call, toReservationView, (scheduler) =>
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
      viewFrom(call, toReservationView, (scheduler) => releaseReservation(scheduler, call.params.reservation_id)),
  }),
  runSchedulerJobDirectly: post('/scheduler/direct_runs', {
    summary: 'Run one job directly, ahead of the queue',
    description:
      'The job starts when nothing else is in flight. GET the job, or follow its log, to see its progress. A job that does not get the slot ' +
      'within `wait` (10s by default) is cancelled.',
    role: 'writer',
    body: [directRequest, 'The work'],
    answers: { 202: ['The accepted job. The queue waits for it.', jobView] },
    problems: [404, 409],
    async handle(call) {
      const { wait: _, ...body } = call.sent
      const wanted = call.body
      const api = requireScheduler(call)
      if (!api.ok) return api
      const { scheduler, wait, follow } = api.value
      const allowed = mayRun(call, scheduler, [wanted])
      if (!allowed.ok) return allowed
      const stop = leavingOf(call)
      const startByMs = scheduler.deps.now().getTime() + (wanted.wait ?? START_WAIT_MS)
      const reservedBy = `user ${call.principal.userId}`
      const asked = call.deps.waiters(wanted.wait, (timeoutMs) =>
        askForDirect(scheduler, body, { reservedBy, timeoutMs, wait, stop }),
      )
      return shown(asked, (direct) => {
        follow(direct, startByMs)
        return toJobView(direct.job)
      })
    },
  }),
})
