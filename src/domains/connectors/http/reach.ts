/** Where an HTTP connector may go: schemes, hosts, ports and networks. Pure, and asked again on every hop. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { isInRanges, parseIp, specialNetworkOf } from './ip-address.ts'

export type Reach = {
  /** Exact names, or `*.example.com` for everything below it; `*` is every public host. */
  readonly hosts: readonly string[]
  readonly ports: readonly number[]
  /** Clear text is for networks that are one's own. */
  readonly allow_http: boolean
  /** Ranges outside the public internet that may be dialled all the same, such as `10.1.0.0/16`. */
  readonly private_networks: readonly string[]
}

export function decideUrl(text: string, reach: Reach, base?: URL): Decision<URL> {
  if (!URL.canParse(text, base?.href)) return no('is no address')
  const url = new URL(text, base?.href)
  const isPlain = url.protocol === 'http:' && reach.allow_http
  if (url.protocol !== 'https:' && !isPlain) return no(`has the scheme ${quote(url.protocol)}`)
  if (url.username !== '' || url.password !== '') return no('carries a user name')
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  if (!reach.ports.includes(port)) return no(`has the port ${port}`)
  const host = hostOf(url)
  if (!reach.hosts.some((allowed) => isHost(host, allowed))) return no(`has the host ${quote(host)}`)
  if (parseIp(host) !== undefined) {
    const allowed = decideAddress(host, reach)
    if (!allowed.ok) return allowed
  }
  return accept(url)
}

/** The base address says where a connector goes; whoever wants more says so. */
export function httpReachOf(base: URL, reach: Partial<Reach> = {}): Reach {
  const port = base.port === '' ? (base.protocol === 'https:' ? 443 : 80) : Number(base.port)
  return { hosts: [hostOf(base)], ports: [port], allow_http: false, private_networks: [], ...reach }
}

/** The name or the literal, without brackets and without the dot that ends an absolute name. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
}

/** Every address is asked: the one that a name stands for now, and the one that somebody wrote down. */
export function decideAddress(address: string, reach: Reach): Decision<string> {
  const network = specialNetworkOf(address)
  if (network === undefined || isInRanges(address, reach.private_networks)) return accept(address)
  return no(`leads to an address that is ${network}`)
}

function isHost(host: string, allowed: string): boolean {
  if (allowed === '*' || allowed === host) return true
  return allowed.startsWith('*.') && host.endsWith(allowed.slice(1)) && host.length > allowed.length - 1
}

function no(what: string): Decision<never> {
  return refuse('connectors.address.not_allowed', `the address ${what}, which this connector may not call`)
}
