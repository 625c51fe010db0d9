/** Any HTTP API as a connector: the address that was checked is the one that is dialled, on every hop. */
import {
  type CallContext,
  type Connector,
  type ConnectorCall,
  ConnectorFailure,
  type ConnectorResult,
  unsupported,
} from '../connector.ts'
import {
  type ConnectorAuth,
  type ConnectorDefinition,
  type ConnectorTools,
  defineConnector,
} from '../define-connector.ts'
import { openAuthorizer } from './authorize.ts'
import { decideUrl, hostOf, httpReachOf, isRange, type Reach } from './reach.ts'
import {
  buildRequest,
  type HttpAnswer,
  type HttpRequest,
  readAnswer,
  type Resolve,
  sendAndFollow,
  sendRequest,
  systemResolve,
} from './request.ts'

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

/** What is wrong with the settings of an HTTP connector, before it is ever called. Pure. */
function findHttpFlaws(input: HttpConnectorInput, reach: Reach): readonly string[] {
  const { base_url, auth = {}, operations } = input
  const base = decideUrl(base_url, reach)
  const token = auth.token_url
  return [
    ...(base.ok ? [] : [`base_url: ${base.reason}`]),
    ...(base.ok && (base.value.search !== '' || base.value.hash !== '') ? ['base_url has a query or a fragment'] : []),
    ...reach.private_networks.filter((range) => !isRange(range)).map((range) => `${range} is no range of addresses`),
    ...(reach.hosts.length === 0 ? ['it may call no host at all'] : []),
    ...(auth.mode === 'connection_string' ? ['connection_string is no auth mode of HTTP'] : []),
    ...(auth.mode === 'oauth_client_credentials' &&
    (token === undefined || !URL.canParse(token) || auth.client_id === undefined)
      ? ['oauth_client_credentials needs token_url and client_id']
      : []),
    ...operations.flatMap(findFormFlaws),
  ]
}

function findFormFlaws(operation: HttpConnectorInput['operations'][number]): readonly string[] {
  const { name, method, path, url_from, side_effect_class: kind } = operation
  const reads = method === 'GET' || method === 'HEAD'
  return [
    ...(httpMethods.includes(method) ? [] : [`${name} has a method that is not known`]),
    ...((path === undefined) === (url_from === undefined) ? [`${name} needs either path or url_from`] : []),
    ...(path !== undefined && !path.startsWith('/') ? [`the path of ${name} does not begin with /`] : []),
    ...(path?.split('/').some((part) => part === '.' || part === '..')
      ? [`the path of ${name} has dots for a part`]
      : []),
    ...(reads && kind !== 'none' ? [`${name} sends ${method} and says that it changes something`] : []),
  ]
}

const REDIRECTS_MAX = 3

export function httpConnector(input: HttpConnectorInput): ConnectorDefinition {
  const { base_url, auth, operations, reach, headers = {}, ...more } = input
  const { idempotency_header: _header, redirects_max: _redirects, ca: _ca, resolve: _resolve, ...declared } = more
  const base = URL.canParse(base_url) ? new URL(base_url) : new URL('https://invalid.')
  const terms = { ...input, base, reach: httpReachOf(base, reach) }
  const { hosts, ports, allow_http, private_networks } = terms.reach
  const { mode = 'none', secret_ref = null, scopes = [] } = auth ?? {}
  return defineConnector({
    ...declared,
    connector_type: 'http',
    auth: { mode, secret_ref, scopes },
    operations,
    settings: {
      base_url,
      hosts: [...hosts],
      ports: [...ports],
      allow_http,
      private_networks: [...private_networks],
      headers,
      requests: Object.fromEntries(operations.map(({ name, ...form }) => [name, showForm(form)])),
    },
    flaws: findHttpFlaws(input, terms.reach),
    open: (tools) => openHttp(terms, tools),
  })
}

function showForm({ method, path, url_from }: HttpForm): string {
  return `${method} ${path ?? `{${url_from ?? ''}}`}`
}

type HttpTerms = Omit<HttpConnectorInput, 'reach'> & { readonly base: URL; readonly reach: Reach }

function openHttp(terms: HttpTerms, tools: ConnectorTools): Connector {
  const { name, base, reach, operations, resolve = systemResolve } = terms
  const forms = new Map<string, HttpForm>(operations.map((operation) => [operation.name, operation]))
  const auth = { mode: 'none' as const, secret_ref: null, scopes: [], ...terms.auth }
  const shared = (context: CallContext) => ({
    signal: context.signal,
    bytesMax: context.output_max_bytes,
    reach,
    resolve,
    ca: terms.ca,
  })

  async function askForToken(address: string, form: string, context: CallContext): Promise<HttpAnswer> {
    const host = new URL(address)
    const port = host.port === '' ? (host.protocol === 'https:' ? 443 : 80) : Number(host.port)
    const tokenReach = { ...reach, hosts: [...reach.hosts, hostOf(host)], ports: [...reach.ports, port] }
    const url = decideUrl(address, tokenReach)
    if (!url.ok) throw new ConnectorFailure('permission_denied', url.reason, 'no')
    const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' }
    try {
      return await sendRequest({
        ...shared(context),
        reach: tokenReach,
        url: url.value,
        method: 'POST',
        headers,
        body: form,
      })
    } catch (error) {
      // The operation itself has not been sent yet.
      if (error instanceof ConnectorFailure)
        throw new ConnectorFailure(error.errorClass, error.message, 'no', error.retryAfterMs)
      throw error
    }
  }
  const authorizer = openAuthorizer(auth, tools.now, askForToken)

  async function send(form: HttpForm, { input, context }: ConnectorCall): Promise<HttpAnswer> {
    const built = buildRequest(form, base, input, reach)
    if (!built.ok)
      throw new ConnectorFailure(
        built.path === undefined ? 'permission_denied' : 'validation_error',
        built.reason,
        'no',
      )
    const { url, body } = built.value
    // An address from the input may be anybody's: the credential is for the origin of the base address, as on a redirect.
    const isOwn = url.origin === base.origin
    const credential = isOwn ? await authorizer.headersFor({ url, method: form.method, body }, context) : {}
    const key = context.idempotency_key
    const request: HttpRequest = {
      ...shared(context),
      url,
      method: form.method,
      body,
      headers: {
        accept: form.answer === 'text' ? '*/*' : 'application/json',
        'user-agent': 'concord',
        ...terms.headers,
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }),
        ...(key === null || form.method === 'GET' || form.method === 'HEAD'
          ? {}
          : { [terms.idempotency_header ?? 'idempotency-key']: key }),
        ...credential,
      },
    }
    return sendAndFollow({
      request,
      redirectsMax: terms.redirects_max ?? REDIRECTS_MAX,
      credentialHeaders: Object.keys(credential),
    })
  }

  return {
    name,
    connector_type: 'http',
    capabilities: () => [...forms.keys()],
    async call(call): Promise<ConnectorResult> {
      const form = forms.get(call.capability)
      if (!form) return unsupported(call.capability)
      const first = await send(form, call)
      // A refused token was refused before anything was done: one more try with a new one.
      const answer = first.status === 401 && authorizer.forget() ? await send(form, call) : first
      return readAnswer(form, answer, call.context.output_max_bytes)
    },
  }
}
