/** Removes what no row needs: content whose writer died before its row, or whose row let go of it. */
import { listNeeded, lockBlob } from './artifact-repository.ts'
import type { BlobStore } from './blob-store.ts'
import type { ArtifactDeps } from './deps.ts'

/** Longer than any effect lasts between its content and its row; a shorter one is still safe, only more often in vain. */
const GRACE_MS = 3_600_000
const BATCH = 500

export type SweptBlobs = { readonly removed: number; readonly unfinished: number }

export async function sweepBlobs(
  deps: Pick<ArtifactDeps, 'db' | 'now' | 'stores'>,
  graceMs: number = GRACE_MS,
): Promise<SweptBlobs> {
  const before = new Date(deps.now().getTime() - graceMs)
  const swept = { removed: 0, unfinished: 0 }
  for (const store of deps.stores) {
    swept.unfinished += await store.removeUnfinished(before)
    let batch: string[] = []
    for await (const { sha256, writtenAt } of store.list()) {
      if (writtenAt < before) batch.push(sha256)
      if (batch.length < BATCH) continue
      swept.removed += await removeUnneeded(deps, store, batch)
      batch = []
    }
    swept.removed += await removeUnneeded(deps, store, batch)
  }
  return swept
}

/** Of these blobs, each that no row points at; how many there were. */
export async function removeUnneeded(
  { db }: Pick<ArtifactDeps, 'db'>,
  store: BlobStore,
  batch: readonly string[],
): Promise<number> {
  if (batch.length === 0) return 0
  const locationOf = (sha256: string) => `${store.scheme}:${sha256}`
  const needed = await listNeeded(db, batch.map(locationOf))
  let count = 0
  for (const sha256 of batch) {
    const location = locationOf(sha256)
    if (needed.has(location)) continue
    const isRemoved = await db.transaction(async (tx) => {
      await lockBlob(tx, location)
      // Asked again under the lock: a row that came meanwhile has seen its blob and keeps it.
      if ((await listNeeded(tx, [location])).has(location)) return false
      await store.remove(sha256)
      return true
    })
    if (isRemoved) count += 1
  }
  return count
}
