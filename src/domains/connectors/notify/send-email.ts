/** One message over one SMTP session to one checked address; the key of the deed is its Message-ID. */
import { createHash } from 'node:crypto'
import { connect, isIP, type Socket } from 'node:net'
import { createTransport } from 'nodemailer'
import { type CallContext, ConnectorFailure } from '../connector.ts'
import { decideAddress, type Reach } from '../http/reach.ts'
import { systemResolve } from '../http/request.ts'
import type { EmailChannel } from './notification-settings.ts'

type SmtpError = { readonly code?: unknown; readonly command?: unknown; readonly responseCode?: unknown }

/** Names, certificates and envelopes come before the message; every other break may have come after it. */
const before: readonly string[] = ['EENVELOPE', 'ETLS', 'EDNS']

function failureOfSmtp(error: unknown): ConnectorFailure {
  if (error instanceof ConnectorFailure) return error
  const { code, command, responseCode } = (error ?? {}) as SmtpError
  const status = typeof responseCode === 'number' ? responseCode : undefined
  if (code === 'EAUTH') return new ConnectorFailure('permission_denied', 'the mail server does not know us', 'no')
  // A clear answer is a no, also to the message itself: it was not taken.
  if (status !== undefined && status >= 500)
    return new ConnectorFailure('validation_error', `the mail server refused it (${status})`, 'no')
  if (status === 421 || status === 450 || status === 451 || status === 452)
    return new ConnectorFailure('transient_connector_error', `the mail server cannot take it now (${status})`, 'no')
  const isBefore = (typeof code === 'string' && before.includes(code)) || (code === 'EPROTOCOL' && command === 'CONN')
  const what = typeof code === 'string' ? ` (${code})` : ''
  return new ConnectorFailure(
    'transient_connector_error',
    `the session with the mail server broke${what}`,
    isBefore ? 'no' : 'unknown',
  )
}

/** A mail server has a few short lines to say. */
const SAID_BYTES_MAX = 262_144

export type Email = { readonly to: string; readonly subject: string; readonly text: string }

/** The same for every attempt at one deed, so that whoever gets it twice can tell. */
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
    // Nothing of a message is fetched from a file or an address.
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

/** The address that was checked is the one that is dialled. */
async function dial(
  { host, private_networks = [], resolve = systemResolve }: EmailChannel,
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  const reach: Reach = { hosts: [host], ports: [port], allow_http: false, private_networks }
  const unreachable = new ConnectorFailure('transient_connector_error', 'the mail server cannot be reached', 'no')
  const found = isIP(host) === 0 ? await resolve(host).catch(() => []) : [{ address: host }]
  for (const { address } of found) {
    const allowed = decideAddress(address, reach)
    if (!allowed.ok) throw new ConnectorFailure('permission_denied', allowed.reason, 'no')
  }
  const [first] = found
  if (!first) throw unreachable
  const socket = connect({ host: first.address, port })
  signal.addEventListener('abort', () => socket.destroy(), { once: true })
  limit(socket)
  await new Promise<void>((done, fail) => {
    socket.once('connect', done)
    socket.once('error', () => fail(unreachable))
    socket.once('close', () => fail(unreachable))
  })
  return socket
}

/** Counts from the moment that somebody listens: a listener of its own would take the first line away from the session. */
function limit(socket: Socket): void {
  let isCounting = false
  let sizeBytes = 0
  socket.on('newListener', (event) => {
    if (event !== 'data' || isCounting) return
    isCounting = true
    socket.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length
      if (sizeBytes > SAID_BYTES_MAX) socket.destroy(new Error('the mail server says too much'))
    })
  })
}
