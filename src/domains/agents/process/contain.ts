/** What a program leaves behind on this machine: the folder of its run, and processes that have left its group. */
import { chown, lstat, mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** In the environment of a program and of what it starts: the run and the turn. */
export const MARK = 'CONCORD_AGENT_TURN'

/** The user and the group of a program. */
export type RunAs = { readonly uid: number; readonly gid: number }

/** Children that are started between two looks are found by the next one. */
const LOOKS_MAX = 100

const folderOf = (agentRunId: string) => join(tmpdir(), `concord-agent-${agentRunId}`)

/** Returns the folder of the run; only the user of the program can open it. Throws if somebody else has made one of this name. */
export async function openRunFolder(agentRunId: string, runAs: RunAs | undefined): Promise<string> {
  const folder = folderOf(agentRunId)
  try {
    await mkdir(folder, { mode: 0o700 })
    if (runAs) await chown(folder, runAs.uid, runAs.gid)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const { uid, mode } = await lstat(folder).then((found) => (found.isDirectory() ? found : { uid: -1, mode: 0 }))
  if (uid !== (runAs?.uid ?? process.getuid?.() ?? uid) || (mode & 0o077) !== 0)
    throw new Error('The folder of the run belongs to somebody else.')
  return folder
}

export function removeRunFolder(agentRunId: string): Promise<void> {
  return rm(folderOf(agentRunId), { recursive: true, force: true, maxRetries: 3 })
}

/** Kills the processes whose mark begins with this text, until there are none. Only on Linux: elsewhere there is no `/proc`. */
export async function killMarked(mark: string): Promise<void> {
  for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
    const found = await findMarked(mark)
    if (found.length === 0) return
    for (const pid of found) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended meanwhile.
      }
    }
  }
}

async function findMarked(mark: string): Promise<readonly number[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.map(Number).filter((pid) => Number.isInteger(pid) && pid !== process.pid)
  const marked = await Promise.all(
    pids.map(async (pid) => {
      // Those of other users cannot be read, and a dead one has none.
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
      return environment.split('\0').some((each) => each.startsWith(`${MARK}=${mark}`))
    }),
  )
  return pids.filter((_, at) => marked[at])
}
