/** The running service: a worker with the HTTP API in front of it, opened in order and closed in reverse. */
import { createApi, serve, type ServedApi } from '#api'
import { openAuthenticator } from '#domains/identity'
import { openMcp } from '#mcp'
import { textId } from '#kernel/ids'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { findPortHolder, openNotices } from '#store'
import { ensureAdminKey } from './admin-key.ts'
import { type Closers, openClosers, openOrClose } from './lifecycle.ts'
import type { Config } from './config.ts'
import { keepHistory } from './history.ts'
import { openInstallationKeys } from './installation-keys.ts'
import { openHttpMetrics } from './metrics.ts'
import { type Log, openLog } from './log.ts'
import { openServerJobs } from './open-jobs.ts'
import { type Base, openBase, type StartOptions } from './start-worker.ts'
import { version } from './version.ts'
import { type SystemDeps, systemDeps } from './system-deps.ts'
import { watchHome } from './watch-home.ts'

export type RunningServer = {
  readonly address: string
  readonly home: string
  readonly database: string
  readonly keyFile: string
  readonly schemaVersion: number
  /** False if the folder has no `concord.config.ts`. */
  readonly hasProject: boolean
  /** The tasks that can be submitted. */
  readonly taskNames: readonly string[]
  /** The file of its scheduler, if it runs one. */
  readonly schedulerFile: string | undefined
  /** The environment whose turns it takes; undefined for all. */
  readonly environmentName: string | undefined
  /** Resolves when the data folder is gone. The caller then closes the server. */
  readonly lost: Promise<Refusal>
  close(): Promise<void>
}

/** The channel on which writers announce new events. */
const EVENTS_CHANNEL = 'concord_events'

/** The service without a port: the database, the runtime, and the handler of HTTP requests. @internal */
export type Service = Base & {
  readonly keyFile: string
  readonly authenticator: ReturnType<typeof openAuthenticator>
  readonly jobs: ReturnType<typeof openServerJobs> extends Decision<infer Jobs> ? Jobs : never
  /** Resolves when the data folder is gone. */
  readonly lost: Promise<Refusal>
  readonly fetch: (request: Request, env?: object) => Promise<Response>
  /** Tells the streams that there are new events. */
  announce(): void
  /** Ends the streams, which never end by themselves. */
  endStreams(): void
}

/** @internal */
export async function openService(
  options: StartOptions,
  deps: SystemDeps,
  log: Log,
  closers: Closers,
): Promise<Decision<Service>> {
  const { config } = options
  const base = await openBase({ ...options, works: config.works === '1' }, deps, log, closers)
  if (!base.ok) return base
  const { db } = base.value
  const identity = { db, ...deps }
  const keyOf = await openInstallationKeys(db)
  const { keyFile, orgId } = await ensureAdminKey(identity, config.home, textId('trace', deps.randomBytes(16)))
  const watched = await watchHome(config, log)
  closers.add(() => watched.close())
  await base.value.work.startSchedules()
  const authenticator = openAuthenticator({
    db,
    now: deps.now,
    elapsedMs: () => performance.now(),
    provider: providerOf(config),
    onError: (error) => log.warn({ err: error }, 'could not record the use of a key'),
  })
  closers.add(() => authenticator.close())
  const onError = (error: unknown) => log.warn({ err: error }, 'the event feed was interrupted')
  const notices = openNotices(db, { onError })
  closers.add(() => notices.close())
  const closing = new AbortController()
  const jobs = openServerJobs({ ...options, log, orgId, stop: closing.signal })
  if (!jobs.ok) return jobs
  closers.add(() => jobs.value?.close() ?? Promise.resolve())
  const api = createApi({
    ...identity,
    ...servedBy(config, base.value),
    cursorKey: keyOf('page cursor'),
    log,
    version,
    feed: { notices, channel: EVENTS_CHANNEL, onError },
    closing: closing.signal,
    mcp: openMcp({
      commands: base.value.work.commands,
      version,
      stateKey: keyOf('mcp state'),
      closing: closing.signal,
      onError: (error) => log.warn({ err: error }, 'a request over MCP was refused'),
    }),
    oauthResource: oauthResourceOf(config),
    ...(jobs.value && { scheduler: jobs.value.api }),
    authenticate: authenticator.authenticate,
    callers: authenticator.callers,
  })
  return accept({
    ...base.value,
    keyFile,
    authenticator,
    jobs: jobs.value,
    lost: watched.lost,
    announce: () => notices.announce(EVENTS_CHANNEL),
    endStreams: () => closing.abort(),
    async fetch(request, env = {}) {
      const response = await api.fetch(request, env)
      // Sent after the commit and coalesced: a notice inside every commit would make writers wait for each other.
      if (request.method !== 'GET' && response.ok) notices.announce(EVENTS_CHANNEL)
      return response
    },
  })
}

export async function startServer(options: StartOptions): Promise<Decision<RunningServer>> {
  const { config, deps = systemDeps(), log = openLog(options.config.logLevel) } = options
  const closers = openClosers(log)
  return openOrClose(closers, async () => {
    const opened = await openService(options, deps, log, closers)
    if (!opened.ok) return opened
    const { database, schemaVersion, keyFile, jobs, work, lost, fetch, endStreams, url } = opened.value
    const server = await listen({ fetch }, config, deps)
    if (!server.ok) return server
    // Streams are aborted first, then the server waits for the other requests.
    closers.add(() => {
      endStreams()
      return server.value.close()
    })
    jobs?.begin()
    const stopHistory = keepHistory(config, url, deps, log)
    if (stopHistory) closers.add(stopHistory)
    return accept({
      address: server.value.url,
      home: config.home,
      database,
      keyFile,
      schemaVersion,
      hasProject: opened.value.project.file !== null,
      taskNames: [...work.commands.catalog.tasks.keys()],
      schedulerFile: jobs?.api.scheduler.db.file,
      environmentName: config.environmentName,
      lost,
      close: () => closers.closeAll(),
    })
  })
}

function servedBy(config: Config, { db, schemaVersion, project, telemetry, work }: Base) {
  return {
    schemaVersions: async () => {
      const [row] = await db.query<{ version: number | null }>(
        'select max(number) as version from public.concord_migrations',
      )
      return { expected: schemaVersion, actual: row?.version ?? null }
    },
    hosts: hostsOf(config),
    limits: { ratePerMinute: config.rateLimit },
    defaultWorkspace: config.workspace ?? config.defaultWorkspace,
    renderMetrics: () => telemetry.metrics.render(),
    onAnswered: openHttpMetrics(telemetry.metrics.meter),
    runtimeStatus: async () => {
      const { engine, ...health } = await work.runtime.health()
      return { name: engine, ...health }
    },
    work: {
      commands: work.commands,
      approvals: work.approvals,
      artifacts: work.artifacts,
      schedules: work.schedules,
      agents: work.agents,
      flow: work.flow,
      connectors: work.connectors,
      memory: work.memory,
      webhooks: project.webhooks ?? [],
    },
  }
}

/** Protects a loopback server against DNS rebinding by a web page. A public server lists its hosts. */
function hostsOf({ host, hosts }: Config): readonly string[] | 'any' {
  if (hosts === '*') return 'any'
  if (hosts !== undefined) return hosts.split(',').map((name) => name.trim())
  return ['127.0.0.1', '::1', 'localhost'].includes(host) ? [] : 'any'
}

function providerOf({ jwtIssuer, jwtAudience, jwtJwksUrl, jwtLifetimeMax }: Config) {
  if (jwtIssuer === undefined || jwtAudience === undefined || jwtJwksUrl === undefined) return undefined
  return { issuer: jwtIssuer, audience: jwtAudience, jwks: { url: jwtJwksUrl }, lifetimeMaxMs: jwtLifetimeMax }
}

/** A client of the Model Context Protocol asks the identity provider for a token for this address. */
function oauthResourceOf({ jwtIssuer: issuer, mcpResource: resource }: Config) {
  return issuer === undefined || resource === undefined ? undefined : { issuer, resource }
}

/** Listens for requests. If the port is taken, the refusal names the process that holds it. */
async function listen(
  api: Parameters<typeof serve>[0],
  { host, port }: Pick<Config, 'host' | 'port'>,
  { randomBytes }: Pick<SystemDeps, 'randomBytes'>,
): Promise<Decision<ServedApi>> {
  try {
    return accept(await serve(api, { host, port, randomBytes }))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') {
      const holder = await findPortHolder(port)
      const by = holder ? ` by process ${holder.pid} (${holder.command.slice(0, 64)})` : ''
      return refuse('app.port.taken', `Port ${port} on ${host} is taken${by}.`, {
        path: 'CONCORD_PORT',
        hint: 'Stop that program, or set CONCORD_PORT to another port.',
      })
    }
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EACCES') {
      return refuse('app.setting.invalid', `This machine cannot listen on ${host}:${port} (${code}).`, {
        path: 'CONCORD_HOST',
        hint: 'Set CONCORD_HOST=127.0.0.1, and a CONCORD_PORT above 1023.',
      })
    }
    throw error
  }
}
