/**
 * One life of a real scheduler as a process: it recovers and checks that recovery, takes jobs, a group, a direct execution and a
 * schedule, and runs real children until nothing is left or it is killed. The children record their work outside the database.
 */
import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as timer } from 'node:timers/promises'
import {
  checkInvariants,
  claimJobs,
  createSchedule,
  createTemplate,
  type Execution,
  type JobTypeBody,
  openOrphanEnder,
  openProcessTable,
  openScheduler,
  recover,
  releaseReservation,
  renewReservation,
  reserve,
  runDirect,
  runFolderOf,
  runScheduler,
  type Scheduler,
  type SchedulerFault,
  submitGroup,
  submitJob,
} from '#domains/scheduler'
import { accept, type Decision } from '#kernel/refusal'
import { uuidV7Generator } from '#kernel/ids'
import { openChance } from '#test/chance'
import { compareRecovery, readState } from './recovery-matrix.ts'

export type LifePlan = {
  readonly folder: string
  readonly seed: string
  readonly startMs: number
  readonly faults: readonly SchedulerFault[]
  /** A short life does less. */
  readonly isLittle?: boolean
}

/** Everything that a family of lives leaves behind except its database. */
export function lifePaths(folder: string) {
  const at = (name: string) => join(folder, name)
  return {
    file: at('jobs.db'),
    covered: at('covered'),
    executed: at('executed'),
    acknowledged: at('acknowledged'),
    told: at('told'),
    problems: at('problems'),
    killMark: at('kill-the-scheduler'),
    clock: at('clock'),
  }
}

export const linesOf = (file: string) =>
  existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []

export const executionsOf = (folder: string) =>
  linesOf(lifePaths(folder).executed).map((line) => JSON.parse(line) as Execution)

const RESERVATION_MS = 300_000

/**
 * `work` succeeds, `flaky` at its second attempt; `deadly` kills the scheduler that started it, once per mark, and keeps running.
 */
function jobTypes(paths: ReturnType<typeof lifePaths>): JobTypeBody[] {
  const write = `printf '{"jobId":"%s","runId":"%s"}\\n' "$JOB_ID" "$JOB_RUN_ID" >> "$EXECUTED"`
  const type = (job_type: string, script: string): JobTypeBody => ({
    job_type,
    runner: {
      command: '/bin/sh',
      args: ['-c', `${write}; ${script}`],
      set: { EXECUTED: paths.executed, KILL_MARK: paths.killMark, SCHEDULER: String(process.pid) },
    },
  })
  return [
    type('work', 'exit 0'),
    type('flaky', '[ "$JOB_ATTEMPT" -gt 1 ]'),
    type('deadly', 'if rm "$KILL_MARK" 2>/dev/null; then kill -9 $SCHEDULER; exec sleep 600; fi'),
  ]
}

type LifeClock = { readonly now: () => Date; readonly jump: (ms: number) => void }

/** The jumps are recorded, so that the next life does not start before the end of this one. */
function openClock({ folder, startMs }: LifePlan): LifeClock {
  let baseMs = startMs
  return {
    now: () => new Date(baseMs + Math.floor(performance.now())),
    jump(ms) {
      baseMs += ms
      writeFileSync(lifePaths(folder).clock, String(baseMs))
    },
  }
}

const wait = (ms: number, signal?: AbortSignal) =>
  timer(Math.min(ms, 2 ** 31 - 1), undefined, { signal }).catch(() => {})

function must<T>(decision: Decision<T>): T {
  if (!decision.ok) throw new Error(`${decision.code}: ${decision.reason}`)
  return decision.value
}

export async function live(plan: LifePlan): Promise<void> {
  const paths = lifePaths(plan.folder)
  const chance = openChance(plan.seed)
  // Real time from a chosen moment; a jump skips minutes.
  const clock = openClock(plan)
  const { now } = clock
  const scheduler = must(
    openScheduler({
      file: paths.file,
      deps: { now, random: () => 0.5, newId: uuidV7Generator(() => new Date(), randomBytes) },
      jobTypes: jobTypes(paths),
      settings: { workers: 1 + chance.whole(3), reservationMs: RESERVATION_MS },
      points: { faults: plan.faults, coverFile: paths.covered },
    }),
  )
  await recoverAndJudge(scheduler, plan.folder, now)
  if (must(claimJobs(scheduler, 0)).waiting?.reason === 'reserved') clock.jump(RESERVATION_MS)
  if (!existsSync(join(plan.folder, 'scheduled'))) schedule(scheduler, plan.folder)
  const types = plan.isLittle ? ['flaky', 'deadly'] : ['work', 'flaky', 'work', 'deadly']
  for (const job_type of types) {
    const { job_id } = must(submitJob(scheduler, { job_type, priority: chance.whole(3) }))
    appendFileSync(paths.acknowledged, `${job_id}\n`)
  }
  if (!plan.isLittle) {
    const jobs = [{ job_type: 'work' }, { job_type: 'flaky' }]
    must(submitGroup(scheduler, { mode: 'sequential', on_failure: chance.pick(['stop', 'skip']), jobs }))
  }
  await goDirect(scheduler, plan, clock)
  const deliver = async ({ notification_id }: { readonly notification_id: string }) => {
    appendFileSync(paths.told, `${notification_id}\n`)
    return accept(undefined)
  }
  const stop = new AbortController().signal
  must(await runScheduler(scheduler, { wait, stop, deliver, untilIdle: true, pollMs: 10 }))
  scheduler.close()
}

/** Compares the rows before and after recovery, then checks every invariant. */
async function recoverAndJudge(scheduler: Scheduler, folder: string, now: () => Date): Promise<void> {
  const paths = lifePaths(folder)
  const before = readState(paths.file)
  const beganMs = now().getTime()
  must(await recover(scheduler, openOrphanEnder({ wait, table: openProcessTable() })))
  const between = { fromMs: beganMs, toMs: now().getTime() }
  const problems = compareRecovery(before, readState(paths.file), between)
  const check = must(checkInvariants(scheduler, executionsOf(folder)))
  problems.push(...check.violations.map(({ invariant, about }) => `${invariant}: ${about.join(' ')}`))
  if (problems.length > 0) appendFileSync(paths.problems, `${problems.join('\n')}\n`)
}

function schedule(scheduler: Scheduler, folder: string): void {
  const made = createTemplate(scheduler, { name: 'hourly', job_type: 'work' })
  // The name is taken: an earlier life was killed between the two steps.
  if (!made.ok) return
  const { template_id } = made.value
  must(createSchedule(scheduler, { template_id, name: 'hourly', cron_expression: '0 * * * *' }))
  appendFileSync(join(folder, 'scheduled'), '')
}

/** One reservation that is renewed and then released or expired, and one direct execution. */
async function goDirect(scheduler: Scheduler, plan: LifePlan, clock: LifeClock): Promise<void> {
  const { reservation_id } = must(reserve(scheduler, { reserved_by: 'life' }))
  must(renewReservation(scheduler, reservation_id))
  if (openChance(`${plan.seed}/direct`).whole(2) === 0) must(releaseReservation(scheduler, reservation_id))
  else clock.jump(RESERVATION_MS + 1_000)
  const world = {
    handlers: {},
    environment: {},
    folder: plan.folder,
    runFolder: runFolderOf(scheduler.db.file) ?? plan.folder,
    table: openProcessTable(),
    wait,
  }
  const options = {
    deps: world,
    reservedBy: 'life',
    timeoutMs: 60_000,
    stop: new AbortController().signal,
    alert: () => {},
  }
  must(await runDirect(scheduler, { job_type: 'work' }, options))
}

if (import.meta.main) await live(JSON.parse(process.argv[2] ?? '{}') as LifePlan)
