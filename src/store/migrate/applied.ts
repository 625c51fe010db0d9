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
    is_pending boolean     not null default false,
    constraint concord_migrations_pk primary key (number),
    constraint concord_migrations_name_uq unique (name)
  )`

/** A database of an earlier Concord has the table without its last column. */
const ADD_PENDING = `alter table public.concord_migrations add column if not exists is_pending boolean not null default false`

export async function createAppliedTable(client: pg.ClientBase): Promise<void> {
  await client.query(`${CREATE}; ${ADD_PENDING}`)
}

/** Empty for a database that Concord has never seen. */
export async function listApplied(client: { query: pg.ClientBase['query'] }): Promise<AppliedMigration[]> {
  const { rows: found } = await client.query<{ there: boolean }>(
    `select to_regclass('public.concord_migrations') is not null as there`,
  )
  if (!found[0]?.there) return []
  const { rows } = await client.query<AppliedMigration>(
    `select number, name, checksum, applied_at as "appliedAt", coalesce((to_jsonb(m)->>'is_pending')::boolean, false) as "isPending"
       from public.concord_migrations as m order by number`,
  )
  return rows
}

/** Pending until what follows the commit is done. */
export async function recordApplied(
  client: pg.ClientBase,
  { number, name, checksum, afterCommit }: Migration,
): Promise<void> {
  await client.query(
    'insert into public.concord_migrations (number, name, checksum, is_pending) values ($1, $2, $3, $4)',
    [number, name, checksum, afterCommit.length > 0],
  )
}

export async function recordCompleted(client: pg.ClientBase, { number }: Migration): Promise<void> {
  await client.query('update public.concord_migrations set is_pending = false where number = $1', [number])
}

export async function forgetApplied(client: pg.ClientBase, { number }: Migration): Promise<void> {
  await client.query('delete from public.concord_migrations where number = $1', [number])
}
