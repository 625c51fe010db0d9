/** Tells people: in the app, by mail, by a signed webhook, in Slack. Only the channels that were set up are there. */
import { z } from 'zod'
import { type Connector, type ConnectorCall, type ConnectorResult, succeeded, unsupported } from '../connector.ts'
import { type ConnectorDefinition, type ConnectorTools, defineConnector } from '../define-connector.ts'
import { decideUrl, httpReachOf } from '../http/reach.ts'
import { bodyText, headerText, mailbox, type NotificationConnectorInput } from './notification-settings.ts'
import { postSlack, postWebhook } from './post-message.ts'
import { sendEmail } from './send-email.ts'

const sent = z.looseObject({ sent: z.literal(true), channel: z.string(), recipient: z.string() })
const message = { subject: headerText, text: bodyText }
const to = (who: z.ZodType) => ({ input: z.strictObject({ recipient: who, ...message }), output: sent })
/** Their answers are a word. */
const ANSWER_BYTES_MAX = 65_536

export function notificationConnector(input: NotificationConnectorInput): ConnectorDefinition {
  const { email, webhook, slack, timeout_ms = 30_000, approval_required = false, ...declared } = input
  const terms = { timeout_ms, approval_required, output_max_bytes: ANSWER_BYTES_MAX, scopes: ['notify'] }
  const refs = [email?.secret_ref, webhook?.secret_ref, slack?.url_ref].filter((ref) => ref !== undefined)
  return defineConnector({
    name: 'notification',
    description: 'Tells people.',
    ...declared,
    connector_type: 'notification',
    write_scopes: ['notify'],
    secret_refs: refs,
    operations: [
      {
        ...terms,
        ...to(headerText),
        name: 'send_app_notification',
        description: 'Puts a message into the inbox of somebody in the app.',
        // The row of the call is the message: whoever reads the inbox sees one per key.
        side_effect_class: 'keyed' as const,
      },
      ...(email
        ? [
            {
              ...terms,
              ...to(mailbox),
              name: 'send_email',
              description: 'Sends a mail.',
              side_effect_class: 'opaque' as const,
            },
          ]
        : []),
      ...(webhook
        ? [
            {
              ...terms,
              ...to(headerText),
              name: 'send_webhook',
              description: 'Posts a signed message to a receiver that knows keys.',
              side_effect_class: 'keyed' as const,
            },
          ]
        : []),
      ...(slack
        ? [
            {
              ...terms,
              ...to(headerText),
              name: 'send_slack',
              description: 'Posts a message to Slack.',
              side_effect_class: 'opaque' as const,
            },
          ]
        : []),
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
    ...(email && !mailbox.safeParse(email.from).success ? ['email.from is no mailbox'] : []),
    ...(email && !/^[A-Za-z0-9.:-]+$/.test(email.host) ? ['email.host is no host'] : []),
    ...(webhook && !decided ? ['webhook.url is no address'] : []),
    ...(decided && !decided.ok ? [`webhook.url: ${decided.reason}`] : []),
  ]
}

function openNotification(
  { name, email, webhook, slack }: NotificationConnectorInput & { readonly name: string },
  { now }: ConnectorTools,
): Connector {
  type Send = (to: { recipient: string; subject: string; text: string }, call: ConnectorCall) => Promise<object>
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
      // The gate has seen that the input has these three texts.
      const message = call.input as { recipient: string; subject: string; text: string }
      return succeeded({ sent: true, ...(await send(message, call)), recipient: message.recipient })
    },
  }
}
