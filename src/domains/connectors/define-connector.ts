/** The declaration of a connector: everything that is known about it before it is ever called. */
import type { z } from 'zod'
import type { Clock } from '#kernel/clock'
import type { DataClass } from '#kernel/data-class'
import { type ErrorClass, retryableErrorClasses } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'
import type { RiskLevel } from '#kernel/policy/policy'
import type { Decision } from '#kernel/refusal'
import type { Connector } from './connector.ts'

export type ConnectorTools = {
  readonly now: Clock
  /** Settles after the time, or at once when the signal is aborted. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** How far the outcome of an operation can be known; see the README. */
export const sideEffectClasses = ['none', 'keyed', 'queryable', 'opaque'] as const
type SideEffectClass = (typeof sideEffectClasses)[number]

export const authModes = [
  'none',
  'api_key',
  'bearer',
  'basic',
  'oauth_client_credentials',
  'hmac',
  'connection_string',
] as const
export type AuthMode = (typeof authModes)[number]

export type ConnectorAuth = {
  readonly mode: AuthMode
  /** Where the secret is, such as `vault://billing/key`; null only with the mode `none`. */
  readonly secret_ref: string | null
  readonly scopes: readonly string[]
}

/** Null: no limit. Both hold over all processes together. */
export type RateLimits = { readonly requests_per_minute: number | null; readonly concurrent: number | null }

/** After so many failures in a row that are the provider's, nobody is sent there for a while. */
export type BreakerTerms = { readonly failures: number; readonly open_ms: number }

/**
 * Another operation of the same connector, and its input. Texts may hold `{input.field}`, `{output.field}` and `{key}`;
 * a text that is one such placeholder becomes the value itself.
 */
export type Followup = { readonly operation: string; readonly input: JsonObject }

export type ReadBack = Followup & {
  /** The field of its output that is there (not null, false or an empty list) when the deed was done. */
  readonly found: string
  /** The field that stands for the result of the deed; left out: the whole output. */
  readonly result?: string | undefined
}

export type ConnectorOperationContract = {
  readonly name: string
  readonly description: string
  readonly input: z.ZodType
  readonly output: z.ZodType
  readonly side_effect_class: SideEffectClass
  readonly risk_level: RiskLevel
  readonly idempotency: { readonly required: boolean; readonly key_template: string | null }
  readonly approval_required: boolean
  readonly compensation: Followup | null
  readonly read_back: ReadBack | null
  /** What the credential must be allowed to do for it; each is one of the connector's scopes. */
  readonly scopes: readonly string[]
  /** Of input fields by path; what is not named is `internal`. */
  readonly input_classes: Readonly<Record<string, DataClass>>
  readonly output_classes: Readonly<Record<string, DataClass>>
  readonly timeout_ms: number
  readonly output_max_bytes: number
  readonly retryable: readonly ErrorClass[]
  readonly attempts_max: number
  readonly backoff_seconds: readonly number[] | null
}

type PinnedTerms = {
  /** The contract of an operation as its approved definition makes it. */
  contractOf(operation: ConnectorOperationContract, approved: JsonObject): Decision<ConnectorOperationContract>
}

export type ConnectorDefinition = {
  readonly kind: 'connector'
  readonly connector_id: string
  readonly connector_type: string
  /** As effects name it: `connector.<name>.<operation>`. */
  readonly name: string
  readonly description: string
  readonly auth: ConnectorAuth
  readonly read_scopes: readonly string[]
  readonly write_scopes: readonly string[]
  readonly rate_limits: RateLimits
  readonly breaker: BreakerTerms
  readonly risk_level: RiskLevel
  /** The strictest class of data that may go through it. */
  readonly data_class_max: DataClass
  readonly operations: readonly ConnectorOperationContract[]
  /** References beside `auth.secret_ref` that its calls may resolve; any other is refused, wherever it came from. */
  readonly secret_refs: readonly string[]
  /** Settings for people to see; a secret among them is refused. */
  readonly settings: JsonObject
  /** For providers that describe themselves: no call goes out under a definition that nobody approved. Null: the declaration is all there is. */
  readonly pinned: PinnedTerms | null
  /** What the type of the connector finds wrong with its own settings. */
  readonly flaws: readonly string[]
  /** Makes the connector itself; called once, at start-up. It must not call anybody yet. */
  readonly open: (tools: ConnectorTools) => Connector
}

type OperationInput = Pick<
  ConnectorOperationContract,
  'name' | 'description' | 'input' | 'output' | 'side_effect_class'
> &
  Partial<ConnectorOperationContract>

type ConnectorInput = Pick<ConnectorDefinition, 'connector_type' | 'name' | 'description' | 'open'> &
  Partial<Omit<ConnectorDefinition, 'kind' | 'operations' | 'auth' | 'rate_limits'>> & {
    readonly operations: readonly OperationInput[]
    readonly auth?: Partial<ConnectorAuth>
    readonly rate_limits?: Partial<RateLimits>
  }

const TIMEOUT_MS = 30_000
const OUTPUT_BYTES = 1_048_576
const ATTEMPTS = 3

function operation(input: OperationInput): ConnectorOperationContract {
  return Object.freeze({
    risk_level: 'low' as const,
    idempotency: { required: input.side_effect_class === 'keyed', key_template: null },
    approval_required: false,
    compensation: null,
    read_back: null,
    scopes: [],
    input_classes: {},
    output_classes: {},
    timeout_ms: TIMEOUT_MS,
    output_max_bytes: OUTPUT_BYTES,
    retryable: retryableErrorClasses,
    attempts_max: ATTEMPTS,
    backoff_seconds: null,
    ...input,
  })
}

/** Fills in what was left out; whether it all fits together is asked by `openConnectors`. */
export function defineConnector(input: ConnectorInput): ConnectorDefinition {
  return Object.freeze({
    connector_id: input.name,
    risk_level: 'low' as const,
    read_scopes: [],
    write_scopes: [],
    breaker: { failures: 5, open_ms: 30_000 },
    data_class_max: 'confidential' as const,
    secret_refs: [],
    settings: {},
    pinned: null,
    flaws: [],
    ...input,
    kind: 'connector' as const,
    auth: { mode: 'none' as const, secret_ref: null, scopes: [], ...input.auth },
    rate_limits: { requests_per_minute: null, concurrent: null, ...input.rate_limits },
    operations: input.operations.map(operation),
  })
}
