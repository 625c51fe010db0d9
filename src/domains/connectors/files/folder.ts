/**
 * A folder that is entered one name at a time, never through a symbolic link. On Linux each step goes through the open
 * handle of the folder before it (`/proc/self/fd/n/name`), so that nobody can swap a folder for a link in between; elsewhere
 * the path is resolved again after opening and must still be inside.
 */
import { constants, existsSync } from 'node:fs'
import { type FileHandle, open, realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { ConnectorFailure } from '../connector.ts'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants

/** An open folder; `at(name)` is the path of a name in it that cannot lead anywhere else. */
export type Folder = { at(name: string): string; sync(): Promise<void>; close(): Promise<void> }

const hasHandlePaths = existsSync('/proc/self/fd')

export async function openFolder(root: string, parts: readonly string[]): Promise<Folder> {
  let handle = await open(root, O_RDONLY | O_DIRECTORY).catch(translate)
  let path = await realpath(root)
  const inside = path
  for (const part of parts) {
    const next = await open(stepOf(handle, path, part), O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch(
      async (error: unknown) => {
        await handle.close()
        return translate(error)
      },
    )
    await handle.close()
    handle = next
    path = join(path, part)
    if (!hasHandlePaths) await checkInside(handle, path, inside)
  }
  const folder = handle
  return { at: (name) => stepOf(folder, path, name), sync: () => folder.sync(), close: () => folder.close() }
}

function stepOf(handle: FileHandle, path: string, name: string): string {
  return hasHandlePaths ? `/proc/self/fd/${handle.fd}/${name}` : join(path, name)
}

/** Only where there are no handle paths: what was opened must still be what the path leads to, inside the folder. */
async function checkInside(handle: FileHandle, path: string, root: string): Promise<void> {
  const real = await realpath(path)
  const [there, here] = [await stat(real), await handle.stat()]
  const isInside = real === root || real.startsWith(root + sep)
  if (isInside && there.ino === here.ino && there.dev === here.dev) return
  await handle.close()
  throw outside()
}

/** Opens a regular file for reading. A second name of a file may belong to somebody else, so hard links are refused. */
export async function openFile(folder: Folder, name: string): Promise<FileHandle> {
  // Without O_NONBLOCK the opening of a pipe waits for somebody to write into it.
  const file = await open(folder.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(translate)
  const { nlink } = await file.stat()
  const isPlain = (await file.stat()).isFile() && nlink === 1
  if (isPlain) return file
  await file.close()
  throw outside()
}

function outside(): ConnectorFailure {
  return new ConnectorFailure(
    'permission_denied',
    'this leads out of the folder, or to something that is no file',
    'no',
  )
}

/** The texts of the system name paths of the machine; they are not passed on. */
export function translate(error: unknown): never {
  if (error instanceof ConnectorFailure) throw error
  const { code } = error as NodeJS.ErrnoException
  switch (code) {
    case 'ENOENT':
      throw new ConnectorFailure('validation_error', 'there is no such file', 'no')
    case 'EEXIST':
      throw new ConnectorFailure('validation_error', 'there is such a file already', 'no')
    case 'ELOOP':
    case 'ENOTDIR':
    case 'EISDIR':
    case 'ENXIO':
      throw outside()
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      throw new ConnectorFailure('permission_denied', 'the system does not allow it', 'no')
    default:
      throw new ConnectorFailure(
        'transient_connector_error',
        `the file system failed (${code ?? 'unknown'})`,
        'unknown',
      )
  }
}
