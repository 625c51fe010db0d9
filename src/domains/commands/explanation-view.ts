/** How an explanation is shown over HTTP, with the files of the archive that have the rest of the history. */
import { z } from 'zod'
import { textView, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { explainCommand } from './explain-command.ts'
import type { StoredArchive } from './history/history-archive.ts'

export const archivedView = z
  .array(
    z.object({
      file: z.string().meta({ description: 'Below the folder of the archive.' }),
      sha256: z.string().meta({ description: 'Of its lines, before compression.' }),
      archived_at: timeView('When its events left the database.'),
    }),
  )
  .meta({
    id: 'ArchivedHistory',
    description:
      'Files with events of this command that are no longer in the database; empty: all of them are. `concord history show` reads both.',
  })

export const explanationView = z
  .object({
    summary: z.string(),
    archived: archivedView,
    archived_note: z
      .string()
      .nullable()
      .meta({ description: 'Where the rest of the story is, and what to do to read it.' }),
    truncated: z.boolean().meta({ description: 'The chain ends before the last event; `…/events` lists them all.' }),
    chain: z.array(
      z.object({
        kind: z.string(),
        at: timeView('When.'),
        by: z.string(),
        by_name: textView('local:dora', 'What people call them.').nullable(),
        text: z.string(),
        event_id: z.string(),
      }),
    ),
  })
  .meta({ id: 'Explanation', description: 'Why it is where it is, in plain words.' })

export function toArchivedView(archives: readonly StoredArchive[]): z.infer<typeof archivedView> {
  return archives.map(({ file, sha256, archived_at }) => ({ file, sha256, archived_at: formatInstant(archived_at) }))
}

/** The chain covers the events in the database. The note says where the archived ones are. */
export function toExplanationView(
  commandId: string,
  { summary, chain }: ReturnType<typeof explainCommand>,
  archives: readonly StoredArchive[],
  isTruncated: boolean,
): z.infer<typeof explanationView> {
  return {
    summary,
    archived: toArchivedView(archives),
    archived_note: archives.length === 0 ? null : sayArchived(commandId, archives),
    truncated: isTruncated,
    chain: chain.map((step) => ({ ...step, at: formatInstant(step.at), event_id: encodeId('event', step.event_id) })),
  }
}

function sayArchived(commandId: string, archives: readonly StoredArchive[]): string {
  const files = archives.length === 1 ? 'a file' : `${archives.length} files`
  const shown = encodeId('command', commandId)
  return `Its history was moved into ${files} of the archive; run \`concord history show ${shown}\` where the files are.`
}
