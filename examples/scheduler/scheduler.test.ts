/** Every scheduler example checks itself; this test runs them as a reader would. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)

describe('the examples of the scheduler', () => {
  for (const [name, said] of [
    ['nightly-report', 'the report of 2026-03-29T01:00:00.000Z was created once\n'],
    ['retrying-download', 'downloaded at the third attempt; the missing file was requested once\n'],
    ['priority-lane', 'the urgent job ran first, and the others kept their order\n'],
  ] as const) {
    test(`${name} does what it says`, async () => {
      const file = fileURLToPath(new URL(`./${name}.ts`, import.meta.url))
      assert.equal((await run(process.execPath, ['--conditions=concord-source', file])).stdout, said)
    })
  }
})
