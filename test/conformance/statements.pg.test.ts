/** A migrated database accepts every declared statement, and only the three documented statements write a state. */
import assert from 'node:assert/strict'
import { glob, readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { listStatements } from '#store'
import { openTestDb, type TestDb } from '#test/database'

/** Statements of SQLite, and those of tables that an engine installs. */
const elsewhere = /^src\/(domains\/scheduler|runtime)\//
/** `update … set … status = …`, up to the condition. */
const WRITES_STATE =
  /\bupdate\s+concord\.\w+(?:\s+(?:as\s+)?\w+)?\s+set\b(?:(?!\bwhere\b|\bfrom\b)[\s\S])*?\bstatus\s*=/i

describe('statements', () => {
  let opened: TestDb
  const texts = new Map<string, string>()

  before(async () => {
    const root = new URL('../../', import.meta.url)
    for await (const path of glob('src/**/*.ts', { cwd: root })) {
      if (elsewhere.test(path) || /\.(test|case)\.ts$/.test(path)) continue
      texts.set(path, await readFile(new URL(path, root), 'utf8'))
      if (/\bstatement[<(]/.test(texts.get(path) ?? '')) await import(new URL(path, root).href)
    }
    opened = await openTestDb({ poolMax: 1 })
  })
  after(() => opened.close())

  test('the database accepts each: every table, column, function and type in it exists', async () => {
    assert.ok(listStatements().length > 100)
    for (const { name, text } of listStatements()) {
      const prepared = opened.db.query(`prepare statement_under_test as ${text}`)
      await assert.doesNotReject(prepared, `${name}: ${text}`)
      await opened.db.query('deallocate statement_under_test')
    }
  })

  test('beside `transition`, a state is written by the two statements that src/store/README.md names', () => {
    const writers = [...texts].filter(([, text]) => WRITES_STATE.test(text)).map(([path]) => path)
    assert.deepEqual(writers.toSorted(), ['src/domains/approvals/approval.ts', 'src/domains/commands/write-command.ts'])
  })
})
