/**
 * Two worker processes share a schedule with a due time every minute. Its clock jumps, and around every due time one or both are
 * killed with -9, at random or at a failpoint between the due time, its command and its record. Then the commands are counted.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openChance } from '#test/chance'
import { openTestDb } from '#test/database'
import { type FailpointName, faultEnv } from '#test/fault-plan'
import { aTenant, aWorld } from '#test/tenant'
import { until } from '#test/until'

export type ScheduleReport = {
  readonly rounds: number
  readonly kills: number
  /** Kills at a failpoint. */
  readonly planned: number
  readonly commands: number
  /** Due times without a command or with a failed one. */
  readonly lost: readonly string[]
  /** Keys of more than one command, and effects with more than one row for one command. */
  readonly doubled: readonly string[]
}

const MINUTE_MS = 60_000
const POINTS: readonly FailpointName[] = [
  'schedules.due',
  'schedules.fired',
  'commands.submitted',
  'commands.woken',
  'commands.effect_begun',
]

type WorkerProcess = {
  readonly child: ChildProcess
  readonly gone: Promise<void>
  readonly isGone: () => boolean
  /** The failpoint at which it dies, if it gets there. */
  readonly point: FailpointName | undefined
}
/** How long a worker has to reach its point; the other one may be faster at every due time. */
const PLANNED_MS = 2_000

export async function killSchedules({ rounds, seed }: { rounds: number; seed: string }): Promise<ScheduleReport> {
  const chance = openChance(seed)
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 2 })
  const { db } = opened
  const tenant = await aTenant(aWorld(db))
  let aheadMs = 0
  let [kills, planned] = [0, 0]
  const start = (point?: FailpointName) => startWorker(opened.url, tenant.workspace.id, aheadMs, point)
  let workers = [await start(), await start()]
  // The schedule exists, so every minute from here on is due.
  const from = Math.ceil(Date.now() / MINUTE_MS) * MINUTE_MS
  try {
    for (let round = 0; round < rounds; round++) {
      aheadMs += MINUTE_MS * (1 + chance.whole(2))
      for (const { child } of workers) child.stdin?.write(`${aheadMs}\n`)
      const doomed = workers.filter(({ point }) => point !== undefined)
      await (doomed.length === 0
        ? sleep(chance.whole(120))
        : Promise.race([sleep(PLANNED_MS), ...doomed.map(({ gone }) => gone)]))
      const victims = chance.whole(4) === 0 ? workers : [workers[chance.whole(2)] as WorkerProcess]
      const fallen = workers.filter((worker) => worker.isGone())
      planned += fallen.length
      for (const { child } of victims) child.kill('SIGKILL')
      await Promise.all(victims.map(({ gone }) => gone))
      kills += new Set([...fallen, ...victims]).size
      workers = await Promise.all(
        workers.map(async (worker) => {
          if (!worker.isGone()) return worker
          return start(chance.whole(2) === 0 ? POINTS[chance.whole(POINTS.length)] : undefined)
        }),
      )
    }
    // A worker without faults finishes everything.
    for (const worker of workers) worker.child.kill('SIGKILL')
    await Promise.all(workers.map(({ gone }) => gone))
    workers = [await start()]
    for (const { child } of workers) child.stdin?.write(`${aheadMs}\n`)
    const last = new Date(Math.floor((Date.now() + aheadMs) / MINUTE_MS) * MINUTE_MS)
    const rows = () =>
      db.query<{ key: string; status: string; effects: string }>(
        `select c.idempotency_key as key, c.status, (select count(*) from concord.domain_effects e where e.command_id = c.command_id) as effects
           from concord.commands c where c.command_type = 'tick' order by 1`,
      )
    // Firings come in any order, and the firing of a killed worker comes when its lease ends: the newest command proves nothing
    // about earlier ones. A command that is missing at the end is lost.
    let verdict = judge(await rows(), from, last.getTime())
    await until(async () => {
      verdict = judge(await rows(), from, last.getTime())
      return verdict.lost.length === 0
    }).catch(() => {})
    return { rounds, kills, planned, ...verdict }
  } finally {
    for (const worker of workers) worker.child.kill('SIGKILL')
    await Promise.all(workers.map(({ gone }) => gone))
    await opened.close()
  }
}

const dueOf = (key: string) => Date.parse(key.slice('schedule:every minute:'.length))

function judge(rows: readonly { key: string; status: string; effects: string }[], from: number, last: number) {
  const keys = rows.map(({ key }) => key)
  const times = new Set(keys.map(dueOf))
  const lost = rows.flatMap(({ key, status }) => (status === 'succeeded' ? [] : [`${key} ${status}`]))
  for (let due = from; due <= last; due += MINUTE_MS) if (!times.has(due)) lost.push(new Date(due).toISOString())
  const doubled = [
    ...keys.filter((key, index) => keys.indexOf(key) !== index),
    ...rows.flatMap(({ key, effects }) => (effects === '1' ? [] : [`${key} has ${effects} effects`])),
  ]
  return { commands: rows.length, lost, doubled }
}

async function startWorker(
  url: string,
  workspace: string,
  aheadMs: number,
  point?: FailpointName,
): Promise<WorkerProcess> {
  const program = fileURLToPath(new URL('../support/schedule-worker-child.ts', import.meta.url))
  const plan = point === undefined ? {} : faultEnv([{ point, hit: 1, act: 'kill' }])
  const child = spawn(process.execPath, [program, url, workspace, String(aheadMs)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...plan },
  })
  // A write to a worker that has just died is not an error.
  child.stdin.on('error', () => {})
  let isGone = false
  /** A kill leaves no exit code; any other end is a mistake of the test. */
  let brokenBy: number | null = null
  const gone = new Promise<void>((resolve) => {
    child.once('exit', (code) => {
      isGone = true
      brokenBy = code
      resolve()
    })
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const first = await lines.next()
  // The worker may reach the point before it is ready, because earlier rounds left work.
  if (first.value !== 'ready' && !(first.done && point !== undefined))
    throw new Error(`The worker printed ${String(first.value)}.`)
  if (first.done) await gone
  if (brokenBy !== null) throw new Error(`The worker ended by itself with ${String(brokenBy)}.`)
  return { child, gone, isGone: () => isGone, point }
}
