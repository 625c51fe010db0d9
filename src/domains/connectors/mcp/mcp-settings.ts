/** The declaration of an MCP mount: where the server is, and under which terms each of its tools may be called. */
import type { ConnectorAuth, ConnectorOperationContract, defineConnector } from '../define-connector.ts'
import type { Reach } from '../http/reach.ts'
import type { Resolve } from '../http/request.ts'

type ConnectorInput = Parameters<typeof defineConnector>[0]

/** A program on this machine that is started for a call and ended with it. */
export type StdioServer = {
  readonly command: string
  readonly args?: readonly string[]
  readonly cwd?: string
  /** All that the program sees of an environment, beside `secret_env`. Nothing is inherited, `PATH` neither. */
  readonly env?: Readonly<Record<string, string>>
  /** Names with references to secrets: `{ API_TOKEN: 'env://TICKETS_TOKEN' }`. */
  readonly secret_env?: Readonly<Record<string, string>>
}

/** A server behind streamable HTTP, called through the guarded dial. */
export type HttpServer = {
  readonly url: string
  /** `none`, `bearer` or `api_key`. */
  readonly auth?: Partial<ConnectorAuth> & { readonly key_header?: string }
  /** The host and port of the address unless said. */
  readonly reach?: Partial<Reach>
  readonly ca?: string
  readonly resolve?: Resolve
}

/** What a person says about a tool. The server's own hints about itself are not believed. */
export type McpToolTerms = Partial<
  Omit<ConnectorOperationContract, 'name' | 'description' | 'input' | 'output' | 'idempotency'>
> & {
  /** Its name on the server, where it is not that of the operation. */
  readonly tool?: string
}

export type McpConnectorInput = Pick<ConnectorInput, 'name' | 'description'> &
  Partial<Omit<ConnectorInput, 'open' | 'connector_type' | 'operations' | 'settings' | 'auth' | 'flaws' | 'pinned'>> & {
    readonly server: { readonly stdio: StdioServer } | { readonly http: HttpServer }
    /** By operation: lower-case letters, digits and `_`. A tool that is not named here cannot be called. */
    readonly tools: Readonly<Record<string, McpToolTerms>>
  }
