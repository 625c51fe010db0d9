/** Turns the end of an SMTP session into a failure of the closed list: until the message was handed over nothing was sent. Pure. */
import { ConnectorFailure } from '../connector.ts'

type SmtpError = { readonly code?: unknown; readonly command?: unknown; readonly responseCode?: unknown }

/** Names, certificates and envelopes come before the message; every other break may have come after it. */
const before: readonly string[] = ['EENVELOPE', 'ETLS', 'EDNS']

export function failureOfSmtp(error: unknown): ConnectorFailure {
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
