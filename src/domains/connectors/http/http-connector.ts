/** Any HTTP API as a connector. On every redirect, the checked address is the one that is called. */
import {
  type CallContext,
  type Connector,
  type ConnectorAuth,
  type ConnectorCall,
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorInput,
  type ConnectorResult,
  type ConnectorTools,
  defineConnector,
  type OperationsOf,
  unsupported,
} from '../connector.ts'
import { valueIn } from '../template.ts'
import { openAuthorizer } from './authorize.ts'
import { decideUrl, hostOf, httpReachOf, isRange, portOf, type Reach } from './reach.ts'
import {
  allowedUrl,
  buildRequest,
  type HttpAnswer,
  jsonHeaders,
  type Network,
  readAnswer,
  sendAndFollow,
  sendRequest,
} from './request.ts'

export const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
type HttpMethod = (typeof httpMethods)[number]

/** How an operation becomes a request: path fields, then query fields; the other fields are the JSON body. */
export type HttpForm = {
  readonly method: HttpMethod
  /** `/invoices/{invoice_id}`, below the base URL. */
  readonly path?: string
  /** The input field that holds the whole URL, for connectors that fetch any URL. */
  readonly url_from?: string
  readonly query?: readonly string[]
  /** `json` by default; `text` returns `{ status, text }`. */
  readonly answer?: 'json' | 'text'
  /** The field of the answer that repeats the idempotency key. An answer with another key belongs to another call. */
  readonly key_in_answer?: string
}

export type HttpSigning = {
  /** For the mode `api_key`; `x-api-key` by default. */
  readonly key_header?: string
  /** For the mode `hmac`; `x-signature` and `x-timestamp` by default. */
  readonly signature_header?: string
  readonly timestamp_header?: string
  /** For the mode `oauth_client_credentials`. */
  readonly token_url?: string
  readonly client_id?: string
}

type HttpOperation = ConnectorInput['operations'][number] & HttpForm

export type HttpConnectorInput<Operations extends readonly HttpOperation[] = readonly HttpOperation[]> = Pick<
  ConnectorInput,
  'name' | 'description'
> &
  Partial<Omit<ConnectorInput, 'open' | 'connector_type' | 'operations' | 'settings' | 'auth'>> &
  Network & {
    readonly base_url: string
    readonly auth?: Partial<ConnectorAuth> & HttpSigning
    readonly operations: Operations
    /** The header of the idempotency key; `idempotency-key` by default. */
    readonly idempotency_header?: string
    readonly redirects_max?: number
    readonly headers?: Readonly<Record<string, string>>
  }

function findHttpFlaws(input: HttpConnectorInput, reach: Reach): readonly string[] {
  const { base_url, auth = {}, operations } = input
  const base = decideUrl(base_url, reach)
  const token = auth.token_url
  return [
    ...(base.ok ? [] : [`base_url: ${base.reason}`]),
    ...(base.ok && (base.value.search !== '' || base.value.hash !== '')
      ? ['base_url must have no query and no fragment.']
      : []),
    ...reach.private_networks
      .filter((range) => !isRange(range))
      .map((range) => `${range} is not a range of addresses.`),
    ...(reach.hosts.length === 0 ? ['No host is allowed.'] : []),
    ...(auth.mode === 'connection_string' ? ['connection_string is not an auth mode of HTTP.'] : []),
    ...(auth.mode === 'oauth_client_credentials' &&
    (token === undefined || !URL.canParse(token) || auth.client_id === undefined)
      ? ['oauth_client_credentials needs token_url and client_id.']
      : []),
    ...operations.flatMap(findFormFlaws),
  ]
}

function findFormFlaws(operation: HttpConnectorInput['operations'][number]): readonly string[] {
  const { name, method, path, url_from, key_in_answer, side_effect_class: kind, idempotency } = operation
  const reads = method === 'GET' || method === 'HEAD'
  const hasKey = !reads && (idempotency?.required ?? kind === 'keyed')
  return [
    ...(httpMethods.includes(method) ? [] : [`The method of ${name} is not known.`]),
    ...((path === undefined) === (url_from === undefined) ? [`${name} needs either path or url_from.`] : []),
    ...(path !== undefined && !path.startsWith('/') ? [`The path of ${name} must start with /.`] : []),
    ...(path?.split('/').some((part) => part === '.' || part === '..')
      ? [`The path of ${name} must not contain . or .. as a segment.`]
      : []),
    ...(key_in_answer !== undefined && !hasKey ? [`${name} has key_in_answer but no idempotency key to repeat.`] : []),
    ...(reads && kind !== 'none' ? [`${name} sends ${method} but declares a side effect.`] : []),
  ]
}

const REDIRECTS_MAX = 3

export function httpConnector<const Operations extends readonly HttpOperation[]>(
  input: HttpConnectorInput<Operations>,
): ConnectorDefinition & OperationsOf<Operations> {
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

function traceHeaders({ traceparent }: CallContext): Readonly<Record<string, string>> {
  return traceparent === undefined ? {} : { traceparent }
}

function showForm({ method, path, url_from }: HttpForm): string {
  return `${method} ${path ?? `{${url_from ?? ''}}`}`
}

type HttpTerms = Omit<HttpConnectorInput, 'reach'> & { readonly base: URL; readonly reach: Reach }

function openHttp(terms: HttpTerms, tools: ConnectorTools): Connector {
  const { name, base, reach, operations, resolve } = terms
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
    const given = new URL(address)
    const tokenReach = { ...reach, hosts: [...reach.hosts, hostOf(given)], ports: [...reach.ports, portOf(given)] }
    const url = allowedUrl(address, tokenReach)
    const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' }
    try {
      return await sendRequest({ ...shared(context), reach: tokenReach, url, method: 'POST', headers, body: form })
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
    // A URL from the input may be any host: the credential goes only to the origin of the base URL, as on a redirect.
    const isOwn = url.origin === base.origin
    const credential = isOwn ? await authorizer.headersFor({ url, method: form.method, body }, context) : {}
    const key = context.idempotency_key
    const request = {
      ...shared(context),
      url,
      method: form.method,
      body,
      headers: {
        accept: form.answer === 'text' ? '*/*' : 'application/json',
        'user-agent': 'concord',
        ...traceHeaders(context),
        ...terms.headers,
        ...jsonHeaders(body),
        ...(key === null || form.method === 'GET' || form.method === 'HEAD'
          ? {}
          : { [terms.idempotency_header ?? 'idempotency-key']: key }),
        ...credential,
      },
    }
    return sendAndFollow(request, terms.redirects_max ?? REDIRECTS_MAX, Object.keys(credential))
  }

  return {
    name,
    connector_type: 'http',
    capabilities: () => [...forms.keys()],
    async call(call): Promise<ConnectorResult> {
      const form = forms.get(call.capability)
      if (!form) return unsupported(call.capability)
      const first = await send(form, call)
      // A refused token means that nothing happened: one retry with a new token.
      const answer = first.status === 401 && authorizer.forget() ? await send(form, call) : first
      const result = readAnswer(form, answer, call.context.output_max_bytes)
      const { key_in_answer: field } = form
      if (field !== undefined && valueIn(result.output, [field]) !== call.context.idempotency_key)
        throw new ConnectorFailure('transient_connector_error', 'The answer is for another idempotency key.', 'unknown')
      return result
    },
  }
}
