/** What an error of Postgres means in the closed list; details and data stay out of it. Pure. */
import { ConnectorFailure } from '../connector.ts'

/** Nothing is ever written, so nothing can have happened. */
export function sqlFailure(error: unknown): ConnectorFailure {
  if (error instanceof ConnectorFailure) return error
  const { code, message } = error as { code?: unknown; message?: unknown }
  const state = typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
  if (state === undefined)
    return new ConnectorFailure('temporary_database_error', 'the connection to the database broke', 'no')
  if (state === '57014') return new ConnectorFailure('timeout', 'the statement took too long', 'no')
  if (state === '25006' || state === '42501' || state.startsWith('28'))
    return new ConnectorFailure('permission_denied', `the database does not allow this (${state})`, 'no')
  if (/^(08|40|53|55|57|58)/.test(state))
    return new ConnectorFailure('temporary_database_error', `the database could not answer (${state})`, 'no')
  // Names and syntax help whoever wrote the statement; messages about data would repeat the data.
  const told = state.startsWith('42') && typeof message === 'string' ? `: ${message.slice(0, 200)}` : ''
  return new ConnectorFailure('validation_error', `the database refused the statement (${state})${told}`, 'no')
}
