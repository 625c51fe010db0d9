/** A server for the tests of one `describe`: a folder, a database, a project, a home and a port of its own; gone when they are over. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import {
  type ConcordProcess,
  type Ended,
  freePort,
  runConcord,
  type Served,
  serveConcord,
  spawnConcord,
} from './concord-process.ts'
import { openTestDb, type TestDb } from './database.ts'
import { anOrgRole, aPerson, aWorld } from './tenant.ts'

export type ServerOptions = {
  /** A file of `test/support`, without its ending, whose default export is the project. */
  readonly project?: string
  /** The text of `concord.config.mjs` instead. */
  readonly config?: (folder: string) => string
  /** More of the environment; asked when the folder is there and before the server starts. */
  readonly env?: (folder: string) => Promise<Record<string, string>> | Record<string, string>
  /** What a test needs when the server is up. */
  readonly ready?: (server: TestServer) => Promise<void>
}

export type TestServer = {
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
  readonly database: TestDb
  readonly address: string
  /** The key of the first administrator. */
  adminKey(): Promise<string>
  /** Runs the program to its end, as the administrator. */
  concord(...args: readonly string[]): Promise<Ended>
  /** The same with the key of another person. */
  as(key: string, ...args: readonly string[]): Promise<Ended>
  /** Starts the program; it ends with the server at the latest. */
  start(...args: readonly string[]): ConcordProcess
  /** A writer with these roles in the organisation; gives the key. */
  hire(name: string, ...orgRoles: readonly string[]): Promise<string>
  /** Ends the server and everything that was started beside it; gives what the server has said. */
  stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<Ended>
  /** Another one on the same database. */
  serve(): Promise<void>
}

type Opened = {
  folder: string
  database: TestDb
  env: Record<string, string>
  server: Served
  started: ConcordProcess[]
}

export function withServer({ project, config, env = () => ({}), ready }: ServerOptions = {}): TestServer {
  let opened: Partial<Opened> = {}
  const have = <Name extends keyof Opened>(name: Name): Opened[Name] => {
    const value = opened[name]
    if (value === undefined) throw new Error(`the ${name} of the test server is not there yet`)
    return value
  }
  const options = () => ({ env: have('env'), cwd: have('folder') })
  const end = async (running: ConcordProcess | undefined, signal: NodeJS.Signals) => {
    running?.child.kill(signal)
    await running?.ended
  }
  const testServer: TestServer = {
    get folder() {
      return have('folder')
    },
    get env() {
      return have('env')
    },
    get database() {
      return have('database')
    },
    get address() {
      return have('server').address
    },
    adminKey: async () => (await readFile(have('server').keyFile, 'utf8')).trim(),
    concord: (...args) => runConcord(args, options()),
    as: (key, ...args) => runConcord(args, { ...options(), env: { ...have('env'), CONCORD_KEY: key } }),
    start(...args) {
      const running = spawnConcord(args, options())
      have('started').push(running)
      return running
    },
    async hire(name, ...orgRoles) {
      const { db } = have('database')
      const [org] = await db.query<{ id: string }>(`select id from identity.orgs where slug = 'default'`)
      if (!org) throw new Error('the server has no organisation')
      const world = aWorld(db, new Date())
      const person = await aPerson(world, { orgId: org.id, slug: 'default' }, 'writer', name)
      for (const role of orgRoles) await anOrgRole(world, org.id, role, [person])
      return person.key
    },
    async stop(signal) {
      await Promise.all(have('started').map((running) => end(running, signal)))
      await end(have('server'), signal)
      return have('server').ended
    },
    async serve() {
      opened.server = await serveConcord(options())
    },
  }
  before(async () => {
    // A space in the name: paths are quoted everywhere, or this fails.
    const folder = await mkdtemp(join(tmpdir(), 'concord server '))
    opened = { folder, started: [] }
    const file = project && new URL(`./${project}.ts`, import.meta.url).href
    const text = config?.(folder) ?? (file && `export { default } from ${JSON.stringify(file)}\n`)
    if (text) await writeFile(join(folder, 'concord.config.mjs'), text)
    opened.database = await openTestDb()
    opened.env = {
      CONCORD_HOME: join(folder, 'home'),
      CONCORD_PORT: await freePort(),
      DATABASE_URL: opened.database.url,
      CONCORD_UNSAFE_TEST: '1',
      ...(await env(folder)),
    }
    opened.server = await serveConcord(options())
    await ready?.(testServer)
  })
  after(async () => {
    const { folder, database, server, started = [] } = opened
    await Promise.all([...started, server].map((running) => end(running, 'SIGTERM')))
    await database?.close()
    if (folder) await rm(folder, { recursive: true, force: true })
  })
  return testServer
}
