/**
 * A room of commands with the programs that an operator runs on its database. They end with the test, and the database is
 * dropped.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { openDb } from '../../src/store/db.ts'
import { openTestRoom } from './commands.ts'
import { type ConcordProcess, endProcess, freePort, runConcord, serveConcord } from './concord-process.ts'

export async function openOperatedRoom(t: TestContext) {
  const room = await openTestRoom()
  const home = await mkdtemp(join(tmpdir(), 'concord-operator-'))
  const { url } = room.db.config
  /** The login of the program: the owner of every table. */
  const owner = openDb({ url, poolMax: 1 })
  const started: ConcordProcess[] = []
  t.after(async () => {
    await Promise.all(started.map((running) => endProcess(running)))
    await owner.close()
    await room.close()
    await rm(home, { recursive: true, force: true })
  })
  const env = { CONCORD_HOME: home, DATABASE_URL: url, CONCORD_UNSAFE_TEST: '1', CONCORD_LOG_LEVEL: 'error' }
  const concordWith = (more: Readonly<Record<string, string>>, ...args: readonly string[]) =>
    runConcord(args, { env: { ...env, ...more } })
  return {
    room,
    home,
    owner,
    env,
    concord: (...args: readonly string[]) => concordWith({}, ...args),
    concordWith,
    async serve(more: Readonly<Record<string, string>>) {
      const server = await serveConcord({ env: { ...env, CONCORD_PORT: await freePort(), ...more }, cwd: home })
      started.push(server)
      return server
    },
  }
}
