/** Counts the round trips to the database; pipelined statements are one. */
import type { PoolClient } from 'pg'
import type { Db } from '#store'

export async function countRoundTrips(db: Db, work: () => Promise<unknown>): Promise<number> {
  const seen = new Set<PoolClient>()
  let count = 0
  const answered = () => void (count += 1)
  const watch = (client: PoolClient) => {
    // The client emits `drain` when every statement has been answered.
    if (!seen.has(client)) client.on('drain', answered)
    seen.add(client)
  }
  db.pool.on('acquire', watch)
  try {
    await work()
  } finally {
    db.pool.off('acquire', watch)
    for (const client of seen) client.off('drain', answered)
  }
  return count
}
