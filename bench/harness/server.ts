/** A Postgres for the bench with the settings of the product (every commit is flushed) and all migrations. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Db, type DbConfig, migrateUp, openDb, openEmbeddedPostgres } from '#store'

export type BenchServer = {
  readonly pid: number
  readonly url: string
  open(config?: Omit<Partial<DbConfig>, 'url'>): Db
  stop(): Promise<void>
}

export async function openBenchServer(): Promise<BenchServer> {
  const home = await mkdtemp(path.join(tmpdir(), 'concord-bench-'))
  // Under root the server runs as another user, who needs access to the folder.
  await chmod(home, 0o711)
  const opened = await openEmbeddedPostgres({ home })
  if (!opened.ok) throw new Error(`${opened.reason}: ${opened.hint}`)
  const server = opened.value
  const migrated = await migrateUp(server.url)
  if (!migrated.ok) throw new Error(migrated.reason)
  return {
    pid: server.pid,
    url: server.url,
    open: (config = {}) =>
      openDb({ applicationName: 'concord-bench', role: 'concord_engine', ...config, url: server.url }),
    async stop() {
      await server.stop()
      await rm(home, { recursive: true, force: true })
    },
  }
}
