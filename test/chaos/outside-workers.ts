/** The outside workers of missions: a process that claims, starts and submits, and writes down each start. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Served } from '#test/concord-process'
import type { Installation } from './installation.ts'

const script = join(import.meta.dirname, 'lease-process.ts')
/** Tasks that they have at the same time: as many claims as a kill at the claim waits for. */
const AT_ONCE = 8

export async function openOutsideWorkers(installation: Installation) {
  const book = join(installation.folder, 'worker-book')
  await writeFile(book, '')
  const key = await installation.asker()
  let child: ChildProcess | undefined
  return {
    hire({ address }: Served): void {
      child = spawn(process.execPath, [script, address, key, book, String(AT_ONCE)], { stdio: 'ignore' })
    },
    async end(): Promise<void> {
      if (!child || child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
    /** The tasks and attempts that were begun. */
    began: async (): Promise<readonly string[]> =>
      (await readFile(book, 'utf8'))
        .split('\n')
        .filter(Boolean)
        .map((line) => line.slice(line.indexOf(' ') + 1)),
  }
}
