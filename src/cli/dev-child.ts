/** The process that `concord dev` replaces on every change. It loads the program first, and serves the project when it is asked to. */
import process from 'node:process'
import { readConfig } from '#app/config'
import { startServer } from '#app/start-server'
import type { DevAnswer } from './dev.ts'

const stop = new AbortController()
let isStarted = false
function end(): void {
  // A second signal ends it immediately, and so does one before it has anything to close.
  if (stop.signal.aborted || !isStarted) process.exit(143)
  stop.abort()
}
process.on('SIGTERM', end)
// The parent is gone.
process.once('disconnect', end)
process.once('message', () => void serve())

async function serve(): Promise<void> {
  isStarted = true
  const [environment, folder] = [process.env, process.cwd()]
  const config = readConfig(environment, folder)
  const started = config.ok ? await startServer({ config: config.value, environment, folder }) : config
  if (!started.ok) return answer(started, () => process.exit(1))
  const { close, lost, ...ready } = started.value
  answer({ ok: true, value: ready }, () => undefined)
  const stopped = new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()))
  if (!stop.signal.aborted) await Promise.race([stopped, lost])
  await close()
  process.exit(0)
}

function answer(message: DevAnswer, sent: () => void): void {
  process.send?.(message, sent)
}
