/**
 * Fails the system calls of the scheduler one by one. A first run under strace finds every call that touches its files. Each case
 * repeats that run with one failed or fatal call; then the next life must find everything in order.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { openChance } from '#test/chance'
import { findBrokenPromises } from './family-check.ts'
import { fastFolder } from './fast-folder.ts'
import { plant, type Planted, plantedKinds } from './plant-broken-rows.ts'
import { lifePaths } from './scheduler-life.ts'
import { type StoryPlan, tellStory } from './scheduler-story.ts'

export type FaultPlan = { readonly cases: number; readonly seed: string; readonly onRound?: (done: number) => void }

export type FaultReport = {
  readonly cases: number
  /** The number of calls to choose from. */
  readonly possible: number
  readonly killed: number
  /** Lives in which a call failed, and that continued or ended as they should. */
  readonly failed: number
  /** Cases whose call did not occur; with many of them the run would prove nothing. */
  readonly missed: number
  readonly twice: number
  readonly byFault: Readonly<Record<string, number>>
  readonly problems: readonly string[]
}

/** Why the cases cannot run here; undefined if they can. */
export function whyNoStrace(): string | undefined {
  const tried = spawnSync('strace', ['-f', '--seccomp-bpf', '-qq', '-e', 'trace=fsync', 'true'], { encoding: 'utf8' })
  if (tried.error) return 'strace is not installed'
  return tried.status === 0 ? undefined : `strace may not trace here: ${tried.stderr.trim()}`
}

const faultsOf: Readonly<Record<string, readonly string[]>> = {
  pwrite64: ['signal=SIGKILL', 'error=EIO', 'error=ENOSPC'],
  fsync: ['signal=SIGKILL', 'error=EIO', 'error=ENOSPC'],
  fdatasync: ['signal=SIGKILL', 'error=EIO', 'error=ENOSPC'],
  ftruncate: ['signal=SIGKILL', 'error=EIO', 'error=ENOSPC'],
  openat: ['signal=SIGKILL', 'error=EIO', 'error=ENOSPC', 'error=EMFILE'],
  unlink: ['signal=SIGKILL', 'error=EIO'],
  pread64: ['signal=SIGKILL', 'error=EIO'],
}

const scenes = ['a new file', 'a file after a crash'] as const
type Case = {
  readonly scene: (typeof scenes)[number]
  readonly call: string
  readonly when: number
  readonly fault: string
}

/** Traces only the named calls. */
const quick = ['-f', '--seccomp-bpf']
const START_MS = Date.UTC(2026, 4, 1, 10)
const CHAPTER_MS = 10 * 3_600_000
const program = new URL('./scheduler-story.ts', import.meta.url).pathname

type Scene = { readonly folder: string; readonly planted: readonly Planted[] }

async function aScene(name: Case['scene']): Promise<Scene> {
  const folder = mkdtempSync(join(fastFolder(), 'concord-scene-'))
  if (name === 'a new file') return { folder, planted: [] }
  await tellStory({ folder, startMs: START_MS, chapter: 1 })
  const planted = plantedKinds.flatMap((kind) => plant(folder, kind, START_MS - 60_000) ?? [])
  const db = new DatabaseSync(lifePaths(folder).file)
  db.prepare(
    `insert into direct_reservations (reservation_id, reserved_at, reserved_by, expires_at)
     values ('00000000-0000-4000-8000-000000000000', ?, 'nobody', ?)`,
  ).run(START_MS + CHAPTER_MS / 2, START_MS + CHAPTER_MS / 2 + 1_000)
  db.close()
  return { folder, planted }
}

/** Runs the story under strace and returns its exit and its output. */
async function trace(plan: StoryPlan, options: readonly string[]) {
  const { file } = lifePaths(plan.folder)
  const paths = ['', '-wal', '-shm', '-journal', '.owner'].flatMap((end) => ['-P', `${file}${end}`])
  const words = ['-qq', ...paths, ...options, process.execPath, program, JSON.stringify(plan)]
  const child = spawn('strace', words, {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => void (said += chunk.toString()))
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  return { code, isKilled: signal === 'SIGKILL', said }
}

async function findCases(): Promise<Case[]> {
  const cases: Case[] = []
  for (const scene of scenes) {
    const { folder } = await aScene(scene)
    const list = join(folder, 'calls')
    const calls = Object.keys(faultsOf).join(',')
    await trace({ folder, startMs: START_MS + CHAPTER_MS, chapter: 2 }, [...quick, '-e', `trace=${calls}`, '-o', list])
    const counts = new Map<string, number>()
    for (const [, call = ''] of readFileSync(list, 'utf8').matchAll(/^\d+ +(\w+)\(/gm)) {
      counts.set(call, (counts.get(call) ?? 0) + 1)
    }
    for (const [call, count] of counts) {
      for (const fault of faultsOf[call] ?? []) {
        for (let when = 1; when <= count; when++) cases.push({ scene, call, when, fault })
      }
    }
    rmSync(folder, { recursive: true, force: true })
  }
  return cases
}

export async function faultScheduler({ cases, seed, onRound = () => {} }: FaultPlan): Promise<FaultReport> {
  const possible = await findCases()
  const chance = openChance(seed)
  const rest = [...possible]
  const chosen: (Case & { readonly again: Case | undefined })[] = []
  while (chosen.length < cases && rest.length > 0) {
    const [next] = rest.splice(chance.whole(rest.length), 1)
    // Every fifth case fails again in the next life: recovery itself may crash.
    const again = chance.whole(5) === 0 ? chance.pick(possible) : undefined
    if (next) chosen.push({ ...next, again })
  }
  const templates = new Map(await Promise.all(scenes.map(async (name) => [name, await aScene(name)] as const)))
  const counts = { killed: 0, failed: 0, missed: 0, twice: 0 }
  const byFault: Record<string, number> = {}
  const problems: string[] = []
  const queue = [...chosen]
  let done = 0
  const lane = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const { scene, call, when, fault, again } = next
      const template = templates.get(scene)
      if (!template) continue
      const faults = [next, ...(again ? [again] : [])]
      const ends = await runCase(template, faults)
      counts.killed += ends.killed
      counts.failed += ends.failed
      counts.missed += faults.length - ends.killed - ends.failed
      if (again) counts.twice += 1
      byFault[`${call} ${fault}`] = (byFault[`${call} ${fault}`] ?? 0) + 1
      const second = again ? `, then ${again.call} ${again.when} ${again.fault}` : ''
      problems.push(...ends.problems.map((said) => `${scene}, ${call} ${when} ${fault}${second}: ${said}`))
      onRound(++done)
    }
  }
  await Promise.all([lane(), lane(), lane()])
  for (const { folder } of templates.values()) rmSync(folder, { recursive: true, force: true })
  return { cases: chosen.length, possible: possible.length, ...counts, byFault, problems }
}

async function runCase({ folder: from, planted }: Scene, faults: readonly Case[]) {
  const folder = mkdtempSync(join(fastFolder(), 'concord-fault-'))
  const problems: string[] = []
  let killed = 0
  let failed = 0
  try {
    cpSync(from, folder, { recursive: true })
    const list = join(folder, 'calls')
    let chapter = 1
    for (const { call, when, fault } of faults) {
      chapter += 1
      const plan = { folder, startMs: START_MS + CHAPTER_MS * chapter, chapter }
      const inject = ['-e', `trace=${call}`, '-e', `inject=${call}:${fault}:when=${when}`, '-o', list]
      // strace 6.1 sends no signal in its quick mode.
      const { code, isKilled, said } = await trace(plan, fault.startsWith('signal') ? inject : [...quick, ...inject])
      if (isKilled) killed += 1
      else if (readFileSync(list, 'utf8').includes('(INJECTED)')) failed += 1
      if (isKilled) continue
      if (code !== 0) problems.push(`the process ended with ${code}: ${said.slice(0, 1_000)}`)
    }
    // Without faults, the scheduler must recover by itself and finish.
    chapter += 1
    const last = await tellStory({ folder, startMs: START_MS + CHAPTER_MS * chapter, chapter, isLast: true })
    problems.push(...last.problems, ...last.refused.map((code) => `the next life was refused: ${code}`))
    if (!last.isOver) problems.push('the next life did not get to its end')
    problems.push(...findBrokenPromises(folder, planted))
    return { killed, failed, problems }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
