/** The scheduler as the API sees it, and the three questions every route about it asks first: is it on, is it yours, may you. */
import { z } from '@hono/zod-openapi'
import { idField, pageFields } from '#contract'
import { authorize, decideUnbound } from '#domains/identity'
import { type AskedDirect, namesOwnCommand, type Scheduler, type SelfCheck, type Wait } from '#domains/scheduler'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import type { CursorScope, PageCursors } from './page-cursor.ts'
import { type ApiContext, principalOf } from './request-context.ts'

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

export type SchedulerRouteDeps = Pick<ApiDeps, 'scheduler' | 'cursorKey' | 'authenticate' | 'closing'>

/** Off, and somebody else's, are told alike: who may not know of it learns nothing. */
export function requireScheduler(c: ApiContext, { scheduler: face }: SchedulerRouteDeps): Decision<SchedulerApi> {
  const principal = principalOf(c)
  if (face?.orgId !== principal.orgId) {
    return refuse('scheduler.not_enabled', 'No scheduler runs in this server.', {
      hint: 'Set CONCORD_SCHEDULER_FILE to a file on a local disk and start the server again.',
    })
  }
  const unbound = decideUnbound(principal)
  return unbound.ok ? accept(face) : unbound
}

/** For routes that do one thing and answer. */
export function withScheduler<T>(
  c: ApiContext,
  deps: SchedulerRouteDeps,
  work: (scheduler: Scheduler, face: SchedulerApi) => Decision<T>,
): Decision<T> {
  const face = requireScheduler(c, deps)
  return face.ok ? work(face.value.scheduler, face.value) : face
}

type Work = {
  readonly job_type?: string | undefined
  readonly template_id?: string | undefined
  /** Left out, a template runs as it was made, by somebody who might. */
  readonly params?: unknown
}

/** To say which command a machine runs is to administer that machine; everything else a writer may do. */
export function mayRun(c: ApiContext, scheduler: Scheduler, works: readonly Work[]): Decision<undefined> {
  for (const work of works) {
    if (work.template_id !== undefined && work.params === undefined) continue
    const own = namesOwnCommand(scheduler, work)
    if (!own.ok) return own
    if (!own.value) continue
    const allowed = authorize(principalOf(c), 'admin')
    if (allowed.ok) continue
    return { ...allowed, reason: `A job that names its own command needs an administrator. ${allowed.reason}` }
  }
  return accept(undefined)
}

/** The body as it was sent: the route has checked it, the service reads it itself. */
export function bodyOf<T>(c: ApiContext): Promise<T> {
  return c.req.json<T>()
}

export const jobParam = z.object({ job_id: idField('job') })
export const groupParam = z.object({ group_id: idField('job_group') })
export const templateParam = z.object({ template_id: idField('job_template') })
export const scheduleParam = z.object({ schedule_id: idField('schedule') })
export const reservationParam = z.object({ reservation_id: idField('reservation') })

export const schedulerPage = pageFields

/** Where a page begins; undefined at the first. */
export function openPage(
  cursors: PageCursors,
  scope: CursorScope,
  cursor: string | undefined,
): Decision<string | undefined> {
  if (cursor === undefined) return accept(undefined)
  const opened = cursors.open(scope, cursor)
  return opened.ok ? accept(opened.value[0]) : opened
}

/** A full page may be the last one; then the next is empty. */
export function closePage<Row, View>(
  rows: readonly Row[],
  limit: number,
  shown: { readonly view: (row: Row) => View; readonly seal: (row: Row) => string },
): { items: View[]; next_cursor: string | null } {
  const last = rows.length >= limit ? rows.at(-1) : undefined
  return { items: rows.map(shown.view), next_cursor: last === undefined ? null : shown.seal(last) }
}
