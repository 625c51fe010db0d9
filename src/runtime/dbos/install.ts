/**
 * Brings the engine and the adapter's own schema into a database, one process at a time. The engine's migrations take no lock of
 * their own: of 16 processes that started together on an empty database 13 failed, and one database stayed broken.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '#store'
import { type EngineLog, loggerOf } from './engine.ts'
import { migrateEngine } from './internals.ts'

/** Raised with every change of the files below; an older program leaves a newer installation alone. */
export const INSTALLED_VERSION = 3
const FILES = ['tables.sql', 'engine.sql', 'functions.sql', 'grants.sql'] as const
const LOCK = 'concord.runtime.launch'
const RETRY_MS = 25

/**
 * Asks for the lock again and again. Waiting for it inside Postgres would hold a snapshot, and the engine builds
 * indexes concurrently, which waits for every older snapshot: nobody would ever go on.
 */
async function withLaunchLock<T>(db: Db, work: () => Promise<T>): Promise<T> {
  const client = await db.connect('concord-runtime-launch')
  try {
    for (;;) {
      const { rows } = await client.query<{ won: boolean }>('select pg_try_advisory_lock(hashtext($1)) as won', [LOCK])
      if (rows[0]?.won) break
      await sleep(RETRY_MS)
    }
    return await work()
  } finally {
    await client.end()
  }
}

/** The engine's tables, then ours, which name them. */
export function install(db: Db, log: EngineLog, mode: 'use' | 'avoid'): Promise<void> {
  return withLaunchLock(db, async () => {
    await migrateEngine(db, loggerOf(log), mode)
    await installSchema(db)
  })
}

async function installSchema(db: Db): Promise<void> {
  const [found] = await db.query<{ there: boolean }>(`select to_regclass('runtime.installed') is not null as there`)
  const [row] = found?.there ? await db.query<{ version: number }>('select version from runtime.installed') : []
  if ((row?.version ?? 0) >= INSTALLED_VERSION) return
  const texts = await Promise.all(FILES.map((file) => readFile(new URL(`sql/${file}`, import.meta.url), 'utf8')))
  await db.transaction(async (tx) => {
    for (const text of texts) await tx.query(text)
    await tx.query('delete from runtime.installed')
    await tx.query('insert into runtime.installed (version) values ($1)', [INSTALLED_VERSION])
  })
}
