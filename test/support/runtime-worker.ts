/** Worker processes of the DBOS runtime, for tests that kill, freeze and start them together. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { QueueSpec } from '../../src/runtime/index.ts'

export type RuntimeWorkerOptions = {
  /** How it handles a turn; see runtime-worker-child.ts. */
  readonly drive: 'stranger' | 'steps' | 'facts' | 'busy' | 'none'
  readonly prefix: string
  readonly times?: Readonly<Record<string, number>>
  readonly environment?: string
  readonly queues?: Readonly<Record<string, QueueSpec>>
}

export type RuntimeWorker = {
  readonly pid: number
  /** Its output since it was ready, line by line. */
  next(): Promise<string>
  signal(signal: NodeJS.Signals): void
  kill(): Promise<void>
}

/** Resolves when the worker is ready. */
export async function aRuntimeWorker(url: string, options: RuntimeWorkerOptions): Promise<RuntimeWorker> {
  const program = fileURLToPath(new URL('runtime-worker-child.ts', import.meta.url))
  const child = spawn(process.execPath, [program, url, JSON.stringify(options)], {
    // The child ends with its input, and its input ends with this process.
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => {
    const line = await lines.next()
    if (line.done) throw new Error('The worker ended without output.')
    return line.value
  }
  const kill = () => {
    child.kill('SIGKILL')
    return gone
  }
  const first = await next()
  if (first !== 'ready') {
    await kill()
    throw new Error(`The worker printed ${first}.`)
  }
  return { pid: child.pid ?? 0, next, signal: (signal) => void child.kill(signal), kill }
}
