/** The declaration of the notification connector: which channels there are, and what may stand in a message. */
import { z } from 'zod'
import type { defineConnector } from '../define-connector.ts'
import type { Reach } from '../http/reach.ts'
import type { Resolve } from '../http/request.ts'

type ConnectorInput = Parameters<typeof defineConnector>[0]

export type EmailChannel = {
  readonly host: string
  /** 587 unless said; 465 is TLS from the first byte. */
  readonly port?: number
  readonly from: string
  /** A reference to `user:password`. */
  readonly secret_ref?: string
  /** Without TLS; for servers of one's own network. */
  readonly allow_plain?: boolean
  readonly private_networks?: readonly string[]
  readonly ca?: string
  readonly resolve?: Resolve
}

type Web = {
  readonly reach?: Partial<Reach>
  readonly ca?: string
  readonly resolve?: Resolve
}

/** A receiver of one's own: the body is signed as the HTTP connector does it with the mode `hmac`. */
export type WebhookChannel = Web & { readonly url: string; readonly secret_ref: string }

/** An incoming webhook of Slack, or of what understands the same body. Its address is the credential. */
export type SlackChannel = Web & { readonly url_ref: string }

export type NotificationConnectorInput = Partial<
  Pick<
    ConnectorInput,
    'name' | 'description' | 'connector_id' | 'rate_limits' | 'breaker' | 'risk_level' | 'data_class_max'
  >
> & {
  readonly email?: EmailChannel
  readonly webhook?: WebhookChannel
  readonly slack?: SlackChannel
  readonly timeout_ms?: number
  readonly approval_required?: boolean
}

/** No line end and no other control character: what stands in a header must stay in it. */
export const headerText = z
  .string()
  .trim()
  .min(1)
  .max(200)
  .regex(/^\P{Cc}*$/u)
/** One mailbox, without a name, a comment or a route. */
export const mailbox = z
  .string()
  .max(254)
  .regex(/^[^\s\p{Cc}<>()[\],;:"\\@]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/u)
export const bodyText = z.string().min(1).max(20_000)
