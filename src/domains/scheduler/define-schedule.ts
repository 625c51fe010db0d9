/** Schedules: a template, a cron text in a time zone, and what happens with late and overlapping due times. */
import type { z } from 'zod'
import { parseGuardedObject } from '#kernel/json-guard'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { changeScheduleBody, scheduleBody } from './contract.ts'
import type { Tx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { nextOccurrences } from './next-occurrence.ts'
import { checkWork, prepareFromTemplate } from './prepare-job.ts'
import { insertSchedule, requireSchedule, saveDeleted, saveSchedule } from './schedule-repository.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredSchedule } from './stored-rows.ts'
import { requireTemplate } from './template-repository.ts'

type Wanted = z.output<typeof scheduleBody>

export function createSchedule(scheduler: Scheduler, body: z.input<typeof scheduleBody>): Decision<StoredSchedule> {
  const parsed = parseInput(scheduleBody, body)
  if (!parsed.ok) return parsed
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    const next = checkSchedule(tx, parsed.value, now)
    if (!next.ok) return next
    const saved = insertSchedule(tx, {
      ...rowOf(parsed.value),
      schedule_id: scheduler.deps.newId(),
      next_trigger_at: next.value,
      now,
    })
    return saved ? accept(saved) : nameTaken(parsed.value.name)
  })
}

/** Another time, zone or switch counts from now on, never from before the last due time that was decided. */
export function changeSchedule(
  scheduler: Scheduler,
  scheduleId: string,
  body: z.input<typeof changeScheduleBody>,
): Decision<StoredSchedule> {
  const parsed = parseInput(changeScheduleBody, body)
  if (!parsed.ok) return parsed
  return scheduler.db.write((tx) => {
    const old = requireSchedule(tx, scheduleId)
    if (!old.ok) return old
    const before = wantedOf(old.value)
    if (!before.ok) return before
    const wanted = merge(before.value, parsed.value)
    const now = nowMs(scheduler)
    const next = checkSchedule(tx, wanted, Math.max(now, old.value.last_due_at ?? now))
    if (!next.ok) return next
    const isSameTime = (['cron_expression', 'timezone', 'enabled'] as const).every(
      (key) => wanted[key] === before.value[key],
    )
    // A due time that has come but is not decided yet stays: only a change of the time itself moves it.
    const next_trigger_at = isSameTime ? old.value.next_trigger_at : next.value
    const saved = saveSchedule(tx, { ...rowOf(wanted), schedule_id: scheduleId, next_trigger_at, now })
    return saved ? accept(saved) : nameTaken(wanted.name)
  })
}

/** Its row stays for the jobs it fired; it never fires again and its name is free. */
export function deleteSchedule(scheduler: Scheduler, scheduleId: string): Decision<StoredSchedule> {
  return scheduler.db.write((tx) => {
    const deleted = saveDeleted(tx, scheduleId, nowMs(scheduler))
    return deleted ? accept(deleted) : requireSchedule(tx, scheduleId)
  })
}

/** The first due time; null for one that is switched off. Refuses what could never make a job. */
function checkSchedule(tx: Tx, wanted: Wanted, from: number): Decision<number | null> {
  const template = requireTemplate(tx, wanted.template_id)
  if (!template.ok) return template
  const prepared = prepareFromTemplate(template.value, { params: wanted.param_overrides ?? {} })
  if (!prepared.ok) return prepared
  const work = checkWork(tx, prepared.value)
  if (!work.ok) return work
  const next = nextOccurrences(wanted.cron_expression, wanted.timezone, new Date(from), 1)
  if (!next.ok) return next
  return accept(wanted.enabled ? (next.value[0]?.getTime() ?? null) : null)
}

function rowOf(wanted: Wanted) {
  const { template_id, name, cron_expression, timezone, priority, misfire_policy, overlap_policy } = wanted
  const param_overrides = wanted.param_overrides === null ? null : JSON.stringify(wanted.param_overrides)
  const enabled = wanted.enabled ? 1 : 0
  return {
    template_id,
    name,
    cron_expression,
    timezone,
    enabled,
    param_overrides,
    priority,
    misfire_policy,
    overlap_policy,
  }
}

function wantedOf(stored: StoredSchedule): Decision<Wanted> {
  const overrides = stored.param_overrides === null ? accept(null) : parseGuardedObject(stored.param_overrides)
  if (!overrides.ok) return overrides
  const { template_id, name, cron_expression, timezone, priority, misfire_policy, overlap_policy } = stored
  const enabled = stored.enabled === 1
  return accept({
    template_id,
    name,
    cron_expression,
    timezone,
    enabled,
    param_overrides: overrides.value,
    priority,
    misfire_policy,
    overlap_policy,
  })
}

/** What was left out stays as it is. */
function merge(before: Wanted, changes: z.output<typeof changeScheduleBody>): Wanted {
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
  return { ...before, ...given }
}

function nameTaken(name: string): Refusal {
  return refuse('scheduler.schedule.name_taken', `there is a schedule ${quote(name)} already`, { path: 'name' })
}
