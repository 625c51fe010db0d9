/** The scheduler for the API, and the checks shared by its routes: whether it runs, belongs to the caller and allows the work. */
import { idField } from '#contract'
import { appendOrgEvent, authorize, decideUnbound } from '#domains/identity'
import { type JobKey, namesOwnCommand, readKeyed, type Scheduler, type StoredJob } from '#domains/scheduler'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ApiDeps, SchedulerApi } from './api-deps.ts'
import type { Streams } from './event-stream.ts'
import type { Position } from './page-cursor.ts'
import { type Call, Known, resource } from './resource.ts'

export type SchedulerRouteDeps = Pick<ApiDeps, 'scheduler' | 'callers' | 'closing' | 'db' | 'newId' | 'now'> & {
  readonly heartbeatMs: number
  readonly logStreams: Streams
  readonly waiters: Waiters
  readonly inTurn: InTurn
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

/** Refuses work that names its own command, or requires an administrator for it; a writer may run everything else. */
function mayRun(
  { principal }: Pick<Caller, 'principal'>,
  { scheduler, admits }: Pick<SchedulerApi, 'scheduler' | 'admits'>,
  works: readonly Work[],
): Decision<undefined> {
  for (const work of works) {
    if (work.template_id !== undefined && work.params === undefined) continue
    const own = namesOwnCommand(scheduler, work)
    if (!own.ok) return own
    if (!own.value) continue
    if (admits === 'registered')
      return refuse('scheduler.command.not_registered', 'This server runs only registered job types and templates.')
    const allowed = authorize(principal, 'admin')
    if (allowed.ok) continue
    return { ...allowed, reason: `A job that names its own command needs an administrator. ${allowed.reason}` }
  }
  return accept(undefined)
}

type Change<T> = {
  readonly operation: string
  /** The work that the caller must be allowed to run. */
  readonly may?: readonly Work[]
  /** The digest of what it runs now or later. The record has it, and the change is refused when it would run anything else. */
  readonly runs?: ((scheduler: Scheduler) => Decision<string>) | undefined
  /** The row that it creates. Its id is chosen before, so that the record names it. */
  readonly creates?: 'job' | 'job_group'
  /** Recorded as they are: ids and names, never params. */
  readonly facts?: Readonly<Record<string, unknown>>
  /** A request that may be repeated: its key, and the answer to a repeat from the first job. */
  readonly repeats?: {
    readonly key: Decision<JobKey>
    readonly known: (scheduler: Scheduler, first: StoredJob) => Decision<T>
  }
}
type Changing = Pick<Call<SchedulerRouteDeps>, 'deps' | 'principal' | 'traceId'>
type Recorded = { readonly newId: string; readonly requestedBy: string; readonly digest: string | undefined }
type Act<T> = (scheduler: Scheduler, recorded: Recorded, api: SchedulerApi) => Decision<T> | Promise<Decision<T>>

/** Records who asks for what, and only then lets `act` change the scheduler. Without the record nothing is done. A repeat does nothing, so it is not recorded. */
export async function change<T, V>(
  call: Changing,
  asked: Change<T>,
  view: (value: T) => V,
  act: Act<T>,
): Promise<Decision<V | Known<V>>> {
  const api = requireScheduler(call)
  if (!api.ok) return api
  const { scheduler } = api.value
  const key = asked.repeats ? asked.repeats.key : accept(undefined)
  if (!key.ok) return key
  return call.deps.inTurn(key.value?.key, async () => {
    const first = readKeyed(scheduler, key.value)
    if (!first.ok) return first
    if (!first.value || !asked.repeats) return recordAndAct(call, api.value, { ...asked, key: key.value }, view, act)
    const known = asked.repeats.known(scheduler, first.value)
    return known.ok ? accept(new Known(view(known.value))) : known
  })
}

async function recordAndAct<T, V>(
  call: Changing,
  api: SchedulerApi,
  { operation, may = [], runs, creates, facts, key }: Change<T> & { readonly key: JobKey },
  view: (value: T) => V,
  act: Act<T>,
): Promise<Decision<V>> {
  const { scheduler } = api
  const allowed = mayRun(call, api, may)
  if (!allowed.ok) return allowed
  const digest = runs ? runs(scheduler) : accept(undefined)
  if (!digest.ok) return digest
  const newId = call.deps.newId()
  const asked = {
    operation,
    ...facts,
    ...(key && { idempotency_key: key.key }),
    ...(creates && { [creates === 'job' ? 'job_id' : 'group_id']: encodeId(creates, newId) }),
    ...(digest.value !== undefined && { command_digest: digest.value }),
  }
  await record(call, 'scheduler_requested', asked)
  const requestedBy = encodeId('user', call.principal.userId)
  const done = await act(scheduler, { newId, requestedBy, digest: digest.value }, api)
  if (done.ok) return accept(view(done.value))
  await record(call, 'scheduler_refused', { ...asked, code: done.code })
  return done
}

/** A refusal follows its request. */
function record(
  { deps, principal, traceId }: Changing,
  type: 'scheduler_requested' | 'scheduler_refused',
  payload: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { orgId } = principal
  return deps.db.transaction((tx) => appendOrgEvent(tx, deps, byPerson(principal, traceId), { type, payload, orgId }))
}

/** A repeat answers the first job as it is now. */
export const knownJob = (_: Scheduler, first: StoredJob): Decision<StoredJob> => accept(first)

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

/** Runs requests with the same key one after the other, so that only the first is recorded. */
export type InTurn = <T>(key: string | undefined, work: () => Promise<T>) => Promise<T>

export function openTurns(): InTurn {
  const last = new Map<string, Promise<unknown>>()
  return async (key, work) => {
    if (key === undefined) return work()
    const turn = (last.get(key) ?? Promise.resolve()).then(work, work)
    last.set(key, turn)
    try {
      return await turn
    } finally {
      if (last.get(key) === turn) last.delete(key)
    }
  }
}

/** The page of a list in the order of its names. */
export function namePage(
  from: Position | undefined,
  limit: number,
): { readonly limit: number; readonly after?: string } {
  return { limit, ...(from?.[0] === undefined ? {} : { after: from[0] }) }
}
