/** Parses `DATABASE_URL` and keeps its password out of every message. */
import { accept, type Decision, refuse } from '#kernel/refusal'

type DatabaseUrl = {
  /** As given, trimmed; contains the password. */
  readonly url: string
  /** For messages and logs. */
  readonly masked: string
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user?: string
}

const EXAMPLE = 'postgresql://user:password@host:5432/database'

export function parseDatabaseUrl(text: string, source = 'DATABASE_URL'): Decision<DatabaseUrl> {
  const no = (reason: string) =>
    refuse('store.url.invalid', `${source} ${reason}.`, { path: source, hint: `Write it as ${EXAMPLE}.` })
  const url = text.trim()
  if (url === '') return no('is empty')
  // A text that does not parse is not shown at all, since the position of its password is unknown.
  if (!URL.canParse(url)) return no('is not a URL. A password with the characters / ? # @ : % must be percent-encoded')
  const parsed = new URL(url)
  if (parsed.protocol !== 'postgres:' && parsed.protocol !== 'postgresql:') {
    return no(`has the scheme ${parsed.protocol.slice(0, 16)}// instead of postgresql://`)
  }
  const names = decodeAll([parsed.pathname.slice(1), parsed.username, parsed.password, parsed.hostname])
  if (!names) return no('contains a % that begins no percent-encoded character')
  const [database = '', user = '', , hostname = ''] = names
  const masked = maskDatabaseUrl(url)
  if (database === '' || database.includes('/')) return no(`names no database: ${masked}`)
  if (parsed.port === '0') return no(`has the port 0: ${masked}`)
  const host = parsed.searchParams.get('host') ?? hostname
  if (host === '') return no(`names no host: ${masked}`)
  return accept({ url, masked, host, port: Number(parsed.port || 5432), database, ...(user ? { user } : {}) })
}

function decodeAll(parts: readonly string[]): string[] | undefined {
  try {
    return parts.map(decodeURIComponent)
  } catch {
    return undefined
  }
}

/** Returns the URL with `***` for every password; only the scheme of a text that is not a URL. */
export function maskDatabaseUrl(text: string): string {
  if (!URL.canParse(text.trim())) return `${/^[a-z]{1,16}(?=:\/\/)/.exec(text.trim())?.[0] ?? 'unknown'}://…`
  const url = new URL(text.trim())
  if (url.password !== '') url.password = '***'
  for (const name of url.searchParams.keys()) {
    if (/password|sslkey|secret|token/i.test(name)) url.searchParams.set(name, '***')
  }
  return url.href
}
