/** The same work with better-sqlite3, and the claim of plainjob, at synchronous = full; loaded only when installed. */
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { uuidV7Generator } from '#kernel/ids'
import { peersFolder } from './peers.ts'
import { BARE_TABLE, BODY, type SliceCase, SAME_SETTINGS } from './slices.ts'

/** The parts of better-sqlite3 in use; its types are not installed. */
type BetterStatement = { run(...params: unknown[]): unknown; get(...params: unknown[]): Record<string, unknown> }
type Better = { exec(sql: string): void; prepare(sql: string): BetterStatement; close(): void }
type PlainQueue = {
  addMany(type: string, data: unknown[]): unknown
  getAndMarkJobAsProcessing(type: string): { id: number } | undefined
  markJobAsDone(id: number): void
  close(): void
}
type Plainjob = {
  better(database: Better): unknown
  defineQueue(options: { connection: unknown; logger: Record<string, () => void> }): PlainQueue
}

const require = createRequire(join(peersFolder, 'package.json'))

export async function openSqlitePeers(folder: string, jobs: number): Promise<SliceCase[]> {
  const Database = require('better-sqlite3') as new (file: string) => Better
  const plainjob = (await import(pathToFileURL(require.resolve('plainjob')).href)) as Plainjob
  const newId = uuidV7Generator(() => new Date(), randomBytes)

  const bare = new Database(join(folder, 'better-bare.db'))
  bare.exec(`${SAME_SETTINGS}; ${BARE_TABLE}`)
  const [begin, insert, commit] = ['begin immediate', 'insert into bare values (?, ?)', 'commit'].map((sql) =>
    bare.prepare(sql),
  )

  const queue = new Database(join(folder, 'plainjob.db'))
  const quiet = { error() {}, warn() {}, info() {}, debug() {} }
  const plain = plainjob.defineQueue({ connection: plainjob.better(queue), logger: quiet })
  // It sets NORMAL itself; here every case waits for the disk.
  queue.exec(SAME_SETTINGS)
  plain.addMany(
    'bench',
    Array.from({ length: jobs }, () => JSON.parse(BODY) as unknown),
  )
  return [
    {
      name: 'better-sqlite3, bare insert',
      one() {
        begin?.run()
        insert?.run(newId(), BODY)
        commit?.run()
      },
      close: () => bare.close(),
    },
    {
      name: 'plainjob, claim without a run',
      one: () => plain.getAndMarkJobAsProcessing('bench')?.id ?? 0,
      after: (id) => plain.markJobAsDone(id as number),
      close: () => plain.close(),
    },
  ]
}
