/** Homes, clusters and processes for tests of the embedded server; each test removes its own. */
import { spawn } from 'node:child_process'
import { chmod, cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Decision } from '#kernel/refusal'
import { findLivePostmaster } from '../../src/store/embedded/postmaster.ts'
import { type EmbeddedOptions, type EmbeddedPostgres, openEmbeddedPostgres } from '../../src/store/embedded/server.ts'

export const isRoot = process.getuid?.() === 0

/** A home that is removed after the test, with any server that still runs in it. */
export async function aHome(t: TestContext, name = 'home'): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'concord-embedded-'))
  await chmod(folder, 0o755)
  const home = path.join(folder, name)
  t.after(async () => {
    const left = await findLivePostmaster(path.join(home, 'postgres'))
    if (left) process.kill(left.pid, 'SIGQUIT')
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
  })
  return home
}

/** Ends the database of a home as a power cut would. */
export async function killDatabase(home: string): Promise<void> {
  const running = await findLivePostmaster(path.join(home, 'postgres'))
  if (running) process.kill(running.pid, 'SIGKILL')
}

/** Created once per test file: copying a stopped home takes a third of the time of initdb. */
let pattern: Promise<string> | undefined

async function makePattern(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'concord-embedded-pattern-'))
  await chmod(folder, 0o755)
  const home = path.join(folder, 'home')
  await stopped(await opened({ home }))
  return home
}

export async function removePattern(): Promise<void> {
  if (pattern) await rm(path.dirname(await pattern), { recursive: true, force: true })
}

/** A home with a data directory and a stopped server. */
export async function aStoppedHome(t: TestContext, name?: string): Promise<string> {
  pattern ??= makePattern()
  const home = await aHome(t, name)
  await mkdir(path.dirname(home), { recursive: true })
  await copyKeepingOwners(await pattern, home)
  return home
}

async function copyKeepingOwners(from: string, to: string): Promise<void> {
  if (!isRoot) return cp(from, to, { recursive: true, preserveTimestamps: true })
  // The copy belongs to the user of this process.
  const { code } = await run('cp', ['-a', from, to])
  if (code !== 0) throw new Error(`cp -a ${from} ${to} failed.`)
}

function run(file: string, flags: readonly string[]): Promise<{ code: number | null }> {
  return new Promise((resolve, reject) => {
    spawn(file, flags, { stdio: 'ignore' })
      .once('error', reject)
      .once('close', (code) => resolve({ code }))
  })
}

export async function opened(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const answer = await openEmbeddedPostgres(options)
  if (!answer.ok) throw new Error(`${answer.code}: ${answer.reason}; ${answer.hint}`)
  return answer.value
}

export async function stopped(server: EmbeddedPostgres): Promise<string> {
  const answer = await server.stop()
  if (!answer.ok) throw new Error(`${answer.code}: ${answer.reason}`)
  return answer.value
}

export async function ask<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Row>(text)).rows
  } finally {
    await client.end()
  }
}

export type Child = {
  readonly pid: number
  /** The result of `openEmbeddedPostgres` in the child. */
  readonly answer: Promise<Decision<EmbeddedPostgres>>
  stop(): Promise<Decision<string>>
  kill(): Promise<void>
}

export type ChildOptions = { readonly uid?: number; readonly gid?: number; readonly prefix?: readonly string[] }

/** Opens the home in a child process. */
export function aChild(t: TestContext, options: EmbeddedOptions, { prefix = [], ...as }: ChildOptions = {}): Child {
  const program = fileURLToPath(new URL('embedded-child.ts', import.meta.url))
  const command: string[] = [...prefix, process.execPath, program, JSON.stringify(options)]
  const [file = '', ...flags] = command
  const child = spawn(file, flags, { ...as, stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async <T>(): Promise<Decision<T>> => {
    const line = await lines.next()
    if (line.done) throw new Error('The child ended without an answer.')
    return JSON.parse(line.value) as Decision<T>
  }
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const kill = () => {
    child.kill('SIGKILL')
    return gone
  }
  t.after(kill)
  return {
    pid: child.pid ?? 0,
    answer: next<EmbeddedPostgres>(),
    async stop() {
      child.stdin.write('stop\n')
      const answer = await next<string>()
      await gone
      return answer
    },
    kill,
  }
}
