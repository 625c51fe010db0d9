/** Counts the round trips to the database, where pipelined statements are one, and the statements. */
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

/** Counts the statements of the work, without the begin and the commit of its transactions. */
export async function countStatements(db: Db, work: () => Promise<unknown>): Promise<number> {
  let count = 0
  const restore = new Map<PoolClient, PoolClient['query']>()
  const watch = (client: PoolClient) => {
    if (restore.has(client)) return
    const { query } = client
    restore.set(client, query)
    const counted = (...args: readonly unknown[]): unknown => {
      const [first] = args
      const text = typeof first === 'string' ? first : (first as { text: string }).text
      if (!/^(begin|commit)\b/.test(text)) count += 1
      return Reflect.apply(query, client, args)
    }
    client.query = counted as PoolClient['query']
  }
  db.pool.on('acquire', watch)
  try {
    await work()
  } finally {
    db.pool.off('acquire', watch)
    for (const [client, query] of restore) client.query = query
  }
  return count
}
