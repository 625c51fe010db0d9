/** The short example programs run to their end and print exactly what their guide shows. The others are in `long-examples.chaos.test.ts`. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))
const guides = await Promise.all(
  ['define-commands', 'first-commands', 'undo-and-failure'].map((name) =>
    readFile(new URL(`../docs/guides/${name}.md`, import.meta.url), 'utf8'),
  ),
)

/** Returns the block of a guide with the info string ```text output=<program>. */
function shown(program: string): string {
  const [, after = ''] = guides.join('').split(`\`\`\`text output=${program}\n`)
  const [block = ''] = after.split('```')
  assert.notEqual(block, '', `the guide shows nothing of ${program}`)
  return block
}

/** A failing program exits with 1, which rejects and shows its output. */
async function printed(program: string): Promise<string> {
  const { stdout, stderr } = await run(process.execPath, ['--conditions=concord-source', program], { cwd: root })
  assert.equal(stderr, '')
  return stdout
}

describe('the examples', () => {
  test('[ST-18] [CMD-03] [EXM-02] examples/01-report.ts prints what the guide shows', async () => {
    assert.equal(await printed('examples/01-report.ts'), shown('examples/01-report.ts'))
  })
  test('[EXM-03] [ST-19] [POL-07] examples/02-publish-with-approval.ts prints what the guide shows', async () => {
    assert.equal(await printed('examples/02-publish-with-approval.ts'), shown('examples/02-publish-with-approval.ts'))
  })
  test('[EXM-07] [CAN-06] [EFF-05] [EXM-08] examples/03-book-hotel.ts prints what the guide shows', async () => {
    assert.equal(await printed('examples/03-book-hotel.ts'), shown('examples/03-book-hotel.ts'))
  })
  test('[EXM-12] [PRM-02] [SCD-05] examples/04-sync-vendor.ts prints what the guide shows', async () => {
    assert.equal(await printed('examples/04-sync-vendor.ts'), shown('examples/04-sync-vendor.ts'))
  })
  test('[EXM-10] examples/05-plan-a-trip.ts prints what the guide shows', async () => {
    assert.equal(await printed('examples/05-plan-a-trip.ts'), shown('examples/05-plan-a-trip.ts'))
  })
  test('[D1] [L13] examples/07-undo.ts prints what the guide shows', async () => {
    assert.equal(await printed('examples/07-undo.ts'), shown('examples/07-undo.ts'))
  })
  test('examples/08-refund.ts prints what the guide shows', async () => {
    assert.equal(await printed('examples/08-refund.ts'), shown('examples/08-refund.ts'))
  })
})
