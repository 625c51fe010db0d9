/** Calls the hotel vendor and classifies the outcome, above all whether a failed call may still have taken effect. */
import { EffectFailure } from '#domains/commands'

export type VendorCall = {
  readonly url: string
  readonly signal: AbortSignal
  /** Sent as `idempotency-key`; an answer with another key does not belong to this call. */
  readonly key?: string
  readonly body?: object
}

/** A valid answer has a few hundred bytes. */
const ANSWER_BYTES_MAX = 65_536

export async function callVendor({ url, signal, key, body }: VendorCall): Promise<Record<string, unknown>> {
  const response = await send({ url, signal, ...(key === undefined ? {} : { key }), ...(body ? { body } : {}) })
  if (response.status === 429) throw new EffectFailure('rate_limited', 'the vendor asks to slow down')
  // This vendor answers 503 and 429 before any effect. Any other 5xx leaves the outcome unknown.
  if (response.status === 503) throw new EffectFailure('transient_connector_error', 'the vendor is down', 'no')
  if (response.status >= 500)
    throw new EffectFailure('transient_connector_error', `the vendor answered ${response.status}`)
  if (response.status >= 400) throw new EffectFailure('validation_error', `the vendor answered ${response.status}`)
  const answer = await readAnswer(response)
  if (key !== undefined && answer['key'] !== key)
    throw new EffectFailure('transient_connector_error', 'the vendor answered for another key')
  return answer
}

async function send({ url, signal, key, body }: VendorCall): Promise<Response> {
  try {
    return await fetch(url, {
      signal,
      method: body ? 'POST' : 'GET',
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { 'idempotency-key': key }),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
  } catch (error) {
    throw failureOf(error)
  }
}

/** Only a connection that was never made proves that nothing was done. */
function failureOf(error: unknown): EffectFailure {
  const { cause, name } = error as { cause?: { code?: string }; name?: string }
  if (name === 'AbortError' || name === 'TimeoutError')
    return new EffectFailure('timeout', 'the vendor did not answer in time')
  const never = cause?.code === 'ECONNREFUSED'
  return new EffectFailure('transient_connector_error', 'no connection to the vendor', never ? 'no' : 'unknown')
}

async function readAnswer(response: Response): Promise<Record<string, unknown>> {
  if (!(response.headers.get('content-type') ?? '').startsWith('application/json'))
    throw new EffectFailure('transient_connector_error', 'the vendor answered with something that is not JSON')
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength
      if (bytes > ANSWER_BYTES_MAX) break
      chunks.push(chunk)
    }
  } catch (error) {
    throw failureOf(error)
  }
  if (bytes > ANSWER_BYTES_MAX)
    throw new EffectFailure('transient_connector_error', 'the answer of the vendor has no end')
  return parseAnswer(Buffer.concat(chunks).toString('utf8'))
}

function parseAnswer(text: string): Record<string, unknown> {
  try {
    const answer: unknown = JSON.parse(text)
    if (typeof answer === 'object' && answer !== null && !Array.isArray(answer))
      return answer as Record<string, unknown>
  } catch {
    // Handled below: broken JSON and JSON of another shape are the same to a caller.
  }
  throw new EffectFailure('transient_connector_error', 'the answer of the vendor cannot be read')
}
