/** Example programs with servers, workers and swarms print exactly what their guide shows. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))

async function check(t: TestContext, program: string, guide: string): Promise<void> {
  const text = await readFile(new URL(`../docs/guides/${guide}.md`, import.meta.url), 'utf8')
  const { stdout, stderr } = await run(process.execPath, ['--conditions=concord-source', program], { cwd: root })
  if (stdout.startsWith('Skipped:')) return t.skip(stdout)
  const [, after = ''] = text.split(`\`\`\`text output=${program}\n`)
  assert.deepEqual([stderr, stdout], ['', after.split('```')[0]])
}

test('[PER-09] examples/06-keep-history.ts prints what the guide shows', (t) =>
  check(t, 'examples/06-keep-history.ts', 'keep-history'))
test('[EXM-11] [PRM-25] examples/12-investigate-revenue.ts prints what the guide shows', (t) =>
  check(t, 'examples/12-investigate-revenue.ts', 'run-agents'))
test('[EXM-13] examples/13-report-swarm.ts prints what the guide shows', (t) =>
  check(t, 'examples/13-report-swarm.ts', 'run-agents'))
test('examples/14-release.ts prints what the guide shows', (t) => check(t, 'examples/14-release.ts', 'missions'))
test('examples/15-compliance.ts prints what the guide shows', (t) => check(t, 'examples/15-compliance.ts', 'missions'))
