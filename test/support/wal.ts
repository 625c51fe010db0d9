/**
 * What work costs a database, counted from its WAL: commits, rows, index entries and bytes. Exact on any machine, and other databases of the
 * server do not show.
 */
import type { Sql } from '#store'

export type WalCost = {
  readonly commits: number
  readonly inserts: number
  readonly updates: number
  readonly hotUpdates: number
  readonly indexEntries: number
  /** Without images of whole pages, which depend on the last checkpoint. */
  readonly bytes: number
}

/** Runs the work and reads what it wrote. The role must be allowed to read the WAL. */
export async function measureWal(sql: Sql, work: () => Promise<unknown>): Promise<WalCost> {
  await sql.query('create extension if not exists pg_walinspect')
  const position = async () => {
    // The test server commits without a flush, and only what is flushed can be read.
    await sql.query(
      `begin; set local synchronous_commit = on; select pg_logical_emit_message(true, 'flush', ''); commit`,
    )
    const [row] = await sql.query<{ lsn: string }>('select pg_current_wal_flush_lsn()::text as lsn')
    return row?.lsn ?? ''
  }
  const from = await position()
  await work()
  const [cost] = await sql.query<WalCost>(
    `with records as (
       select r.xid::text, r.resource_manager as rm, r.record_type as kind, r.record_length - r.fpi_length as bytes,
         r.block_ref ~ ('rel [0-9]+/' || (select oid from pg_database where datname = current_database()) || '/') as is_ours
       from pg_get_wal_records_info($1::pg_lsn, $2::pg_lsn) as r
     ), ours as (
       select * from records where xid <> '0' and xid in (select xid from records where is_ours)
     )
     select count(*) filter (where rm = 'Transaction' and kind like 'COMMIT%')::int as commits,
       count(*) filter (where rm = 'Heap' and kind like 'INSERT%')::int as inserts,
       count(*) filter (where rm = 'Heap' and kind like 'UPDATE%')::int as updates,
       count(*) filter (where rm = 'Heap' and kind like 'HOT_UPDATE%')::int as "hotUpdates",
       count(*) filter (where rm = 'Btree' and kind in ('INSERT_LEAF', 'INSERT_POST', 'SPLIT_L', 'SPLIT_R'))::int as "indexEntries",
       coalesce(sum(bytes), 0)::int as bytes
     from ours`,
    [from, await position()],
  )
  if (!cost) throw new Error('The WAL could not be read.')
  return cost
}
