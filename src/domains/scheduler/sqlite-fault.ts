/** Says in plain words what SQLite stumbled over: busy, full, read-only, damaged; anything else stays a fault. */
import { type Refusal, refuse } from '#kernel/refusal'

/** Primary result codes; the extended ones carry them in their lowest byte. */
const BUSY = 5
const LOCKED = 6
const READONLY = 8
const IOERR = 10
const CORRUPT = 11
const FULL = 13
const CANTOPEN = 14
const NOTADB = 26

/** What the system says when a file beside the database, or the new one itself, cannot be made, as SQLite would put it. */
const ofSystem: Readonly<Record<string, number>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EIO: IOERR,
  EMFILE: CANTOPEN,
  ENFILE: CANTOPEN,
  EACCES: CANTOPEN,
  EPERM: CANTOPEN,
  EROFS: READONLY,
}

/** Undefined for what is an error neither of SQLite nor of the disk under it. */
export function sqliteCode(error: unknown): number | undefined {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number') return errcode & 0xff
  return typeof code === 'string' ? ofSystem[code] : undefined
}

export function isBusy(error: unknown): boolean {
  return sqliteCode(error) === BUSY
}

/** The refusal for a fault of the file or the disk; undefined for a fault of ours, such as a broken constraint. */
export function explainSqliteFault(error: unknown, file: string): Refusal | undefined {
  const detail = error instanceof Error ? error.message : String(error)
  const facts = { file, detail }
  switch (sqliteCode(error)) {
    case BUSY:
    case LOCKED:
      return refuse('database_busy', 'another process kept the scheduler file locked for too long', {
        hint: 'Try again.',
        facts,
      })
    case FULL:
      return refuse('storage_full', `no space left on the disk that holds ${file}`, {
        hint: 'Free some space and try again; nothing was lost.',
        facts,
      })
    case READONLY:
    case CANTOPEN:
      return refuse('scheduler.file.read_only', `${file} cannot be written`, {
        hint: 'Give the file and its folder to the account that runs the scheduler, on a disk that is not read-only.',
        facts,
      })
    case IOERR:
      return refuse('scheduler.file.io', `the disk failed while ${file} was read or written`, {
        hint: 'Whether the last change was stored is not known: look before you repeat it.',
        facts,
      })
    case CORRUPT:
    case NOTADB:
      return malformedFile(file, detail)
    default:
      return undefined
  }
}

export function malformedFile(file: string, detail: string): Refusal {
  return refuse('scheduler.file.malformed', `${file} is damaged or is not a SQLite file`, {
    hint: 'Keep the file with its -wal beside it, and start from your last backup copy; what is left can be read with "sqlite3 <file> .recover".',
    facts: { file, detail },
  })
}
