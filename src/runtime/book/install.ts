/** Installs the book in a database and upgrades an older version, one process at a time. */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '#store'

/** Increment with every change of the files below; an older version of Concord does not change a newer installation. */
const INSTALLED_VERSION = 8
/** The oldest version with which this program can wake. */
const USABLE_VERSION = 4
const FILES = ['tables.sql', 'functions.sql', 'grants.sql'] as const
const LOCK = 'concord.runtime.launch'
const RETRY_MS = 25

/**
 * Polls for the lock. Waiting for it inside Postgres would hold a snapshot, and an engine that builds indexes
 * concurrently waits for every older snapshot: both would wait forever.
 */
export async function withLaunchLock<T>(db: Db, work: () => Promise<T>): Promise<T> {
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

/** Returns the id of the book. With `works` false it does not upgrade a usable older version, because an upgrade may stop older workers. */
export async function installBook(db: Db, works = true): Promise<string> {
  await withLaunchLock(db, () => installSchema(db, works ? INSTALLED_VERSION : USABLE_VERSION))
  const [row] = await db.query<{ id: string }>('select id from runtime.book')
  return row?.id ?? ''
}

async function installSchema(db: Db, needed: number): Promise<void> {
  const [found] = await db.query<{ there: boolean }>(`select to_regclass('runtime.installed') is not null as there`)
  const [row] = found?.there ? await db.query<{ version: number }>('select version from runtime.installed') : []
  if ((row?.version ?? 0) >= needed) return
  const texts = await Promise.all(FILES.map((file) => readFile(new URL(`sql/${file}`, import.meta.url), 'utf8')))
  await db.transaction(async (tx) => {
    for (const text of texts) await tx.query(text)
    await tx.query('delete from runtime.installed')
    await tx.query('insert into runtime.installed (version) values ($1)', [INSTALLED_VERSION])
  })
}
