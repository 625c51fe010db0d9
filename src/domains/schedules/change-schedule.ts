/** Changes a schedule, switches it, or ends it. Whoever changes what it does answers for it from then on. */
import type { Principal } from '#domains/identity'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { scoped } from '#store'
import { arrangeSchedule } from './arrange-schedule.ts'
import { decideTerms } from './decide-schedule.ts'
import { appendScheduleEvent } from './events.ts'
import { lockSchedule, saveSchedule, type ScheduleChange } from './schedule-repository.ts'
import type { StoredSchedule } from './stored-schedule.ts'
import type { ScheduleDeps } from './deps.ts'

export type ScheduleRef = { readonly workspaceId: string; readonly scheduleId: string; readonly traceId: string }

export type ChangeSchedule = ScheduleRef & {
  readonly change: Omit<ScheduleChange, 'created_by' | 'created_role' | 'removed_at'>
}

export function changeSchedule(
  deps: ScheduleDeps,
  principal: Principal,
  { change, ...ref }: ChangeSchedule,
): Promise<Decision<StoredSchedule>> {
  const { enabled: _, ...content } = change
  const isContent = Object.keys(content).length > 0
  return write(deps, principal, ref, (schedule) => {
    if (isContent && schedule.origin === 'catalog') {
      return refuse(
        'schedules.schedule.of_catalog',
        'This schedule stands in the catalog; here it can only be switched.',
        {
          path: Object.keys(content)[0] ?? '',
          hint: 'Change it in the catalog of the project, or make one of your own.',
        },
      )
    }
    const decided = isContent
      ? decideTerms(deps.commands.catalog, { ...schedule, ...content }, deps.commands.now())
      : accept(undefined)
    if (!decided.ok) return decided
    const owner = isContent
      ? ({
          created_by: `user:${principal.userId}`,
          created_role: principal.role === 'admin' ? 'admin' : 'writer',
        } as const)
      : {}
    return accept({ type: 'schedule_changed', change: { ...change, ...owner }, told: Object.keys(change) })
  })
}

export function removeSchedule(
  deps: ScheduleDeps,
  principal: Principal,
  ref: ScheduleRef,
): Promise<Decision<StoredSchedule>> {
  return write(deps, principal, ref, (schedule) =>
    schedule.origin === 'catalog'
      ? refuse('schedules.schedule.of_catalog', 'This schedule stands in the catalog.', {
          hint: 'Take it out of the catalog of the project, or switch it off.',
        })
      : accept({ type: 'schedule_removed', change: { removed_at: deps.commands.now() }, told: [] }),
  )
}

type Planned = {
  readonly type: 'schedule_changed' | 'schedule_removed'
  readonly change: ScheduleChange
  readonly told: readonly string[]
}

async function write(
  deps: ScheduleDeps,
  principal: Principal,
  { workspaceId, scheduleId, traceId }: ScheduleRef,
  plan: (schedule: StoredSchedule) => Decision<Planned>,
): Promise<Decision<StoredSchedule>> {
  const { db, now, newId } = deps.commands
  const actor = `user:${principal.userId}`
  const at = now()
  const written = await scoped(db, workspaceId).transaction(async (tx): Promise<Decision<StoredSchedule>> => {
    const before = await lockSchedule(tx, workspaceId, scheduleId)
    if (!before) return refuseMissing()
    const mine = decideOwner(before, principal, actor)
    if (!mine.ok) return mine
    const planned = plan(before)
    if (!planned.ok) return planned
    const { type, change, told } = planned.value
    const schedule = await saveSchedule(tx, before, change, at)
    const kind = principal.role === 'admin' ? 'operator' : 'user'
    const fact = { type, schedule, actor, actorKind: kind, traceId, at, payload: { changed: told } } as const
    await appendScheduleEvent(tx, newId(), fact)
    return accept(schedule)
  })
  if (!written.ok) return written
  const arranged = await arrangeSchedule(deps, written.value)
  return arranged.ok ? written : arranged
}

/** One's own, or as an administrator; what the catalog brings is an administrator's business. */
function decideOwner(schedule: StoredSchedule, principal: Principal, actor: string): Decision<void> {
  if (principal.role === 'admin' || schedule.created_by === actor) return accept(undefined)
  return refuse('schedules.schedule.not_yours', 'Only its maker or an administrator may change this schedule.', {
    hint: 'Ask one of them, or make a schedule of your own.',
  })
}

export function refuseMissing(): Decision<never> {
  return refuse('schedules.schedule.not_found', 'There is no such schedule.', { hint: 'GET /schedules lists them.' })
}
