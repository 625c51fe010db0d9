/**
 * Deletes exactly the events that a verified file holds, and says so: their deletion, the row about the file and the audit event
 * are one transaction (C21). If one of them is not there or not the same, its command has come back to life, or a hold names it, nothing happens.
 */
import {
  type ArchiveManifest,
  appendEvents,
  type Db,
  failpoint,
  sqlStateOf,
  type Tx,
  type VerifiedArchive,
} from '#store'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { commandLog } from '../events.ts'
import { insertArchive } from './archive-repository.ts'
import { commandIdsOf, listHeld } from './scan-history.ts'
import type { HistoryDeps } from './deps.ts'

/** Held until the commit: whoever wants to run one of them again waits, and then finds its history archived. */
const LOCK_ENDED = `select c.command_id from concord.commands as c
where c.workspace_id = $1 and c.command_id = any($2::uuid[]) and c.completed_at < $3 order by c.command_id for share`

/** What is deleted is hashed as it goes, in the words of the file: the database itself says that the file holds these very rows. */
const DELETE_EVENTS = `with gone as (
  delete from concord.domain_events where workspace_id = $1 and event_id = any($2::uuid[]) returning *
)
select count(*)::integer as count,
  encode(sha256(convert_to(string_agg(to_jsonb(gone)::text || E'\\n', '' order by gone.xid, gone.seq), 'UTF8')), 'hex') as sha256
from gone`

/** What ends the transaction without a trace of it. */
class NotAsWritten extends Error {}

/** False: the file does not fit what is there now. It stays where it is, and so do the events. */
export async function deleteArchived(
  deps: HistoryDeps,
  { manifest, events }: VerifiedArchive,
  traceId: string,
): Promise<Decision<boolean>> {
  const commandIds = commandIdsOf(events)
  try {
    await retaining(deps.db, async (tx) => {
      const endedBefore = new Date(manifest.ended_before)
      const ended = await tx.query(LOCK_ENDED, [manifest.workspace_id, commandIds, endedBefore])
      if (ended.length !== commandIds.length) throw new NotAsWritten()
      // Asked again: a run that was killed is finished hours later, and a hold may have come meanwhile.
      if ((await listHeld(tx, manifest.workspace_id, commandIds)).size > 0) throw new NotAsWritten()
      const ids = events.map(({ event_id }) => event_id)
      const [gone] = await tx.query<{ count: number; sha256: string }>(DELETE_EVENTS, [manifest.workspace_id, ids])
      if (gone?.count !== manifest.event_count || gone.sha256 !== manifest.sha256) throw new NotAsWritten()
      await tell(tx, deps, manifest, commandIds, traceId)
      await failpoint('history.deleted')
    })
  } catch (error) {
    if (error instanceof NotAsWritten) return accept(false)
    if (sqlStateOf(error) === '42501') return refuseStranger()
    throw error
  }
  await failpoint('history.committed')
  return accept(true)
}

function retaining(db: Db, work: (tx: Tx) => Promise<void>): Promise<void> {
  return db.transaction(work, `begin; set local concord.retention = 'on'`)
}

async function tell(
  tx: Tx,
  { now, newId }: HistoryDeps,
  manifest: ArchiveManifest,
  commandIds: readonly string[],
  traceId: string,
): Promise<void> {
  const { history_archive_id, workspace_id, file, sha256, event_count, ended_before, first, last } = manifest
  const at = now()
  await insertArchive(tx, {
    history_archive_id,
    workspace_id,
    file,
    sha256,
    event_count,
    first,
    last,
    command_ids: commandIds,
    ended_before: new Date(ended_before),
    archived_at: at,
  })
  const counts = { event_count, command_count: commandIds.length }
  const event = {
    eventId: newId(),
    type: 'history_archived' as const,
    payload: { history_archive_id, file, sha256, ...counts, first, last, ended_before },
    actor: 'system',
    actorKind: 'system',
    traceId,
    at,
    links: { workspace_id },
  }
  await appendEvents(tx, commandLog, [event])
}

export function refuseStranger() {
  return refuse('history.owner.needed', 'only the login that owns the tables may let events go', {
    hint: 'run it with the DATABASE_URL that migrates this database',
  })
}
