/**
 * A short story of every kind of write with the same calls every time: recovery, submits, a schedule, dispatches, ends with and
 * without a retry, a direct execution, notifications. It handles a refusal as a good owner does: it counts only on acknowledged
 * writes, repeats an outcome, and continues.
 */
import { appendFileSync } from 'node:fs'
import {
  checkInvariants,
  claimJobs,
  claimNotifications,
  type ClaimedRun,
  createSchedule,
  createTemplate,
  finishRunSurely,
  fireDueSchedules,
  openScheduler,
  recordDelivery,
  recover,
  releaseReservation,
  renewReservation,
  reserve,
  type Scheduler,
  startDirectJob,
  submitJob,
} from '#domains/scheduler'
import type { Decision } from '#kernel/refusal'
import { uuidV7 } from '#kernel/ids'
import { compareRecovery, readState, type State } from './recovery-matrix.ts'
import { executionsOf, lifePaths } from './scheduler-life.ts'

export type StoryPlan = {
  readonly folder: string
  readonly startMs: number
  readonly chapter: number
  readonly isLast?: boolean
}

type Told = { readonly refused: readonly string[]; readonly problems: readonly string[]; readonly isOver: boolean }

export async function tellStory({ folder, startMs, chapter, isLast = false }: StoryPlan): Promise<Told> {
  const paths = lifePaths(folder)
  const refused: string[] = []
  const problems: string[] = []
  let nowMs = startMs
  let ids = 0
  const take = <T>(decision: Decision<T>): T | undefined => {
    if (decision.ok) return decision.value
    refused.push(decision.code)
    return undefined
  }
  const newId = () => uuidV7(startMs, 0, new Uint8Array([0, 0, 0, 0, chapter, 0, ids >> 8, ids++ & 0xff]))
  const world = { now: () => new Date(nowMs), random: () => 0.5, newId }
  const scheduler = take(openScheduler({ file: paths.file, deps: world }))
  if (!scheduler) return { refused, problems, isOver: false }
  try {
    const before = look(paths.file)
    const isRecovered = take(await recover(scheduler, { endOrphan: async () => 'gone' }))
    if (!isRecovered) return { refused, problems, isOver: false }
    const at = { fromMs: nowMs, toMs: nowMs }
    const after = look(paths.file)
    if (before && after) problems.push(...compareRecovery(before, after, at))
    const check = take(checkInvariants(scheduler, executionsOf(folder)))
    for (const { invariant, about } of check?.violations ?? []) {
      // SQLite reports an unreadable page as damage; the last life checks whether it is.
      if (invariant !== 'integrity' || isLast) problems.push(`${invariant}: ${about.join(' ')}`)
    }
    const tick = (ms = 10) => void (nowMs += ms)
    const work = async (run: ClaimedRun, isGood: boolean) => {
      appendFileSync(paths.executed, `${JSON.stringify({ jobId: run.job.job_id, runId: run.runId })}\n`)
      tick()
      const end = isGood ? ({ outcome: 'completed' } as const) : ({ outcome: 'failed', error: 'no' } as const)
      const surely = { wait: async () => {}, alert: () => {}, attemptsMax: 3 }
      take(await finishRunSurely(scheduler, run.runId, end, surely))
    }
    const hand = { folder, take, tick, work }
    await live(scheduler, hand)
    if (isLast) await comeToRest(scheduler, hand)
    return { refused, problems, isOver: true }
  } finally {
    scheduler.close()
  }
}

/** The judge reads the same file and may meet the fault of the scheduler. */
function look(file: string): State | undefined {
  try {
    return readState(file)
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_SQLITE_ERROR') return undefined
    throw error
  }
}

type Hand = {
  readonly folder: string
  readonly take: <T>(decision: Decision<T>) => T | undefined
  readonly tick: (ms?: number) => void
  readonly work: (run: ClaimedRun, isGood: boolean) => Promise<void>
}

async function live(scheduler: Scheduler, { folder, take, tick, work }: Hand): Promise<void> {
  const { acknowledged, told } = lifePaths(folder)
  const template = createTemplate(scheduler, { name: 'hourly', job_type: 'research' })
  if (template.ok) {
    const { template_id } = template.value
    take(createSchedule(scheduler, { template_id, name: 'hourly', cron_expression: '0 * * * *' }))
  }
  for (let count = 0; count < 2; count++) {
    const job = take(submitJob(scheduler, { job_type: 'story' }))
    if (job) appendFileSync(acknowledged, `${job.job_id}\n`)
  }
  tick(3_600_000)
  take(fireDueSchedules(scheduler))
  for (let index = 0; index < 3; index++) {
    tick()
    for (const run of take(claimJobs(scheduler))?.runs ?? []) await work(run, index !== 1)
  }
  tick()
  const reservation = take(reserve(scheduler, { reserved_by: 'story' }))
  if (reservation) {
    const { reservation_id } = reservation
    tick()
    take(renewReservation(scheduler, reservation_id))
    const run = take(startDirectJob(scheduler, reservation_id, { job_type: 'research' }))
    if (run) await work(run, true)
    tick()
    take(releaseReservation(scheduler, reservation_id))
  }
  tellAll(scheduler, take, told)
}

function tellAll(scheduler: Scheduler, take: Hand['take'], told: string): number {
  const claimed = take(claimNotifications(scheduler)) ?? []
  for (const { notification_id } of claimed) {
    appendFileSync(told, `${notification_id}\n`)
    take(recordDelivery(scheduler, notification_id))
  }
  return claimed.length
}

/** A chapter has a handful of jobs, and each at most three retries. */
const TURNS_MAX = 500

async function comeToRest(scheduler: Scheduler, { folder, take, tick, work }: Hand): Promise<void> {
  // Past the claims of a killed notification sender.
  tick(120_000)
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    tick()
    const runs = take(claimJobs(scheduler))?.runs ?? []
    for (const run of runs) await work(run, true)
    if (tellAll(scheduler, take, lifePaths(folder).told) + runs.length === 0) return
  }
}

if (import.meta.main) {
  const told = await tellStory(JSON.parse(process.argv[2] ?? '{}') as StoryPlan)
  if (told.problems.length > 0) process.stderr.write(`${told.problems.join('\n')}\n`)
  process.exitCode = told.problems.length > 0 ? 3 : 0
}
