/** Questions about a frozen process: whether it is frozen, what it holds, and what is written about that. */
import { readFile } from 'node:fs/promises'
import type { ConcordProcess } from '#test/concord-process'
import type { Installation } from './installation.ts'

export async function isFrozen({ child }: ConcordProcess): Promise<boolean> {
  const stat = await readFile(`/proc/${child.pid}/stat`, 'utf8').catch(() => '')
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T')
}

export async function heldBy({ db }: Installation): Promise<readonly string[]> {
  const rows = await db.query<{ id: string }>(
    `select distinct e.command_id as id from concord.domain_effects as e where e.status = 'executing' and e.run_after is null`,
  )
  return rows.map(({ id }) => id)
}

export async function eventsOf({ db }: Installation, ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = await db.query<{ id: string; count: number }>(
    `select command_id as id, count(*)::int as count from concord.domain_events where command_id = any($1::uuid[]) group by 1`,
    [ids],
  )
  return new Map(rows.map(({ id, count }) => [id, count]))
}
