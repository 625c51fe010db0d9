/**
 * Lists live processes with their start, group and run. Reads /proc on Linux and runs `ps` elsewhere. The start distinguishes
 * a process from a later one with the same pid.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/** The environment variable that holds the run id in every child. */
export const RUN_VARIABLE = 'JOB_RUN_ID'

export type LiveProcess = {
  readonly pid: number
  readonly group: number
  /** Only compared, never read as a time: ticks since boot on Linux, a date elsewhere. */
  readonly startedAt: string
  readonly isOfRun: boolean
}

export type ProcessTable = {
  /** Lists all live processes; zombies count as ended. Throws when the table cannot be read. */
  list(runId: string): readonly LiveProcess[]
  /** Returns null for a process that no longer exists. */
  startOf(pid: number): string | null
  /** Null where the system has none; a start that is a date is unique without it. */
  readonly bootId: string | null
}

export function openProcessTable(source: 'proc' | 'ps' = existsSync('/proc/self/stat') ? 'proc' : 'ps'): ProcessTable {
  return source === 'proc' ? fromProc() : fromPs()
}

function fromProc(): ProcessTable {
  return {
    bootId: readOrNull('/proc/sys/kernel/random/boot_id')?.trim() ?? null,
    startOf: (pid) => readStat(pid)?.startedAt ?? null,
    list: (runId) =>
      readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .flatMap((name) => {
          const stat = readStat(Number(name))
          if (!stat) return []
          // The environment of other users' processes is unreadable; jobs run as this user.
          const environment = readOrNull(`/proc/${name}/environ`)?.split('\0') ?? []
          return [{ ...stat, pid: Number(name), isOfRun: environment.includes(`${RUN_VARIABLE}=${runId}`) }]
        }),
  }
}

/** The name in parentheses may contain blanks and parentheses, so the fields are counted from its end. */
function readStat(pid: number): { group: number; startedAt: string } | undefined {
  const text = readOrNull(`/proc/${pid}/stat`)
  if (text === null) return undefined
  const [state, , group, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const startedAt = rest[16]
  if (state === 'Z' || state === 'X' || group === undefined || startedAt === undefined) return undefined
  return { group: Number(group), startedAt }
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return null
  }
}

/** pid, group, state, then a date of five words. */
const PS_LINE = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(\S+\s+\S+\s+\d+\s+[\d:]+\s+\d+)\s*(.*)$/

function fromPs(): ProcessTable {
  return {
    bootId: null,
    startOf: (pid) => askPs(['-p', String(pid)], '')[0]?.startedAt ?? null,
    list: (runId) => askPs(['axeww'], runId),
  }
}

function askPs(which: readonly string[], runId: string): LiveProcess[] {
  const columns = ['-o', 'pid=,pgid=,stat=,lstart=,command=']
  const { stdout, error } = spawnSync('ps', [...which, ...columns], {
    encoding: 'utf8',
    maxBuffer: 64 * 1_048_576,
    env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' },
  })
  if (error) throw error
  return stdout.split('\n').flatMap((line) => {
    const [, pid, group, state, startedAt, command] = PS_LINE.exec(line) ?? []
    if (startedAt === undefined || state === undefined || state.startsWith('Z')) return []
    const isOfRun = runId !== '' && (command ?? '').split(' ').includes(`${RUN_VARIABLE}=${runId}`)
    return [{ pid: Number(pid), group: Number(group), startedAt: startedAt.replace(/\s+/g, ' '), isOfRun }]
  })
}
