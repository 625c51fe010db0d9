/** Follows redirects by hand: each hop is decided like the first, and a credential never leaves its origin. */
import { ConnectorFailure } from '../connector.ts'
import { decideUrl } from './reach.ts'
import { type HttpAnswer, type HttpRequest, sendRequest } from './send-request.ts'

const redirects: readonly number[] = [301, 302, 303, 307, 308]

export type Redirected = {
  readonly request: HttpRequest
  readonly redirectsMax: number
  /** The names of the headers that carry the credential. */
  readonly credentialHeaders: readonly string[]
}

export async function sendAndFollow({ request, redirectsMax, credentialHeaders }: Redirected): Promise<HttpAnswer> {
  let hop = request
  for (let hops = 0; ; hops += 1) {
    const answer = await sendRequest(hop)
    const { location } = answer.headers
    if (!redirects.includes(answer.status) || typeof location !== 'string') return answer
    if (hop.method !== 'GET' && hop.method !== 'HEAD')
      throw new ConnectorFailure('validation_error', 'the provider sent a change on to another address', 'unknown')
    if (hops >= redirectsMax)
      throw new ConnectorFailure(
        'validation_error',
        `the provider sent the request on more than ${redirectsMax} times`,
        'no',
      )
    const next = decideUrl(location, hop.reach, hop.url)
    if (!next.ok) throw new ConnectorFailure('permission_denied', `a redirect was not followed: ${next.reason}`, 'no')
    const isSame = next.value.origin === hop.url.origin
    const headers = isSame ? hop.headers : without(hop.headers, credentialHeaders)
    hop = { ...hop, url: next.value, headers }
  }
}

function without(headers: Readonly<Record<string, string>>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)))
}
