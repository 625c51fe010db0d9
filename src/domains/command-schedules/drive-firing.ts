/**
 * The turn of a firing. The row decides whether the schedule still applies, the key allows one command per due time, and the firing
 * ends with its command, so that an overlap with the next due time is detected. No fence is needed, since every write is
 * idempotent.
 */
import { type Actor, bySystem } from '#kernel/actor'
import { actingFor, fireSchedule } from '#domains/commands'
import { findMember } from '#domains/identity'
import type { Clock, NewId } from '#kernel/clock'
import { decodeId } from '#kernel/ids'
import { scheduleKey } from '#kernel/idempotency-key'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import type { Drive, Next, Process } from '#runtime'
import { failpoint, statement, type Tx } from '#store'
import {
  arrangeSchedule,
  commandSchedules,
  findScheduleOfFiring,
  type StoredCommandSchedule,
} from './command-schedule.ts'
import { parseFiring } from './decide-schedule.ts'
import { type CommandScheduleDeps, FIRING_KIND } from './deps.ts'
import { retireSchedule } from './sync-catalog.ts'

type FiredCommand = {
  readonly command_id: string
  readonly created_at: Date
  readonly completed_at: Date | null
}

/** Finds the command of a due time. $1 workspace, $2 key. */
const findFired = statement<FiredCommand>(
  'schedules.find_fired',
  `select c.command_id, c.created_at, c.completed_at
     from concord.commands c
    where c.workspace_id = $1::uuid and c.idempotency_key = $2 and c.ingress = 'scheduled_trigger'`,
)

/**
 * Records the newest firing for display; a late older one changes nothing, unless the newest lies in the future: the clock was ahead then. $1 schedule, $2 due at, $3 command or null, $4 refusal
 * or null.
 */
const noteFiring = statement(
  'schedules.note_firing',
  `update schedules.command_schedules t
      set last_due_at = $2::timestamptz, last_command_id = $3::uuid, last_refusal = $4::text
    where t.schedule_id = $1::uuid and (t.last_due_at is null or t.last_due_at <= $2::timestamptz or t.last_due_at > statement_timestamp())`,
)

const done: Next = { t: 'done' }
/** A fallback poll in addition to the wake at the end of the command: from every second for a new one to every minute for an old one. */
const LOOK_MIN_MS = 1_000
const LOOK_MAX_MS = 60_000

export function openFiringDrive(deps: CommandScheduleDeps): Drive {
  return async (id) => {
    const firing = parseFiring(id)
    if (!firing) return done
    const { scheduleId, dueAt } = firing
    const schedule = await findScheduleOfFiring(deps.commands.db, scheduleId)
    if (!schedule) return done
    const [there] = await deps.commands.db.run(findFired, [schedule.workspace_id, scheduleKey(schedule.name, dueAt)])
    if (there) return follow(deps, schedule, dueAt, there)
    return (await mayFire(deps, schedule)) ? fire(deps, schedule, dueAt, id) : done
  }
}

async function mayFire(deps: CommandScheduleDeps, schedule: StoredCommandSchedule): Promise<boolean> {
  if (schedule.removed_at !== null || !schedule.enabled) {
    await arrangeSchedule(deps, schedule)
    return false
  }
  const isKnown = deps.commands.catalog.schedules.some(({ name }) => name === schedule.name)
  if (schedule.origin === 'person' || isKnown) return true
  await retireSchedule(deps, schedule)
  return false
}

async function fire(
  deps: CommandScheduleDeps,
  schedule: StoredCommandSchedule,
  dueAt: Date,
  id: string,
): Promise<Next> {
  await failpoint('schedules.due')
  const ids = deps.newIds()
  const by = await actorOf(deps, schedule, ids.traceId)
  const fired = by.ok
    ? await fireSchedule(deps.commands, schedule, {
        workspaceId: schedule.workspace_id,
        dueAt,
        ...ids,
        ...(by.value ? { by: by.value } : {}),
        // The end of the command wakes its firing. If firings may overlap, nothing waits for it.
        ...(schedule.overlap === 'allow' ? {} : { follower: { kind: FIRING_KIND, id } }),
      })
    : by
  await failpoint('schedules.fired')
  if (fired.ok) return follow(deps, schedule, dueAt, fired.value.command)
  await noteRefusedFiring(deps, schedule, dueAt, fired, ids.traceId)
  return done
}

/** A schedule of a person acts with the current rights of that person; one of the catalog acts for the installation. */
async function actorOf(
  { commands }: CommandScheduleDeps,
  schedule: StoredCommandSchedule,
  traceId: string,
): Promise<Decision<Actor | undefined>> {
  if (schedule.created_role === 'system') return accept(undefined)
  const userId = schedule.created_by.slice('user:'.length)
  const member = { userId, workspaceId: schedule.workspace_id, roleMax: schedule.created_role }
  const principal = await findMember(commands.db, member)
  if (principal) return accept(actingFor(principal, traceId))
  return refuse('workspace_unknown', 'The owner of this schedule may no longer enter its workspace.', {
    hint: 'A person with access must change it or create it again.',
  })
}

/** Records the command and waits for its end, unless firings may overlap. The end of the command wakes the firing. */
async function follow(
  { commands }: CommandScheduleDeps,
  schedule: StoredCommandSchedule,
  dueAt: Date,
  command: FiredCommand,
): Promise<Next> {
  await commands.db.run(noteFiring, [schedule.schedule_id, dueAt, command.command_id, null])
  if (schedule.overlap === 'allow' || command.completed_at !== null) return done
  const now = commands.now().getTime()
  const ageMs = now - command.created_at.getTime()
  const lookMs = Math.min(LOOK_MAX_MS, Math.max(LOOK_MIN_MS, ageMs / 4))
  return { t: 'wait', until: new Date(now + Math.round(lookMs)) }
}

async function noteRefusedFiring(
  { commands: { db, now } }: CommandScheduleDeps,
  schedule: StoredCommandSchedule,
  dueAt: Date,
  { code, reason }: Refusal,
  traceId: string,
): Promise<void> {
  const payload = { due_at: dueAt.toISOString(), code, reason }
  // Records a refused due time once, however often it is retried.
  const fact = { type: 'schedule_firing_refused', at: now(), round: dueAt.toISOString(), payload } as const
  await db.transaction(async (tx) => {
    await commandSchedules.append(tx, schedule, bySystem(traceId), fact)
    await tx.run(noteFiring, [schedule.schedule_id, dueAt, null, code])
  })
}

const REASON_CHARS_MAX = 500

/**
 * Records, in the transaction of the operator, that a schedule or one of its firings was resumed. Returns false when there is no
 * such schedule.
 */
export async function recordResumedSchedule(
  tx: Tx,
  { newId, now }: { readonly newId: NewId; readonly now: Clock },
  by: Actor,
  { process, why, reason }: { readonly process: Process; readonly why: string; readonly reason: string },
): Promise<boolean> {
  const firing = parseFiring(process.id)
  const named = decodeId('command_schedule', process.id)
  const scheduleId = firing?.scheduleId ?? (named.ok ? named.value : undefined)
  const schedule = scheduleId === undefined ? undefined : await findScheduleOfFiring(tx, scheduleId)
  if (!schedule) return false
  const payload = {
    why,
    reason: redactText(reason).slice(0, REASON_CHARS_MAX),
    due_at: firing?.dueAt.toISOString() ?? null,
  }
  const operator = { id: by.id, kind: 'operator', traceId: by.traceId }
  await commandSchedules.append(tx, schedule, operator, { type: 'schedule_resumed', at: now(), newId, payload })
  return true
}
