/** The home folder of an embedded server: its paths, its small files, and why a folder cannot be used. */
import { access, chmod, constants, mkdir, open, readdir, readFile, rename, rm, stat, statfs } from 'node:fs/promises'
import path from 'node:path'
import { networkMountName } from '#kernel/network-mount'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'

export type HomePaths = {
  readonly home: string
  /** The data directory of Postgres; created under a temporary name and renamed when complete. */
  readonly dataDir: string
  /** The superuser's password, mode 600, readable by the owner of the home alone. */
  readonly passwordFile: string
  /** The password of the service's login, mode 600. */
  readonly servicePasswordFile: string
  /** Port and machine of the last start. */
  readonly lastStartFile: string
  readonly logFile: string
  /** An exclusive lock that a process holds while it starts, attaches to or stops a server. */
  readonly startFile: string
  /** A shared lock that every process holds while it uses the server. */
  readonly usersFile: string
}

/** Marks a data directory that is being created; one that a crash left behind is removed. */
export const UNFINISHED_PREFIX = 'postgres.making-'

export function homePaths(home: string): HomePaths {
  const root = path.resolve(home)
  const inHome = (name: string) => path.join(root, name)
  return {
    home: root,
    dataDir: inHome('postgres'),
    passwordFile: inHome('postgres.password'),
    servicePasswordFile: inHome('postgres.service-password'),
    lastStartFile: inHome('postgres.last-start.json'),
    logFile: inHome('postgres.log'),
    startFile: inHome('postgres.turn'),
    usersFile: inHome('postgres.users'),
  }
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
  const reason = `The folder ${home} is on a network mount (${mount}), where Postgres would lose data.`
  return refuse('store.home.network_mount', reason, {
    path: 'CONCORD_HOME',
    hint: 'Set CONCORD_HOME to a folder on a local disk, or set DATABASE_URL.',
  })
}

/**
 * Returns the first folder that was created. `mkdir` with `recursive` never returns where a folder exists but cannot
 * contain new ones, as under /proc.
 */
async function makeFolders(folder: string): Promise<string | undefined> {
  const missing: string[] = []
  for (let at = path.resolve(folder); !(await stat(at).catch(() => undefined)); at = path.dirname(at)) {
    missing.unshift(at)
    if (at === path.dirname(at)) break
  }
  for (const at of missing) {
    await mkdir(at, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      // Another process may have created it.
      if (error.code !== 'EEXIST') throw error
    })
  }
  return missing[0]
}

/** Under root the server runs as another account, which must be able to traverse the folder; the files in it stay private. */
async function openForPassing(first: string, last: string): Promise<void> {
  for (let at = last; at.startsWith(first); at = path.dirname(at)) await chmod(at, 0o711)
}

/** Removes what a crash during initdb left. Retries, because the initdb of a killed process may still write for a moment. */
export async function removeUnfinished({ home }: HomePaths): Promise<string[]> {
  const left = (await readdir(home)).filter((name) => name.startsWith(UNFINISHED_PREFIX))
  for (const name of left)
    await rm(path.join(home, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  return left
}

/** Of SQLite, which carries the locks: cannot open, read-only. */
const SQLITE_DENIED = new Set([14, 8])
const DENIED = new Set(['EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR'])

/** Messages of Postgres; the third appears alone when a page was written in part. */
export function isStorageFull(text: string): boolean {
  return /No space left on device|Disk quota exceeded|Check free disk space/.test(text)
}

export function storageFull(where: string): Refusal {
  return refuse('storage_full', `The disk that holds ${where} has no space left.`, {
    hint: 'Free some space. No data was lost.',
  })
}

/** Undefined for an error that is not about the folder. */
export async function explainHomeFault(home: string, error: unknown): Promise<Refusal | undefined> {
  const { code: given = '', errcode = 0 } = error as { code?: string; errcode?: number }
  // Creating a folder with its parents fails with ENOENT; the nearest existing folder tells why.
  const code = given === 'ENOENT' ? await whyNotWritable(home) : given
  if (code === 'ENOSPC' || code === 'EDQUOT' || errcode === 13) return storageFull(home)
  const existing = await nearestExisting(home)
  // A file system such as /proc is writable but cannot contain new folders.
  const takesNoFolder = code === 'ENOENT' && existing !== home
  if (!DENIED.has(code) && !SQLITE_DENIED.has(errcode) && !takesNoFolder) return undefined
  const no = (why: string, fix: string) =>
    refuse('store.home.not_writable', `The folder ${existing} ${why}.`, {
      path: 'CONCORD_HOME',
      hint: `Set CONCORD_HOME to a folder of your own${fix}.`,
      facts: { home, code, detail: (error as Error).message },
    })
  if (takesNoFolder) return no('accepts no new folders', '')
  if (code === 'EROFS') return no('is on a read-only file system', '')
  if (code === 'EEXIST' || code === 'ENOTDIR') return no('is not a folder', '')
  const owner = (await stat(existing).catch(() => undefined))?.uid ?? 'unknown'
  const us = process.getuid?.() ?? 'unknown'
  // Suggest chown for the home only: a parent may be /root or /var/lib.
  const fix = existing !== home || owner === us ? '' : `, or run chown -R ${us} ${quoteForShell(existing)}`
  return no(`is not usable for this process (owner ${owner}, we are ${us})`, fix)
}

async function whyNotWritable(folder: string): Promise<string> {
  const why = await access(await nearestExisting(folder), constants.W_OK).catch((error: NodeJS.ErrnoException) => error)
  return why?.code ?? 'ENOENT'
}

async function nearestExisting(folder: string): Promise<string> {
  for (let at = folder; ; at = path.dirname(at)) {
    if ((await stat(at).catch(() => undefined)) || at === path.dirname(at)) return at
  }
}

/** Commands in messages work when pasted. */
export function quoteForShell(text: string): string {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Writes a file that is complete or absent, even after a power cut, and readable by its owner only. */
export async function writeDurably(file: string, text: string): Promise<void> {
  const handle = await open(`${file}.new`, 'w', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(`${file}.new`, file)
  await syncFolder(path.dirname(file))
}

/** Makes a rename in this folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open a folder; it journals renames.
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** The trimmed text of a file; undefined if it does not exist. */
export async function findText(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
