/** `fetch` for the MCP client on the guarded dial: the address that was checked is dialled, an answer has an end and a limit. */
import type { FetchLike } from '@modelcontextprotocol/client'
import { ConnectorFailure } from '../connector.ts'
import { decideUrl, type Reach } from '../http/reach.ts'
import { type Resolve, sendRequest } from '../http/send-request.ts'

export type FetchTerms = {
  readonly reach: Reach
  readonly resolve: Resolve
  readonly ca: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  /** Of all answers of the session together. */
  readonly bytesMax: number
  /** Told of a failure before the client wraps it in words of its own. */
  readonly onFailure: (failure: ConnectorFailure) => void
}

const FAREWELL_MS = 2_000
const bodiless: readonly number[] = [101, 204, 205, 304]

export function openGuardedFetch(terms: FetchTerms): FetchLike {
  let leftBytes = terms.bytesMax
  return async (address, init = {}) => {
    const method = init.method ?? 'GET'
    // An open line for news of the server: a call waits for its own answer only.
    if (method === 'GET') return new Response(null, { status: 405 })
    try {
      const url = decideUrl(String(address), terms.reach)
      if (!url.ok) throw new ConnectorFailure('permission_denied', url.reason, 'no')
      const body = typeof init.body === 'string' ? init.body : undefined
      const answer = await sendRequest({
        url: url.value,
        method,
        headers: { ...Object.fromEntries(new Headers(init.headers)), 'user-agent': 'concord', ...terms.headers },
        body,
        // The farewell is sent when nobody waits any more.
        signal: method === 'DELETE' ? AbortSignal.timeout(FAREWELL_MS) : terms.signal,
        bytesMax: Math.max(1, leftBytes),
        reach: terms.reach,
        resolve: terms.resolve,
        ca: terms.ca,
      })
      leftBytes -= answer.body.length
      const headers = new Headers()
      for (const [name, value] of Object.entries(answer.headers)) headers.set(name, String(value ?? ''))
      const isEmpty = bodiless.includes(answer.status) || answer.body.length === 0
      return new Response(isEmpty ? null : new Uint8Array(answer.body), { status: answer.status, headers })
    } catch (error) {
      if (error instanceof ConnectorFailure) terms.onFailure(error)
      throw error
    }
  }
}
