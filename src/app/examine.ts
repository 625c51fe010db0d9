/** Looks at everything a start depends on and says what is well, what is worth a note and what is broken, with the fix. */
import { constants } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Refusal } from '#kernel/refusal'
import { migrationStatus, openCheckedDb, readServerFacts } from '#store'
import { adminKeyFile } from './admin-key.ts'
import { type Config, serverAddress } from './config.ts'
import { checkScheduler } from './examine-scheduler.ts'
import { broken, type Finding } from './finding.ts'
import { openLog } from './log.ts'
import { openStore } from './open-store.ts'
import { version } from './version.ts'

export type { Finding } from './finding.ts'

const NODE_MIN = [24, 12] as const
/** Enough for a fresh database, its log and room to work. */
const FREE_BYTES_MIN = 512 * 1024 * 1024

export async function examine(config: Config): Promise<Finding[]> {
  const machine = [checkNode(process.versions.node), await checkFolder(config.home), await checkDisk(config.home)]
  return [
    ...machine,
    ...(await checkDatabase(config)),
    await checkServerProcess(config),
    await checkAdminKey(config.home),
    checkScheduler(config),
  ]
}

export function checkNode(running: string): Finding {
  const [major = 0, minor = 0] = running.split('.').map(Number)
  const isNew = major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])
  if (isNew) return { check: 'node', state: 'well', found: `Node ${running}` }
  return {
    check: 'node',
    state: 'broken',
    found: `Node ${running} is too old`,
    next: `use Node ${NODE_MIN.join('.')} or later, or run through npm`,
  }
}

async function nearestFolder(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined)
  return found || dirname(path) === path ? path : nearestFolder(dirname(path))
}

async function checkFolder(home: string): Promise<Finding> {
  const folder = await nearestFolder(home)
  try {
    await access(folder, constants.W_OK | constants.X_OK)
    return { check: 'data folder', state: 'well', found: folder === home ? home : `${home} (will be made)` }
  } catch {
    return {
      check: 'data folder',
      state: 'broken',
      found: `${folder} is not writable`,
      next: 'set CONCORD_HOME to a folder of yours',
    }
  }
}

async function checkDisk(home: string): Promise<Finding> {
  const { bavail, bsize } = await statfs(await nearestFolder(home))
  const freeBytes = bavail * bsize
  const found = `${(freeBytes / 1024 ** 3).toFixed(1)} GiB free`
  if (freeBytes >= FREE_BYTES_MIN) return { check: 'disk', state: 'well', found }
  return { check: 'disk', state: 'broken', found, next: 'make room, or set CONCORD_HOME to another disk' }
}

async function checkDatabase(config: Config): Promise<Finding[]> {
  const store = await openStore(config, openLog('silent'))
  if (!store.ok) return [broken('database', store)]
  try {
    const db = await openCheckedDb({ url: store.value.url, poolMax: 1 }, { unsafeForTests: config.unsafeTest === '1' })
    if (!db.ok) return [broken('database', db)]
    const facts = await readServerFacts(db.value)
    await db.value.close()
    const kept = `fsync ${facts.fsync}, full_page_writes ${facts.fullPageWrites}, synchronous_commit ${facts.synchronousCommit}`
    const status = await migrationStatus(store.value.url)
    return [
      { check: 'database', state: 'well', found: store.value.label },
      { check: 'durability', state: facts.fsync === 'on' ? 'well' : 'note', found: kept },
      status.ok ? schemaFinding(status.value) : broken('schema', status),
    ]
  } finally {
    await store.value.close()
  }
}

function schemaFinding(status: { version: number; pending: readonly string[]; verdict: { ok: boolean } }): Finding {
  const { verdict } = status
  if (!verdict.ok) return broken('schema', verdict as Refusal)
  if (status.pending.length === 0) return { check: 'schema', state: 'well', found: `version ${status.version}` }
  return {
    check: 'schema',
    state: 'note',
    found: `${status.pending.length} migrations to come`,
    next: '`concord up` applies them',
  }
}

async function checkServerProcess(config: Config): Promise<Finding> {
  const address = serverAddress(config)
  try {
    const answer = await fetch(`${address}/health`, { signal: AbortSignal.timeout(3_000) })
    const health = (await answer.json()) as { status?: string; version?: string }
    const found = `${address} answers ${health.status ?? answer.status}, version ${health.version ?? 'unknown'}`
    if (!answer.ok) return { check: 'server', state: 'broken', found, next: `see ${address}/health` }
    return { check: 'server', state: health.version === version ? 'well' : 'note', found }
  } catch {
    return {
      check: 'server',
      state: 'note',
      found: `nothing answers at ${address}`,
      next: 'start it with `concord up`',
    }
  }
}

async function checkAdminKey(home: string): Promise<Finding> {
  const file = adminKeyFile(home)
  const found = await stat(file).catch(() => undefined)
  if (!found)
    return { check: 'admin key', state: 'note', found: `${file} is not there yet`, next: '`concord up` writes it' }
  const mode = found.mode & 0o777
  if ((mode & 0o077) === 0) return { check: 'admin key', state: 'well', found: file }
  return {
    check: 'admin key',
    state: 'broken',
    found: `${file} can be read by others (mode ${mode.toString(8)})`,
    next: `chmod 600 ${file}`,
  }
}
