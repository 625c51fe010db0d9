/**
 * Runs the tests with node's own runner and records which of them passed.
 *
 *   npm test                                            everything
 *   npm test -- src/kernel/machine.test.ts              some files, or a glob in quotes
 *   npm test -- --test-name-pattern='illegal'           some titles (not recorded: it is no full account of a file)
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { formatResult, mergeResults, parseResults, resultsFile } from './requirements/results.ts'
import { planTestRun } from './requirements/test-run.ts'

const globalSetup = 'test/support/global-setup.ts'

if (Number.parseInt(process.versions.node, 10) < 24) {
  console.error(
    `Concord needs Node 24.12 or newer; this is ${process.versions.node}. npm test uses the one it installed.`,
  )
  process.exit(78)
}

const fresh = `${dirname(resultsFile)}/run-${process.pid}.jsonl`
const plan = planTestRun(process.argv.slice(2), {
  reporterDestination: fresh,
  ...(existsSync(globalSetup) ? { globalSetup } : {}),
})

mkdirSync(dirname(resultsFile), { recursive: true })
const child = spawn(process.execPath, plan.args, { stdio: 'inherit' })
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))

child.on('close', (code, signal) => {
  if (plan.records !== 'nothing') record(plan.records)
  rmSync(fresh, { force: true })
  process.exitCode = code ?? (signal === 'SIGINT' ? 130 : 1)
})

/** A full run replaces the record; a run over some files replaces what was known about these files. */
function record(extent: 'everything' | 'some files'): void {
  if (!existsSync(fresh)) return
  const ran = parseResults(readFileSync(fresh, 'utf8'))
  const before =
    extent === 'some files' && existsSync(resultsFile) ? parseResults(readFileSync(resultsFile, 'utf8')) : []
  writeFileSync(resultsFile, mergeResults(before, ran).map(formatResult).join(''))
}
