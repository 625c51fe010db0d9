/** Posts a message to a signed webhook, or to a webhook of Slack. Both are called only at checked addresses. */
import type { Clock } from '#kernel/clock'
import { type CallContext, ConnectorFailure } from '../connector.ts'
import { openAuthorizer } from '../http/authorize.ts'
import { httpReachOf, type Reach } from '../http/reach.ts'
import {
  allowedUrl,
  failureOfStatus,
  type HttpAnswer,
  jsonHeaders,
  type Network,
  sendRequest,
} from '../http/request.ts'

/** A webhook of the project. The body is signed as by the HTTP connector with the mode `hmac`. */
export type WebhookChannel = Network & { readonly url: string; readonly secret_ref: string }

/** An incoming webhook of Slack, or of a service that accepts the same body. Its URL is the credential. */
export type SlackChannel = Network & { readonly url_ref: string }

export type Message = { readonly recipient: string; readonly subject: string; readonly text: string }

export async function postWebhook(
  channel: WebhookChannel,
  message: Message,
  context: CallContext,
  now: Clock,
): Promise<number> {
  const { url: address, secret_ref, reach } = channel
  const url = allowedUrl(address, httpReachOf(new URL(address), reach))
  const body = JSON.stringify({ id: context.idempotency_key, ...message })
  const signer = openAuthorizer({ mode: 'hmac', secret_ref, scopes: [] }, now)
  const signed = await signer.headersFor({ url, method: 'POST', body }, context)
  const { status, headers } = await post(channel, url, body, signed, context)
  if (status < 200 || status >= 300) throw failureOfStatus({ status, headers })
  return status
}

/** The URL is the credential: it is a secret like a token, and appears in no error. */
export async function postSlack(channel: SlackChannel, message: Message, context: CallContext): Promise<void> {
  const address = await context.secret(channel.url_ref)
  const reach: Reach = {
    hosts: ['hooks.slack.com'],
    ports: [443],
    allow_http: false,
    private_networks: [],
    ...channel.reach,
  }
  const url = allowedUrl(address, reach)
  context.conceal(url.pathname)
  const { recipient, subject, text } = message
  const body = JSON.stringify({ channel: recipient, text: `*${escapeSlack(subject)}*\n${escapeSlack(text)}` })
  const answer = await post({ ...channel, reach }, url, body, {}, context)
  if (answer.status !== 200) throw failureOfStatus(answer)
  if (answer.body.toString('utf8').trim() !== 'ok')
    throw new ConnectorFailure('transient_connector_error', 'The response is not a Slack response.', 'unknown')
}

/** Escapes the markup of Slack: `<!channel>` in a text must not notify everyone. */
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function post(
  { reach, ca, resolve }: Network,
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
      ...jsonHeaders(body),
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
