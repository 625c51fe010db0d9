/**
 * The turn of a firing: the row says whether the schedule still holds, the key makes one command of one due time, and the firing is
 * over when its command is, so that the next due time knows whether it would overlap. Nothing here needs a fence: every write is
 * the same however often it is made.
 */
import { type Acting, actingFor, fireSchedule } from '#domains/commands'
import { findMember } from '#domains/identity'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Drive, Next } from '#runtime'
import { failpoint } from '#store'
import { arrangeSchedule } from './arrange-schedule.ts'
import { findFiredCommand, noteFiredCommand, noteRefusedFiring } from './note-firing.ts'
import { findScheduleOfFiring } from './schedule-repository.ts'
import type { FiredRow } from './sql/find-fired.ts'
import { parseFiring, type StoredSchedule } from './stored-schedule.ts'
import { retireSchedule } from './sync-schedules.ts'
import { FIRING_KIND, type ScheduleDeps } from './deps.ts'

const done: Next = { t: 'done' }
/** For commands of firings that were begun before their ends woke them: an hour old every minute, a second old every second. */
const LOOK_MIN_MS = 1_000
const LOOK_MAX_MS = 60_000

export function openFiringDrive(deps: ScheduleDeps): Drive {
  return async (id) => {
    const firing = parseFiring(id)
    if (!firing) return done
    const { scheduleId, dueAt } = firing
    const schedule = await findScheduleOfFiring(deps.commands.db, scheduleId)
    if (!schedule) return done
    const there = await findFiredCommand(deps.commands.db, schedule, dueAt)
    if (there) return follow(deps, schedule, dueAt, there)
    return (await mayFire(deps, schedule)) ? fire(deps, schedule, dueAt, id) : done
  }
}

async function mayFire(deps: ScheduleDeps, schedule: StoredSchedule): Promise<boolean> {
  if (schedule.removed_at !== null || !schedule.enabled) {
    await arrangeSchedule(deps, schedule)
    return false
  }
  const isKnown = deps.commands.catalog.schedules.some(({ name }) => name === schedule.name)
  if (schedule.origin === 'person' || isKnown) return true
  await retireSchedule(deps, schedule)
  return false
}

async function fire(deps: ScheduleDeps, schedule: StoredSchedule, dueAt: Date, id: string): Promise<Next> {
  await failpoint('schedules.due')
  const ids = deps.newIds()
  const by = await actorOf(deps, schedule, ids.traceId)
  const fired = by.ok
    ? await fireSchedule(deps.commands, schedule, {
        workspaceId: schedule.workspace_id,
        dueAt,
        ...ids,
        ...(by.value ? { by: by.value } : {}),
        // The end of the command wakes its firing; where firings may overlap, nothing waits for it.
        ...(schedule.overlap === 'allow' ? {} : { follower: { kind: FIRING_KIND, id } }),
      })
    : by
  await failpoint('schedules.fired')
  if (fired.ok) return follow(deps, schedule, dueAt, fired.value.command)
  await noteRefusedFiring(deps.commands, schedule, dueAt, fired, ids.traceId)
  return done
}

/** A person's schedule acts as that person may act today; the catalog's acts for the installation. */
async function actorOf(
  { commands }: ScheduleDeps,
  schedule: StoredSchedule,
  traceId: string,
): Promise<Decision<Acting | undefined>> {
  if (schedule.created_role === 'system') return accept(undefined)
  const userId = schedule.created_by.slice('user:'.length)
  const member = { userId, workspaceId: schedule.workspace_id, roleMax: schedule.created_role }
  const principal = await findMember(commands.db, member)
  if (principal) return accept(actingFor(principal, traceId))
  return refuse('workspace_unknown', 'Whoever made this schedule may no longer enter its workspace.', {
    hint: 'Somebody who may has to change it, or make it anew.',
  })
}

/** There is a command: it is noted, and its end is waited for, unless its successor may start beside it anyway. The end wakes the firing. */
async function follow(
  { commands }: ScheduleDeps,
  schedule: StoredSchedule,
  dueAt: Date,
  command: FiredRow,
): Promise<Next> {
  await noteFiredCommand(commands.db, schedule, dueAt, command.command_id)
  if (schedule.overlap === 'allow' || command.completed_at !== null) return done
  const now = commands.now().getTime()
  const ageMs = now - command.created_at.getTime()
  const lookMs = Math.min(LOOK_MAX_MS, Math.max(LOOK_MIN_MS, ageMs / 4))
  return { t: 'wait', until: new Date(now + Math.round(lookMs)) }
}
