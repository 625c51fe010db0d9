/** Reservations and direct executions over HTTP: the one slot beside the queue. */
import type { z } from '@hono/zod-openapi'
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
  sent,
  withScheduler,
} from './scheduler-api.ts'

const WAIT_MAX_MS = 60_000
/** How long a direct execution waits for the job in flight when its caller does not say. */
const START_WAIT_MS = 10_000

function parseWait(text: string): Decision<number> {
  const duration = parseDuration(text)
  if (!duration.ok || duration.value <= WAIT_MAX_MS) return duration
  return refuse('duration', 'A request waits for at most 60s.', { hint: 'Ask again when it has passed.' })
}
const waitField = parsedField(parseWait).optional().meta({
  type: 'string',
  example: '10s',
  description: 'How long to wait while the slot is taken, up to 60s; without it a taken slot is refused at once.',
})
const reserveRequest = reserveBody.extend({ wait: waitField }).meta({ id: 'ReserveSchedulerSlot' })
const renewRequest = reserveBody.pick({ expires_in: true }).meta({ id: 'RenewSchedulerReservation' })
const directRequest = directJobBody.extend({ wait: waitField }).meta({ id: 'RunSchedulerJobDirectly' })

const reservation = { reservation_id: idField('reservation') }

/** Nobody waits for a caller that has gone, nor when the server goes. */
function leavingOf({ deps: { closing }, signal }: Pick<Call<SchedulerRouteDeps>, 'deps' | 'signal'>): AbortSignal {
  return closing ? AbortSignal.any([signal, closing]) : signal
}

export const schedulerSlotRoutes = routes({
  listSchedulerReservations: list('/scheduler/reservations', {
    summary: 'Reservations of the slot for direct executions, newest first',
    role: 'reader',
    allow: requireScheduler,
    page: [pageView(reservationView, 'SchedulerReservationPage'), 'A page.'],
    problems: [400, 404],
    scope: () => [],
    read(call, from, limit) {
      const before = from?.[0] === undefined ? {} : { before: from[0] }
      const done = withScheduler(call, (scheduler) => readReservations(scheduler, { limit, ...before }))
      return shown(done, (rows) => fullPage(rows, limit, toReservationView, ({ reservation_id }) => reservation_id))
    },
  }),
  reserveSchedulerSlot: post('/scheduler/reservations', {
    summary: 'Keep the queue from starting anything until you release it or time passes',
    role: 'writer',
    body: [reserveRequest, 'Who, and for how long'],
    answers: { 201: ['Yours.', reservationView] },
    problems: [404, 409],
    async handle(call) {
      const { wait: _, ...body } = await sent<z.input<typeof reserveRequest>>(call)
      const api = requireScheduler(call)
      if (!api.ok) return api
      const stop = leavingOf(call)
      const sleep = (ms: number) => api.value.wait(ms, stop)
      const done = call.deps.waiters(call.body.wait, (timeoutMs) =>
        waitForReservation(api.value.scheduler, body, { timeoutMs, sleep, stop }),
      )
      return shown(done, toReservationView)
    },
  }),
  renewSchedulerReservation: post('/scheduler/reservations/{reservation_id}/renew', {
    summary: 'Keep a reservation for longer; it is never made shorter',
    role: 'writer',
    params: reservation,
    body: [renewRequest, 'For how long, or nothing'],
    answers: { 200: ['The reservation.', reservationView] },
    problems: [404, 409],
    handle: (call) =>
      shown(
        withScheduler(call, (scheduler) =>
          renewReservation(scheduler, call.params.reservation_id, call.body.expires_in),
        ),
        toReservationView,
      ),
  }),
  releaseSchedulerReservation: post('/scheduler/reservations/{reservation_id}/release', {
    summary: 'Let the queue go on',
    role: 'writer',
    params: reservation,
    answers: { 200: ['The reservation.', reservationView] },
    problems: [404, 409, ...bodyProblems],
    handle: (call) =>
      shown(
        withScheduler(call, (scheduler) => releaseReservation(scheduler, call.params.reservation_id)),
        toReservationView,
      ),
  }),
  runSchedulerJobDirectly: post('/scheduler/direct_runs', {
    summary: 'Run one job now, before everything that waits',
    description:
      'It starts when nothing else is in flight; GET the job, or follow its log, to see how it goes. What does not get its slot ' +
      'within `wait` (10s unless said otherwise) is cancelled.',
    role: 'writer',
    body: [directRequest, 'The work'],
    answers: { 202: ['Accepted; the queue waits for it.', jobView] },
    problems: [404, 409],
    async handle(call) {
      const { wait: _, ...body } = await sent<z.input<typeof directRequest>>(call)
      const wanted = call.body
      const api = requireScheduler(call)
      if (!api.ok) return api
      const { scheduler, wait, follow } = api.value
      const allowed = mayRun(call, scheduler, [wanted])
      if (!allowed.ok) return allowed
      const stop = leavingOf(call)
      const startByMs = scheduler.deps.now().getTime() + (wanted.wait ?? START_WAIT_MS)
      const reservedBy = `user ${call.principal.userId}`
      const sleep = (ms: number) => wait(ms, stop)
      const asked = call.deps.waiters(wanted.wait, (timeoutMs) =>
        askForDirect(scheduler, body, { reservedBy, timeoutMs, sleep, stop }),
      )
      return shown(asked, (direct) => {
        follow(direct, startByMs)
        return toJobView(direct.job)
      })
    },
  }),
})
