/** Reservations and direct executions over HTTP: the one slot beside the queue. */
import { createRoute, type z } from '@hono/zod-openapi'
import { pageView, parsedField } from '#contract'
import {
  askForDirect,
  directJobBody,
  jobView,
  readReservations,
  releaseReservation,
  renewReservation,
  reservationView,
  reserveBody,
  type StoredReservation,
  toJobView,
  toReservationView,
  waitForReservation,
} from '#domains/scheduler'
import { parseDuration } from '#kernel/duration'
import { type Decision, refuse } from '#kernel/refusal'
import { openPageCursors } from './page-cursor.ts'
import { type ApiContext, principalOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'
import {
  bodyOf,
  closePage,
  requireScheduler,
  mayRun,
  openPage,
  reservationParam,
  type SchedulerRouteDeps,
  schedulerPage,
  withScheduler,
} from './scheduler-api.ts'

const reads = headOf('scheduler', needs('reader', 'org'))
const writes = headOf('scheduler', needs('writer', 'org'))

const query = queryOf({})

const WAIT_MAX_MS = 60_000
/** How long a direct execution waits for the job in flight when its caller does not say. */
const START_WAIT_MS = 10_000
/** Each asks the file twenty times a second; who comes on top of these is answered at once. */
const WAITERS_MAX = 20

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

const getReservations = createRoute({
  ...reads(
    'get',
    '/scheduler/reservations',
    'listSchedulerReservations',
    'Reservations of the slot for direct executions, newest first',
  ),
  request: { query: queryOf(schedulerPage) },
  responses: {
    200: jsonAnswer(pageView(reservationView, 'SchedulerReservationPage'), 'A page.'),
    ...problems(400, 404, 422),
  },
})
const postReservation = createRoute({
  ...writes(
    'post',
    '/scheduler/reservations',
    'reserveSchedulerSlot',
    'Keep the queue from starting anything until you release it or time passes',
  ),
  request: { query, body: jsonBody(reserveRequest, 'Who, and for how long') },
  responses: { 201: jsonAnswer(reservationView, 'Yours.'), ...problems(404, 409, ...bodyProblems) },
})
const postRenew = createRoute({
  ...writes(
    'post',
    '/scheduler/reservations/{reservation_id}/renew',
    'renewSchedulerReservation',
    'Keep a reservation for longer; it is never made shorter',
  ),
  request: { query, params: reservationParam, body: jsonBody(renewRequest, 'For how long, or nothing') },
  responses: { 200: jsonAnswer(reservationView, 'The reservation.'), ...problems(404, 409, ...bodyProblems) },
})
const postRelease = createRoute({
  ...writes(
    'post',
    '/scheduler/reservations/{reservation_id}/release',
    'releaseSchedulerReservation',
    'Let the queue go on',
  ),
  request: { query, params: reservationParam },
  responses: { 200: jsonAnswer(reservationView, 'The reservation.'), ...problems(404, 409, ...bodyProblems) },
})
const postDirect = createRoute({
  ...writes(
    'post',
    '/scheduler/direct_runs',
    'runSchedulerJobDirectly',
    'Run one job now, before everything that waits',
    'It starts when nothing else is in flight; GET the job, or follow its log, to see how it goes. What does not get its slot ' +
      'within `wait` (10s unless said otherwise) is cancelled.',
  ),
  request: { query, body: jsonBody(directRequest, 'The work') },
  responses: { 202: jsonAnswer(jobView, 'Accepted; the queue waits for it.'), ...problems(404, 409, ...bodyProblems) },
})

/** Nobody waits for a caller that has gone, nor when the server goes. */
function leavingOf(c: ApiContext, { closing }: SchedulerRouteDeps): AbortSignal {
  return closing ? AbortSignal.any([c.req.raw.signal, closing]) : c.req.raw.signal
}

export function schedulerSlotRoutes(deps: SchedulerRouteDeps) {
  const cursors = openPageCursors(deps.cursorKey)
  let waiters = 0
  async function waiting<T>(waitMs: number | undefined, work: (timeoutMs: number) => Promise<T>): Promise<T> {
    const isRoom = waiters < WAITERS_MAX
    waiters += 1
    try {
      return await work(isRoom ? (waitMs ?? 0) : 0)
    } finally {
      waiters -= 1
    }
  }
  return newRouter()
    .openapi(getReservations, (c) => {
      const { cursor, ...page } = c.req.valid('query')
      const scope = ['listSchedulerReservations']
      const limit = limitOf(page)
      const done = withScheduler(c, deps, (scheduler) => {
        const before = openPage(cursors, scope, cursor)
        if (!before.ok) return before
        return readReservations(scheduler, { limit, ...(before.value === undefined ? {} : { before: before.value }) })
      })
      const seal = (row: StoredReservation) => cursors.seal(scope, [row.reservation_id])
      return done.ok ? c.json(closePage(done.value, limit, { view: toReservationView, seal }), 200) : refused(c, done)
    })
    .openapi(postReservation, async (c) => {
      const { wait: _, ...body } = await bodyOf<z.input<typeof reserveRequest>>(c)
      const face = requireScheduler(c, deps)
      if (!face.ok) return refused(c, face)
      const { scheduler, wait } = face.value
      const stop = leavingOf(c, deps)
      const sleep = (ms: number) => wait(ms, stop)
      const done = await waiting(c.req.valid('json').wait, (timeoutMs) =>
        waitForReservation(scheduler, body, { timeoutMs, sleep, stop }),
      )
      return done.ok ? c.json(toReservationView(done.value), 201) : refused(c, done)
    })
    .openapi(postRenew, (c) => {
      const { reservation_id } = c.req.valid('param')
      const { expires_in } = c.req.valid('json')
      const done = withScheduler(c, deps, (scheduler) => renewReservation(scheduler, reservation_id, expires_in))
      return done.ok ? c.json(toReservationView(done.value), 200) : refused(c, done)
    })
    .openapi(postRelease, (c) => {
      const done = withScheduler(c, deps, (scheduler) =>
        releaseReservation(scheduler, c.req.valid('param').reservation_id),
      )
      return done.ok ? c.json(toReservationView(done.value), 200) : refused(c, done)
    })
    .openapi(postDirect, async (c) => {
      const { wait: _, ...body } = await bodyOf<z.input<typeof directRequest>>(c)
      const wanted = c.req.valid('json')
      const face = requireScheduler(c, deps)
      if (!face.ok) return refused(c, face)
      const { scheduler, wait, follow } = face.value
      const allowed = mayRun(c, scheduler, [wanted])
      if (!allowed.ok) return refused(c, allowed)
      const stop = leavingOf(c, deps)
      const startByMs = scheduler.deps.now().getTime() + (wanted.wait ?? START_WAIT_MS)
      const reservedBy = `user ${principalOf(c).userId}`
      const sleep = (ms: number) => wait(ms, stop)
      const asked = await waiting(wanted.wait, (timeoutMs) =>
        askForDirect(scheduler, body, { reservedBy, timeoutMs, sleep, stop }),
      )
      if (!asked.ok) return refused(c, asked)
      follow(asked.value, startByMs)
      return c.json(toJobView(asked.value.job), 202)
    })
}
