/** Says in plain words why a home cannot be used: full, not writable, not a folder; with the command that helps. */
import { access, constants, stat } from 'node:fs/promises'
import path from 'node:path'
import { type Refusal, refuse } from '#kernel/refusal'

/** Of SQLite, which carries the locks: cannot open, read-only. */
const SQLITE_DENIED = new Set([14, 8])
const DENIED = new Set(['EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR'])

/** In the words of Postgres; the third stands alone when a page was written only in part. */
export function isStorageFull(text: string): boolean {
  return /No space left on device|Disk quota exceeded|Check free disk space/.test(text)
}

export function storageFull(where: string): Refusal {
  return refuse('storage_full', `no space left on the disk that holds ${where}`, {
    hint: 'free some space; nothing was lost',
  })
}

/** Undefined for a fault that has nothing to do with the folder. */
export async function explainHomeFault(home: string, error: unknown): Promise<Refusal | undefined> {
  const { code: given = '', errcode = 0 } = error as { code?: string; errcode?: number }
  // Making a folder with its parents answers ENOENT where one cannot be made: the nearest one tells why.
  const code = given === 'ENOENT' ? await whyNotWritable(home) : given
  if (code === 'ENOSPC' || code === 'EDQUOT' || errcode === 13) return storageFull(home)
  const existing = await nearestExisting(home)
  // A file system such as /proc, where a folder is writable and yet takes no other folder.
  const takesNoFolder = code === 'ENOENT' && existing !== home
  if (!DENIED.has(code) && !SQLITE_DENIED.has(errcode) && !takesNoFolder) return undefined
  const no = (why: string, fix: string) =>
    refuse('store.home.not_writable', `${existing} ${why}`, {
      path: 'CONCORD_HOME',
      hint: `set CONCORD_HOME to a folder of your own${fix}`,
      facts: { home, code, detail: (error as Error).message },
    })
  if (takesNoFolder) return no('takes no new folders', '')
  if (code === 'EROFS') return no('is on a read-only file system', '')
  if (code === 'EEXIST' || code === 'ENOTDIR') return no('is not a folder', '')
  const owner = (await stat(existing).catch(() => undefined))?.uid ?? 'unknown'
  const us = process.getuid?.() ?? 'unknown'
  // Only the home itself is ours to give away; a parent may be /root or /var/lib.
  const fix =
    existing !== home || owner === us ? '' : `, or give this one to yourself: chown -R ${us} ${quoteForShell(existing)}`
  return no(`may not be used by us (owner ${owner}, we are ${us})`, fix)
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

/** A command in a message should work when pasted. */
export function quoteForShell(text: string): string {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
