/**
 * Starts or attaches to the server of a home in any state, and stops it. Callers hold the start lock.
 *
 * A postmaster outlives the process that started it. It is ours only if its pid file is in our data directory, it is alive and works in
 * that directory, our password opens it, and it reports that directory.
 */
import { spawn } from 'node:child_process'
import { open, readFile, readlink, stat, truncate } from 'node:fs/promises'
import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { checkServer, explainConnect } from '../check-server.ts'
import {
  asFlags,
  ensureService,
  makeCluster,
  serviceUrlOf,
  startSettings,
  superuserUrlOf,
  withLogin,
} from './cluster.ts'
import { type HomePaths, isStorageFull, removeUnfinished, storageFull, writeDurably } from './home.ts'
import { tryExclusive } from './locks.ts'
import { choosePort, portTaken } from './port.ts'
import {
  findCommandLine,
  findLivePostmaster,
  findPostmaster,
  isAlive,
  type Postmaster,
  sameFolder,
} from './postmaster.ts'
import { callAs, execProgram, explainDenied, type Parts, programEnv } from './programs.ts'

export type ServerOptions = {
  /** Without it, a free port is chosen once and remembered. A running server keeps its port. */
  readonly port?: number
  /** No flushes to disk, for test servers. */
  readonly unsafeForTests?: boolean
  readonly log?: (message: string, facts: Readonly<Record<string, unknown>>) => void
}

type PostgresProcess = { readonly pid: number; readonly port: number }

export type StartedPostgres = {
  readonly server: PostgresProcess
  readonly password: string
  readonly servicePassword: string
  readonly isAttached: boolean
  /** `server_version_num`. */
  readonly version: number
}

export async function startPostgres(
  parts: Parts,
  known: string | undefined,
  options: ServerOptions,
): Promise<Decision<StartedPostgres>> {
  const { paths } = parts
  const left = await removeUnfinished(paths)
  if (left.length > 0) options.log?.('removed an unfinished data directory', { left })
  const password = known === undefined ? await makeCluster(parts) : accept(known)
  if (!password.ok) return password
  const up = await attachOrLaunch(parts, password.value, options)
  if (!up.ok) return up
  const { server, isAttached } = up.value
  const entered = await enter(paths, server, password.value, options.unsafeForTests ?? false)
  if (entered.ok) return accept({ server, password: password.value, isAttached, ...entered.value })
  // A server that we started and cannot use would keep running.
  if (!isAttached) await stopPostgres(parts)
  return entered
}

/** Long enough for a dead server to be reaped, or for a starting one to write its file. */
const SETTLE_TRIES = 50
const SETTLE_MS = 100

async function attachOrLaunch(
  parts: Parts,
  password: string,
  options: ServerOptions,
): Promise<Decision<Pick<StartedPostgres, 'server' | 'isAttached'>>> {
  const { paths } = parts
  for (let attempt = 1; ; attempt++) {
    const running = await attachServer(paths, password)
    if (!running.ok) return running
    if (running.value) return accept({ server: running.value, isAttached: true })
    if (await isUsedElsewhere(paths)) return usedElsewhere(paths)
    const launched = await launchServer(parts, options)
    if (launched.ok) return accept({ server: launched.value, isAttached: false })
    const isSettling = launched.code === 'store.home.busy' && (await isPassingHolder(paths.dataDir))
    if (!isSettling || attempt >= SETTLE_TRIES) return launched
    await wait(SETTLE_MS)
  }
}

/** Postgres refuses because of a pid file whose process is about to end or about to be ready. */
async function isPassingHolder(dataDir: string): Promise<boolean> {
  const noted = await findPostmaster(dataDir)
  return !noted || !(await isAlive(noted.pid)) || (await findLivePostmaster(dataDir)) !== undefined
}

async function enter(
  paths: HomePaths,
  { port }: PostgresProcess,
  password: string,
  unsafeForTests: boolean,
): Promise<Decision<Pick<StartedPostgres, 'servicePassword' | 'version'>>> {
  try {
    const servicePassword = await ensureService(paths, port, password)
    const facts = await withLogin(serviceUrlOf(port, servicePassword), (client) =>
      checkServer({ query: async (text) => (await client.query(text)).rows }, { unsafeForTests }),
    )
    return facts.ok ? accept({ servicePassword, version: facts.value.versionNum }) : facts
  } catch (error) {
    return { ...explainConnect(error, `port ${port}`), path: 'CONCORD_HOME' }
  }
}

/**
 * True if a container that shares the folder started the server and still uses it. We cannot see its processes, nor could
 * Postgres, which would start a second server on the same files.
 */
async function isUsedElsewhere(paths: HomePaths): Promise<boolean> {
  const last = await findLastStart(paths.lastStartFile)
  if (last === undefined || last.machine === (await thisMachine())) return false
  const alone = tryExclusive(paths.usersFile)
  alone?.release()
  return alone === undefined
}

function usedElsewhere(paths: HomePaths): Refusal {
  const reason = `A process that we cannot see uses ${paths.home}, such as one in another container.`
  return refuse('store.home.busy', reason, { hint: 'Stop that process, or set CONCORD_HOME to another folder.' })
}

/** Backends of a killed postmaster need a moment to release the shared memory. */
const ATTEMPTS = 20
const POLL_MS = 20
/** Crash recovery may take minutes. After this time the server keeps starting in the background, and the next open attaches to it. */
const START_TIMEOUT_MS = 300_000
/** About 100,000 lines. The next server truncates a longer log. */
const LOG_BYTES_MAX = 16 * 1024 * 1024

async function launchServer(parts: Parts, options: ServerOptions): Promise<Decision<PostgresProcess>> {
  const { paths } = parts
  for (let attempt = 1; ; attempt++) {
    const last = await findLastStart(paths.lastStartFile)
    const port = await choosePort(paths.home, options.port, last?.port)
    if (!port.ok) return port
    const started = await startOnce(parts, port.value, options.unsafeForTests ?? false)
    if (Array.isArray(started)) {
      // Another process took the port between the check and the bind. Uses another port unless this one was requested.
      const again = isStillEnding(started) || (isPortLost(started) && options.port === undefined)
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
): Promise<PostgresProcess | string[]> {
  const size = (await stat(paths.logFile).catch(() => undefined))?.size ?? 0
  const fromByte = size > LOG_BYTES_MAX ? 0 : size
  if (fromByte < size) await truncate(paths.logFile, 0)
  // A file, not a pipe: the server writes after this process has ended.
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

/** The port of the last start, which is used again, and the machine: a process number means nothing to another container. */
type LastStart = { readonly port: number; readonly machine: string }

/** Undefined for a file that cannot be read: the server then chooses a new port. */
export function parseLastStart(text: string): LastStart | undefined {
  try {
    const { port, machine } = JSON.parse(text) as Record<string, unknown>
    return typeof port === 'number' && typeof machine === 'string' ? { port, machine } : undefined
  } catch {
    return undefined
  }
}

async function findLastStart(file: string): Promise<LastStart | undefined> {
  return parseLastStart(await readFile(file, 'utf8').catch(() => ''))
}

async function saveLastStart(file: string, start: LastStart): Promise<void> {
  const before = await findLastStart(file)
  if (before?.port !== start.port || before.machine !== start.machine)
    await writeDurably(file, `${JSON.stringify(start)}\n`)
}

/** One boot of one machine and one process namespace: its processes see each other's numbers. */
async function thisMachine(): Promise<string> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => hostname())
  const namespace = await readlink('/proc/self/ns/pid').catch(() => '')
  return `${boot.trim()} ${namespace}`.trim()
}

/** The last backends of a killed server are still ending; a later attempt succeeds. */
export function isStillEnding(lines: readonly string[]): boolean {
  return lines.some((line) => line.includes('pre-existing shared memory block'))
}

export function isPortLost(lines: readonly string[]): boolean {
  return lines.some(
    (line) => line.includes('could not create any TCP/IP sockets') || line.includes('Address already in use'),
  )
}

/** Turns the last lines of a server that did not start into a refusal with the fix. */
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
      hint: `If no Postgres runs in that folder${who}, remove ${paths.dataDir}/postmaster.pid and start again.`,
      ...(noted ? { facts: { pid: noted.pid } } : {}),
    })
  }
  return refuse('store.server.start_failed', reason, { hint: `See ${paths.logFile}.` })
}

/** Removes the prefix of `2026-01-01 00:00:00.000 UTC [123]  FATAL:  …`. */
function withoutPrefix(line: string): string {
  return line.replace(/^\S+ \S+ \S+ \[\d+\]\s+/, '')
}

/** The last lines written after `fromByte`, so that an old failure is not reported again. */
export async function lastLines(file: string, fromByte: number, count = 8): Promise<string[]> {
  const bytes = await readFile(file).catch(() => Buffer.alloc(0))
  const text = bytes.subarray(Math.max(fromByte, bytes.length - 64 * 1024)).toString('utf8')
  return text.split('\n').filter(Boolean).slice(-count)
}

/** A checkpoint of 512 MB takes seconds on a slow disk. `immediate` loses no data: the next start recovers. */
const GRACE_S = { fast: 30, immediate: 10 } as const

/** Stops the server: fast, and immediately if that takes too long. */
export async function stopPostgres({ paths, binaries, runAs }: Parts): Promise<Decision<void>> {
  // pg_ctl signals the process number in the pid file, which may belong to another process by now.
  const running = await findLivePostmaster(paths.dataDir)
  if (!running) return accept(undefined)
  let output: string[] = []
  for (const mode of ['fast', 'immediate'] as const) {
    const flags = ['stop', '-D', paths.dataDir, '-m', mode, '-w', '-t', String(GRACE_S[mode])]
    output = (await execProgram(binaries.pgCtl, flags, runAs)).output
    // pg_ctl returns when the pid file is removed, a moment before the process ends.
    for (let waitedMs = 0; waitedMs < 2_000; waitedMs += 10) {
      if (!(await isAlive(running.pid))) return accept(undefined)
      await wait(10)
    }
  }
  return refuse('store.home.busy', `Process ${running.pid} did not stop: ${output.slice(-2).join(' | ')}`, {
    hint: `See ${paths.logFile}.`,
    facts: { pid: running.pid },
  })
}

/** Crash recovery of a large WAL comes before `ready`. */
const READY_TIMEOUT_MS = 60_000
/** A server listens before it reports that it is ready. */
const SILENT_TIMEOUT_MS = 5_000
const ATTACH_POLL_MS = 25

/** Returns undefined if nothing runs there; Postgres itself decides whether it may start. */
async function attachServer(paths: HomePaths, password: string): Promise<Decision<PostgresProcess | undefined>> {
  const since = performance.now()
  for (;;) {
    const live = await findLivePostmaster(paths.dataDir)
    if (!live) return accept(undefined)
    // A server that is starting or stopping is waited for.
    const answer = live.status === 'ready' ? await confirm(paths, password, live) : stillWaiting(paths, live)
    if (answer.ok || answer.code === 'store.home.foreign_server') return answer
    const waitedMs = performance.now() - since
    // Nothing listens on that port: Postgres decides whether that process is a server.
    if (answer.facts?.['code'] === 'ECONNREFUSED' && waitedMs > SILENT_TIMEOUT_MS) return accept(undefined)
    if (waitedMs > READY_TIMEOUT_MS) return answer
    await wait(ATTACH_POLL_MS)
  }
}

function stillWaiting(paths: HomePaths, { pid, status = 'starting' }: Postmaster): Refusal {
  const state = `has been ${status} for ${READY_TIMEOUT_MS / 1000} s`
  return refuse('store.home.busy', `The server in ${paths.dataDir} (process ${pid}) ${state}.`, {
    hint: `Wait for it, or see ${paths.logFile}.`,
    facts: { pid },
  })
}

async function confirm(
  paths: HomePaths,
  password: string,
  { pid, port = 0 }: Postmaster,
): Promise<Decision<PostgresProcess>> {
  const notOurs = (why: string) =>
    refuse('store.home.foreign_server', `Process ${pid} runs a server in ${paths.dataDir} that is not ours: ${why}`, {
      hint: `Stop it (kill -INT ${pid}), or set CONCORD_HOME to another folder.`,
      facts: { pid, port },
    })
  try {
    const served = await withLogin(superuserUrlOf(port, password), async (client) => {
      const { rows } = await client.query<{ dir: string }>(`select current_setting('data_directory') as dir`)
      return rows[0]?.dir ?? ''
    })
    return (await sameFolder(served, paths.dataDir)) ? accept({ pid, port }) : notOurs(`it serves ${served}.`)
  } catch (error) {
    const refusal = explainConnect(error, paths.dataDir)
    return refusal.code === 'store.server.login_refused'
      ? notOurs(refusal.reason)
      : { ...refusal, path: 'CONCORD_HOME' }
  }
}
