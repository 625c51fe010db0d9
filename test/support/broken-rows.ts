/**
 * Breaks every rule of a table once and sees the database itself refuse, whoever asks. A rule that no case breaks fails the
 * file, so that a new constraint comes with its test.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { constraintOf } from '../../src/store/faults.ts'
import { openTestDb, type TestDb } from './database.ts'
import { insertRow, insertWorld, type Row, rowsOf, type TableName, type World } from './store-rows.ts'

/** Two workspaces of two orgs, each with a row in every table. */
export type Worlds = { readonly here: World; readonly elsewhere: World }
type Given<T> = T | ((worlds: Worlds) => T)

export type BrokenRow = {
  /** The name of the constraint or unique index that must refuse. */
  readonly constraint: string
  readonly table: TableName
  /** Ledger rows that the rule stands for, in brackets. */
  readonly rows?: string
  /** A good row of the table with these columns changed; a list breaks the rule in several ways. */
  readonly by: Given<Row | readonly Row[]>
  /** A good row, with these columns, that is there already. */
  readonly given?: Given<Row>
}

const RULES = `
  select rule.name, format('%I.%I', n.nspname, c.relname) as "table" from (
    select k.conname as name, k.conrelid as relid from pg_constraint k
     where k.contype in ('c', 'f')
        -- A unique rule over more than the primary key cannot break alone: it is there as a target of composite keys.
        or (k.contype = 'u' and not exists (select from pg_constraint p
            where p.conrelid = k.conrelid and p.contype = 'p' and p.conkey <@ k.conkey))
    union all
    select x.relname, i.indrelid from pg_index i join pg_class x on x.oid = i.indexrelid
     where i.indisunique and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
  ) rule join pg_class c on c.oid = rule.relid join pg_namespace n on n.oid = c.relnamespace`

export function breakEveryRule(tables: readonly TableName[], cases: readonly BrokenRow[]): void {
  // A suite of its own, so that its database is closed before the file is asked for forgotten ones.
  describe(`rules of ${tables.join(', ')}`, () => defineTests(tables, cases))
}

function defineTests(tables: readonly TableName[], cases: readonly BrokenRow[]): void {
  let opened: TestDb
  let worlds: Worlds

  before(async () => {
    opened = await openTestDb()
    worlds = { here: await insertWorld(opened.db), elsewhere: await insertWorld(opened.db) }
  })
  after(() => opened.close())

  const settle = <T>(given: Given<T>): T =>
    typeof given === 'function' ? (given as (worlds: Worlds) => T)(worlds) : given

  for (const { constraint, table, rows, by, given } of cases) {
    test(`${rows ? `${rows} ` : ''}${constraint} refuses`, async () => {
      const wrong = settle(by)
      for (const columns of Array.isArray(wrong) ? (wrong as readonly Row[]) : [wrong as Row]) {
        const attempt = opened.db.transaction(async (tx) => {
          if (given) await insertRow(tx, table, { ...rowsOf[table](worlds.here), ...settle(given) })
          await insertRow(tx, table, { ...rowsOf[table](worlds.here), ...columns })
        })
        const found = await attempt.then(
          () => 'nobody',
          (error: unknown) => constraintOf(error) ?? String(error),
        )
        assert.equal(found, constraint, `${JSON.stringify(columns)} was refused by ${found}`)
      }
    })
  }

  test('every check, key and unique rule of these tables is broken above', async () => {
    const found = await opened.db.query<{ name: string; table: string }>(RULES)
    const rules = found.filter(({ table }) => tables.some((name) => name === table)).map(({ name }) => name)
    assert.ok(rules.length > 0)
    assert.deepEqual(rules.filter((name) => !cases.some(({ constraint }) => constraint === name)).sort(), [])
  })

  test('good rows are accepted', async () => {
    await opened.db.transaction(async (tx) => void (await insertWorld(tx)))
  })
}
