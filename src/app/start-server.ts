/** The running service: store, schema, identity and API, opened in order and closed in reverse. */
import { createHash } from 'node:crypto'
import { createApi, openEventFeed, serve, webhookPath } from '#api'
import { openAuthenticator } from '#domains/identity'
import { textId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { findPortHolder, migrateUp, openDb, openNotices } from '#store'
import { ensureAdminKey } from './admin-key.ts'
import type { Config, Environment } from './config.ts'
import { type Log, openLog } from './log.ts'
import { openStore } from './open-store.ts'
import { openWork } from './open-work.ts'
import { loadProject } from './project.ts'
import { openTelemetry } from './telemetry.ts'
import { version } from './version.ts'
import { realWorld, type World } from './world.ts'

export type RunningServer = {
  readonly address: string
  readonly home: string
  readonly database: string
  readonly keyFile: string
  readonly schemaVersion: number
  close(): Promise<void>
}

export type StartOptions = {
  readonly config: Config
  readonly environment: Environment
  /** Where the project lies, with its `concord.config.ts`. */
  readonly folder: string
  readonly world?: World
  readonly log?: Log
  readonly onProgress?: (step: string) => void
}

/** The role that the service's connections act as; see docs/decisions/0008-two-database-roles.md. */
const ENGINE_ROLE = 'concord_engine'
/** Where writers announce that there are new events. */
const EVENTS_CHANNEL = 'concord_events'

export async function startServer(options: StartOptions): Promise<Decision<RunningServer>> {
  const { config, environment, folder, world = realWorld(), onProgress = () => {} } = options
  const log = options.log ?? openLog(config.logLevel)
  const closers: (() => Promise<unknown>)[] = []
  const close = async () => {
    for (let closer = closers.pop(); closer; closer = closers.pop()) {
      await closer().catch((error: unknown) => log.error({ err: error }, 'could not close a part of the service'))
    }
  }
  try {
    const started = await open()
    if (!started.ok) await close()
    return started
  } catch (error) {
    await close()
    throw error
  }

  async function open(): Promise<Decision<RunningServer>> {
    const project = await loadProject(folder)
    if (!project.ok) return project
    const telemetry = await openTelemetry(environment, version)
    closers.push(() => telemetry.close())
    onProgress(config.databaseUrl === undefined ? 'starting Postgres' : 'connecting to Postgres')
    const store = await openStore(config, log)
    if (!store.ok) return store
    closers.push(() => store.value.close())

    onProgress('bringing the schema up to date')
    const migrated = await migrateUp(store.value.url)
    if (!migrated.ok) return migrated
    const db = openDb({
      url: store.value.url,
      role: ENGINE_ROLE,
      poolMax: config.poolMax,
      onConnectionError: (error) => log.warn({ err: error }, 'lost a database connection'),
    })
    closers.push(() => db.close())
    const identity = { db, ...world }
    const keyFile = await ensureAdminKey(identity, config.home, textId('trace', world.randomBytes(16)))

    onProgress('starting the runtime')
    const work = await openWork(db, world, project.value, log)
    if (!work.ok) return work
    closers.push(() => work.value.close())

    const authenticator = openAuthenticator({
      db,
      now: world.now,
      provider: providerOf(config),
      onError: (error) => log.warn({ err: error }, 'could not note the use of a key'),
    })
    closers.push(() => authenticator.close())
    const onError = (error: unknown) => log.warn({ err: error }, 'the event feed was interrupted')
    const notices = openNotices(db, { onError })
    closers.push(() => notices.close())
    // Streams never end by themselves; they are told first, then the server waits for the rest.
    const closing = new AbortController()
    const api = createApi({
      ...identity,
      log,
      version,
      feed: openEventFeed({ db, notices, channel: EVENTS_CHANNEL, onError }),
      closing: closing.signal,
      authenticate: authenticator.authenticate,
      cursorKey: cursorKeyOf(store.value.url),
      schemaVersions: async () => {
        const [row] = await db.query<{ version: number | null }>(
          'select max(number) as version from public.concord_migrations',
        )
        return { expected: migrated.value.version, actual: row?.version ?? null }
      },
      hosts: hostsOf(config),
      limits: { ratePerMinute: config.rateLimit },
      defaultWorkspace: config.workspace ?? config.defaultWorkspace,
      publicPaths: ['/metrics', webhookPath],
      runtimeStatus: () => Promise.resolve({ name: 'dbos', ok: true }),
      work: { commands: work.value.commands, approvals: work.value.approvals, webhooks: project.value.webhooks ?? [] },
      extraRoutes: (app) => {
        app.get('/metrics', async (c) =>
          c.text(await telemetry.metrics.render(), 200, { 'content-type': 'text/plain; version=0.0.4' }),
        )
      },
    })
    const announcing = {
      async fetch(request: Request, env: object) {
        const response = await api.fetch(request, env)
        // Off the commit path and coalesced: a notice inside every commit would make writers wait for each other.
        if (request.method !== 'GET' && response.ok) notices.announce(EVENTS_CHANNEL)
        return response
      },
    }
    const server = await listen(announcing, config, world)
    if (!server.ok) return server
    closers.push(() => {
      closing.abort()
      return server.value.close()
    })
    return accept({
      address: server.value.url,
      home: config.home,
      database: store.value.label,
      keyFile,
      schemaVersion: migrated.value.version,
      close,
    })
  }
}

async function listen(api: Parameters<typeof serve>[0], { host, port }: Config, { randomBytes }: World) {
  try {
    return accept(await serve(api, { host, port, randomBytes }))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') {
      const holder = await findPortHolder(port)
      const by = holder ? ` by process ${holder.pid} (${holder.command.slice(0, 64)})` : ''
      return refuse('app.port.taken', `port ${port} on ${host} is taken${by}`, {
        path: 'CONCORD_PORT',
        hint: 'stop that program, or set CONCORD_PORT to another port',
      })
    }
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EACCES') {
      return refuse('app.setting.invalid', `this machine cannot listen on ${host}:${port} (${code})`, {
        path: 'CONCORD_HOST',
        hint: 'set CONCORD_HOST=127.0.0.1, and a CONCORD_PORT above 1023',
      })
    }
    throw error
  }
}

/** A page in a browser may be tricked into calling loopback under a foreign name; who listens for others names them himself. */
function hostsOf({ host, hosts }: Config): readonly string[] | 'any' {
  if (hosts === '*') return 'any'
  if (hosts !== undefined) return hosts.split(',').map((name) => name.trim())
  return ['127.0.0.1', '::1', 'localhost'].includes(host) ? [] : 'any'
}

function providerOf({ jwtIssuer, jwtAudience, jwtJwksUrl }: Config) {
  if (jwtIssuer === undefined || jwtAudience === undefined || jwtJwksUrl === undefined) return undefined
  return { issuer: jwtIssuer, audience: jwtAudience, jwks: { url: jwtJwksUrl } }
}

/** Page cursors are sealed so that an edited one is noticed; every process on one database must read the others' cursors. */
function cursorKeyOf(url: string): Uint8Array {
  return createHash('sha256').update('concord page cursor\n').update(url).digest()
}
