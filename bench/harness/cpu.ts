/** CPU time of this process and of a Postgres server with all its backends, if the system reports it. */
import { readdirSync, readFileSync } from 'node:fs'

/** One tick of /proc on every Linux that Node runs on. */
const TICK_US = 10_000

type ProcessTimes = { readonly parent: number; readonly cpuUs: number }

function readTimes(pid: string): ProcessTimes | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name may contain anything, so the fields are counted after its bracket: state, parent, … utime (12th), stime, then
    // those of the children.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const ticks = [11, 12, 13, 14].map((index) => Number(fields[index])).reduce((sum, value) => sum + value, 0)
    return { parent: Number(fields[1]), cpuUs: ticks * TICK_US }
  } catch {
    return undefined
  }
}

/** Undefined where there is no /proc. */
export function postgresCpuUs(postmaster: number): number | undefined {
  let total: number | undefined
  try {
    for (const pid of readdirSync('/proc')) {
      if (!/^\d+$/.test(pid)) continue
      const times = readTimes(pid)
      if (times && (times.parent === postmaster || Number(pid) === postmaster)) total = (total ?? 0) + times.cpuUs
    }
  } catch {
    return undefined
  }
  return total
}

export function nodeCpuUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}
