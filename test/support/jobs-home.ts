/** A folder and a home for tests of the scheduler from the command line. Processes and folder are removed after the test. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type ConcordProcess, endProcess, runConcord, spawnConcord } from './concord-process.ts'

export function openJobsHome(t: TestContext, more: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'concord-jobs-'))
  const env: Readonly<Record<string, string>> = { CONCORD_HOME: join(folder, 'home'), ...more }
  const options = { env, cwd: folder }
  const started: ConcordProcess[] = []
  t.after(async () => {
    await Promise.all(started.map((running) => endProcess(running)))
    rmSync(folder, { recursive: true, force: true })
  })
  const invoke = (...args: readonly string[]) => runConcord(args, options)
  const start = (...args: readonly string[]) => {
    const running = spawnConcord(args, options)
    started.push(running)
    return running
  }
  /** Runs a command that must succeed. */
  const concord = async (...args: readonly string[]) => {
    const ended = await invoke(...args)
    assert.equal(ended.code, 0, ended.err)
    return ended.out.trim()
  }
  return {
    folder,
    options,
    started,
    invoke,
    start,
    async startScheduler(...args: readonly string[]) {
      const running = start('scheduler', 'run', ...args)
      await running.line((line) => line.includes('Running the jobs'))
      return running
    },
    concord,
    ask: async <T>(...args: readonly string[]) => JSON.parse(await concord(...args, '--json')) as T,
    linesOf: (name: string) => linesOf(join(folder, name)),
  }
}

const linesOf = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [])

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false
  }
}
