/** Completes package-lock.json after an install, so that `npm ci` accepts it on every platform. `--check` writes nothing. */
import { readFileSync, writeFileSync } from 'node:fs'
import { completeLock, findUnlocked, type Lock } from './build/complete-lock.ts'
import { readFlags } from './read-flags.ts'

const { values: flags } = readFlags({ options: { check: { type: 'boolean', default: false } } })
const file = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(file, 'utf8')) as Lock
const unlocked = findUnlocked(lock)
if (unlocked.length === 0) console.log('package-lock.json is complete')
else if (flags.check) {
  console.error(`package-lock.json lacks ${unlocked.length} optional packages: node scripts/complete-lock.ts`)
  process.exitCode = 1
} else {
  writeFileSync(file, `${JSON.stringify(completeLock(lock), null, 2)}\n`)
  console.log(`package-lock.json: ${unlocked.length} optional packages of other platforms added`)
}
