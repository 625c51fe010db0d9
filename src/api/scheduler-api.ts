/** The scheduler for the API, and the checks shared by its routes: whether it runs, belongs to the caller and allows the work. */
import { idField } from '#contract'
import { authorize, decideUnbound } from '#domains/identity'
import { namesOwnCommand, type Scheduler } from '#domains/scheduler'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ApiDeps, SchedulerApi } from './api-deps.ts'
import type { StreamCount } from './event-stream.ts'
import type { Position } from './page-cursor.ts'
import { type Call, resource } from './resource.ts'

export type SchedulerRouteDeps = Pick<ApiDeps, 'scheduler' | 'authenticate' | 'closing'> & {
  readonly heartbeatMs: number
  readonly logStreams: StreamCount
  readonly waiters: Waiters
}
type Caller = Pick<Call<Pick<ApiDeps, 'scheduler'>>, 'deps' | 'principal'>

export const { list, get, post, patch, delete: remove } = resource<SchedulerRouteDeps>('scheduler', 'org')

/** Returns the same refusal when the scheduler is off and when it belongs to another organisation. */
export function requireScheduler({ deps: { scheduler: api }, principal }: Caller): Decision<SchedulerApi> {
  if (api?.orgId !== principal.orgId) {
    return refuse('scheduler.not_enabled', 'No scheduler runs in this server.', {
      hint: 'Set CONCORD_SCHEDULER_FILE to a file on a local disk and start the server again.',
    })
  }
  const unbound = decideUnbound(principal)
  return unbound.ok ? accept(api) : unbound
}

type SchedulerWork<T> = (scheduler: Scheduler, api: SchedulerApi) => Decision<T>

/** Runs synchronous work on the scheduler after the checks. */
export function withScheduler<T>(call: Caller, work: SchedulerWork<T>): Decision<T> {
  const api = requireScheduler(call)
  return api.ok ? work(api.value.scheduler, api.value) : api
}

/** The same, and turns the value into its view. */
export function viewFrom<T, V>(call: Caller, view: (value: T) => V, work: SchedulerWork<T>): Decision<V> {
  const done = withScheduler(call, work)
  return done.ok ? accept(view(done.value)) : done
}

type Work = {
  readonly job_type?: string | undefined
  readonly template_id?: string | undefined
  /** Without params, a template runs as its authorised author created it. */
  readonly params?: unknown
}

/** Requires an administrator for work that names its own command; a writer may run everything else. */
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

export const jobParam = { job_id: idField('job') }

/** A full page may be the last one; then the next page is empty. A page that ended at its size has a row after it. */
export function fullPage<Row extends object, V>(
  rows: readonly Row[],
  limit: number,
  view: (row: Row) => V,
  position: (row: Row) => string,
): { items: V[]; next: Position | null } {
  const last = rows.at(-1)
  const hasNext = rows.length >= limit || (last !== undefined && 'has_next' in last && last.has_next === 1)
  return { items: rows.map(view), next: last && hasNext ? [position(last)] : null }
}

export type Waiters = <T>(waitMs: number | undefined, work: (timeoutMs: number) => Promise<T>) => Promise<T>

/** Each waiter polls the file twenty times a second; further callers are answered immediately. */
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
