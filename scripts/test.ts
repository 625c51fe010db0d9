/**
 * Runs the tests with node's test runner and records the results.
 *
 *   npm test                                            the quick tier: pure, Postgres, the first journeys
 *   npm run test:chaos                                  the chaos tier: other journeys, kills, power cuts, long properties
 *   npm test -- src/kernel/machine.test.ts              some files, or a glob in quotes
 *   npm test -- --test-name-pattern='illegal'           some titles (not recorded: it is no full account of a file)
 *   npm test -- --property-runs=20 'src/kernel/*.test.ts'   every property with 20 times the runs that it asks for
 *   CONCORD_PROPERTY_SEED=7 npm test                    properties from this seed; CI has one of its own, elsewhere it is random
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { planProperties } from '../test/support/property-plan.ts'
import { formatResult, mergeResults, parseResults, resultsFile } from './requirements/results.ts'
import { groupFiles, groupPath, isChaos, listFiles, planTestRun } from './requirements/test-run.ts'

const globalSetup = 'test/support/global-setup.ts'

if (Number.parseInt(process.versions.node, 10) < 24) {
  console.error(
    `Concord needs Node 24.12 or newer; this is ${process.versions.node}. npm test uses the one it installed.`,
  )
  process.exit(78)
}

const folder = `${dirname(resultsFile)}/run-${process.pid}`
const fresh = `${folder}/results.jsonl`
mkdirSync(folder, { recursive: true })
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const plan = planTestRun(process.argv.slice(2), {
  reporterDestination: fresh,
  list: (tier) => groupFiles(listFiles(tier)).map(writeGroup),
  ...(existsSync(globalSetup) ? { globalSetup } : {}),
})
// Every process would otherwise compile the same TypeScript.
const env = { NODE_COMPILE_CACHE: resolve('.test-results/compiled'), ...process.env, ...plan.env }
const properties = planProperties(env)
console.log(properties.says)
if (!properties.ok) process.exit(64)

const child = spawn(process.execPath, plan.args, { stdio: 'inherit', env })
let interrupted: NodeJS.Signals | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop(signal))

function stop(signal: NodeJS.Signals): void {
  interrupted ??= signal
  child.kill(signal)
}

// The record grows with every finished test; when it does not, a file blocks the run.
let written = 0
let grownAt = performance.now()
const watch = setInterval(
  () => {
    const size = existsSync(fresh) ? statSync(fresh).size : 0
    if (size !== written) grownAt = performance.now()
    written = size
    if (interrupted || performance.now() - grownAt < plan.quietMs) return
    console.error(
      `\nNo test has ended for ${plan.quietMs / 1000} s: the run is given up. The files still open are named below.`,
    )
    stop('SIGTERM')
    setTimeout(() => child.kill('SIGKILL'), 20_000).unref()
  },
  Math.min(plan.quietMs / 4, 5_000),
)

child.on('close', (code, signal) => {
  clearInterval(watch)
  if (plan.records !== 'nothing') record(interrupted || signal ? 'some files' : plan.records)
  process.exitCode = interrupted === 'SIGINT' ? 130 : (code ?? 1) || (interrupted ? 1 : 0)
})

/** Returns a file that runs all of the group in one process. */
function writeGroup(files: readonly string[], at: number): string {
  const [only] = files
  if (only !== undefined && files.length === 1) return only
  const name = groupPath(folder, at)
  writeFileSync(name, files.map((file) => `import '${pathToFileURL(file).href}'\n`).join(''))
  return name
}

/** A full run replaces the record of its tier; a partial run replaces the results of its files. */
function record(extent: 'everything' | 'some files'): void {
  if (!existsSync(fresh)) return
  const ran = parseResults(readFileSync(fresh, 'utf8'))
  const before = existsSync(resultsFile) ? parseResults(readFileSync(resultsFile, 'utf8')) : []
  const kept = extent === 'some files' ? before : before.filter(({ file }) => isChaos(file) !== (plan.tier === 'chaos'))
  writeFileSync(resultsFile, mergeResults(kept, ran).map(formatResult).join(''))
}
