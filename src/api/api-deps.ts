/** The dependencies of the API, as arguments: no file here reads the environment, the clock or randomness directly. */
import type { Hono } from 'hono'
import type { AgentDeps } from '#domains/agents'
import type { ApprovalDeps } from '#domains/approvals'
import type { ArtifactDeps } from '#domains/artifacts'
import type { CommandDeps, WebhookSource } from '#domains/commands'
import type { Connectors } from '#domains/connectors'
import type { FlowDeps } from '#domains/flow'
import type { Callers, Principal } from '#domains/identity'
import type { MemoryDeps } from '#domains/memory'
import type { AskedDirect, Scheduler, SelfCheck, Wait } from '#domains/scheduler'
import type { CommandScheduleDeps } from '#domains/command-schedules'
import type { Clock, NewId } from '#kernel/clock'
import type { JsonObject } from '#kernel/json-value'
import type { Decision } from '#kernel/refusal'
import type { Db, Notices } from '#store'
import type { Answered, ApiEnv, ApiLog } from './guards.ts'

export type ApiLimits = {
  readonly bodyBytesMax: number
  /** The time limit for reading a body; the server's own limit is slightly longer. */
  readonly bodyTimeoutMs: number
  readonly ratePerMinute: number
  /** How many requests one key may send at once before the rate applies. */
  readonly rateBurst: number
  /** Bad credentials that one address may try per minute, in one burst or spread out. */
  readonly badBearersPerMinute: number
  readonly heartbeatMs: number
  readonly streamsPerKeyMax: number
  readonly healthTimeoutMs: number
}

export const defaultLimits: ApiLimits = {
  bodyBytesMax: 1_048_576,
  bodyTimeoutMs: 8_000,
  ratePerMinute: 6_000,
  rateBurst: 300,
  badBearersPerMinute: 60,
  heartbeatMs: 15_000,
  streamsPerKeyMax: 20,
  healthTimeoutMs: 1_500,
}

/** A burst is never larger than the rate per minute. */
export function limitsOf(given: Partial<ApiLimits> = {}): ApiLimits {
  const limits = { ...defaultLimits, ...given }
  return { ...limits, rateBurst: given.rateBurst ?? Math.min(defaultLimits.rateBurst, limits.ratePerMinute) }
}

export type SchemaVersions = { readonly expected: string | number; readonly actual: string | number | null }
export type RuntimeStatus = {
  readonly name: string
  readonly ok: boolean
  readonly isEngineReachable?: boolean | null
  readonly waitingMs?: number | null
  readonly workers?: number
}

/** The governed domains; an API without them serves only identity and events. */
type GovernedWork = {
  readonly commands: CommandDeps
  readonly approvals: ApprovalDeps
  readonly artifacts?: ArtifactDeps
  readonly schedules?: CommandScheduleDeps
  readonly agents?: AgentDeps
  readonly flow?: FlowDeps
  readonly connectors?: Connectors
  readonly webhooks: readonly WebhookSource[]
  readonly memory?: MemoryDeps
}

/** The scheduler of this machine. */
export type SchedulerApi = {
  readonly scheduler: Scheduler
  /** The organisation that owns the scheduler; a scheduler file belongs to a machine, not to a workspace. */
  readonly orgId: string
  /** `registered`: no request may name the command to run; `any`: an administrator may. */
  readonly admits: 'registered' | 'any'
  readonly wait: Wait
  /** Why the loop has stopped; undefined while it runs. */
  readonly stopped: () => string | undefined
  /** Reads every row, so it runs outside the main thread. */
  readonly check: () => Promise<Decision<SelfCheck>>
  /** Renews the reservation of a direct execution and follows the job to its end, after the answer. */
  readonly follow: (asked: AskedDirect, startByMs: number) => void
}

/** Serves one message of the Model Context Protocol for a caller that the guards have admitted. */
type ServeMcp = (
  request: Request,
  sent: JsonObject,
  caller: {
    readonly principal: Principal
    readonly workspaceId: string
    readonly traceId: string
    readonly requestId: string
  },
) => Promise<Response>

/** This server as an OAuth resource: its address, which its tokens name as their audience, and who issues them. */
export type OAuthResource = { readonly resource: string; readonly issuer: string }

export type ApiDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly randomBytes: (count: number) => Uint8Array
  readonly log: ApiLog
  readonly version: string
  /** `audience`: what a token of an identity provider must be issued for, if not for the API. */
  readonly authenticate: (bearer: string, audience?: string) => Promise<Decision<Principal>>
  /** Looks up a caller together with the workspace of the request, and remembers both for a moment. */
  readonly callers: Callers
  /** Without notices, new events are found by polling every `pollMs`. */
  readonly feed: {
    readonly notices?: Notices
    readonly channel?: string
    readonly pollMs?: number
    readonly onError?: (error: unknown) => void
  }
  readonly schemaVersions: () => Promise<SchemaVersions>
  readonly work?: GovernedWork
  /** The scheduler of this machine; without it, its routes answer 404. */
  readonly scheduler?: SchedulerApi
  readonly runtimeStatus?: () => Promise<RuntimeStatus>
  /** The key that seals page cursors; the same in every process of one installation. */
  readonly cursorKey: Uint8Array
  /** The workspace of requests that name none: an id or a slug. */
  readonly defaultWorkspace?: string
  readonly limits?: Partial<ApiLimits>
  /** Allowed host names; loopback names are always allowed. Use `any` only behind a proxy that checks them. */
  readonly hosts?: readonly string[] | 'any'
  /** Foreign origins whose pages may call the API; none by default. */
  readonly origins?: readonly string[]
  /** The metrics in the text format of Prometheus. Without it there is no `/metrics`. */
  readonly renderMetrics?: () => Promise<string>
  /** Without it there is no `/mcp`. */
  readonly mcp?: ServeMcp
  /** Without it a client of the Model Context Protocol needs a key, or must know the identity provider. */
  readonly oauthResource?: OAuthResource | undefined
  /** Additional routes, mounted before the built-in ones and behind the same guards. */
  readonly extraRoutes?: (app: Hono<ApiEnv>) => void
  /** Called after every answer. */
  readonly onAnswered?: (answered: Answered) => void
  /** Ends the open event streams when the server shuts down. */
  readonly closing?: AbortSignal
}
