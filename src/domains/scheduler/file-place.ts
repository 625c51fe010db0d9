/** Looks at the place of a scheduler file before SQLite does, where SQLite would lose data or answer in riddles. */
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  realpathSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { malformedFile } from './sqlite-fault.ts'

/** File systems whose locks do not hold between machines, by the number that statfs(2) gives them. */
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

/** The smallest page of SQLite; a file that is shorter and not empty was cut. */
const SMALLEST_BYTES = 512

/**
 * Gives the path under which every process finds the same lock and the same log: links are followed. `mountTypeOf` is for
 * tests, since a network mount is not at hand everywhere.
 */
export function checkPlace(named: string, mountTypeOf = (folder: string) => statfsSync(folder).type): Decision<string> {
  let file = named
  let folder = dirname(named)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    file = existsSync(named) ? realpathSync(named) : join(realpathSync(folder), basename(named))
    folder = dirname(file)
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return refuse('scheduler.file.read_only', `${file} cannot be written (${code})`, {
      hint: 'Give the file and its folder to the account that runs the scheduler, on a disk that is not read-only.',
      facts: { file, code },
    })
  }
  const mount = networkMountName(mountTypeOf(folder))
  if (mount !== undefined) {
    return refuse(
      'scheduler.file.network_mount',
      `${folder} lies on a network mount (${mount}); jobs would be lost there`,
      {
        hint: 'Put the scheduler file on a local disk.',
        facts: { file, mount },
      },
    )
  }
  // Only looked at from outside: opening and closing a file that this process has open as a database would give up its locks.
  const stat = statSync(file, { throwIfNoEntry: false })
  if (stat && !stat.isFile()) return refuse('scheduler.file.read_only', `${file} is not a file`, { facts: { file } })
  const isCut = stat !== undefined && stat.size > 0 && stat.size < SMALLEST_BYTES
  return isCut ? malformedFile(file, `it has ${stat.size} bytes`) : accept(file)
}

/** Readable by its owner alone, since params may hold secrets; the log beside it takes over the same rights. */
export function createFile(file: string): void {
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600))
}
