/** Ends every call in time, and turns any answer into a result that matches its contract and contains no secret. */
import { redactPayload } from '#kernel/data-class'
import { classifyError } from '#kernel/error-classes'
import { defaultJsonLimits, type JsonValue } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { LATE, withDeadline } from '#turns'
import {
  type ConnectorError,
  ConnectorFailure,
  type ConnectorOperationContract,
  type ConnectorResult,
  type ConnectorTools,
  failed,
} from './connector.ts'
import type { Scrubber } from './secrets.ts'

const ERROR_CHARS_MAX = 500

/** Abandons a connector that does not return by its time limit, or when the caller gives up. The signal tells the connector. */
export async function callInTime(
  { sleep }: Pick<ConnectorTools, 'sleep'>,
  ms: number,
  signal: AbortSignal,
  call: (signal: AbortSignal) => Promise<ConnectorResult>,
): Promise<ConnectorResult> {
  const answer = (stop: AbortSignal) =>
    Promise.resolve()
      .then(() => call(stop))
      .catch(resultOfThrown)
  const cancelled = (ended: AbortSignal) =>
    new Promise<ConnectorResult>((resolve) => {
      const cancel = () => resolve(noAnswer('The call was cancelled before it was answered.'))
      if (signal.aborted) cancel()
      signal.addEventListener('abort', cancel, { once: true, signal: ended })
    })
  const result = await withDeadline({ sleep, ms, signal }, answer, cancelled)
  return result === LATE ? noAnswer(`There was no answer within ${ms} ms.`) : result
}

function noAnswer(message: string): ConnectorResult {
  return failed({ error_class: 'timeout', message, happened: 'unknown' })
}

function resultOfThrown(error: unknown): ConnectorResult {
  if (error instanceof ConnectorFailure) return error.toResult()
  const message = error instanceof Error ? error.message : 'The connector threw a value that is not an error.'
  return failed({ error_class: 'internal_error', message, happened: 'unknown' })
}

export function judgeAnswer(
  operation: ConnectorOperationContract,
  answer: unknown,
  scrubber: Scrubber,
): ConnectorResult {
  const result = shapeOf(answer)
  if (!result.ok) return failed(cleanError(operation, result.error, scrubber))
  const no = (message: string) =>
    failed(cleanError(operation, { error_class: 'transient_connector_error', message, happened: 'unknown' }, scrubber))
  const limits = { ...defaultJsonLimits, bytesMax: operation.output_max_bytes }
  const guarded = guardValue(result.output, limits)
  if (!guarded.ok) return no(`The answer is not valid: ${guarded.reason}`)
  const parsed = operation.output.safeParse(guarded.value)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return no(`The answer does not match its contract at ${issue?.path.join('.') || 'the top level'}.`)
  }
  const fitted = guardValue(parsed.data ?? null, limits)
  if (!fitted.ok) return no(`The answer is not valid: ${fitted.reason}`)
  return { ok: true, output: scrubber.value(hideSecrets(operation, fitted.value)) }
}

/** A connector may be code of a third party: nothing that it returns is trusted. */
function shapeOf(
  answer: unknown,
): Pick<ConnectorResult, 'ok' | 'output'> & { readonly error: Partial<ConnectorError> } {
  const given = (typeof answer === 'object' && answer !== null ? answer : {}) as Partial<ConnectorResult>
  const error = given.error ?? { message: 'The connector returned no result.', happened: 'unknown' as const }
  return { ok: given.ok === true, output: given.output ?? null, error }
}

function cleanError(
  { side_effect_class: kind }: ConnectorOperationContract,
  error: Partial<ConnectorError>,
  scrubber: Scrubber,
): ConnectorError {
  const message: unknown = error.message
  const wait = error.retry_after_ms
  return {
    error_class: classifyError(error.error_class),
    message: scrubber.text(typeof message === 'string' ? message : 'The call failed.').slice(0, ERROR_CHARS_MAX),
    // An operation that changes nothing has not happened; for all others only a clear "no" counts.
    happened: kind === 'none' || error.happened === 'no' ? 'no' : 'unknown',
    ...(typeof wait === 'number' && Number.isFinite(wait) && wait >= 0 ? { retry_after_ms: Math.ceil(wait) } : {}),
  }
}

function hideSecrets({ output_classes }: ConnectorOperationContract, output: JsonValue): JsonValue {
  const paths = Object.fromEntries(Object.entries(output_classes).map(([path, of]) => [`output.${path}`, of]))
  return redactPayload({ output }, paths, 'payment')['output'] ?? null
}
