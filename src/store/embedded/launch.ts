/** Starts a postmaster that belongs to nobody's terminal, and waits until it serves or says why it does not. */
import { spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { accept, type Decision } from '#kernel/refusal'
import type { RunningServer } from './adopt.ts'
import { explainStart, isPassing, isPortLost } from './explain-start.ts'
import { findLastStart, saveLastStart, thisMachine } from './last-start.ts'
import type { Parts } from './parts.ts'
import { choosePort } from './port.ts'
import { findPostmaster } from './postmaster-file.ts'
import { callAs, programEnv } from './program.ts'
import { boundLog, lastLines, logSize } from './server-log.ts'
import { asFlags, startSettings } from './settings.ts'

export type LaunchOptions = { readonly port?: number; readonly unsafeForTests?: boolean }

/** Backends of a killed postmaster need a moment to notice and let go of the shared memory. */
const ATTEMPTS = 20
const POLL_MS = 20
/** Recovery after a crash comes first and may take minutes. Past this the server goes on by itself, and the next open adopts it. */
const START_TIMEOUT_MS = 300_000

export async function launchServer(parts: Parts, options: LaunchOptions): Promise<Decision<RunningServer>> {
  const { paths } = parts
  for (let attempt = 1; ; attempt++) {
    const last = await findLastStart(paths.lastStartFile)
    const port = await choosePort({ home: paths.home, remembered: last?.port, asked: options.port })
    if (!port.ok) return port
    const started = await startOnce(parts, port.value, options.unsafeForTests ?? false)
    if (Array.isArray(started)) {
      // Somebody took the port between our look and the bind: with no port asked for, another one will do.
      const again = isPassing(started) || (isPortLost(started) && options.port === undefined)
      if (!again || attempt >= ATTEMPTS) return explainStart(started, parts, port.value)
      await wait(attempt * 25)
      continue
    }
    await saveLastStart(paths.lastStartFile, { port: port.value, machine: await thisMachine() })
    return accept(started)
  }
}

/** The running server, or the lines with which it ended. */
async function startOnce(
  { paths, binaries, runAs }: Parts,
  port: number,
  unsafeForTests: boolean,
): Promise<RunningServer | string[]> {
  await boundLog(paths.logFile)
  const fromByte = await logSize(paths.logFile)
  // A file and not a pipe: the server must be able to write after we are gone.
  const log = await open(paths.logFile, 'a', 0o600)
  const flags = ['-D', paths.dataDir, ...asFlags('-c', startSettings(port, unsafeForTests))]
  const call = callAs(runAs, binaries.postgres, flags)
  const options = { ...call.identity, env: programEnv(), cwd: '/', detached: true, windowsHide: true }
  const child = spawn(call.file, call.flags, { ...options, stdio: ['ignore', log.fd, log.fd] })
  let ended: string[] | undefined
  child.once('error', (error) => {
    ended = [`${binaries.postgres}: ${error.message}`]
  })
  child.once('exit', (code, signal) => {
    ended ??= [`postgres ended with ${signal ?? `code ${code}`}`]
  })
  child.unref()
  await log.close()
  const since = performance.now()
  while (ended === undefined) {
    await wait(POLL_MS)
    if (performance.now() - since > START_TIMEOUT_MS) ended = [`still starting after ${START_TIMEOUT_MS / 1000} s`]
    const noted = await findPostmaster(paths.dataDir)
    if (noted?.pid === child.pid && noted?.status === 'ready') return { pid: noted.pid, port }
  }
  const lines = await lastLines(paths.logFile, fromByte)
  return lines.length > 0 ? lines : ended
}
