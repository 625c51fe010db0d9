/** Writes the current values into the pins. Run it after the decision; the diff shows it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readFlags } from '../../../scripts/read-flags.ts'
import { readTree, repositoryRoot } from '../tree.ts'
import { currentPins } from './current.ts'

readFlags({})
for (const { path, actual } of currentPins(readTree())) {
  writeFileSync(join(repositoryRoot, path), `${JSON.stringify(actual, null, 2)}\n`)
  console.log(`${path}: ${Object.keys(actual).length} pinned`)
}
