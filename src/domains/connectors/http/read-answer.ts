/** Turns the answer of a provider into an output, or into a failure of the closed list; its own words go no further. */
import { parseGuardedJson } from '#kernel/json-guard'
import { ConnectorFailure, type ConnectorResult, succeeded } from '../connector.ts'
import type { HttpForm } from './http-settings.ts'
import type { HttpAnswer } from './send-request.ts'

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

export function readAnswer(form: HttpForm, answer: HttpAnswer, bytesMax: number): ConnectorResult {
  const { status } = answer
  if (status < 200 || status >= 300) throw failureOfStatus(answer)
  const text = decode(answer.body)
  const metadata = { status }
  if (form.answer === 'text') return succeeded({ status, text }, metadata)
  if (text === '') return succeeded(null, metadata)
  const parsed = parseGuardedJson(text, { bytesMax, depthMax: 32, keysMax: 10_000 })
  if (!parsed.ok) throw unreadable(`the answer is not JSON that can be taken: ${parsed.code}`)
  return succeeded(parsed.value, metadata)
}

function decode(body: Buffer): string {
  try {
    return strictUtf8.decode(body)
  } catch {
    throw unreadable('the answer is not UTF-8')
  }
}

function unreadable(message: string): ConnectorFailure {
  return new ConnectorFailure('transient_connector_error', message, 'unknown')
}

/** A clear no was said before anything was done; a fault of the provider says nothing about that. */
export function failureOfStatus({ status, headers }: Pick<HttpAnswer, 'status' | 'headers'>): ConnectorFailure {
  const said = `the provider answered ${status}`
  switch (status) {
    case 401:
    case 403:
    case 407:
      return new ConnectorFailure('permission_denied', said, 'no')
    case 408:
      return new ConnectorFailure('timeout', said, 'unknown')
    case 413:
    case 414:
    case 431:
      return new ConnectorFailure('malformed_payload', said, 'no')
    case 425:
    case 429:
      return new ConnectorFailure('rate_limited', said, 'no', retryAfterMs(headers['retry-after']))
    default:
      return status >= 400 && status < 500
        ? new ConnectorFailure('validation_error', said, 'no')
        : new ConnectorFailure('transient_connector_error', said, 'unknown', retryAfterMs(headers['retry-after']))
  }
}

/** Seconds only: a date would be read against a clock that is not the provider's. How much of a long time counts is for whoever waits to say. */
export function retryAfterMs(header: string | readonly string[] | undefined): number | undefined {
  if (typeof header !== 'string' || !/^\d+$/.test(header)) return undefined
  return Math.min(Number.MAX_SAFE_INTEGER, Number(header) * 1_000)
}
