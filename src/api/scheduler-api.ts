/** The scheduler as the API sees it, and the three questions every route about it asks first: is it on, is it yours, may you. */
import { idField } from '#contract'
import { authorize, decideUnbound } from '#domains/identity'
import { type AskedDirect, namesOwnCommand, type Scheduler, type SelfCheck, type Wait } from '#domains/scheduler'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import type { StreamCount } from './event-stream.ts'
import type { Position } from './page-cursor.ts'
import { type Call, resource } from './resource.ts'

export type SchedulerApi = {
  readonly scheduler: Scheduler
  /** A scheduler file belongs to a machine, not to a workspace; of all organisations one runs that machine. */
  readonly orgId: string
  readonly wait: Wait
  /** Why the loop runs no more; undefined while it runs. */
  readonly stopped: () => string | undefined
  /** Reads every row, so it must not be done in the thread that answers. */
  readonly check: () => Promise<Decision<SelfCheck>>
  /** Keeps the reservation of a direct execution alive and follows the job to its end, behind the answer. */
  readonly follow: (asked: AskedDirect, startByMs: number) => void
}

export type SchedulerRouteDeps = Pick<ApiDeps, 'scheduler' | 'authenticate' | 'closing'> & {
  readonly heartbeatMs: number
  readonly logStreams: StreamCount
  readonly waiters: Waiters
}
type Caller = Pick<Call<Pick<ApiDeps, 'scheduler'>>, 'deps' | 'principal'>

export const { list, get, post, patch, delete: remove } = resource<SchedulerRouteDeps>('scheduler', 'org')

/** Off, and somebody else's, are told alike: who may not know of it learns nothing. */
export function requireScheduler({ deps: { scheduler: api }, principal }: Caller): Decision<SchedulerApi> {
  if (api?.orgId !== principal.orgId) {
    return refuse('scheduler.not_enabled', 'No scheduler runs in this server.', {
      hint: 'Set CONCORD_SCHEDULER_FILE to a file on a local disk and start the server again.',
    })
  }
  const unbound = decideUnbound(principal)
  return unbound.ok ? accept(api) : unbound
}

/** For routes that do one thing and answer. */
export function withScheduler<T>(
  call: Caller,
  work: (scheduler: Scheduler, api: SchedulerApi) => Decision<T>,
): Decision<T> {
  const api = requireScheduler(call)
  return api.ok ? work(api.value.scheduler, api.value) : api
}

type Work = {
  readonly job_type?: string | undefined
  readonly template_id?: string | undefined
  /** Left out, a template runs as it was made, by somebody who might. */
  readonly params?: unknown
}

/** To say which command a machine runs is to administer that machine; everything else a writer may do. */
export function mayRun(
  { principal }: Pick<Caller, 'principal'>,
  scheduler: Scheduler,
  works: readonly Work[],
): Decision<undefined> {
  for (const work of works) {
    if (work.template_id !== undefined && work.params === undefined) continue
    const own = namesOwnCommand(scheduler, work)
    if (!own.ok) return own
    if (!own.value) continue
    const allowed = authorize(principal, 'admin')
    if (allowed.ok) continue
    return { ...allowed, reason: `A job that names its own command needs an administrator. ${allowed.reason}` }
  }
  return accept(undefined)
}

/** The body as it was sent: the route has checked it, the service reads it itself. */
export function sent<T>({ c }: Pick<Call<never>, 'c'>): Promise<T> {
  return c.req.json<T>()
}

export const jobParam = { job_id: idField('job') }

/** A full page may be the last one; then the next is empty. */
export function fullPage<Row, V>(
  rows: readonly Row[],
  limit: number,
  view: (row: Row) => V,
  position: (row: Row) => string,
): { items: V[]; next: Position | null } {
  const last = rows.length >= limit ? rows.at(-1) : undefined
  return { items: rows.map(view), next: last === undefined ? null : [position(last)] }
}

export type Waiters = <T>(waitMs: number | undefined, work: (timeoutMs: number) => Promise<T>) => Promise<T>

/** Each waiter asks the file twenty times a second; who comes on top of these is answered at once. */
const WAITERS_MAX = 20

export function openWaiters(): Waiters {
  let waiters = 0
  return async (waitMs, work) => {
    const isRoom = waiters < WAITERS_MAX
    waiters += 1
    try {
      return await work(isRoom ? (waitMs ?? 0) : 0)
    } finally {
      waiters -= 1
    }
  }
}
