/** Runs the real `concord` program as a child process with its own home, so that a test can kill it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))

export type Ended = {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

export type ConcordProcess = {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  /** Resolves with the first line of standard output that `isWanted` accepts; rejects when the program ends before. */
  line(isWanted: (line: string) => boolean): Promise<string>
}

export type ConcordOptions = {
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string
  readonly uid?: number
}

/** The children that a failed test leaves behind end with the test process. */
const children = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

/** The environment of this process without the settings of Concord and of its tests. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const plain = Object.entries(process.env).filter(([name]) => !name.startsWith('CONCORD_') && name !== 'DATABASE_URL')
  return Object.fromEntries(plain)
}

export function spawnConcord(args: readonly string[], { env, cwd, uid }: ConcordOptions): ConcordProcess {
  // The defaults are the home `.concord` in the current folder and the port 7420. A test uses neither.
  if (env['CONCORD_HOME'] === undefined && cwd === undefined)
    throw new Error('A test must give Concord a home of its own.')
  const child = spawn(process.execPath, ['--conditions=concord-source', MAIN, ...args], {
    env: { ...plainEnvironment(), CONCORD_PORT: ownPort, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd === undefined ? {} : { cwd }),
    ...(uid === undefined ? {} : { uid, gid: uid }),
  })
  children.add(child)
  child.once('exit', () => children.delete(child))
  let out = ''
  let err = ''
  const waiting = new Set<() => void>()
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
    for (const look of waiting) look()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code, signal) => {
      resolve({ code, signal, out, err })
      for (const look of waiting) look()
    })
  })
  const line = (isWanted: (line: string) => boolean) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        const found = out.split('\n').slice(0, -1).find(isWanted)
        if (found !== undefined) resolve(found)
        else if (child.exitCode !== null || child.signalCode !== null)
          reject(new Error(`Concord ended before the line appeared: ${err}`))
        else return
        waiting.delete(look)
      }
      waiting.add(look)
      look()
      void ended.then(look)
    })
  return { child, ended, line }
}

export async function endProcess(running: ConcordProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  running.child.kill(signal)
  await running.ended
}

/** Runs a command to its end. */
export function runConcord(args: readonly string[], options: ConcordOptions): Promise<Ended> {
  return spawnConcord(args, options).ended
}

export type Served = ConcordProcess & {
  readonly address: string
  readonly keyFile: string
  readonly environment: string | null
}

/** Starts `concord up --json` and waits until it is ready. */
export async function serveConcord(options: ConcordOptions): Promise<Served> {
  const started = spawnConcord(['--json', 'up'], options)
  const ready = JSON.parse(await started.line((text) => text.includes('"ready":true'))) as {
    address: string
    key_file: string
    environment: string | null
  }
  return { ...started, address: ready.address, keyFile: ready.key_file, environment: ready.environment }
}

/**
 * A free port below the ephemeral range. The system gives no such port to a connection, so it is still free when a server starts
 * late or restarts.
 */
export async function freePort(): Promise<string> {
  for (;;) {
    const port = 20_000 + randomInt(12_000)
    const probe = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      probe.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    if (isFree) await new Promise((resolve) => probe.close(resolve))
    if (isFree) return String(port)
  }
}

/** Makes a file of `test/support/projects` the project of a folder. */
export async function writeProject(folder: string, project: string): Promise<void> {
  const file = new URL(`./projects/${project}.ts`, import.meta.url).href
  await writeFile(join(folder, 'concord.config.mjs'), `export { default } from ${JSON.stringify(file)}\n`)
}

/** The port of a program to which a test gives none. */
const ownPort = await freePort()
