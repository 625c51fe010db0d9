/** The port: what every connector offers, what it is given for a call, and what it gives back. */
import type { ErrorClass } from '#kernel/error-classes'
import type { JsonObject, JsonValue } from '#kernel/json-value'

/** Whether a failed call may have changed something all the same. */
export type Happened = 'no' | 'unknown'

export type CallContext = {
  readonly workspace_id: string
  readonly domain_effect_id: string
  readonly trace_id: string
  readonly attempt: number
  /** The same for every attempt at one deed; must reach a provider that dedupes by it. */
  readonly idempotency_key: string | null
  /** Aborted when the time is up or nobody waits for the answer any more. */
  readonly signal: AbortSignal
  readonly timeout_ms: number
  readonly output_max_bytes: number
  /** Resolves a reference of the declaration now. The value is removed from whatever the call gives back. */
  readonly secret: (reference: string) => Promise<string>
  /** The same removal for what was made from a secret: a signature, a token, the password inside an address. */
  readonly conceal: (derived: string) => void
  /**
   * For providers that describe themselves: rejects unless this is what a person approved for the operation, and notes what is new.
   * To be asked before the deed, with what the provider says now; null where it does not know the operation any more.
   */
  readonly confirmDefinition: (said: JsonObject | null) => Promise<void>
}

/** What looking at a provider is given: no operation is called by it. */
export type LookContext = Pick<CallContext, 'signal' | 'timeout_ms' | 'output_max_bytes' | 'secret' | 'conceal'>
type SeenDefinition = { readonly operation: string; readonly definition: JsonObject }

export type ConnectorCall = {
  readonly connector_name: string
  readonly capability: string
  readonly input: JsonObject
  readonly context: CallContext
  readonly command_id: string
}

export type ConnectorError = {
  readonly error_class: ErrorClass
  /** For people; says what happened in the words of Concord, never in those of the provider alone. */
  readonly message: string
  readonly happened: Happened
  /** The provider asked to wait this long. */
  readonly retry_after_ms?: number
}

export type ConnectorResult = {
  readonly ok: boolean
  readonly output: JsonValue
  readonly error?: ConnectorError
  readonly metadata?: JsonObject
}

/** What a connector is given to look at the other side without calling an operation. */
export type RefreshContext = Pick<CallContext, 'signal' | 'secret' | 'conceal'>

export interface Connector {
  readonly name: string
  readonly connector_type: string
  capabilities(): readonly string[]
  /** May throw `ConnectorFailure`; whatever else it throws is `internal_error` with an unknown outcome. */
  call(request: ConnectorCall): Promise<ConnectorResult>
  /**
   * Reads anew what the other side says about itself, such as the tools of an MCP server, and changes nothing there. What it returns
   * is put on record by `sync_connector_metadata`; whatever it throws is recorded as its failure.
   */
  refresh?(context: RefreshContext): Promise<JsonObject>
  /** For providers that describe themselves: what they say now about the operations that are declared. */
  look?(context: LookContext): Promise<readonly SeenDefinition[]>
  close?(): Promise<void>
}

/** How a call ended badly; for connectors that would rather throw than return. */
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
}

export function succeeded(output: JsonValue, metadata?: JsonObject): ConnectorResult {
  return { ok: true, output, ...(metadata ? { metadata } : {}) }
}

export function failed(error: ConnectorError): ConnectorResult {
  return { ok: false, output: null, error }
}

export function unsupported(capability: string): ConnectorResult {
  return failed({
    error_class: 'validation_error',
    message: `Unsupported capability: ${capability}`,
    happened: 'no',
  })
}

/** The result of whatever a connector threw. */
export function resultOfThrown(error: unknown): ConnectorResult {
  if (error instanceof ConnectorFailure)
    return failed({
      error_class: error.errorClass,
      message: error.message,
      happened: error.happened,
      ...(error.retryAfterMs === undefined ? {} : { retry_after_ms: error.retryAfterMs }),
    })
  const message = error instanceof Error ? error.message : 'the connector threw something that is no error'
  return failed({ error_class: 'internal_error', message, happened: 'unknown' })
}
