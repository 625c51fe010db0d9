/** Sends one message in one SMTP session to a checked address. Its Message-ID comes from the idempotency key. */
import { createHash } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { createTransport } from 'nodemailer'
import { type CallContext, ConnectorFailure } from '../connector.ts'
import { chooseAddress, type Network } from '../http/request.ts'

export type EmailChannel = Pick<Network, 'ca' | 'resolve'> & {
  readonly host: string
  /** 587 by default; 465 is TLS from the first byte. */
  readonly port?: number
  readonly from: string
  /** A reference to `user:password`. */
  readonly secret_ref?: string
  /** Without TLS, for servers in a private network. */
  readonly allow_plain?: boolean
  readonly private_networks?: readonly string[]
}

type SmtpError = { readonly code?: unknown; readonly command?: unknown; readonly responseCode?: unknown }

/** Errors before the message is sent. Any other error may have come after it. */
const before: readonly string[] = ['EENVELOPE', 'ETLS', 'EDNS']

function failureOfSmtp(error: unknown): ConnectorFailure {
  if (error instanceof ConnectorFailure) return error
  const { code, command, responseCode } = (error ?? {}) as SmtpError
  const status = typeof responseCode === 'number' ? responseCode : undefined
  if (code === 'EAUTH')
    return new ConnectorFailure('permission_denied', 'The mail server refused the credential.', 'no')
  // A definite error answer means that the server did not accept the message.
  if (status !== undefined && status >= 500)
    return new ConnectorFailure('validation_error', `The mail server refused the message (${status}).`, 'no')
  if (status === 421 || status === 450 || status === 451 || status === 452)
    return new ConnectorFailure(
      'transient_connector_error',
      `The mail server is temporarily unavailable (${status}).`,
      'no',
    )
  const isBefore = (typeof code === 'string' && before.includes(code)) || (code === 'EPROTOCOL' && command === 'CONN')
  const what = typeof code === 'string' ? ` (${code})` : ''
  return new ConnectorFailure(
    'transient_connector_error',
    `The session with the mail server broke${what}.`,
    isBefore ? 'no' : 'unknown',
  )
}

/** A mail server answers with a few short lines. */
const SAID_BYTES_MAX = 262_144

type Email = { readonly to: string; readonly subject: string; readonly text: string }

/** The same for every attempt at one effect, so that a receiver can recognise a duplicate. */
export function messageIdOf(key: string, from: string): string {
  const digest = createHash('sha256').update(key).digest('hex').slice(0, 40)
  return `<${digest}@${from.slice(from.lastIndexOf('@') + 1)}>`
}

export async function sendEmail(channel: EmailChannel, email: Email, context: CallContext): Promise<string> {
  const { host, port = 587, from, secret_ref, allow_plain = false, ca } = channel
  const messageId = messageIdOf(context.idempotency_key ?? context.domain_effect_id, from)
  const socket = await dial(channel, port, context.signal)
  const credential = secret_ref === undefined ? undefined : await context.secret(secret_ref)
  const [user = '', ...rest] = credential?.split(':') ?? []
  const transport = createTransport({
    host,
    port,
    connection: socket,
    secure: port === 465,
    requireTLS: !allow_plain,
    ignoreTLS: allow_plain,
    tls: { servername: host, ...(ca === undefined ? {} : { ca }) },
    ...(credential === undefined ? {} : { auth: { user, pass: rest.join(':') } }),
    // No part of a message comes from a file or a URL.
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  try {
    await transport.sendMail({ from, to: email.to, subject: email.subject, text: email.text, messageId })
    return messageId
  } catch (error) {
    throw failureOfSmtp(error)
  } finally {
    transport.close()
    socket.destroy()
  }
}

/** Connects to the checked address itself: no name is resolved after the check. */
async function dial(
  { host, private_networks = [], resolve }: EmailChannel,
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  const unreachable = new ConnectorFailure('transient_connector_error', 'The mail server is not reachable.', 'no')
  const address = await chooseAddress(host, { private_networks }, resolve)
  const socket = connect({ host: address, port })
  signal.addEventListener('abort', () => socket.destroy(), { once: true })
  limit(socket)
  await new Promise<void>((done, fail) => {
    socket.once('connect', done)
    socket.once('error', () => fail(unreachable))
    socket.once('close', () => fail(unreachable))
  })
  return socket
}

/** Starts counting when another listener is added, because an earlier listener would consume the first line of the session. */
function limit(socket: Socket): void {
  let isCounting = false
  let sizeBytes = 0
  socket.on('newListener', (event) => {
    if (event !== 'data' || isCounting) return
    isCounting = true
    socket.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length
      if (sizeBytes > SAID_BYTES_MAX) socket.destroy(new Error('The answer of the mail server is too long.'))
    })
  })
}
