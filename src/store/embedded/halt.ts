/** Stops a postmaster: fast (clients are disconnected, a checkpoint is written), and at once if that takes too long. */
import { setTimeout as wait } from 'node:timers/promises'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { findLivePostmaster } from './adopt.ts'
import type { Parts } from './parts.ts'
import { isAlive } from './process-facts.ts'
import { runProgram } from './program.ts'

/** A checkpoint of 512 MB takes some seconds on a slow disk. `immediate` loses nothing either: the next start recovers. */
const GRACE_S = { fast: 30, immediate: 10 } as const

export async function haltServer({ paths, binaries, runAs }: Parts): Promise<Decision<void>> {
  // The one that runs now: it may have been killed and started again since it was opened. The number in its file may have
  // passed on to a stranger, and pg_ctl signals whoever has it.
  const running = await findLivePostmaster(paths.dataDir)
  if (!running) return accept(undefined)
  let output: string[] = []
  for (const mode of ['fast', 'immediate'] as const) {
    const flags = ['stop', '-D', paths.dataDir, '-m', mode, '-w', '-t', String(GRACE_S[mode])]
    output = (await runProgram(binaries.pgCtl, flags, runAs)).output
    // pg_ctl is content when the pid file is gone, a moment before the process is.
    for (let waitedMs = 0; waitedMs < 2_000; waitedMs += 10) {
      if (!(await isAlive(running.pid))) return accept(undefined)
      await wait(10)
    }
  }
  return refuse('store.home.busy', `process ${running.pid} did not stop: ${output.slice(-2).join(' | ')}`, {
    hint: `see ${paths.logFile}`,
    facts: { pid: running.pid },
  })
}
