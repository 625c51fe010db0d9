/** Turns the last lines of a server that did not start into a refusal with the fix; Postgres' own words stay in it. */
import { type Decision, refuse } from '#kernel/refusal'
import { isStorageFull, storageFull } from './home-fault.ts'
import type { Parts } from './parts.ts'
import { portTaken } from './port.ts'
import { findPostmaster } from './postmaster-file.ts'
import { findCommandLine, isAlive } from './process-facts.ts'
import { explainDenied } from './program.ts'

/** Passes by itself: the last backends of a killed server are still leaving. */
export function isPassing(lines: readonly string[]): boolean {
  return lines.some((line) => line.includes('pre-existing shared memory block'))
}

export function isPortLost(lines: readonly string[]): boolean {
  return lines.some(
    (line) => line.includes('could not create any TCP/IP sockets') || line.includes('Address already in use'),
  )
}

export async function explainStart(lines: readonly string[], parts: Parts, port: number): Promise<Decision<never>> {
  const { paths, binaries, runAs } = parts
  const text = lines.join('\n')
  if (isStorageFull(text)) return storageFull(paths.dataDir)
  if (isPortLost(lines)) return portTaken(port)
  const denied = await explainDenied(text, [binaries.postgres, paths.dataDir], runAs)
  if (denied) return denied
  const reason = `Postgres did not start in ${paths.dataDir}: ${lines.map(withoutPrefix).join(' | ')}`
  if (text.includes('postmaster.pid')) {
    const noted = await findPostmaster(paths.dataDir)
    const holder = noted && (await isAlive(noted.pid)) ? await findCommandLine(noted.pid) : undefined
    const who = holder ? ` (process ${noted?.pid} is: ${holder.slice(0, 64)})` : ''
    return refuse('store.home.busy', reason, {
      hint: `when no Postgres runs in that folder${who}, remove ${paths.dataDir}/postmaster.pid and start again`,
      ...(noted ? { facts: { pid: noted.pid } } : {}),
    })
  }
  return refuse('store.server.start_failed', reason, { hint: `see ${paths.logFile}` })
}

/** `2026-01-01 00:00:00.000 UTC [123]  FATAL:  …` without what only a log needs. */
function withoutPrefix(line: string): string {
  return line.replace(/^\S+ \S+ \S+ \[\d+\]\s+/, '')
}
