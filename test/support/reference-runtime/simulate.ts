/**
 * Runs a drive over the memory store many times, and kills or freezes its worker at every write: before the commit, after it, and
 * (frozen) long after another worker has taken over. It checks the invariants each time. The same seed gives the same run, so a
 * failure names the plan that shows it.
 */
import { KernelFault } from '#kernel/errors'
import type { Drive } from '#runtime'
import { openFakeClock } from './fake-clock.ts'
import { type MemoryStore, newMemoryRows, openMemoryStore } from './memory-store.ts'
import { openReferenceRuntime, type ReferenceRuntime } from './runtime.ts'
import { seededRandom } from './seeded-random.ts'

export const faultModes = ['before', 'after', 'freeze'] as const
/** The passage at which the fault happens, counted from 1 over the whole run. */
export type Fault = { readonly at: number; readonly mode: (typeof faultModes)[number] }

/** What one worker sees; created again after its death. */
export type SimulationWorld = {
  readonly runtime: ReferenceRuntime
  readonly store: MemoryStore
  /** A call outside the store: it takes effect at once and survives every crash. The worker can die before and after it. */
  act(deed: () => void): Promise<void>
}

export type Simulation = {
  /** Facts and first wakes from a client that does not crash. */
  start(world: SimulationWorld): Promise<void>
  drives(world: SimulationWorld): Readonly<Record<string, Drive>>
  /** Throws when an invariant is broken; called when nothing is left to run. */
  check(world: SimulationWorld): void
}

export type Run = { readonly points: number; readonly turns: number; readonly hits: number }

/** The limit of consecutive due times; a drive with more waits in an endless loop. */
const MOVES_MAX = 2_000

export async function simulate(open: () => Simulation, faults: readonly Fault[], seed: number): Promise<Run> {
  const { drives, start, check } = open()
  const clock = openFakeClock()
  const runtime = openReferenceRuntime({ random: seededRandom(seed), clock })
  const rows = newMemoryRows()
  const frozen: (() => void)[] = []
  let [points, hits, isCalm, incarnation] = [0, 0, false, 0]

  /** A promise that never resolves is what a dead process looks like from inside. */
  function pass(mine: number, side: 'before' | 'after'): Promise<void> | undefined {
    if (isCalm) return undefined
    if (mine !== incarnation && !late.has(mine)) return new Promise(() => {})
    if (side === 'before') points += 1
    const fault = faults.find(
      ({ at, mode }) => at === points && (mode === 'after' ? side === 'after' : side === 'before'),
    )
    if (!fault || mine !== incarnation) return undefined
    hits += 1
    if (fault.mode === 'freeze') late.add(mine)
    const held =
      fault.mode === 'freeze' ? new Promise<void>((resolve) => frozen.push(resolve)) : new Promise<void>(() => {})
    work()
    return held
  }
  const late = new Set<number>()

  function worldOf(mine: number): SimulationWorld {
    return {
      runtime,
      store: openMemoryStore(rows, (side) => pass(mine, side)),
      async act(deed) {
        await pass(mine, 'before')
        deed()
        await pass(mine, 'after')
      },
    }
  }

  /** The next worker, with the same code and nothing in memory. */
  function work(): void {
    incarnation += 1
    runtime.crash()
    for (const [kind, drive] of Object.entries(drives(worldOf(incarnation)))) runtime.register(kind, drive)
    // Opening is synchronous here; it is refused only for an undefined queue.
    void runtime.open()
  }

  async function rest(): Promise<void> {
    for (let move = 0; move < MOVES_MAX; move++) if (!(await runtime.advanceToNext())) return
    throw new KernelFault('reference.simulate.restless', `no rest after ${MOVES_MAX} due times`)
  }

  const outside: SimulationWorld = { runtime, store: openMemoryStore(rows), act: async (deed) => deed() }
  work()
  await start(outside)
  await rest()
  // The frozen workers continue one after the other, after the others have moved on.
  for (let release = frozen.shift(); release; release = frozen.shift()) {
    release()
    await rest()
  }
  isCalm = true
  check(outside)
  await runtime.close()
  return { points, turns: runtime.turnsBegun, hits }
}

export type Explored = { readonly runs: number; readonly hits: number; readonly points: number }

/** Runs every single fault of every mode, then `randomRuns` runs with up to three faults each. A failure names its plan. */
export async function explore(open: () => Simulation, seed: number, randomRuns = 0): Promise<Explored> {
  async function run(plan: readonly Fault[], planSeed: number): Promise<Run> {
    try {
      return await simulate(open, plan, planSeed)
    } catch (error) {
      const where = `seed ${planSeed}, faults ${JSON.stringify(plan)}`
      throw new KernelFault('reference.simulate.broken', `${String(error)} (${where})`, { plan, seed: planSeed })
    }
  }

  const { points } = await run([], seed)
  const random = seededRandom(seed)
  let [runs, hits] = [1, 0]
  for (let at = 1; at <= points; at++) {
    for (const mode of faultModes) {
      hits += (await run([{ at, mode }], seed)).hits
      runs += 1
    }
  }
  for (; runs <= points * faultModes.length + randomRuns; runs++) {
    const plan = Array.from({ length: 1 + Math.floor(random() * 3) }, (): Fault => {
      const mode = faultModes[Math.floor(random() * faultModes.length)] ?? 'before'
      return { at: 1 + Math.floor(random() * points * 2), mode }
    })
    hits += (await run(plan, seed + runs)).hits
  }
  return { runs, hits, points }
}
