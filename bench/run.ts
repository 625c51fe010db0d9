/**
 * Runs the benches one after the other, each as a child process: `npm run bench`, `npm run bench -- transition`. With `--peers`,
 * benches that compare with other packages install them first; other flags are passed on.
 */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { installPeers } from './harness/peers.ts'

const folder = import.meta.dirname
const all = readdirSync(folder)
  .filter((file) => file.endsWith('.ts') && file !== 'run.ts')
  .map((file) => path.basename(file, '.ts'))
  .toSorted()
const words = process.argv.slice(2)
const flags = words.filter((word) => word.startsWith('--'))
const asked = words.filter((word) => !word.startsWith('--'))
const unknown = asked.filter((name) => !all.includes(name))
if (unknown.length > 0) {
  console.error(`no such bench: ${unknown.join(', ')}; there are ${all.join(', ')}`)
  process.exit(64)
}
if (flags.includes('--peers')) installPeers()
let failed = 0
for (const name of asked.length > 0 ? asked : all) {
  console.log(`\n── ${name}`)
  const { status } = spawnSync(process.execPath, [path.join(folder, `${name}.ts`), ...flags], { stdio: 'inherit' })
  if (status !== 0) failed += 1
}
process.exitCode = failed === 0 ? 0 : 1
