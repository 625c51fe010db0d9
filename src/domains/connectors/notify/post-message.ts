/** A message to a webhook: to one's own, signed; or to one that understands Slack. Both through the guarded dial. */
import type { Clock } from '#kernel/clock'
import { type CallContext, ConnectorFailure } from '../connector.ts'
import { openAuthorizer } from '../http/authorize.ts'
import { decideUrl, httpReachOf, type Reach } from '../http/reach.ts'
import { failureOfStatus, type HttpAnswer, sendRequest, systemResolve } from '../http/request.ts'
import type { SlackChannel, WebhookChannel } from './notification-settings.ts'

export type Message = { readonly recipient: string; readonly subject: string; readonly text: string }

export async function postWebhook(
  channel: WebhookChannel,
  message: Message,
  context: CallContext,
  now: Clock,
): Promise<number> {
  const { url: address, secret_ref, reach } = channel
  const url = urlOf(address, httpReachOf(new URL(address), reach))
  const body = JSON.stringify({ id: context.idempotency_key, ...message })
  const auth = { mode: 'hmac' as const, secret_ref, scopes: [] }
  const signer = openAuthorizer(auth, now, () =>
    Promise.reject(new ConnectorFailure('permission_denied', 'there is no token server', 'no')),
  )
  const signed = await signer.headersFor({ url, method: 'POST', body }, context)
  const { status, headers } = await post(channel, url, body, signed, context)
  if (status < 200 || status >= 300) throw failureOfStatus({ status, headers })
  return status
}

/** Whoever knows the address may post: it is a secret like a token, and stands in no error. */
export async function postSlack(channel: SlackChannel, message: Message, context: CallContext): Promise<void> {
  const address = await context.secret(channel.url_ref)
  const reach: Reach = {
    hosts: ['hooks.slack.com'],
    ports: [443],
    allow_http: false,
    private_networks: [],
    ...channel.reach,
  }
  const url = urlOf(address, reach)
  context.conceal(url.pathname)
  const { recipient, subject, text } = message
  const body = JSON.stringify({ channel: recipient, text: `*${escapeSlack(subject)}*\n${escapeSlack(text)}` })
  const answer = await post({ ...channel, reach }, url, body, {}, context)
  if (answer.status !== 200) throw failureOfStatus(answer)
  if (answer.body.toString('utf8').trim() !== 'ok')
    throw new ConnectorFailure('transient_connector_error', 'the answer is not the one of Slack', 'unknown')
}

/** What Slack reads as markup; `<!channel>` in a text must not call everybody. */
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function urlOf(address: string, reach: Reach): URL {
  const url = decideUrl(address, reach)
  if (!url.ok) throw new ConnectorFailure('permission_denied', url.reason, 'no')
  return url.value
}

function post(
  { reach, ca, resolve = systemResolve }: Pick<WebhookChannel, 'reach' | 'ca' | 'resolve'>,
  url: URL,
  body: string,
  headers: Readonly<Record<string, string>>,
  { signal, output_max_bytes, idempotency_key }: CallContext,
): Promise<HttpAnswer> {
  return sendRequest({
    url,
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'user-agent': 'concord',
      ...(idempotency_key === null ? {} : { 'idempotency-key': idempotency_key }),
      ...headers,
    },
    signal,
    bytesMax: output_max_bytes,
    reach: httpReachOf(url, reach),
    resolve,
    ca,
  })
}
