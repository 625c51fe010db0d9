/** Computes how many connections a server has left, and whether one more process of Concord fits. */
import type { Sql } from './db.ts'

export type ConnectionRoom = {
  /** The total that this login may use, over all processes. */
  readonly usable: number
  readonly used: number
}

/** In addition to its pool: up to 16 of the runtime, two lanes of two. Measured: 39 with a pool of 20. */
const BESIDE_POOL = 20

/** The most connections that a server or a worker uses. */
export function connectionsOf(poolMax: number): number {
  return poolMax + BESIDE_POOL
}

/** The kind of another user's session is hidden from an unprivileged role; its existence and its user are not. */
export async function readConnectionRoom(sql: Sql): Promise<ConnectionRoom> {
  const [row] = await sql.query<ConnectionRoom>(
    `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - current_setting('reserved_connections')::int as usable,
       (select count(*)::int from pg_stat_activity
         where usesysid is not null and coalesce(backend_type, 'client backend') = 'client backend') as used`,
  )
  return row ?? { usable: 0, used: 0 }
}

/** Returns undefined when one more process fits. */
export function sayCrowded({ usable, used }: ConnectionRoom, poolMax: number): string | undefined {
  const free = Math.max(0, usable - used)
  const wanted = connectionsOf(poolMax)
  return free >= wanted
    ? undefined
    : `${free} of ${usable} connections of the database are free, and a server or worker takes up to ${wanted}`
}

export const MAKE_ROOM = 'raise max_connections of the server, or lower CONCORD_POOL_MAX'
