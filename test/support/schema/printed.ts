/** Compares a table with its description in the requirements. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '../database.ts'
import { type Catalogue, readCatalogue } from './catalogue.ts'

export type Printed = {
  readonly rows: string
  readonly table: string
  /** As printed; `timestamptz` columns are written `at`. */
  readonly columns: string
  /** Additions, each explained in the head of its migration. */
  readonly added: string
  readonly indexes: readonly string[]
  readonly keys: readonly string[]
}

const words = (list: string) => list.split(/,\s+/).filter((word) => word !== '')

/** One test per table. */
export function describePrinted(title: string, printed: readonly Printed[]): void {
  describe(title, () => {
    let opened: TestDb
    let catalogue: Catalogue

    before(async () => {
      opened = await openTestDb()
      catalogue = await readCatalogue(opened.db)
    })
    after(() => opened.close())

    for (const { rows, table, columns, added, indexes, keys } of printed) {
      test(`${rows} ${table}`, () => {
        const real = catalogue.columns.filter((column) => column.table === table)
        const additions = words(added)
        const drawn = real
          .filter(({ column }) => !additions.includes(column))
          .map(({ column, baseType, notNull, default: value }) => {
            const kind = baseType === 'timestamp with time zone' ? 'at' : baseType
            return `${column} ${kind}${notNull ? '!' : ''}${value === null ? '' : ` = ${value}`}`
          })
        assert.deepEqual(drawn.sort(), words(columns).sort())
        assert.equal(real.length, drawn.length + additions.length, 'an addition is not announced')
        const owned = (lines: Catalogue['indexes']) =>
          lines.filter(({ owner }) => owner === table).map(({ text }) => text)
        for (const index of indexes)
          assert.ok(
            owned(catalogue.indexes).some((text) => text.endsWith(index)),
            index,
          )
        for (const key of keys)
          assert.ok(
            owned(catalogue.constraints).some((text) => text.endsWith(key)),
            key,
          )
      })
    }
  })
}
