/**
 * Ends what a dead scheduler left running, before its run is closed: the child by number, start and boot, its group, and
 * whoever carries the id of the run in its environment, so that one that died before its number was written is found too.
 */
import { type LiveProcess, openProcessTable, type ProcessTable } from './process-table.ts'
import type { ProcessIdentity, RunnerPort } from './runner-port.ts'
import type { Sleep } from './wait-for-reservation.ts'

export type EndOrphans = {
  readonly sleep: Sleep
  readonly table?: ProcessTable
  /** How long one that is asked to end may tidy up. */
  readonly politeMs?: number
  /** For tests: how a signal is sent. */
  readonly signal?: (pid: number, signal: 'SIGTERM' | 'SIGKILL') => void
}

const POLITE_MS = 2_000
/** One that a kill does not end hangs in the kernel, on a dead disk for instance. */
const KILLED_MS = 5_000
const LOOK_MS = 20

export function openOrphanEnder({
  sleep,
  table = openProcessTable(),
  politeMs = POLITE_MS,
  signal = send,
}: EndOrphans): RunnerPort {
  async function endAll(identity: ProcessIdentity, name: 'SIGTERM' | 'SIGKILL', withinMs: number): Promise<boolean> {
    for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
      const left = findOrphans(table, identity)
      if (left.length === 0) return true
      if (waitedMs >= withinMs) return false
      // A kill is repeated, since one that forks while it is killed leaves a child that nobody has told.
      if (waitedMs === 0 || name === 'SIGKILL') for (const { pid } of left) signal(pid, name)
      await sleep(LOOK_MS)
    }
  }
  return {
    async endOrphan(identity) {
      try {
        if (findOrphans(table, identity).length === 0) return 'gone'
        if (await endAll(identity, 'SIGTERM', politeMs)) return 'ended'
        return (await endAll(identity, 'SIGKILL', KILLED_MS)) ? 'ended' : 'alive'
      } catch {
        // Nobody can tell whether it lives: a repetition beside it would be worse than none.
        return 'alive'
      }
    },
  }
}

export function findOrphans(table: ProcessTable, identity: ProcessIdentity): readonly LiveProcess[] {
  // Nothing outlives its boot.
  if (identity.bootId !== null && table.bootId !== null && identity.bootId !== table.bootId) return []
  const all = table.list(identity.runId)
  const leader = all.find(({ pid, startedAt }) => pid === identity.pid && startedAt === identity.startedAt)
  return all.filter(({ pid, group, isOfRun }) => isOfRun || (leader && (pid === leader.pid || group === leader.pid)))
}

function send(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended meanwhile, or may not be ended by us: the next look tells which.
  }
}
