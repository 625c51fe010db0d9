/** The only reader and writer of `public.concord_migrations`: one row per applied migration, written with it. */
import type pg from 'pg'
import type { AppliedMigration } from './decide.ts'
import type { Migration } from './migration-file.ts'

const CREATE = `
  create table if not exists public.concord_migrations (
    number     integer     not null,
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default clock_timestamp(),
    applied_by text        not null default session_user,
    constraint concord_migrations_pk primary key (number),
    constraint concord_migrations_name_uq unique (name)
  )`

export async function createAppliedTable(client: pg.ClientBase): Promise<void> {
  await client.query(CREATE)
}

/** Empty for a database that Concord has never seen. */
export async function listApplied(client: { query: pg.ClientBase['query'] }): Promise<AppliedMigration[]> {
  const { rows: found } = await client.query<{ there: boolean }>(
    `select to_regclass('public.concord_migrations') is not null as there`,
  )
  if (!found[0]?.there) return []
  const { rows } = await client.query<AppliedMigration>(
    'select number, name, checksum, applied_at as "appliedAt" from public.concord_migrations order by number',
  )
  return rows
}

export async function recordApplied(client: pg.ClientBase, { number, name, checksum }: Migration): Promise<void> {
  await client.query('insert into public.concord_migrations (number, name, checksum) values ($1, $2, $3)', [
    number,
    name,
    checksum,
  ])
}

export async function forgetApplied(client: pg.ClientBase, { number }: Migration): Promise<void> {
  await client.query('delete from public.concord_migrations where number = $1', [number])
}
