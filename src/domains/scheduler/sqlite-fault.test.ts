/** A full or failing disk is a refusal with its reason, whether SQLite or the operating system reports it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainSqliteFault } from './database.ts'

test('[SCH-104] errors of the operating system are explained like those of SQLite; others stay faults', () => {
  const codeOf = (code: string) => explainSqliteFault(Object.assign(new Error(code), { code }), '/jobs.db')?.code
  for (const [code, refusal] of [
    ['ENOSPC', 'storage_full'],
    ['EDQUOT', 'storage_full'],
    ['EIO', 'scheduler.file.io'],
    ['EMFILE', 'scheduler.file.read_only'],
    ['EROFS', 'scheduler.file.read_only'],
  ] as const) {
    assert.equal(codeOf(code), refusal)
  }
  assert.equal(codeOf('ERR_INVALID_ARG_TYPE'), undefined)
  assert.equal(explainSqliteFault(new TypeError('ours'), '/jobs.db'), undefined)
})
