/** Ends every call in time, and turns whatever came back into a result that fits its contract and holds no secret. */
import { classifyError } from '#kernel/error-classes'
import { redactPayload } from '#kernel/data-class'
import { guardValue } from '#kernel/json-guard'
import { defaultJsonLimits, type JsonValue } from '#kernel/json-value'
import { LATE, withDeadline } from '#turns'
import { type ConnectorError, type ConnectorResult, failed, resultOfThrown } from './connector.ts'
import type { ConnectorOperationContract } from './define-connector.ts'
import type { Scrubber } from './secrets.ts'
import type { ConnectorDeps } from './deps.ts'

const ERROR_CHARS_MAX = 500

/** A connector that never returns is left alone when its time is up, or when its caller gives up; its signal has told it. */
export async function callInTime(
  { sleep }: Pick<ConnectorDeps, 'sleep'>,
  { timeout_ms: ms }: Pick<ConnectorOperationContract, 'timeout_ms'>,
  signal: AbortSignal,
  call: (signal: AbortSignal) => Promise<ConnectorResult>,
): Promise<ConnectorResult> {
  const answer = (stop: AbortSignal) =>
    Promise.resolve()
      .then(() => call(stop))
      .catch(resultOfThrown)
  const gone = (ended: AbortSignal) =>
    new Promise<ConnectorResult>((resolve) => {
      const tell = () => resolve(silence('the call was cancelled before it was answered'))
      if (signal.aborted) tell()
      signal.addEventListener('abort', tell, { once: true, signal: ended })
    })
  const result = await withDeadline({ sleep, ms, signal }, answer, gone)
  return result === LATE ? silence(`no answer within ${ms} ms`) : result
}

function silence(message: string): ConnectorResult {
  return failed({ error_class: 'timeout', message, happened: 'unknown' })
}

export function judgeAnswer(
  operation: ConnectorOperationContract,
  answer: unknown,
  scrubber: Scrubber,
): ConnectorResult {
  const result = shapeOf(answer)
  const error = result.ok ? undefined : cleanError(operation, result.error, scrubber)
  if (error) return failed(error)
  const no = (message: string) =>
    failed(cleanError(operation, { error_class: 'transient_connector_error', message, happened: 'unknown' }, scrubber))
  const limits = { ...defaultJsonLimits, bytesMax: operation.output_max_bytes }
  const guarded = guardValue(result.output ?? null, limits)
  if (!guarded.ok) return no(`the answer cannot be taken: ${guarded.reason}`)
  const parsed = operation.output.safeParse(guarded.value)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return no(`the answer does not fit its contract at ${issue?.path.join('.') || 'the top'}`)
  }
  const fitted = guardValue(parsed.data ?? null, limits)
  if (!fitted.ok) return no(`the answer cannot be taken: ${fitted.reason}`)
  return { ok: true, output: scrubber.value(hideSecrets(operation, fitted.value)) }
}

/** A connector is code of others: what it returns is looked at before it is believed. */
function shapeOf(
  answer: unknown,
): Pick<ConnectorResult, 'ok' | 'output'> & { readonly error: Partial<ConnectorError> } {
  const given = (typeof answer === 'object' && answer !== null ? answer : {}) as Partial<ConnectorResult>
  const error = given.error ?? { message: 'the connector gave no result', happened: 'unknown' as const }
  return { ok: given.ok === true, output: given.output ?? null, error }
}

function cleanError(
  { side_effect_class: kind }: ConnectorOperationContract,
  error: Partial<ConnectorError>,
  scrubber: Scrubber,
): ConnectorError {
  const wait = error.retry_after_ms
  return {
    error_class: classifyError(error.error_class),
    message: scrubber.text(messageOf(error)).slice(0, ERROR_CHARS_MAX),
    // What changes nothing has not happened; for the rest only a clear no counts.
    happened: kind === 'none' || error.happened === 'no' ? 'no' : 'unknown',
    ...(typeof wait === 'number' && Number.isFinite(wait) && wait >= 0 ? { retry_after_ms: Math.ceil(wait) } : {}),
  }
}

function messageOf({ message }: { readonly message?: unknown }): string {
  return typeof message === 'string' ? message : 'it failed'
}

function hideSecrets({ output_classes }: ConnectorOperationContract, output: JsonValue): JsonValue {
  const paths = Object.fromEntries(Object.entries(output_classes).map(([path, of]) => [`output.${path}`, of]))
  return redactPayload({ output }, paths, 'payment')['output'] ?? null
}
