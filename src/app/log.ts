/** The one logger: JSON lines on standard error, secrets removed by path and by shape before a line is written. */
import { pino, type DestinationStream, type Logger } from 'pino'
import { redactLine } from '#kernel/secret-shapes'
import { isSecretName } from '#kernel/secrets/secret-name'

export type Log = Logger

/** A line with such a field name is read again. It takes one look instead of 40 paths per line. */
const MAY_NAME_SECRET =
  /"[^"\\]{0,60}(?:pass|pwd|secret|token|key|credential|authorization|cookie|url|cvv|cvc|pin|otp)[^"\\]{0,20}":/i

/** Removes secrets by the name of their field, at any depth. */
function redactNamed(line: string): string {
  if (!MAY_NAME_SECRET.test(line)) return line
  let isChanged = false
  const redacted = JSON.stringify(JSON.parse(line), (name, value: unknown) => {
    const isSecret = isSecretName(name, typeof value === 'number' ? 'number' : 'text') || /^database_?url$/i.test(name)
    if (!isSecret || typeof value === 'boolean' || value === null) return value
    isChanged = true
    return '[redacted]'
  })
  return isChanged ? `${redacted}\n` : line
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
        streamWrite: (line) => redactLine(redactNamed(line)),
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
