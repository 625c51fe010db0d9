/** The one logger: JSON lines on standard error, secrets removed by path and by shape before a line is written. */
import { pino, type DestinationStream, type Logger } from 'pino'
import { redactText } from '#kernel/secret-shapes'

export type Log = Logger

/** Field names that may hold a secret. */
const SECRET_PATHS = [
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

/** A person at a terminal wants to see what is wrong; a log collector wants everything. */
export function openLog(level: string | undefined, destination?: DestinationStream): Log {
  const paths = SECRET_PATHS.flatMap((path) => [path, `*.${path}`, `*.*.${path}`, `headers["${path}"]`])
  return pino(
    {
      level: level ?? (process.stderr.isTTY ? 'warn' : 'info'),
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFacts },
      redact: { paths, censor: '[redacted]' },
      hooks: {
        // By shape: a key or a password inside a message or an error text, wherever it came from.
        streamWrite: (line) => redactText(line),
      },
    },
    destination ?? pino.destination({ fd: 2, sync: false }),
  )
}

/** What a line says about an error. What the database adds (detail, where, the statement) quotes rows and inputs: it stays out. */
function errorFacts(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: String(error).slice(0, 200) }
  const { code, constraint, routine } = error as Error & { code?: unknown; constraint?: unknown; routine?: unknown }
  // Class 22 of SQLSTATE is about data and repeats it in the message.
  const message =
    typeof code === 'string' && /^22...$/.test(code) ? `data that Postgres refuses (${code})` : error.message
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
