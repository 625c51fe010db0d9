/** Rows for the runtime suite in a table of the test database, each with the fence of a turn. */
import type { Db } from '../../src/store/db.ts'
import type { Tx } from '../../src/store/transaction.ts'
import type { TestDb } from './database.ts'

type CaseRowTx = Tx & {
  read<T>(key: string): Promise<T | undefined>
  write(key: string, value: unknown): Promise<void>
  fence(key: string, token: string): Promise<boolean>
}

export type CaseRows = {
  /** The prefix of this store's keys, so that it ignores the rows of other cases. */
  readonly prefix: string
  read<T>(key: string): Promise<T | undefined>
  transaction<T>(work: (tx: CaseRowTx) => Promise<T>): Promise<T>
  schedules(): Promise<{ name: string }[]>
  /** Deletes the rows, the schedules and the open work of the runtime. */
  clear(): Promise<void>
}

const TABLE = `create table if not exists public.case_rows (key text primary key, value jsonb, turn_token uuid);
  grant select, insert, update on public.case_rows to concord_engine`
let count = 0

export function caseRowsOn(db: Db, prefix: string): Pick<CaseRows, 'read' | 'transaction'> {
  return {
    async read<T>(key: string) {
      const [row] = await db.query<{ value: T | null }>('select value from public.case_rows where key = $1', [
        prefix + key,
      ])
      return row?.value ?? undefined
    },
    transaction: (work) =>
      db.transaction((tx) => {
        const shown: CaseRowTx = Object.assign(tx, {
          async read<T>(key: string) {
            // A row that does not exist cannot be locked, but its name can.
            await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 1))', [prefix + key])
            const [row] = await tx.query<{ value: T | null }>('select value from public.case_rows where key = $1', [
              prefix + key,
            ])
            return row?.value ?? undefined
          },
          async write(key: string, value: unknown) {
            await tx.query(
              `insert into public.case_rows (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value`,
              [prefix + key, JSON.stringify(value)],
            )
          },
          async fence(key: string, token: string) {
            const [row] = await tx.query<{ turn_token: string }>(
              `insert into public.case_rows as r (key, turn_token) values ($1, $2)
               on conflict (key) do update set turn_token = greatest(r.turn_token, excluded.turn_token) returning turn_token`,
              [prefix + key, token],
            )
            return row?.turn_token === token
          },
        })
        return work(shown)
      }),
  }
}

export async function openCaseStore({ db, url }: TestDb): Promise<CaseRows> {
  const { openDb } = await import('../../src/store/db.ts')
  const asOwner = async (text: string) => {
    const owner = openDb({ url, poolMax: 1, applicationName: 'concord-test-owner' })
    const rows = await owner.query<{ name: string }>(text)
    await owner.close()
    return rows
  }
  await asOwner(TABLE)
  const prefix = `${++count}/`
  return {
    prefix,
    ...caseRowsOn(db, prefix),
    schedules: () => asOwner('select name from runtime.schedules'),
    async clear() {
      await asOwner(
        'truncate public.case_rows, runtime.processes, runtime.rate_marks, runtime.schedules, "dbos".workflow_status cascade',
      )
    },
  }
}
