/** The daily review: what is over ends, and what nobody has confirmed for long gets an end. Rules do not grow old by themselves. */
import { statement } from '#store'
import type { MemoryDeps } from './deps.ts'
import { type Act, tellMemory } from './events.ts'
import { type MemoryType, recordColumns, saveRecord, type StoredMemory } from './memory-repository.ts'

/** Confidence halves in half a year without a word; below a quarter it is a guess. */
const HALF_LIFE_DAYS = 180
const STALE_BELOW = 0.25
/** Time to say it again before it goes. */
const GRACE_DAYS = 30
const UNSTATED = 0.5
const DAY_MS = 86_400_000

const lasting: readonly MemoryType[] = ['business_rule', 'safety_rule', 'approval_routing']

export type Decay = { readonly confidence: number; readonly isStale: boolean }

/** How sure it still is, so long after it was last said. Pure. */
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
/** Unless somebody said it again meanwhile. */
const setEnd = statement<{ readonly memory_id: string }>(
  'memory_set_end',
  `update concord.memory_records set expires_at = $4
where workspace_id = $1 and memory_id = $2 and status = 'active' and expires_at is null and updated_at = $3 returning memory_id`,
)

const FIRST = '00000000-0000-0000-0000-000000000000'

export async function reviewStaleMemory(
  deps: Pick<MemoryDeps, 'db' | 'newId'>,
  act: Act,
  {
    workspaceId,
    commandId,
    signal,
  }: { readonly workspaceId: string; readonly commandId: string; readonly signal: AbortSignal },
): Promise<Review> {
  const expired = await expireOverdue(deps, act, workspaceId, signal)
  let stale = 0
  for (let last = FIRST; !signal.aborted; ) {
    const page = await deps.db.run(listAging, [workspaceId, last])
    const end = new Date(act.at.getTime() + GRACE_DAYS * DAY_MS)
    for (const record of page.filter((each) => decideDecay(each, act.at).isStale))
      stale += (await deps.db.run(setEnd, [workspaceId, record.memory_id, record.updated_at, end])).length
    if (page.length < BATCH) break
    last = page.at(-1)?.memory_id ?? FIRST
  }
  await tellMemory(deps.db, deps.newId, act, [
    {
      type: 'memory_reviewed',
      workspaceId,
      target: 'command',
      targetId: commandId,
      payload: { expired, stale },
      links: { command_id: commandId },
    },
  ])
  return { expired, stale }
}

async function expireOverdue(
  { db, newId }: Pick<MemoryDeps, 'db' | 'newId'>,
  act: Act,
  workspaceId: string,
  signal: AbortSignal,
): Promise<number> {
  let expired = 0
  while (!signal.aborted) {
    const ended = await db.transaction(async (tx) => {
      const rows = await tx.run(lockOverdue, [workspaceId, act.at])
      for (const record of rows) await saveRecord(tx, record, 'expired', { act, newId })
      return rows.length
    })
    expired += ended
    if (ended < BATCH) break
  }
  return expired
}
