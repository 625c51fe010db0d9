/** A folder with a home of its own for tests of the scheduler from the command line. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { runConcord } from './concord-process.ts'

export function aHome() {
  const folder = mkdtempSync(join(tmpdir(), 'concord-jobs-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const env = { CONCORD_HOME: join(folder, 'home') }
  const concord = async (...args: string[]) => {
    const ended = await runConcord(args, { env, cwd: folder })
    assert.equal(ended.code, 0, ended.err)
    return ended.out.trim()
  }
  const ask = async <T>(...args: string[]) => JSON.parse(await concord(...args, '--json')) as T
  return { folder, env, concord, ask, linesOf: (name: string) => linesOf(join(folder, name)) }
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
