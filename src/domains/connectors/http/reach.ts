/** What an HTTP connector may call: schemes, hosts, ports and networks. It is checked again on every redirect. Pure. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'

/** 4 or 16 bytes. */
export type IpBytes = readonly number[]

const special4: readonly (readonly [string, string])[] = [
  ['0.0.0.0/8', 'this host'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'carrier'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link-local'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'protocol assignments'],
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', '6to4 relay'],
  ['192.168.0.0/16', 'private'],
  ['198.18.0.0/15', 'benchmarks'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved'],
]

/** The parts of the global block that are not global: a tunnel would bypass the check with an inner address. */
const special6: readonly (readonly [string, string])[] = [
  ['2001::/23', 'protocol assignments and tunnels'],
  ['2001:db8::/32', 'documentation'],
  ['2002::/16', '6to4'],
  ['3fff::/20', 'documentation'],
]
const global6 = '2000::/3'
const mapped6 = '::ffff:0:0/96'

/** Returns the name of the special network of the address, or undefined if it is public. */
export function specialNetworkOf(address: string): string | undefined {
  const bytes = parseIp(address)
  if (!bytes) return 'not an IP address'
  if (bytes.length === 4) return special4.find(([range]) => isIn(bytes, range))?.[1]
  if (isIn(bytes, mapped6)) return specialNetworkOf(bytes.slice(12).join('.'))
  if (!isIn(bytes, global6))
    return isIn(bytes, '::1/128') ? 'loopback' : isIn(bytes, 'fe80::/10') ? 'link-local' : 'not global'
  return special6.find(([range]) => isIn(bytes, range))?.[1]
}

/** Whether a range (`10.1.0.0/16`, `::1/128`, or a single address) contains it. A mapped IPv6 address counts as its IPv4 address. */
export function isInRanges(address: string, ranges: readonly string[]): boolean {
  const bytes = parseIp(address)
  if (!bytes) return false
  const inner = bytes.length === 16 && isIn(bytes, mapped6) ? bytes.slice(12) : bytes
  return ranges.some((range) => isIn(inner, range))
}

export function isRange(text: string): boolean {
  const [base = '', bits] = text.split('/')
  const bytes = parseIp(base)
  if (!bytes) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= bytes.length * 8)
}

function isIn(bytes: IpBytes, range: string): boolean {
  const [base = '', bits] = range.split('/')
  const other = parseIp(base)
  if (!other || other.length !== bytes.length) return false
  const count = bits === undefined ? bytes.length * 8 : Number(bits)
  return bytes.every((byte, at) => {
    const width = Math.min(8, Math.max(0, count - at * 8))
    const mask = (0xff << (8 - width)) & 0xff
    return (byte & mask) === ((other[at] ?? 0) & mask)
  })
}

/** Accepts only canonical texts, as the URL parser and the resolver return them: no octal, hex or short IPv4 forms. */
export function parseIp(text: string): IpBytes | undefined {
  return text.includes(':') ? parse6(text) : parse4(text)
}

function parse4(text: string): IpBytes | undefined {
  const parts = text.split('.')
  const isGood = parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)
  return isGood ? parts.map(Number) : undefined
}

function parse6(text: string): IpBytes | undefined {
  // A zone names an interface of this machine; a public address has none.
  if (text.includes('%')) return undefined
  const tail = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text)
  const inner = tail ? parse4(tail[2] ?? '') : undefined
  if (tail && !inner) return undefined
  const hex = inner
    ? `${tail?.[1] ?? ''}${[0, 2].map((at) => (((inner[at] ?? 0) << 8) | (inner[at + 1] ?? 0)).toString(16)).join(':')}`
    : text
  const halves = hex.split('::')
  if (halves.length > 2) return undefined
  const groups = halves.map((half) => (half === '' ? [] : half.split(':')))
  const [left = [], right = []] = groups
  const missing = 8 - left.length - right.length
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined
  const all = [...left, ...Array<string>(halves.length === 2 ? missing : 0).fill('0'), ...right]
  if (!all.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined
  return all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff])
}

export type Reach = {
  /** Exact names, `*.example.com` for all of its subdomains, or `*` for every public host. */
  readonly hosts: readonly string[]
  readonly ports: readonly number[]
  /** Plain HTTP, for private networks. */
  readonly allow_http: boolean
  /** Ranges outside the public internet that may be called, such as `10.1.0.0/16`. */
  readonly private_networks: readonly string[]
}

export function decideUrl(text: string, reach: Reach, base?: URL): Decision<URL> {
  if (!URL.canParse(text, base?.href)) return refuse('connectors.address.not_allowed', 'The text is not a URL.')
  const url = new URL(text, base?.href)
  const isPlain = url.protocol === 'http:' && reach.allow_http
  if (url.protocol !== 'https:' && !isPlain) return no(`has the scheme ${quote(url.protocol)}`)
  if (url.username !== '' || url.password !== '') return no('carries a user name')
  const port = portOf(url)
  if (!reach.ports.includes(port)) return no(`has the port ${port}`)
  const host = hostOf(url)
  if (!reach.hosts.some((allowed) => isHost(host, allowed))) return no(`has the host ${quote(host)}`)
  if (parseIp(host) !== undefined) {
    const allowed = decideAddress(host, reach)
    if (!allowed.ok) return allowed
  }
  return accept(url)
}

/** By default a connector calls only the host and port of its base URL. */
export function httpReachOf(base: URL, reach: Partial<Reach> = {}): Reach {
  return { hosts: [hostOf(base)], ports: [portOf(base)], allow_http: false, private_networks: [], ...reach }
}

export function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port)
  return protocol === 'https:' ? 443 : 80
}

/** The name or the IP address, without brackets and without the final dot of an absolute name. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
}

/** Checks every address: the resolved ones, and one in the URL itself. */
export function decideAddress(address: string, reach: Pick<Reach, 'private_networks'>): Decision<string> {
  const network = specialNetworkOf(address)
  if (network === undefined || isInRanges(address, reach.private_networks)) return accept(address)
  return no(`resolves to an address that is ${network}`)
}

function isHost(host: string, allowed: string): boolean {
  if (allowed === '*' || allowed === host) return true
  return allowed.startsWith('*.') && host.endsWith(allowed.slice(1)) && host.length > allowed.length - 1
}

function no(what: string): Decision<never> {
  return refuse('connectors.address.not_allowed', `The URL ${what}, which this connector may not call.`)
}
