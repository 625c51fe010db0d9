/**
 * Decides whether a destination is inside the organisation. Inside is what the project declares; everything else is outside. A
 * destination has several spellings, so both sides are reduced to one text before they are compared. A spelling that two parsers may
 * read differently is outside.
 */
import { accept, type Decision, quote, refuse } from '../refusal.ts'

/** The only destination that every project has: it never leaves Concord. */
const OWN_PLACE = 'internal'
/** A name that says itself that it is outside. */
const OUTSIDE = 'external:'
const PLACES_MAX = 1_000

type Reading = {
  readonly text: string
  /** The server that receives what is sent. */
  readonly host?: string
  /** Of a name such as `slack:finance`. */
  readonly scheme?: string | undefined
}

const HOST_SCHEME = '(?:https?|ftps?|sftp|ssh|wss?|smtps?)'
const LABEL = String.raw`[\p{L}\p{N}\p{M}_](?:[\p{L}\p{N}\p{M}_-]{0,61}[\p{L}\p{N}\p{M}_])?`
const HOST = new RegExp(String.raw`^${LABEL}(?:\.${LABEL})+$`, 'u')
const MAIL = /^([\p{L}\p{N}_][\p{L}\p{N}\p{M}_.+'=&~-]*)@([^@]+)$/u
const NAME = /^(?:([a-z][a-z0-9+-]*):)?#?[\p{L}\p{N}\p{M}_-]+(?:[./][\p{L}\p{N}\p{M}_-]+)*$/u

/** What may stand around an address or a host. The first group is the address or the host. */
const WRAPPINGS: readonly RegExp[] = [
  // A query of a mailto URL may name further recipients.
  /^mailto:([^?]+)$/,
  /^(?:[\p{L}\p{N}\p{M} ._'-]*|"[\p{L}\p{N}\p{M} ._',-]*") ?<([^<>]+)>$/u,
  // No `@` and no backslash anywhere, because parsers disagree on which side of them the host is, and nothing that separates two places.
  new RegExp(String.raw`^${HOST_SCHEME}://([^/?#:@%\\]+)(?::\d{1,5})?(?:[/?#][^@\\\s,;|<>"']*)?$`),
  /^([^:@]+):\d{1,5}$/,
]

/** Returns the one text of a destination, or undefined if its meaning is not certain. */
function readDestination(given: string): Reading | undefined {
  const text = foldText(given)
  if (text === undefined) return undefined
  const inner = WRAPPINGS.map((wrapping) => wrapping.exec(text)?.[1]).find((each) => each !== undefined)
  const read = inner === undefined ? undefined : readPlain(inner)
  // `slack:12` has the form of a host with a port, and is a name.
  return read?.host === undefined ? readPlain(text) : read
}

/**
 * Compatibility characters become `@`, `.` or `/` in some parsers and stay letters in others, and format characters are invisible. A text
 * with one of them has no certain meaning.
 */
function foldText(given: string): string | undefined {
  const text = given.replace(/^ +| +$/g, '')
  return text === text.normalize('NFKC') && !/[\p{C}\p{Zl}\p{Zp}]/u.test(text) ? text.toLowerCase() : undefined
}

/** An address, a host or a name, with nothing around it. */
function readPlain(text: string): Reading | undefined {
  const [, local, domain] = MAIL.exec(text) ?? []
  const host = readHost(domain ?? text)
  if (host !== undefined) return { text: local === undefined ? host : `${local}@${host}`, host }
  const name = NAME.exec(text)
  return name ? { text, scheme: name[1] } : undefined
}

/** Returns the name of a server as the DNS has it: lower case, punycode, without the dot of the root. */
function readHost(given: string): string | undefined {
  const host = given.endsWith('.') ? given.slice(0, -1) : given
  if (!HOST.test(host) || host.length > 253) return undefined
  if (/^[a-z0-9_.-]+$/.test(host)) return host
  const ascii = URL.parse(`http://${host}`)?.hostname.split('.') ?? []
  // A label that is not ASCII stays distinct from every ASCII label.
  const isFaithful = host.split('.').every((label, at) => /^[a-z0-9_-]+$/.test(label) || ascii[at]?.startsWith('xn--'))
  return isFaithful ? ascii.join('.') : undefined
}

/** Returns whether a declared place, in its one text, covers the destination. */
function covers(place: string, { text, host, scheme }: Reading): boolean {
  if (place === text || (host !== undefined && place === host)) return true
  if (place.startsWith('*.')) return host?.endsWith(place.slice(1)) ?? false
  return scheme !== undefined && place === `${scheme}:*`
}

/** Returns whether a destination is inside. A value that is not a text has no certain meaning. */
export function isInside(destination: unknown, places: readonly string[]): boolean {
  if (typeof destination !== 'string') return false
  const read = readDestination(destination)
  if (read === undefined || read.text.startsWith(OUTSIDE)) return false
  return read.text === OWN_PLACE || places.some((place) => covers(place, read))
}

/** Returns the destinations of a payload: none, one, or a list. */
export function destinationsOf(payload: unknown): readonly unknown[] {
  if (typeof payload !== 'object' || payload === null) return []
  const { destination } = payload as { readonly destination?: unknown }
  if (destination === undefined || destination === null) return []
  return Array.isArray(destination) ? destination : [destination]
}

/** Returns the declared places that cover a destination of the payload. They are all that a rule needs, and few enough to be recorded. */
export function findPlaces(payload: unknown, places: readonly string[]): readonly string[] {
  const destinations = destinationsOf(payload)
  return places.filter((place) => destinations.some((each) => isInside(each, [place]) && !isInside(each, [])))
}

/** Reads the places that a project declares: hosts and mail domains, `*.` before them for sub-domains, addresses, names, `scheme:*`. */
export function readPlaces(given: unknown): Decision<readonly string[]> {
  if (!Array.isArray(given) || given.length > PLACES_MAX)
    return wrongPlace('inside', `\`inside\` is not a list of at most ${PLACES_MAX} places.`)
  const places: string[] = []
  for (const [index, each] of (given as readonly unknown[]).entries()) {
    const place = typeof each === 'string' ? readPlace(each) : undefined
    if (place === undefined) return wrongPlace(`inside[${index}]`, `${quote(String(each))} is not a place.`)
    places.push(place)
  }
  return accept(places)
}

/** A URL, a port or a display name is refused: it would declare more than it says. */
function readPlace(given: string): string | undefined {
  const text = foldText(given) ?? ''
  const [, prefix = '', bare = text] = /^(\*\.)(.+)$/.exec(text) ?? []
  const read = /^[a-z][a-z0-9+-]*:\*$/.test(bare) ? { text: bare } : readPlain(bare)
  const isHostScheme = new RegExp(`^(?:${HOST_SCHEME}|mailto):`).test(bare)
  if (read === undefined || isHostScheme || bare.startsWith(OUTSIDE)) return undefined
  return prefix === '' || readHost(bare) === read.text ? prefix + read.text : undefined
}

function wrongPlace(path: string, reason: string) {
  return refuse('policy.place.invalid', reason, {
    path,
    hint: 'Declare a host or mail domain (example.com), its sub-domains (*.example.com), an address (ada@example.com), a name (slack:finance), or all names of a scheme (slack:*).',
  })
}
