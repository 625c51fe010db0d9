/** The declaration of an HTTP connector: where it goes, how it signs, and how each operation becomes a request. */
import type { ConnectorAuth, defineConnector } from '../define-connector.ts'
import type { Reach } from './reach.ts'
import type { Resolve } from './send-request.ts'

type ConnectorInput = Parameters<typeof defineConnector>[0]

export const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
type HttpMethod = (typeof httpMethods)[number]

/** How an operation becomes a request: path fields, then query fields, and the rest is the JSON body. */
export type HttpForm = {
  readonly method: HttpMethod
  /** `/invoices/{invoice_id}`, below the base address. */
  readonly path?: string
  /** The field of the input that holds the whole address; for connectors that fetch what they are told to. */
  readonly url_from?: string
  readonly query?: readonly string[]
  /** `json` unless said; `text` gives `{ status, text }`. */
  readonly answer?: 'json' | 'text'
}

export type HttpSigning = {
  /** Of the mode `api_key`; `x-api-key` unless said. */
  readonly key_header?: string
  /** Of the mode `hmac`; `x-signature` and `x-timestamp` unless said. */
  readonly signature_header?: string
  readonly timestamp_header?: string
  /** Of the mode `oauth_client_credentials`. */
  readonly token_url?: string
  readonly client_id?: string
}

export type HttpConnectorInput = Pick<ConnectorInput, 'name' | 'description'> &
  Partial<Omit<ConnectorInput, 'open' | 'connector_type' | 'operations' | 'settings' | 'auth'>> & {
    readonly base_url: string
    readonly auth?: Partial<ConnectorAuth> & HttpSigning
    readonly operations: readonly (ConnectorInput['operations'][number] & HttpForm)[]
    /** The host and port of the base address unless said. */
    readonly reach?: Partial<Reach>
    /** The header in which a key goes out; `idempotency-key` unless said. */
    readonly idempotency_header?: string
    readonly redirects_max?: number
    readonly headers?: Readonly<Record<string, string>>
    readonly ca?: string
    /** Another resolver than that of the machine. */
    readonly resolve?: Resolve
  }
