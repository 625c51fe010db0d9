/**
 * Breaks every rule of a table once and expects the database to refuse it. A rule that no case breaks fails the file, so every
 * new constraint comes with a test.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { constraintOf } from '../../src/store/faults.ts'
import { openTestDb, type TestDb } from './database.ts'
import { insertRow, insertStoreRows, type Row, rowsOf, type TableName, type StoreRows } from './store-rows.ts'

/** Two workspaces of two orgs, each with a row in every table. */
type Worlds = { readonly here: StoreRows; readonly elsewhere: StoreRows }
type Given<T> = T | ((worlds: Worlds) => T)

export type BrokenRow = {
  /** The name of the constraint or unique index that must refuse. */
  readonly constraint: string
  readonly table: TableName
  /** The requirements that the rule proves, in brackets. */
  readonly rows?: string
  /** A valid row with these columns changed; a list breaks the rule in several ways. */
  readonly by: Given<Row | readonly Row[]>
  /** A valid row with these columns that exists before the case. */
  readonly given?: Given<Row>
}

/** A domain is a rule of every column of its type, so each of them must be broken. */
const RULES = `
  select rule.name, rule.column, format('%I.%I', n.nspname, c.relname) as "table" from (
    select k.conname as name, k.conrelid as relid, null as column from pg_constraint k
     where k.conrelid <> 0 and (k.contype in ('c', 'f')
        -- A unique rule over more than the primary key cannot break alone: it is there as a target of composite keys.
        or (k.contype = 'u' and not exists (select from pg_constraint p
            where p.conrelid = k.conrelid and p.contype = 'p' and p.conkey <@ k.conkey)))
    union all
    select k.conname, a.attrelid, a.attname from pg_constraint k join pg_attribute a on a.atttypid = k.contypid and not a.attisdropped
    union all
    select x.relname, i.indrelid, null from pg_index i join pg_class x on x.oid = i.indexrelid
     where i.indisunique and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
  ) rule join pg_class c on c.oid = rule.relid join pg_namespace n on n.oid = c.relnamespace`

export function breakEveryRule(tables: readonly TableName[], cases: readonly BrokenRow[]): void {
  // A separate suite, so that its database is closed before the file checks for open ones.
  describe(`rules of ${tables.join(', ')}`, () => defineTests(tables, cases))
}

function defineTests(tables: readonly TableName[], cases: readonly BrokenRow[]): void {
  let opened: TestDb
  let worlds: Worlds

  before(async () => {
    opened = await openTestDb()
    worlds = { here: await insertStoreRows(opened.db), elsewhere: await insertStoreRows(opened.db) }
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
    const found = await opened.db.query<{ name: string; column: string | null; table: string }>(RULES)
    const rules = found.filter(({ table }) => tables.some((name) => name === table))
    assert.ok(rules.length > 0)
    const isBroken = (rule: (typeof rules)[number]) =>
      cases.some(
        ({ constraint, table, by }) =>
          constraint === rule.name &&
          table === rule.table &&
          (rule.column === null || [settle(by)].flat().some((row) => Object.hasOwn(row, rule.column ?? ''))),
      )
    const whole = rules
      .filter((rule) => !isBroken(rule))
      .map(({ name, table, column }) => [table, column, name].join(' '))
    assert.deepEqual(whole.sort(), [])
  })

  test('good rows are accepted', async () => {
    await opened.db.transaction(async (tx) => void (await insertStoreRows(tx)))
  })
}
