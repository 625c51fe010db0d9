/** Worker processes of the runtime on DBOS, for tests that kill, freeze and start them together. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { QueueSpec } from '../../src/runtime/index.ts'

export type RuntimeWorkerOptions = {
  /** What it does with a turn; see runtime-worker-child.ts. */
  readonly drive: 'stranger' | 'steps' | 'facts' | 'busy' | 'none'
  readonly prefix: string
  readonly times?: Readonly<Record<string, number>>
  readonly environment?: string
  readonly queues?: Readonly<Record<string, QueueSpec>>
}

export type RuntimeWorker = {
  readonly pid: number
  /** What it said since it was ready, line by line. */
  next(): Promise<string>
  signal(signal: NodeJS.Signals): void
  kill(): Promise<void>
}

/** Ready when this resolves. */
export async function aRuntimeWorker(url: string, options: RuntimeWorkerOptions): Promise<RuntimeWorker> {
  const program = fileURLToPath(new URL('runtime-worker-child.ts', import.meta.url))
  const child = spawn(process.execPath, [program, url, JSON.stringify(options)], {
    // Its input ends with us, and it with its input: nobody is left behind when a test is killed.
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => {
    const line = await lines.next()
    if (line.done) throw new Error('the worker ended without a word')
    return line.value
  }
  const kill = () => {
    child.kill('SIGKILL')
    return gone
  }
  const first = await next()
  if (first !== 'ready') {
    await kill()
    throw new Error(`the worker said ${first}`)
  }
  return { pid: child.pid ?? 0, next, signal: (signal) => void child.kill(signal), kill }
}
