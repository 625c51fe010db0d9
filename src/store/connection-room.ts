/** How many connections a server still has for us, and whether one more process of Concord fits. */
import type { Sql } from './db.ts'

export type ConnectionRoom = {
  /** What this login may have in all, whoever uses them. */
  readonly usable: number
  readonly used: number
}

/** Beside its pool: up to 16 of the runtime, two lanes of two. Measured: 39 with a pool of 20. */
const BESIDE_POOL = 20

/** What a server or a worker takes at most. */
export function connectionsOf(poolMax: number): number {
  return poolMax + BESIDE_POOL
}

/** The kind of somebody else's session is hidden from a role that may not look into it; that there is one, and whose, is not. */
export async function readConnectionRoom(sql: Sql): Promise<ConnectionRoom> {
  const [row] = await sql.query<ConnectionRoom>(
    `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - current_setting('reserved_connections')::int as usable,
       (select count(*)::int from pg_stat_activity
         where usesysid is not null and coalesce(backend_type, 'client backend') = 'client backend') as used`,
  )
  return row ?? { usable: 0, used: 0 }
}

/** Undefined: one more fits. */
export function sayCrowded({ usable, used }: ConnectionRoom, poolMax: number): string | undefined {
  const free = Math.max(0, usable - used)
  const wanted = connectionsOf(poolMax)
  return free >= wanted
    ? undefined
    : `${free} of ${usable} connections of the database are free, and a server or worker takes up to ${wanted}`
}

export const MAKE_ROOM = 'raise max_connections of the server, or lower CONCORD_POOL_MAX'
