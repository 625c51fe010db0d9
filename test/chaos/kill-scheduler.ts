/**
 * Kills the scheduler with -9 at every failpoint, from inside its own jobs and at random moments, many times on the same file.
 * Every next life checks its recovery, and the last one checks every promise.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { schedulerPoints, type SchedulerPoint } from '#domains/scheduler'
import { type Chance, openChance } from '#test/chance'
import { findBrokenPromises } from './family-check.ts'
import { fastFolder } from './fast-folder.ts'
import { plant, type Planted, plantedKinds } from './plant-broken-rows.ts'
import { lifePaths, type LifePlan, linesOf } from './scheduler-life.ts'

export type KillSchedulerPlan = {
  readonly kills: number
  readonly seed: string
  readonly onRound?: (done: number) => void
}

export type KillSchedulerReport = {
  readonly kills: number
  readonly lives: number
  readonly families: number
  /** Broken rows that the next start had to repair, by kind. */
  readonly planted: Readonly<Record<string, number>>
  readonly acknowledged: number
  readonly executed: number
  /** How often a life ended there. */
  readonly killedAt: Readonly<Record<string, number>>
  readonly notReached: readonly string[]
  readonly problems: readonly string[]
}

/** In addition to the failpoints: the running job kills its scheduler, and a kill comes at a random moment. */
const targets = [...schedulerPoints, 'in the job', 'any moment'] as const
type Target = (typeof targets)[number]

const KILLS_PER_FAMILY = 14
const START_MS = Date.UTC(2026, 4, 1, 10)
const MOMENT_MS = 600
const program = new URL('./scheduler-life.ts', import.meta.url).pathname

export async function killScheduler({
  kills,
  seed,
  onRound = () => {},
}: KillSchedulerPlan): Promise<KillSchedulerReport> {
  const order = planTargets(kills, openChance(`${seed}/targets`))
  const killedAt = new Map<string, number>()
  const notReached: string[] = []
  const problems: string[] = []
  const counts = { lives: 0, families: 0, acknowledged: 0, executed: 0 }
  const plantedOf: Record<string, number> = {}
  let done = 0
  async function family(number: number, wanted: readonly Target[]): Promise<void> {
    const folder = mkdtempSync(join(fastFolder(), 'concord-lives-'))
    const chance = openChance(`${seed}/family-${number}`)
    const planted: Planted[] = []
    const hasProblems = () => linesOf(lifePaths(folder).problems).length > 0
    let startMs = START_MS
    try {
      // A life does not pass every point; missed points are tried again at the end.
      const missed: Target[] = []
      for (let index = 0; index < wanted.length + missed.length; index++) {
        const target = wanted[index] ?? missed[index - wanted.length]
        if (target === undefined) break
        startMs = nextStart(folder, startMs, chance)
        // At random, one row of the matrix was not broken once in 45 kills, so the rows take turns.
        if (index > 0 && (target.startsWith('recovery.') || index % 4 === 3)) {
          const made = plant(folder, kindFor(target, number + planted.length), START_MS - 60_000)
          if (made) planted.push(made)
        }
        // A life without a group and with fewer children takes half the time and passes the same points.
        const life = { folder, seed: `${seed}/${number}/${index}`, startMs, isLittle: index % 3 > 0 }
        const isKilled = await endLife(life, target, chance)
        counts.lives += 1
        if (isKilled) killedAt.set(target, (killedAt.get(target) ?? 0) + 1)
        else if (index < wanted.length) missed.push(target)
        else notReached.push(target)
        if (isKilled) onRound(++done)
        // Stops at the first finding; the rest would repeat it.
        if (hasProblems()) break
      }
      if (!hasProblems())
        await endLife({ folder, seed: `${seed}/${number}/last`, startMs: startMs + 7_200_000 }, undefined, chance)
      counts.families += 1
      for (const { kind } of planted) plantedOf[kind] = (plantedOf[kind] ?? 0) + 1
      counts.acknowledged += linesOf(lifePaths(folder).acknowledged).length
      counts.executed += linesOf(lifePaths(folder).executed).length
      const found = [...linesOf(lifePaths(folder).problems), ...findBrokenPromises(folder, planted)]
      problems.push(...found.map((problem) => `family ${number} of ${seed}: ${problem}`))
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
  const families = Array.from({ length: Math.ceil(order.length / KILLS_PER_FAMILY) }, (_, index) => index)
  // Two at a time: a life mostly waits for its children.
  const lane = async () => {
    for (let next = families.shift(); next !== undefined; next = families.shift()) {
      await family(next, order.slice(next * KILLS_PER_FAMILY, (next + 1) * KILLS_PER_FAMILY))
    }
  }
  await Promise.all([lane(), lane(), lane()])
  const all = [...killedAt.values()].reduce((sum, count) => sum + count, 0)
  return { kills: all, ...counts, planted: plantedOf, killedAt: Object.fromEntries(killedAt), notReached, problems }
}

/** Never backwards: mostly past every reservation of the previous life, sometimes within one. */
function nextStart(folder: string, startMs: number, chance: Chance): number {
  const [jumpedTo = '0'] = linesOf(lifePaths(folder).clock)
  return Math.max(startMs, Number(jumpedTo)) + (chance.whole(4) === 0 ? 120_000 : 7_200_000)
}

/** Every target equally often, in a new order each time. */
function planTargets(kills: number, chance: Chance): Target[] {
  const order: Target[] = []
  while (order.length < kills) {
    const rest = [...targets]
    while (rest.length > 0) order.push(...rest.splice(chance.whole(rest.length), 1))
  }
  return order.slice(0, kills)
}

function kindFor(target: Target, turn: number): Planted['kind'] {
  if (target === 'recovery.step_3') return 'undecided'
  // Step 1 is about running jobs: the first three.
  const kinds = target === 'recovery.step_1' ? plantedKinds.slice(0, 3) : plantedKinds
  return kinds[turn % kinds.length] ?? 'no run'
}

/** Returns whether the life was killed; one that fails by itself is a finding. */
async function endLife(plan: Omit<LifePlan, 'faults'>, target: Target | undefined, chance: Chance): Promise<boolean> {
  const isPoint = (name: Target | undefined): name is SchedulerPoint => schedulerPoints.includes(name as SchedulerPoint)
  // The first passage always happens; the later ones only where a life passes often.
  const hit =
    isPoint(target) && /^(dispatch|run|finish\.(outcome|finished|before|committed))/.test(target)
      ? 1 + chance.whole(4)
      : 1
  const faults = isPoint(target) ? [{ point: target, hit, act: 'kill' as const }] : []
  if (target === 'in the job') writeFileSync(lifePaths(plan.folder).killMark, '')
  const child = spawn(process.execPath, [program, JSON.stringify({ ...plan, faults })], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => void (said += chunk.toString()))
  const moment = target === 'any moment' ? setTimeout(() => child.kill('SIGKILL'), chance.whole(MOMENT_MS)) : undefined
  // 'exit', not 'close': an orphan may keep the pipe open until the next life ends it.
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  clearTimeout(moment)
  child.stderr.destroy()
  if (signal === 'SIGKILL') return true
  if (code !== 0) {
    const why = said.split('\n').find((line) => line.startsWith('Error')) ?? said.slice(0, 500)
    appendFileSync(lifePaths(plan.folder).problems, `the life ${plan.seed} ended with ${code ?? signal}: ${why}\n`)
  }
  return false
}
