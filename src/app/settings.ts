/** Every environment variable Concord reads, in one table: name, meaning, default, how it is parsed. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'

export type Setting<T> = {
  readonly variable: string
  readonly meaning: string
  readonly example: string
  readonly parse: (text: string | undefined) => Decision<T>
}

function bad(variable: string, reason: string, hint: string) {
  return refuse('app.setting.invalid', reason, { path: variable, hint })
}

function text(variable: string, meaning: string, example: string, fallback: string): Setting<string> {
  return {
    variable,
    meaning,
    example,
    parse: (given) => accept(given === undefined || given === '' ? fallback : given),
  }
}

function optional(variable: string, meaning: string, example: string): Setting<string | undefined> {
  return { variable, meaning, example, parse: (given) => accept(given === '' ? undefined : given) }
}

function address(variable: string, meaning: string, example: string): Setting<string | undefined> {
  return {
    variable,
    meaning,
    example,
    parse(given) {
      if (given === undefined || given === '') return accept(undefined)
      if (URL.canParse(given) && /^https?:$/.test(new URL(given).protocol)) return accept(given)
      return bad(variable, `${variable} is ${quote(given)}, not an address`, `it looks like ${example}`)
    },
  }
}

/** Plain decimal only: `Number` would also take 0x1F90, 1e3 and blanks. */
function integer(
  variable: string,
  meaning: string,
  range: readonly [number, number],
  fallback: number,
): Setting<number> {
  return {
    variable,
    meaning,
    example: String(fallback),
    parse(given) {
      if (given === undefined || given === '') return accept(fallback)
      const value = /^\d{1,9}$/.test(given) ? Number(given) : Number.NaN
      if (value >= range[0] && value <= range[1]) return accept(value)
      return bad(
        variable,
        `${variable} is ${quote(given)}, not a number from ${range[0]} to ${range[1]}`,
        `set ${variable}=${fallback} or unset it`,
      )
    },
  }
}

function choice<const C extends string, const F extends C | undefined>(
  variable: string,
  meaning: string,
  allowed: readonly C[],
  fallback: F,
): Setting<C | F> {
  return {
    variable,
    meaning,
    example: fallback ?? allowed.join('|'),
    parse(given) {
      if (given === undefined || given === '') return accept<C | F>(fallback)
      const found = allowed.find((value) => value === given)
      if (found !== undefined) return accept(found)
      return bad(variable, `${variable} is ${quote(given)}`, `use one of: ${allowed.join(', ')}`)
    },
  }
}

export const settings = {
  home: text('CONCORD_HOME', 'folder of the embedded database, keys and logs', './.concord', './.concord'),
  host: text('CONCORD_HOST', 'address the server listens on', '127.0.0.1', '127.0.0.1'),
  hosts: optional(
    'CONCORD_HOSTS',
    'names under which others may call this server, with commas (default: loopback, or any if it listens elsewhere)',
    'concord.example.com',
  ),
  port: integer('CONCORD_PORT', 'port the server listens on', [1, 65_535], 7420),
  databaseUrl: optional(
    'DATABASE_URL',
    'a Postgres of your own instead of the embedded one',
    'postgres://user@host/db',
  ),
  poolMax: integer('CONCORD_POOL_MAX', 'database connections of one process', [2, 200], 10),
  works: choice(
    'CONCORD_WORK',
    'whether `concord up` does work itself (0: only `concord worker` does)',
    ['0', '1'],
    '1',
  ),
  logLevel: choice(
    'CONCORD_LOG_LEVEL',
    'how much is logged (default: warn on a terminal, info elsewhere)',
    ['silent', 'error', 'warn', 'info', 'debug', 'trace'],
    undefined,
  ),
  rateLimit: integer('CONCORD_RATE_LIMIT', 'requests a minute for one key', [1, 10_000_000], 6_000),
  jwtIssuer: optional('CONCORD_JWT_ISSUER', 'issuer of an outside identity provider', 'https://id.example.com/'),
  jwtAudience: optional('CONCORD_JWT_AUDIENCE', 'audience its tokens must carry', 'concord'),
  jwtJwksUrl: address('CONCORD_JWT_JWKS_URL', 'where its signing keys are', 'https://id.example.com/jwks.json'),
  url: address('CONCORD_URL', 'server the command line talks to', 'http://127.0.0.1:7420'),
  key: optional('CONCORD_KEY', 'API key of the command line (default: CONCORD_HOME/admin.key)', 'ck_…'),
  faults: optional('CONCORD_FAULTS', 'planned crashes, for tests only', '[]'),
  unsafeTest: choice('CONCORD_UNSAFE_TEST', 'accept a database that may lose commits, for tests only', ['0', '1'], '0'),
  cliWorkspace: optional('CONCORD_WORKSPACE', 'workspace the command line works in (its slug)', 'finance'),
  workspace: optional('WORKSPACE_ID', 'workspace of requests that name none', 'default'),
  defaultWorkspace: text('DEFAULT_WORKSPACE_ID', 'the same, read after WORKSPACE_ID', 'default', 'default'),
} as const

export type SettingName = keyof typeof settings
