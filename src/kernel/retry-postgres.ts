/** Maps Postgres' five-character SQLSTATE to one of our error classes: retryable, invalid data, or a fault. */
import type { ErrorClass } from './error-classes.ts'

/** Full codes first; otherwise the first two characters, the class of the code, decide. */
const byState: Readonly<Record<string, ErrorClass>> = {
  '40001': 'temporary_database_error', // serialization failure: retry the transaction
  '40P01': 'temporary_database_error', // deadlock: this transaction was chosen as the victim
  '25006': 'temporary_database_error', // read-only: a standby that is being promoted
  '55P03': 'temporary_database_error', // a lock was not free within lock_timeout
  '57P01': 'temporary_database_error', // the server is shutting down
  '57P02': 'temporary_database_error', // the server crashed and restarts
  '57P03': 'temporary_database_error', // the server is starting
  '57P05': 'temporary_database_error', // the connection was idle for too long
  '58030': 'temporary_database_error', // the disk did not answer
  '57014': 'timeout', // statement_timeout, or cancelled from outside
  '25P03': 'timeout', // idle_in_transaction_session_timeout
  '25P04': 'timeout', // transaction_timeout
  '42501': 'permission_denied', // insufficient privilege, row-level security
  '22P02': 'malformed_payload', // text that is not a uuid, number or json
  '22P05': 'malformed_payload', // \u0000 in jsonb
  '22021': 'malformed_payload', // bytes that are not UTF-8
}

const byClass: Readonly<Record<string, ErrorClass>> = {
  '08': 'temporary_database_error', // connection lost or refused
  '53': 'temporary_database_error', // out of connections, memory or disk
  '22': 'validation_error', // a value out of range, too long, not a date
  '23': 'validation_error', // a constraint said no
  '28': 'permission_denied', // login refused
}

export function classifyPostgres(sqlState: string): ErrorClass {
  // Object.hasOwn: a state such as `constructor` must not find an inherited property.
  if (Object.hasOwn(byState, sqlState)) return byState[sqlState] ?? 'internal_error'
  const group = sqlState.slice(0, 2)
  return sqlState.length === 5 && Object.hasOwn(byClass, group)
    ? (byClass[group] ?? 'internal_error')
    : 'internal_error'
}
