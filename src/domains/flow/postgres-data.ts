/** Published data in Postgres tables and in files, over a connection of its own. Tables are made at their first write. */
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject } from '#kernel/json-value'
import type { Db, Tx } from '#store'
import type { DataPlace, DataStore } from './data-store.ts'

const TABLE = /^flow_data\.v_[0-9a-f]{32}$/
const ROWS_AT_ONCE = 1_000

function tableOf({ kind, location }: DataPlace): string {
  if (kind !== 'table' || !TABLE.test(location)) throw new Error(`${location} is not a table of datasets.`)
  return location
}

/** A path stays below its prefix. */
function fileOf(folder: string, { kind, location }: DataPlace, path: string): string {
  const inside = normalize(path)
  if (kind !== 'files' || inside === '.' || inside.startsWith('..') || inside.startsWith('/') || inside.includes('\0'))
    throw new Error(`${path} is not a file of this dataset.`)
  return join(folder, location, inside)
}

export function openPostgresData(db: Db, folder: string): DataStore {
  const made = new Set<string>()
  async function ensure(tx: Tx, table: string): Promise<void> {
    if (made.has(table)) return
    // Two processes that make it at once meet here.
    await tx.query(`select pg_advisory_xact_lock(hashtextextended($1, 0))`, [table])
    await tx.query('create schema if not exists flow_data')
    await tx.query(
      `create table if not exists ${table} (partition_key text not null, row_key text not null, row jsonb not null, primary key (partition_key, row_key))`,
    )
    tx.afterCommit(() => made.add(table))
  }
  const isThere = async (table: string) =>
    (await db.query<{ there: boolean }>('select to_regclass($1) is not null as there', [table]))[0]?.there === true
  return {
    async writeRows(place, { partition, rows, uniqueKey, strategy }) {
      const table = tableOf(place)
      const keyed = new Map(
        rows.map((row, at) => [
          uniqueKey.length > 0
            ? canonicalJson(uniqueKey.map((name) => row[name] ?? null))
            : String(at).padStart(9, '0'),
          row,
        ]),
      )
      await db.transaction(async (tx) => {
        await ensure(tx, table)
        if (strategy === 'replace') await tx.query(`delete from ${table} where partition_key = $1`, [partition])
        const all = [...keyed].map(([key, row]) => ({ key, row }))
        for (let from = 0; from < all.length; from += ROWS_AT_ONCE) {
          await tx.query(
            `insert into ${table} as t (partition_key, row_key, row) select $1, r.key, r.row from jsonb_to_recordset($2::jsonb) as r(key text, row jsonb)
on conflict (partition_key, row_key) do update set row = excluded.row`,
            [partition, JSON.stringify(all.slice(from, from + ROWS_AT_ONCE))],
          )
        }
      })
    },
    async readRows(place, partition, limit) {
      const table = tableOf(place)
      if (!(await isThere(table))) return []
      const rows = await db.query<{ row: JsonObject }>(
        `select row from ${table} where $1::text is null or partition_key = $1 order by partition_key, row_key limit $2`,
        [partition, limit],
      )
      return rows.map(({ row }) => row)
    },
    async putFile(place, path, content) {
      const file = fileOf(folder, place, path)
      await mkdir(dirname(file), { recursive: true })
      // A reader sees the whole file or none.
      await writeFile(`${file}.part`, content)
      await rename(`${file}.part`, file)
    },
    getFile: (place, path) => readFile(fileOf(folder, place, path)).catch(() => undefined),
    async listFiles(place) {
      const found = await readdir(join(folder, place.location), { recursive: true, withFileTypes: true }).catch(
        () => [],
      )
      return found
        .filter((entry) => entry.isFile() && !entry.name.endsWith('.part'))
        .map((entry) => join(entry.parentPath, entry.name).slice(join(folder, place.location).length))
        .toSorted()
    },
  }
}
