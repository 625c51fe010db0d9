/** Notifies people in the app, by mail, by a signed webhook, and in Slack. It has only the channels that are configured. */
import { z } from 'zod'
import {
  type Connector,
  type ConnectorCall,
  type ConnectorDefinition,
  type ConnectorResult,
  type ConnectorTools,
  type DeclaredInput,
  defineConnector,
  succeeded,
  unsupported,
} from '../connector.ts'
import { decideUrl, httpReachOf } from '../http/reach.ts'
import { type Message, postSlack, postWebhook, type SlackChannel, type WebhookChannel } from './post-message.ts'
import { type EmailChannel, sendEmail } from './send-email.ts'

type NotificationConnectorInput = DeclaredInput & {
  readonly email?: EmailChannel
  readonly webhook?: WebhookChannel
  readonly slack?: SlackChannel
  readonly timeout_ms?: number
  readonly approval_required?: boolean
}

/** No line break and no other control character, which could end a header. */
const headerText = z
  .string()
  .trim()
  .min(1)
  .max(200)
  .regex(/^\P{Cc}*$/u)
/** One mailbox, without a name, a comment or a route. */
const mailbox = z
  .string()
  .max(254)
  .regex(/^[^\s\p{Cc}<>()[\],;:"\\@]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/u)

const sent = z.looseObject({ sent: z.literal(true), channel: z.string(), recipient: z.string() })
const message = { subject: headerText, text: z.string().min(1).max(20_000) }
/** Receivers answer with a few characters. */
const ANSWER_BYTES_MAX = 65_536

export function notificationConnector(input: NotificationConnectorInput): ConnectorDefinition {
  const { email, webhook, slack, timeout_ms = 30_000, approval_required = false, ...declared } = input
  const terms = {
    timeout_ms,
    output_trust: 'trusted' as const,
    approval_required,
    output_max_bytes: ANSWER_BYTES_MAX,
    scopes: ['notify'],
  }
  const channel = (name: string, description: string, kind: 'keyed' | 'opaque', recipient: z.ZodType) => ({
    ...terms,
    name,
    description,
    input: z.strictObject({ recipient, ...message }),
    output: sent,
    side_effect_class: kind,
  })
  const refs = [email?.secret_ref, webhook?.secret_ref, slack?.url_ref].filter((ref) => ref !== undefined)
  return defineConnector({
    name: 'notification',
    description: 'Tells people.',
    ...declared,
    connector_type: 'notification',
    write_scopes: ['notify'],
    secret_refs: refs,
    operations: [
      // The row of the call is the message: an inbox shows one per key.
      channel('send_app_notification', 'Adds a message to the inbox of a person in the app.', 'keyed', headerText),
      ...(email ? [channel('send_email', 'Sends a mail.', 'opaque', mailbox)] : []),
      ...(webhook
        ? [
            channel(
              'send_webhook',
              'Posts a signed message to a receiver that deduplicates by key.',
              'keyed',
              headerText,
            ),
          ]
        : []),
      ...(slack ? [channel('send_slack', 'Posts a message to Slack.', 'opaque', headerText)] : []),
    ],
    settings: {
      ...(email ? { email: { host: email.host, port: email.port ?? 587, from: email.from } } : {}),
      ...(webhook ? { webhook: { url: webhook.url } } : {}),
      slack: slack !== undefined,
    },
    flaws: findFlaws(input),
    open: (tools) => openNotification({ ...input, name: declared.name ?? 'notification' }, tools),
  })
}

function findFlaws({ email, webhook }: NotificationConnectorInput): readonly string[] {
  const decided =
    webhook &&
    (URL.canParse(webhook.url) ? decideUrl(webhook.url, httpReachOf(new URL(webhook.url), webhook.reach)) : undefined)
  return [
    ...(email && !mailbox.safeParse(email.from).success ? ['email.from is not a mailbox.'] : []),
    ...(email && !/^[A-Za-z0-9.:-]+$/.test(email.host) ? ['email.host is not a host name.'] : []),
    ...(webhook && !decided ? ['webhook.url is not a URL.'] : []),
    ...(decided && !decided.ok ? [`webhook.url: ${decided.reason}`] : []),
  ]
}

function openNotification(
  { name, email, webhook, slack }: NotificationConnectorInput & { readonly name: string },
  { now }: ConnectorTools,
): Connector {
  type Send = (message: Message, call: ConnectorCall) => Promise<object>
  const channels = new Map<string, Send>([['send_app_notification', () => Promise.resolve({ channel: 'app' })]])
  if (email)
    channels.set('send_email', async (message, { context }) => ({
      channel: 'email',
      message_id: await sendEmail(email, { ...message, to: message.recipient }, context),
    }))
  if (webhook)
    channels.set('send_webhook', async (message, { context }) => ({
      channel: 'webhook',
      status: await postWebhook(webhook, message, context, now),
    }))
  if (slack)
    channels.set('send_slack', async (message, { context }) => {
      await postSlack(slack, message, context)
      return { channel: 'slack' }
    })
  return {
    name,
    connector_type: 'notification',
    capabilities: () => [...channels.keys()],
    async call(call): Promise<ConnectorResult> {
      const send = channels.get(call.capability)
      if (!send) return unsupported(call.capability)
      // The gate has checked the input.
      const message = call.input as Message
      return succeeded({ sent: true, ...(await send(message, call)), recipient: message.recipient })
    },
  }
}
