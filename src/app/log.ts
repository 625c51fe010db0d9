/** The one logger: JSON lines on standard error, secrets removed by path and by shape before a line is written. */
import { pino, type DestinationStream, type Logger } from 'pino'
import { redactText } from '#kernel/secret-shapes'

export type Log = Logger

/** Field names that may hold a secret, at any depth. */
const SECRET_NAMES = [
  'password',
  'secret',
  'token',
  'authorization',
  'cookie',
  'api_key',
  'apiKey',
  'key_secret',
  'databaseUrl',
  'database_url',
]
const HAS_SECRET_NAME = new RegExp(`"(?:${SECRET_NAMES.join('|')})":`)

/** Removes secrets by the name of their field. Only a line that contains such a name is read again: one test instead of 40 paths per line. */
function redactNamed(line: string): string {
  if (!HAS_SECRET_NAME.test(line)) return line
  const redacted = JSON.stringify(JSON.parse(line), (name, value: unknown) =>
    SECRET_NAMES.includes(name) ? '[redacted]' : value,
  )
  return `${redacted}\n`
}

/** The default level on a terminal is `warn`; a log collector gets `info`. */
export function openLog(level: string | undefined, destination?: DestinationStream): Log {
  return pino(
    {
      level: level ?? (process.stderr.isTTY ? 'warn' : 'info'),
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFacts },
      hooks: {
        // Removes keys and passwords by their shape, including those inside messages and error texts.
        streamWrite: (line) => redactText(redactNamed(line)),
      },
    },
    destination ?? pino.destination({ fd: 2, sync: false }),
  )
}

/** Returns the loggable facts of an error. Leaves out the detail, context and statement of the database, because they quote rows and inputs. */
function errorFacts(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: String(error).slice(0, 200) }
  const { code, constraint, routine } = error as Error & { code?: unknown; constraint?: unknown; routine?: unknown }
  // The messages of SQLSTATE class 22 repeat the data.
  const message =
    typeof code === 'string' && /^22...$/.test(code) ? `Postgres refused a value (${code}).` : error.message
  const stack = error.stack
    ?.split('\n')
    .filter((line) => line.startsWith('    at '))
    .join('\n')
  return {
    type: error.name,
    message,
    ...(code === undefined ? {} : { code }),
    ...(constraint === undefined ? {} : { constraint, routine }),
    ...(error.cause === undefined ? {} : { cause: errorFacts(error.cause) }),
    stack,
  }
}
