/** Makes the home folder ready to hold a server, or says why it cannot and what to do. */
import { access, chmod, constants, mkdir, readdir, rm, stat, statfs } from 'node:fs/promises'
import path from 'node:path'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { explainHomeFault } from './home-fault.ts'
import { type HomePaths, UNFINISHED_PREFIX } from './home-paths.ts'

/** File systems whose locks and flushes Postgres cannot rely on, by the number that statfs(2) gives them. */
const networkMounts: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x01021997, '9p'],
  [0x5346414f, 'AFS'],
  [0x00c36400, 'Ceph'],
])

export function networkMountName(type: number): string | undefined {
  // Some kernels hand the number out with its sign.
  return networkMounts.get(type >>> 0)
}

export async function prepareHome({ home }: HomePaths): Promise<Decision<void>> {
  try {
    const made = await makeFolders(home)
    if (made !== undefined && process.getuid?.() === 0) await openForPassing(made, home)
    await access(home, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    const refusal = await explainHomeFault(home, error)
    if (refusal) return refusal
    throw error
  }
  const mount = networkMountName((await statfs(home)).type)
  if (mount === undefined) return accept(undefined)
  return refuse(
    'store.home.network_mount',
    `${home} lies on a network mount (${mount}); Postgres would lose data there`,
    {
      path: 'CONCORD_HOME',
      hint: 'set CONCORD_HOME to a folder on a local disk, or DATABASE_URL to a Postgres of your own',
    },
  )
}

/**
 * The first folder that was made, if any. One by one: `mkdir` with `recursive` never comes back where a folder exists but takes
 * no children, as under /proc.
 */
async function makeFolders(folder: string): Promise<string | undefined> {
  const missing: string[] = []
  for (let at = path.resolve(folder); !(await stat(at).catch(() => undefined)); at = path.dirname(at)) {
    missing.unshift(at)
    if (at === path.dirname(at)) break
  }
  for (const at of missing) {
    await mkdir(at, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      // Another process may have been quicker; that it is a folder shows at the next step.
      if (error.code !== 'EEXIST') throw error
    })
  }
  return missing[0]
}

/** Under root the server runs as another account, which must be able to pass through; what is inside stays closed. */
async function openForPassing(first: string, last: string): Promise<void> {
  for (let at = last; at.startsWith(first); at = path.dirname(at)) await chmod(at, 0o711)
}

/**
 * Removes what a crash in the middle of initdb left; only called by the one whose turn it is. The initdb of a killed
 * process may still be writing there for a moment, hence the retries.
 */
export async function removeUnfinished({ home }: HomePaths): Promise<string[]> {
  const left = (await readdir(home)).filter((name) => name.startsWith(UNFINISHED_PREFIX))
  for (const name of left)
    await rm(path.join(home, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  return left
}
