/** Turns an answer of GitHub that is no success into a failure of the closed list, with its two kinds of limits. Pure. */
import { z } from 'zod'
import { ConnectorFailure } from '../connector.ts'
import { failureOfStatus } from '../http/read-answer.ts'
import type { HttpAnswer } from '../http/send-request.ts'

/** GitHub asks for at least a minute after a secondary limit that says no time. */
const SECONDARY_MS = 60_000

const refusal = z.object({
  message: z.string().optional(),
  errors: z.array(z.object({ field: z.string().optional(), code: z.string().optional() })).optional(),
})

export function failureOfGithub(answer: HttpAnswer, nowMs: number): ConnectorFailure {
  const { status } = answer
  const said = readRefusal(answer.body)
  const waitMs = status === 403 || status === 429 ? limitOf(answer, said.message ?? '', nowMs) : undefined
  if (waitMs !== undefined) return new ConnectorFailure('rate_limited', 'GitHub asks to slow down', 'no', waitMs)
  if (status === 404 || status === 410)
    return new ConnectorFailure(
      'validation_error',
      `GitHub has no such thing, or the token does not see it (${status})`,
      'no',
    )
  if (status === 422) {
    // Names of fields and codes are GitHub's own words; its sentences may repeat what was sent.
    const fields = (said.errors ?? []).slice(0, 5).map(({ field = '', code = '' }) => `${plain(field)} ${plain(code)}`)
    return new ConnectorFailure(
      'validation_error',
      `GitHub does not take it: ${fields.join(', ') || 'it did not say why'}`,
      'no',
    )
  }
  if (status >= 300 && status < 400)
    return new ConnectorFailure('validation_error', 'the repository has moved; write its new name', 'no')
  return failureOfStatus(answer)
}

/** Undefined: a plain no. A limit shows as 403 or 429 with one of three signs. */
function limitOf({ status, headers }: HttpAnswer, message: string, nowMs: number): number | undefined {
  const after = seconds(headers['retry-after'])
  if (after !== undefined) return after * 1_000
  const reset = seconds(headers['x-ratelimit-reset'])
  if (headers['x-ratelimit-remaining'] === '0')
    return reset === undefined ? SECONDARY_MS : Math.max(1_000, reset * 1_000 - nowMs)
  return status === 429 || /secondary rate limit/i.test(message) ? SECONDARY_MS : undefined
}

function seconds(header: string | readonly string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d{1,12}$/.test(header) ? Number(header) : undefined
}

function readRefusal(body: Buffer): z.infer<typeof refusal> {
  try {
    return refusal.parse(JSON.parse(body.toString('utf8')))
  } catch {
    return {}
  }
}

function plain(word: string): string {
  return /^[a-z_]{1,40}$/i.test(word) ? word : '?'
}
