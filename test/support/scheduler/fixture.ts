/** Builders for scheduler tests: a scheduler in memory or on a file, with a clock that a test sets. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { Decision } from '#kernel/refusal'
import { claimJobs } from '../../../src/domains/scheduler/claim-next.ts'
import { IN_MEMORY, query } from '../../../src/domains/scheduler/database.ts'
import { finishRun, type RunEnd } from '../../../src/domains/scheduler/finish-run.ts'
import { type OpenScheduler, openScheduler } from '../../../src/domains/scheduler/open-scheduler.ts'
import type { ClaimedRun } from '../../../src/domains/scheduler/runner-settings.ts'
import type { Scheduler } from '../../../src/domains/scheduler/scheduler.ts'
import { type SubmitJob, submitJob } from '../../../src/domains/scheduler/submit-job.ts'

export const START = Date.UTC(2026, 4, 1, 10)

export type TestClock = { ms: number; by: (ms: number) => void }

let count = 0
/** Ascending, so that the last key of the queue order is never the order of creation by chance. */
export function anId(): string {
  count += 1
  return `00000000-0000-7000-8000-${count.toString(16).padStart(12, '0')}`
}

export function aClock(ms = START): TestClock {
  const clock = { ms, by: (more: number) => void (clock.ms += more) }
  return clock
}

export type TestScheduler = Scheduler & { readonly clock: TestClock }

export function openTest(
  options: Partial<OpenScheduler> & { readonly clock?: TestClock } = {},
): Decision<TestScheduler> {
  const { clock = aClock(), ...rest } = options
  const opened = openScheduler({
    file: IN_MEMORY,
    deps: { now: () => new Date(clock.ms), random: () => 0.5, newId: anId },
    ...rest,
  })
  return opened.ok ? { ok: true, value: { ...opened.value, clock } } : opened
}

/** Recovers the scheduler, so that it dispatches. */
export function aScheduler(options: Parameters<typeof openTest>[0] = {}): TestScheduler {
  const scheduler = must(openTest(options))
  scheduler.recovery.isDone = true
  return scheduler
}

export function must<T>(decision: Decision<T>): T {
  if (!decision.ok) assert.fail(`${decision.code}: ${decision.reason}`)
  return decision.value
}

export function codeOf(decision: Decision<unknown>): string {
  return decision.ok ? 'ok' : decision.code
}

/** A folder that is removed after the tests of the file. */
export function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'concord-scheduler-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export function aFile(): string {
  return join(aFolder(), 'jobs.db')
}

type TableName = 'jobs' | 'job_runs' | 'notifications' | 'direct_reservations' | 'schedules' | 'schedule_firings'

/** Every row of a table, for tests that compare whole states. */
export function rowsOf(scheduler: Scheduler, table: TableName): Record<string, unknown>[] {
  return scheduler.db
    .all(query<Record<string, unknown>>(`select * from ${table} order by 1`))
    .map((row) => ({ ...row }))
}

export function countOf(scheduler: Scheduler, table: TableName): number {
  return rowsOf(scheduler, table).length
}

/** Submits a job, claims it and returns the run. */
export function aRun(scheduler: Scheduler, body: Partial<SubmitJob> = {}): ClaimedRun {
  must(submitJob(scheduler, { job_type: 'story', ...body }))
  const [run] = must(claimJobs(scheduler)).runs
  assert.ok(run, 'No job was claimed.')
  return run
}

export function fail(scheduler: Scheduler, runId: string, more: Partial<Extract<RunEnd, { outcome: 'failed' }>> = {}) {
  return must(finishRun(scheduler, runId, { outcome: 'failed', error: 'it broke', ...more }))
}
