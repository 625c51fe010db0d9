/** Turns a connection error into a refusal: which server, why, and what to do. */
import { type Refusal, refuse } from '#kernel/refusal'

/** `where` is a masked URL or a folder, never one with a password. */
export function explainConnect(error: unknown, where: string): Refusal {
  const { code, message } = readError(error)
  const more = (hint: string) => ({ path: 'DATABASE_URL', hint, facts: { code } })
  switch (code) {
    case '28P01':
    case '28000':
      return refuse(
        'store.server.login_refused',
        `the server at ${where} refused the login: ${message}`,
        more('check the user and the password'),
      )
    case '3D000':
      return refuse(
        'store.server.login_refused',
        `the server at ${where} has no such database: ${message}`,
        more('create the database, or name another'),
      )
    case 'store.connection.role':
      return refuse(
        'store.server.login_refused',
        `the server at ${where} does not give the role: ${message}`,
        more('connect directly, or through a pooler that passes the startup options on'),
      )
    case '53100':
      return refuse(
        'storage_full',
        `the disk of the server at ${where} is full`,
        more('free some space; nothing was lost'),
      )
    case '53300':
      return refuse(
        'store.server.unreachable',
        `the server at ${where} has no free connection`,
        more('raise max_connections, or use smaller pools'),
      )
    case '57P03':
      return refuse(
        'store.server.unreachable',
        `the server at ${where} is starting or stopping: ${message}`,
        more('try again in a moment'),
      )
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return refuse(
        'store.server.unreachable',
        `the host of ${where} has no address`,
        more('check the name of the host'),
      )
    default:
      return refuse(
        'store.server.unreachable',
        `the server at ${where} does not answer: ${message}`,
        more('check that it runs and listens there'),
      )
  }
}

function readError(error: unknown): { code: string; message: string } {
  // A name with several addresses fails with one error per address.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  const { code, message } = first as { code?: unknown; message?: unknown }
  return {
    code: typeof code === 'string' ? code : 'unknown',
    message: typeof message === 'string' ? message : String(first),
  }
}
