/** Concord inside another program: the same service without a port, and a client that calls it in the process. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type CommandHandle, type CommandRef, type ConcordClient, ConcordError, connect } from '#client'
import { closedToAgents } from '#api'
import { actingFor, submitCommand } from '#domains/commands'
import { authorize } from '#domains/identity'
import { encodeId, textId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision } from '#kernel/refusal'
import { adoptTransaction, type ForeignClient } from '#store'
import { activeTraceId } from '#telemetry'
import { type Environment, readConfig } from './config.ts'
import { keepHistory } from './history.ts'
import { openClosers, openOrClose } from './lifecycle.ts'
import { type Log, openLog } from './log.ts'
import type { Project } from './project.ts'
import { ENGINE_ROLE, type StartOptions } from './start-worker.ts'
import { openService, type Service } from './start-server.ts'
import { type SystemDeps, systemDeps } from './system-deps.ts'

export type ConcordOptions = {
  /** Its effects may use the services of the program. */
  readonly project: Project
  /** Default: a Postgres of its own in the data folder. */
  readonly databaseUrl?: string | undefined
  /** The data folder. Default: `.concord` in the working directory. */
  readonly home?: string | undefined
  /** Further settings, as `CONCORD_…` variables. The environment of the process is not read. */
  readonly settings?: Environment
  readonly deps?: SystemDeps
  readonly log?: Log
}

type SubmitOptions = {
  /** The idempotency key of the request: the same for every repetition. */
  readonly key?: string | undefined
  /** A connection of the caller with an open transaction in the same database: the command commits with the rows of the caller. */
  readonly tx?: ForeignClient | undefined
}

export type Concord = Omit<ConcordClient, 'submit'> & {
  submit<Input extends object, Result>(
    command: CommandRef<Input, Result>,
    input: Input,
    options?: SubmitOptions,
  ): Promise<CommandHandle<Result>>
  /** The same program as another caller. */
  as(key: string): Concord
  /** Handles a request of the HTTP API: mount it in another server. */
  fetch(request: Request, env?: object): Promise<Response>
  close(): Promise<void>
}

/** Opens Concord in this process. It takes no port and handles no signals. Throws a `ConcordError` if it cannot start. */
export async function openConcord(options: ConcordOptions): Promise<Concord> {
  return (await openInProcess(options)).concord
}

/** With the parts that `@concordhq/concord/testing` needs. @internal */
export async function openInProcess(
  options: ConcordOptions & Pick<StartOptions, 'scheduleAheadMs'>,
): Promise<{ readonly concord: Concord; readonly service: Service }> {
  const { project, databaseUrl, home, settings = {}, deps = systemDeps() } = options
  const folder = process.cwd()
  const environment = {
    ...settings,
    ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
    ...(home === undefined ? {} : { CONCORD_HOME: resolve(folder, home) }),
  }
  const config = valueOf(readConfig(environment, folder))
  const log = options.log ?? openLog(settings['CONCORD_LOG_LEVEL'] === undefined ? 'warn' : config.logLevel)
  const closers = openClosers(log)
  const { scheduleAheadMs } = options
  const started = { config, environment, folder, project, deps, log, scheduleAheadMs }
  const opened = await openOrClose(closers, async () => {
    const service = await openService(started, deps, log, closers)
    return service.ok
      ? accept({ service: service.value, key: (await readFile(service.value.keyFile, 'utf8')).trim() })
      : service
  })
  const { service, key } = valueOf(opened)
  closers.add(() => Promise.resolve(service.endStreams()))
  const fallback = config.workspace ?? config.defaultWorkspace
  service.jobs?.begin()
  const stopHistory = keepHistory(config, service.url, deps, log)
  if (stopHistory) closers.add(stopHistory)
  const concord = callerOf({ service, deps, fallback, close: () => closers.closeAll() }, key)
  return { concord, service }
}

const ORIGIN = 'http://127.0.0.1'

type Opened = {
  readonly service: Service
  readonly deps: SystemDeps
  /** The workspace of a caller who names none. */
  readonly fallback: string | undefined
  close(): Promise<void>
}

function callerOf(opened: Opened, key: string): Concord {
  const { service, deps, fallback, close } = opened
  const fetch = (request: Request, env?: object) => service.fetch(request, env)
  const client = connect({ url: ORIGIN, key, fetch: (request) => service.fetch(request, { isOwn: true }) })
  return {
    ...client,
    fetch,
    close,
    as: (other) => callerOf(opened, other),
    async submit<Input extends object, Result>(
      { taskName }: CommandRef<Input, Result>,
      input: Input,
      { key: idempotencyKey, tx }: SubmitOptions = {},
    ) {
      const asked = { bearer: key, role: 'writer' as const, sources: { fallback } }
      const looked = valueOf(await service.authenticator.callers.look(asked))
      const { principal } = looked
      valueOf(principal.agent ? closedToAgents() : authorize(principal, asked.role))
      const workspace = valueOf(looked.workspace)
      const submit = (own?: Parameters<typeof submitCommand>[2]['tx']) =>
        submitCommand(
          service.work.commands,
          actingFor(principal, activeTraceId() ?? textId('trace', deps.randomBytes(16))),
          {
            workspaceId: workspace.id,
            taskName,
            payload: input as JsonObject,
            idempotencyKey,
            ingress: 'user_request',
            requestId: textId('request', deps.randomBytes(16)),
            tx: own,
          },
        )
      const { command } = valueOf(await (tx ? adoptTransaction(tx, ENGINE_ROLE, submit) : submit()))
      service.announce()
      return { command_id: encodeId('command', command.command_id), status: command.status }
    },
  }
}

function valueOf<T>(decision: Decision<T>): T {
  if (decision.ok) return decision.value
  const { code, reason: detail, hint, path, facts } = decision
  throw new ConcordError(0, { code, detail, ...(hint && { hint }), ...(path && { path }), ...(facts && { facts }) })
}
