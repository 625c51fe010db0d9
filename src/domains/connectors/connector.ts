/** A connector: its declaration, which is known before any call, and the port that every connector implements. */
import type { z } from 'zod'
import type { Clock } from '#kernel/clock'
import type { DataClass } from '#kernel/data-class'
import { type ErrorClass, retryableErrorClasses } from '#kernel/error-classes'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { RiskLevel } from '#kernel/policy/policy'
import type { Decision } from '#kernel/refusal'
import { makeOperation, type Operation } from '#kernel/step'

/** Whether a failed call may have changed something. */
export type Happened = 'no' | 'unknown'

export type CallContext = {
  readonly workspace_id: string
  readonly domain_effect_id: string
  readonly trace_id: string
  /** The span of the call as a W3C traceparent, if calls are traced. Send it to a provider that continues traces. */
  readonly traceparent?: string | undefined
  readonly attempt: number
  /** The same for every attempt at one effect. It must reach a provider that deduplicates by it. */
  readonly idempotency_key: string | null
  /** Aborted at the time limit, or when the caller no longer waits for the answer. */
  readonly signal: AbortSignal
  readonly timeout_ms: number
  readonly output_max_bytes: number
  /** Returns the value of a declared reference. The value is removed from everything that the call returns. */
  readonly secret: (reference: string) => Promise<string>
  /** Removes a text made from a secret in the same way: a signature, a token, the password inside a URL. */
  readonly conceal: (derived: string) => void
  /**
   * For providers that describe themselves. Call it before the operation with the current description, or with null if the provider no
   * longer has the operation. It records a new description, and rejects unless a person approved it.
   */
  readonly confirmDefinition: (said: JsonObject | null) => Promise<void>
}

/** The context of `look`, which does not call operations. */
export type LookContext = Pick<
  CallContext,
  'signal' | 'timeout_ms' | 'output_max_bytes' | 'secret' | 'conceal' | 'traceparent'
>
type SeenDefinition = { readonly operation: string; readonly definition: JsonObject }

export type ConnectorCall = {
  readonly connector_name: string
  readonly capability: string
  readonly input: JsonObject
  readonly context: CallContext
  readonly command_id: string
}

type GivenByGate = 'traceparent' | 'secret' | 'conceal' | 'confirmDefinition' | 'timeout_ms' | 'output_max_bytes'

/** A call as the caller requests it; the gate adds the rest of the context. */
export type ConnectorRequest = Omit<ConnectorCall, 'context'> & {
  readonly context: Omit<CallContext, GivenByGate>
  /** The run that calls by itself, such as for a turn of its model. Absent: the command calls, and its own run counts. */
  readonly agent_run_id?: string
}

export type ConnectorError = {
  readonly error_class: ErrorClass
  /** For people, in Concord's own words; never only the words of the provider. */
  readonly message: string
  readonly happened: Happened
  /** The provider asked to wait this long. */
  readonly retry_after_ms?: number
  /** Another process makes this try of the call: what was set aside for the try is not free. */
  readonly is_taken?: true
}

export type ConnectorResult = {
  readonly ok: boolean
  readonly output: JsonValue
  readonly error?: ConnectorError
  /** Figures of a model call by their OpenTelemetry names, such as `gen_ai.usage.input_tokens`: they are set on the span of the call. */
  readonly metadata?: JsonObject
}

export type RefreshContext = Pick<CallContext, 'signal' | 'secret' | 'conceal'>

export interface Connector {
  readonly name: string
  readonly connector_type: string
  capabilities(): readonly string[]
  /** May throw `ConnectorFailure`. Any other error is `internal_error` with an unknown outcome. */
  call(request: ConnectorCall): Promise<ConnectorResult>
  /**
   * Reads what the provider says about itself, such as the tools of an MCP server, and changes nothing there.
   * `sync_connector_metadata` records what it returns, or its error.
   */
  refresh?(context: RefreshContext): Promise<JsonObject>
  /** For providers that describe themselves: returns the current descriptions of the declared operations. */
  look?(context: LookContext): Promise<readonly SeenDefinition[]>
  close?(): Promise<void>
}

/** A failed call, for connectors that throw instead of returning the error. */
export class ConnectorFailure extends Error {
  readonly errorClass: ErrorClass
  readonly happened: Happened
  readonly retryAfterMs: number | undefined

  constructor(errorClass: ErrorClass, message: string, happened: Happened, retryAfterMs?: number) {
    super(message)
    this.name = 'ConnectorFailure'
    this.errorClass = errorClass
    this.happened = happened
    this.retryAfterMs = retryAfterMs
  }

  toResult(): ConnectorResult {
    const { errorClass: error_class, message, happened, retryAfterMs } = this
    const wait = retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs }
    return failed({ error_class, message, happened, ...wait })
  }
}

/** Another process has begun this try of the call. */
export class CallTaken extends ConnectorFailure {
  constructor(name: string) {
    super('transient_connector_error', `Another process makes this call of ${name}.`, 'no')
  }

  override toResult(): ConnectorResult {
    const { errorClass: error_class, message, happened } = this
    return failed({ error_class, message, happened, is_taken: true })
  }
}

export function succeeded(output: JsonValue, metadata?: JsonObject): ConnectorResult {
  return { ok: true, output, ...(metadata ? { metadata } : {}) }
}

export function failed(error: ConnectorError): ConnectorResult {
  return { ok: false, output: null, error }
}

export function unsupported(capability: string): ConnectorResult {
  return new ConnectorFailure('validation_error', `Unsupported capability: ${capability}`, 'no').toResult()
}

export type ConnectorTools = {
  readonly now: Clock
  /** Resolves after the time, or at once when the signal is aborted. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** What can be known about the outcome of an operation; see the README. */
export const sideEffectClasses = ['none', 'keyed', 'queryable', 'opaque'] as const
type SideEffectClass = (typeof sideEffectClasses)[number]

export const outputTrusts = ['trusted', 'untrusted'] as const
type OutputTrust = (typeof outputTrusts)[number]

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
  /** The location of the secret, such as `vault://billing/key`; null only with the mode `none`. */
  readonly secret_ref: string | null
  readonly scopes: readonly string[]
}

/** Null means no limit. Both limits hold over all processes together. */
export type RateLimits = { readonly requests_per_minute: number | null; readonly concurrent: number | null }

/** Opens the circuit for `open_ms` after so many consecutive failures of the provider. */
export type BreakerTerms = { readonly failures: number; readonly open_ms: number }

/**
 * Another operation of the same connector, and its input. A text may contain `{input.field}`, `{output.field}` and `{key}`;
 * a text that is a single placeholder becomes the value itself.
 */
export type Followup = { readonly operation: string; readonly input: JsonObject }

type Compensation = Followup & {
  /** The name of the undo in plans and records. Default: `<connector>.<operation>.undo`. */
  readonly name?: string | undefined
}

export type ReadBack = Followup & {
  /** The field of its output that is present (not null, false or an empty list) if the effect happened. */
  readonly found: string
  /** The field that holds the result of the effect; without it, the whole output is the result. */
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
  readonly compensation: Compensation | null
  readonly read_back: ReadBack | null
  /** The permissions that the credential needs; each is a scope of the connector. */
  readonly scopes: readonly string[]
  /** Data classes of input fields by path; an unnamed field is `internal`. */
  readonly input_classes: Readonly<Record<string, DataClass>>
  readonly output_classes: Readonly<Record<string, DataClass>>
  /** `trusted`: nobody outside can choose its output. An agent that reads an untrusted output acts outside only with an approval. Default: `untrusted`. */
  readonly output_trust: OutputTrust
  readonly timeout_ms: number
  readonly output_max_bytes: number
  /**
   * What the row of a call keeps of input and output. `digest` keeps size and SHA-256 alone, for conversations, from which people can be
   * forgotten. Its connector must remove what looks like a secret from the input before it sends it.
   */
  readonly record: 'content' | 'digest'
  /** The type of the artifact that keeps lists and objects of the output. The result of the effect is then its id, with the numbers and flags of the output. */
  readonly output_artifact: string | null
  readonly retryable: readonly ErrorClass[]
  readonly attempts_max: number
  readonly backoff_seconds: readonly number[] | null
}

type PinnedTerms = {
  /** Returns the contract of an operation with the texts and schemas of its approved definition. */
  contractOf(operation: ConnectorOperationContract, approved: JsonObject): Decision<ConnectorOperationContract>
}

export type ConnectorDefinition = {
  readonly kind: 'connector'
  readonly connector_id: string
  readonly connector_type: string
  /** The name in effects: `connector.<name>.<operation>`. */
  readonly name: string
  readonly description: string
  readonly auth: ConnectorAuth
  readonly read_scopes: readonly string[]
  readonly write_scopes: readonly string[]
  readonly rate_limits: RateLimits
  readonly breaker: BreakerTerms
  readonly risk_level: RiskLevel
  /** The strictest class of data that may pass through it. */
  readonly data_class_max: DataClass
  readonly operations: readonly ConnectorOperationContract[]
  /** References in addition to `auth.secret_ref` that its calls may resolve; every other reference is refused. */
  readonly secret_refs: readonly string[]
  /** Settings that people see; a secret among them is refused. */
  readonly settings: JsonObject
  /** For providers that describe themselves: only approved definitions are called. Null: the declaration is the contract. */
  readonly pinned: PinnedTerms | null
  /** The mistakes that the connector type finds in its own settings. */
  readonly flaws: readonly string[]
  /** Creates the connector once, at start-up. It must not call the provider yet. */
  readonly open: (tools: ConnectorTools) => Connector
}

type OperationInput = Pick<
  ConnectorOperationContract,
  'name' | 'description' | 'input' | 'output' | 'side_effect_class'
> &
  Partial<ConnectorOperationContract>

export type ConnectorInput = Pick<ConnectorDefinition, 'connector_type' | 'name' | 'description' | 'open'> &
  Partial<Omit<ConnectorDefinition, 'kind' | 'operations' | 'auth' | 'rate_limits'>> & {
    readonly operations: readonly OperationInput[]
    /** The default of its operations. */
    readonly output_trust?: OutputTrust | undefined
    readonly auth?: Partial<ConnectorAuth>
    readonly rate_limits?: Partial<RateLimits>
  }

/** The fields of a declaration that the shipped connectors take unchanged. */
export type DeclaredInput = Partial<
  Pick<
    ConnectorInput,
    | 'name'
    | 'description'
    | 'connector_id'
    | 'rate_limits'
    | 'breaker'
    | 'risk_level'
    | 'data_class_max'
    | 'output_trust'
  >
>

const TIMEOUT_MS = 30_000
const OUTPUT_BYTES = 1_048_576
const ATTEMPTS = 3

function operation(input: OperationInput, outputTrust: OutputTrust = 'untrusted'): ConnectorOperationContract {
  return Object.freeze({
    risk_level: 'low' as const,
    idempotency: { required: input.side_effect_class === 'keyed', key_template: null },
    approval_required: false,
    compensation: null,
    read_back: null,
    scopes: [],
    input_classes: {},
    output_classes: {},
    output_trust: outputTrust,
    timeout_ms: TIMEOUT_MS,
    output_max_bytes: OUTPUT_BYTES,
    record: 'content' as const,
    output_artifact: null,
    retryable: retryableErrorClasses,
    attempts_max: ATTEMPTS,
    backoff_seconds: null,
    ...input,
  })
}

type Reserved = keyof ConnectorDefinition

/** The operations of a connector as functions: a call of one is a step of a command. */
export type OperationsOf<Contracts extends readonly Typed[]> = {
  readonly [C in Contracts[number] as Exclude<C['name'], Reserved>]: Operation<InputOf<C>, z.output<C['output']>>
}
type Typed = Pick<ConnectorOperationContract, 'name' | 'input' | 'output'>
type InputOf<C extends Typed> = z.input<C['input']> extends infer Input extends object ? Input : JsonObject

/** Fills in the defaults. `openConnectors` checks the declaration. An operation with the name of a field of the definition is not a function of it. */
export function defineConnector<const Contracts extends readonly OperationInput[]>(
  given: Omit<ConnectorInput, 'operations'> & { readonly operations: Contracts },
): ConnectorDefinition & OperationsOf<Contracts> {
  const { output_trust, ...input } = given
  const definition: ConnectorDefinition = {
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
    operations: input.operations.map((each) => operation(each, output_trust)),
  }
  for (const { name } of input.operations)
    if (!Object.hasOwn(definition, name))
      Object.defineProperty(definition, name, { value: makeOperation(`connector.${input.name}.${name}`, definition) })
  // Every operation has been added by its name.
  return Object.freeze(definition) as ConnectorDefinition & OperationsOf<Contracts>
}
