/** A server for the tests of one `describe`, with its own folder, database, project, home and port. It is removed when they are done. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import {
  type ConcordProcess,
  type Ended,
  endProcess,
  freePort,
  runConcord,
  type Served,
  serveConcord,
  spawnConcord,
  writeProject,
} from './concord-process.ts'
import { openTestDb, type TestDb } from './database.ts'
import { anOrgRole, aPerson, aWorld } from './tenant.ts'

export type ServerOptions = {
  /** A file of `test/support/projects`, without its extension. */
  readonly project?: string
  /** The text of `concord.config.mjs`, instead of `project`. */
  readonly config?: (folder: string) => string
  /** More environment variables. Called before the server starts. */
  readonly env?: (folder: string, database: TestDb) => Promise<Record<string, string>> | Record<string, string>
  /** Called when the server is up. */
  readonly ready?: (server: TestServer) => Promise<void>
}

export type TestServer = {
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
  readonly database: TestDb
  readonly address: string
  /** The environment that the server has reported. */
  readonly environment: string | null
  /** The key of the first administrator. */
  adminKey(): Promise<string>
  /** Runs the program to its end, as the administrator. */
  concord(...args: readonly string[]): Promise<Ended>
  /** Runs the program with the key of another person. */
  as(key: string, ...args: readonly string[]): Promise<Ended>
  /** Runs the program with more environment variables. */
  with(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Ended>
  /** Starts the program; it ends with the server at the latest. */
  start(...args: readonly string[]): ConcordProcess
  /** Starts a second server on the same database, with its own home and port. */
  serveSecond(): Promise<Served>
  /** Creates a writer with these roles in the organisation and returns the key. */
  hire(name: string, ...orgRoles: readonly string[]): Promise<string>
  /** Ends the server and everything that was started beside it, and returns the output of the server. */
  stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<Ended>
  /** Starts the server again on the same database. */
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
    if (value === undefined) throw new Error(`The test server has no ${name} yet.`)
    return value
  }
  const options = () => ({ env: have('env'), cwd: have('folder') })
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
    get environment() {
      return have('server').environment
    },
    adminKey: async () => (await readFile(have('server').keyFile, 'utf8')).trim(),
    concord: (...args) => runConcord(args, options()),
    as: (key, ...args) => testServer.with({ CONCORD_KEY: key }, ...args),
    with: (more, ...args) => runConcord(args, { ...options(), env: { ...have('env'), ...more } }),
    start(...args) {
      const running = spawnConcord(args, options())
      have('started').push(running)
      return running
    },
    async serveSecond() {
      const own = { CONCORD_HOME: join(have('folder'), 'second home'), CONCORD_PORT: await freePort() }
      const second = await serveConcord({ ...options(), env: { ...have('env'), ...own } })
      have('started').push(second)
      return second
    },
    async hire(name, ...orgRoles) {
      const { db } = have('database')
      const [org] = await db.query<{ id: string }>(`select id from identity.orgs where slug = 'default'`)
      if (!org) throw new Error('The server has no organisation.')
      const world = aWorld(db, new Date())
      const person = await aPerson(world, { orgId: org.id, slug: 'default' }, 'writer', name)
      for (const role of orgRoles) await anOrgRole(world, org.id, role, [person])
      return person.key
    },
    async stop(signal) {
      await Promise.all(have('started').map((running) => endProcess(running, signal)))
      await endProcess(have('server'), signal)
      return have('server').ended
    },
    async serve() {
      opened.server = await serveConcord(options())
    },
  }
  before(async () => {
    // The space in the name fails every path that is not quoted.
    const folder = await mkdtemp(join(tmpdir(), 'concord server '))
    opened = { folder, started: [] }
    if (project) await writeProject(folder, project)
    if (config) await writeFile(join(folder, 'concord.config.mjs'), config(folder))
    const database = await openTestDb()
    opened.database = database
    opened.env = {
      CONCORD_HOME: join(folder, 'home'),
      CONCORD_PORT: await freePort(),
      DATABASE_URL: database.url,
      CONCORD_UNSAFE_TEST: '1',
      ...(await env(folder, database)),
    }
    opened.server = await serveConcord(options())
    await ready?.(testServer)
  })
  after(async () => {
    const { folder, database, server, started = [] } = opened
    await Promise.all([...started, ...(server ? [server] : [])].map((running) => endProcess(running)))
    await database?.close()
    if (folder) await rm(folder, { recursive: true, force: true })
  })
  return testServer
}
