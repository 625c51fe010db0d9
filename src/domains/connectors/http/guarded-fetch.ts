/** `fetch` for the clients of other packages: it calls only checked addresses, follows no redirect and limits the answers. */
import { ConnectorFailure } from '../connector.ts'
import { decideUrl, httpReachOf, isRange, type Reach } from './reach.ts'
import { allowedUrl, type HttpRequest, sendRequest } from './request.ts'

/** `bytesMax` limits all answers together. */
export type FetchTerms = Pick<HttpRequest, 'reach' | 'resolve' | 'ca' | 'headers' | 'signal' | 'bytesMax'> & {
  /** Receives a failure before the client wraps it in its own error. */
  readonly onFailure: (failure: ConnectorFailure) => void
}
type GuardedFetch = (address: string | URL, init?: RequestInit) => Promise<Response>

const bodiless: readonly number[] = [101, 204, 205, 304]

export function openGuardedFetch(terms: FetchTerms): GuardedFetch {
  let leftBytes = terms.bytesMax
  return async (address, init = {}) => {
    try {
      const { body } = init
      if (body !== undefined && body !== null && typeof body !== 'string')
        throw new ConnectorFailure('validation_error', 'The body of a request must be a text.', 'no')
      const answer = await sendRequest({
        url: allowedUrl(String(address), terms.reach),
        method: init.method ?? 'GET',
        headers: { ...Object.fromEntries(new Headers(init.headers)), 'user-agent': 'concord', ...terms.headers },
        body: body ?? undefined,
        signal: terms.signal,
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

/** The mistakes in the address of a provider. */
export function findAddressFlaws(field: string, address: string, reach: Partial<Reach> | undefined): readonly string[] {
  if (!URL.canParse(address)) return [`${field} is not a URL.`]
  const full = httpReachOf(new URL(address), reach)
  const decided = decideUrl(address, full)
  return [
    ...(decided.ok
      ? []
      : [`${field}: ${decided.reason} \`reach\` allows more: allow_http, private_networks, hosts, ports.`]),
    ...full.private_networks.filter((range) => !isRange(range)).map((range) => `${range} is not a range of addresses.`),
  ]
}
