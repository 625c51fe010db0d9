/** Any HTTP API as a connector: the address that was checked is the one that is dialled, on every hop. */
import {
  type CallContext,
  type Connector,
  type ConnectorCall,
  ConnectorFailure,
  type ConnectorResult,
  unsupported,
} from '../connector.ts'
import type { ConnectorTools } from '../connector-tools.ts'
import { type ConnectorDefinition, defineConnector } from '../define-connector.ts'
import { openAuthorizer } from './authorize.ts'
import { buildRequest } from './build-request.ts'
import { sendAndFollow } from './follow-redirects.ts'
import type { HttpConnectorInput, HttpForm } from './http-settings.ts'
import { findHttpFlaws } from './find-http-flaws.ts'
import { decideUrl, hostOf, httpReachOf, type Reach } from './reach.ts'
import { readAnswer } from './read-answer.ts'
import { type HttpAnswer, type HttpRequest, sendRequest, systemResolve } from './send-request.ts'

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
