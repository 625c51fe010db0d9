/** The daily review: expired records end, and records that were not confirmed for a long time get an expiry time. Rules do not become stale. */
import type { Actor } from '#kernel/actor'
import { statement } from '#store'
import type { MemoryDeps } from './deps.ts'
import { appendMemoryEvent } from './events.ts'
import { type MemoryType, recordColumns, saveRecord, type StoredMemory } from './memory-record.ts'

/** Without a confirmation the confidence halves every 180 days; below a quarter the record is stale. */
const HALF_LIFE_DAYS = 180
const STALE_BELOW = 0.25
/** The time in which a stale record can still be confirmed. */
const GRACE_DAYS = 30
const UNSTATED = 0.5
const DAY_MS = 86_400_000

const lasting: readonly MemoryType[] = ['business_rule', 'safety_rule', 'approval_routing']

export type Decay = { readonly confidence: number; readonly isStale: boolean }

/** Computes the confidence that is left since the last confirmation. Pure. */
export function decideDecay(record: Pick<StoredMemory, 'memory_type' | 'confidence' | 'updated_at'>, at: Date): Decay {
  const stated = record.confidence ?? UNSTATED
  if (lasting.includes(record.memory_type)) return { confidence: stated, isStale: false }
  const ageDays = Math.max(0, at.getTime() - record.updated_at.getTime()) / DAY_MS
  const confidence = stated * 0.5 ** (ageDays / HALF_LIFE_DAYS)
  return { confidence, isStale: confidence < STALE_BELOW }
}

export type Review = { readonly expired: number; readonly stale: number }

const BATCH = 200

const lockOverdue = statement<StoredMemory>(
  'memory_lock_overdue',
  `select ${recordColumns} from concord.memory_records where workspace_id = $1 and status = 'active' and expires_at <= $2
order by expires_at limit ${BATCH} for update skip locked`,
)
const listAging = statement<StoredMemory>(
  'memory_list_aging',
  `select ${recordColumns} from concord.memory_records
where workspace_id = $1 and status = 'active' and expires_at is null and memory_id > $2 order by memory_id limit ${BATCH}`,
)
/** Does nothing if the record was confirmed in the meantime. */
const setEnd = statement<{ readonly memory_id: string }>(
  'memory_set_end',
  `update concord.memory_records set expires_at = $4
where workspace_id = $1 and memory_id = $2 and status = 'active' and expires_at is null and updated_at = $3 returning memory_id`,
)

const FIRST = '00000000-0000-0000-0000-000000000000'

export type ReviewMemory = {
  readonly workspaceId: string
  readonly commandId: string
  readonly signal: AbortSignal
}

export async function reviewStaleMemory(
  deps: Pick<MemoryDeps, 'db' | 'now' | 'newId'>,
  actor: Actor,
  { workspaceId, commandId, signal }: ReviewMemory,
): Promise<Review> {
  const { db, newId } = deps
  const at = deps.now()
  const expired = await expireOverdue(deps, actor, workspaceId, at, signal)
  const end = new Date(at.getTime() + GRACE_DAYS * DAY_MS)
  let stale = 0
  for (let last = FIRST; !signal.aborted; ) {
    const page = await db.run(listAging, [workspaceId, last])
    for (const record of page.filter((each) => decideDecay(each, at).isStale))
      stale += (await db.run(setEnd, [workspaceId, record.memory_id, record.updated_at, end])).length
    if (page.length < BATCH) break
    last = page.at(-1)?.memory_id ?? FIRST
  }
  await appendMemoryEvent(db, newId, actor, at, {
    type: 'memory_reviewed',
    payload: { expired, stale, target_type: 'command', target_id: commandId },
    links: { workspace_id: workspaceId, command_id: commandId },
  })
  return { expired, stale }
}

async function expireOverdue(
  { db, newId }: Pick<MemoryDeps, 'db' | 'newId'>,
  actor: Actor,
  workspaceId: string,
  at: Date,
  signal: AbortSignal,
): Promise<number> {
  let expired = 0
  while (!signal.aborted) {
    const ended = await db.transaction(async (tx) => {
      const rows = await tx.run(lockOverdue, [workspaceId, at])
      for (const record of rows) await saveRecord(tx, record, 'expired', actor, { at, newId })
      return rows.length
    })
    expired += ended
    if (ended < BATCH) break
  }
  return expired
}
