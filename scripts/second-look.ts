/**
 * Tells a test that is broken from one that a starved machine has failed: every file with a failure in the last run is run again,
 * alone, three times. All green: the run counts and the files are named as unsteady, to be mended. Anything else stays a failure.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { parseResults, resultsFile } from './requirements/results.ts'

const REPEATS = 3
/** More than a machine's bad moment fails. */
const FILES_MAX = 3

const results = existsSync(resultsFile) ? parseResults(readFileSync(resultsFile, 'utf8')) : []
const files = [...new Set(results.filter(({ outcome }) => outcome === 'failed').map(({ file }) => file))]
if (files.length === 0 || files.length > FILES_MAX) {
  console.error(
    files.length === 0 ? 'No test has failed: it was something else.' : `${files.length} files failed: no second look.`,
  )
  process.exit(1)
}
for (const file of files) {
  for (let n = 1; n <= REPEATS; n++) {
    console.log(`\n── ${file}, alone, ${n} of ${REPEATS}`)
    const { status } = spawnSync(process.execPath, ['scripts/test.ts', file], { stdio: 'inherit' })
    if (status !== 0) process.exit(1)
  }
}
console.log(
  `\nUnsteady, and to be mended: ${files.join(', ')}. Each failed in the full run and passed ${REPEATS} times alone.`,
)
