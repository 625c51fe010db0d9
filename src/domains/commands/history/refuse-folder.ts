/** What to say when the disk does not take, or does not show, what belongs into the folder of the archive. */
import { refuse } from '#kernel/refusal'

/** What is no error of the system is thrown on: nobody should see it twice. */
export function refuseFolder(error: unknown, folder: string) {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === undefined) throw error
  return refuse('history.file.unwritable', `the archive cannot be written: ${message}`, {
    path: folder,
    hint: 'make room, or set CONCORD_HISTORY_FOLDER to a folder of yours; nothing was deleted',
  })
}
