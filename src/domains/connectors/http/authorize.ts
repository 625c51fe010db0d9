/** Adds the credential of a connector to a request when it is sent. Everything made from a secret is concealed like the secret. */
import { createHmac } from 'node:crypto'
import type { Clock } from '#kernel/clock'
import { type CallContext, type ConnectorAuth, ConnectorFailure } from '../connector.ts'
import type { HttpSigning } from './http-connector.ts'
import { type HttpAnswer, type HttpRequest, retryAfterMs } from './request.ts'

export type HttpAuth = ConnectorAuth & HttpSigning
type Unsigned = Pick<HttpRequest, 'url' | 'method' | 'body'>
type Headers = Readonly<Record<string, string>>

export type Authorizer = {
  headersFor(request: Unsigned, context: CallContext): Promise<Headers>
  /** Drops the token. Returns true if there was one, so that a new token may help. */
  forget(): boolean
}

/** A token is renewed this long before it expires. */
const EARLY_MS = 30_000

export function openAuthorizer(
  auth: HttpAuth,
  now: Clock,
  ask: (url: string, form: string, context: CallContext) => Promise<HttpAnswer> = refuseToken,
): Authorizer {
  let token: { readonly value: string; readonly untilMs: number } | undefined
  const secretOf = (context: CallContext) => context.secret(auth.secret_ref ?? '')

  async function headersFor(request: Unsigned, context: CallContext): Promise<Headers> {
    switch (auth.mode) {
      case 'api_key':
        return { [auth.key_header ?? 'x-api-key']: await secretOf(context) }
      case 'bearer':
        return { authorization: `Bearer ${await secretOf(context)}` }
      case 'basic': {
        const encoded = Buffer.from(await secretOf(context), 'utf8').toString('base64')
        context.conceal(encoded)
        return { authorization: `Basic ${encoded}` }
      }
      case 'hmac':
        return sign(request, context)
      case 'oauth_client_credentials': {
        const value = await currentToken(context)
        context.conceal(value)
        return { authorization: `Bearer ${value}` }
      }
      case 'none':
      case 'connection_string':
        return {}
    }
  }

  /** Signs time, method, path and body: none can be changed on the way, and a receiver can reject an old request. */
  async function sign({ url, method, body }: Unsigned, context: CallContext): Promise<Headers> {
    const timestamp = String(Math.floor(now().getTime() / 1_000))
    const text = [timestamp, method, `${url.pathname}${url.search}`, body ?? ''].join('\n')
    const signature = createHmac('sha256', await secretOf(context))
      .update(text)
      .digest('hex')
    context.conceal(signature)
    return {
      [auth.timestamp_header ?? 'x-timestamp']: timestamp,
      [auth.signature_header ?? 'x-signature']: `sha256=${signature}`,
    }
  }

  async function currentToken(context: CallContext): Promise<string> {
    if (token && token.untilMs - EARLY_MS > now().getTime()) return token.value
    const secret = await secretOf(context)
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: auth.client_id ?? '',
      client_secret: secret,
      ...(auth.scopes.length === 0 ? {} : { scope: auth.scopes.join(' ') }),
    })
    const answer = await ask(auth.token_url ?? '', form.toString(), context)
    token = readToken(answer, now().getTime())
    return token.value
  }

  return {
    headersFor,
    forget() {
      const hadOne = token !== undefined
      token = undefined
      return hadOne
    },
  }
}

function refuseToken(): Promise<never> {
  return Promise.reject(new ConnectorFailure('permission_denied', 'There is no token server.', 'no'))
}

/** Without a token, the operation itself has not been sent. */
function readToken(
  { status, headers, body }: HttpAnswer,
  nowMs: number,
): { readonly value: string; readonly untilMs: number } {
  const waitMs = retryAfterMs(headers['retry-after'])
  if (status === 429)
    throw new ConnectorFailure('rate_limited', 'The token server is limiting the request rate.', 'no', waitMs)
  if (status >= 500)
    throw new ConnectorFailure('transient_connector_error', `The token server answered ${status}.`, 'no', waitMs)
  if (status !== 200) throw new ConnectorFailure('permission_denied', `The token server answered ${status}.`, 'no')
  try {
    const given = JSON.parse(body.toString('utf8')) as { access_token?: unknown; expires_in?: unknown }
    if (typeof given.access_token === 'string' && given.access_token.length >= 6) {
      const lastsMs = typeof given.expires_in === 'number' && given.expires_in > 0 ? given.expires_in * 1_000 : 60_000
      return { value: given.access_token, untilMs: nowMs + lastsMs }
    }
  } catch {
    // Treats invalid JSON like a missing token; see below.
  }
  throw new ConnectorFailure('transient_connector_error', 'The token server returned no token.', 'no')
}
