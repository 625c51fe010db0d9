/** Every environment variable Concord reads, in one table: name, meaning, default, how it is parsed. */
import { parseDuration } from '#kernel/duration'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { SCHEDULES_MAX } from '#kernel/schedule'
import { decideEnvironment } from '#runtime'

type Setting<T> = {
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

/** Without a value: never. */
function age(variable: string, meaning: string, example: string): Setting<number | undefined> {
  const days = integer(variable, meaning, [1, 36_500], Number(example))
  return { ...days, parse: (given) => (given === undefined || given === '' ? accept(undefined) : days.parse(given)) }
}

function duration(variable: string, meaning: string, fallback: string): Setting<number> {
  return {
    variable,
    meaning,
    example: fallback,
    parse(given) {
      const parsed = parseDuration(given === undefined || given === '' ? fallback : given)
      return parsed.ok ? parsed : bad(variable, `${variable}: ${parsed.reason}`, `it looks like ${fallback}`)
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

function environmentName(variable: string, meaning: string, example: string): Setting<string | undefined> {
  return {
    variable,
    meaning,
    example,
    parse(given) {
      if (given === undefined || given === '') return accept(undefined)
      const decided = decideEnvironment(given)
      return decided.ok ? decided : bad(variable, `${variable}: ${decided.reason}`, `it looks like ${example}`)
    },
  }
}

export const settings = {
  home: text('CONCORD_HOME', 'folder of the embedded database, keys and logs', './.concord', './.concord'),
  host: text('CONCORD_HOST', 'address the server listens on', '127.0.0.1', '127.0.0.1'),
  hosts: optional(
    'CONCORD_HOSTS',
    'host names that requests may use, separated by commas (default: loopback, or any if it listens elsewhere)',
    'concord.example.com',
  ),
  port: integer('CONCORD_PORT', 'port the server listens on', [1, 65_535], 7420),
  databaseUrl: optional(
    'DATABASE_URL',
    'a Postgres of your own instead of the embedded one',
    'postgres://user@host/db',
  ),
  poolMax: integer('CONCORD_POOL_MAX', 'database connections of one process', [2, 200], 10),
  engine: choice('CONCORD_ENGINE', 'the engine that carries turns to workers', ['dbos'], 'dbos'),
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
  schedulerFile: optional(
    'CONCORD_SCHEDULER_FILE',
    'file whose jobs `concord up` runs; without it the scheduler is off',
    './.concord/jobs.db',
  ),
  schedulerWorkers: integer('CONCORD_SCHEDULER_WORKERS', 'how many of its jobs run at once', [1, 1_000], 1),
  schedulerTypes: optional('CONCORD_SCHEDULER_TYPES', 'JSON file with the job types it registers', 'job-types.json'),
  schedulerGrace: duration('CONCORD_SCHEDULER_GRACE', 'how long its running jobs may continue after a stop', '30s'),
  schedulerKeep: duration('CONCORD_SCHEDULER_KEEP', 'how long its logs and sent notifications are kept', '30d'),
  schedulerLogMib: integer(
    'CONCORD_SCHEDULER_LOG_MIB',
    'how much space its old logs may use, in MiB',
    [0, 100_000_000],
    1_024,
  ),
  schedulerWebhook: address(
    'CONCORD_SCHEDULER_WEBHOOK',
    'address to notify when a job ends',
    'https://example.com/hook',
  ),
  schedulerWebhookSecret: optional(
    'CONCORD_SCHEDULER_WEBHOOK_SECRET',
    'file with the secret that signs the notifications',
    'secret.txt',
  ),
  s3Url: address(
    'CONCORD_S3_URL',
    'S3-compatible store for artifacts instead of CONCORD_HOME/artifacts',
    'https://s3.eu-central-1.amazonaws.com',
  ),
  s3Bucket: optional('CONCORD_S3_BUCKET', 'its bucket', 'concord'),
  s3Region: text('CONCORD_S3_REGION', 'its region', 'eu-central-1', 'us-east-1'),
  s3AccessKey: optional('CONCORD_S3_ACCESS_KEY', 'access key id for it', 'AKIA…'),
  s3SecretKey: optional('CONCORD_S3_SECRET_KEY', 'secret access key for it', '…'),
  historyDays: age(
    'CONCORD_HISTORY_DAYS',
    'days after which events of ended work move into the archive (default: never)',
    '365',
  ),
  historyFolder: optional(
    'CONCORD_HISTORY_FOLDER',
    'folder of the archive (default: CONCORD_HOME/history)',
    '/var/lib/concord/history',
  ),
  environmentName: environmentName(
    'CONCORD_ENVIRONMENT',
    'environment of the project: selects its queue limits and prefixes queue names in the engine',
    'staging',
  ),
  queues: optional(
    'CONCORD_QUEUES',
    'limits of queues as JSON, over those of the project',
    '{"connector_calls":{"concurrency":20}}',
  ),
  schedulesMax: integer(
    'CONCORD_SCHEDULES_MAX',
    'maximum number of schedules in one workspace',
    [1, 100_000],
    SCHEDULES_MAX,
  ),
  notifyUrl: address(
    'CONCORD_NOTIFY_URL',
    'address to notify when an approval waits (default: only the inbox)',
    'https://hooks.example.com/concord',
  ),
  notifySecret: optional('CONCORD_NOTIFY_SECRET', 'signs what is sent there, at least 16 characters', 'a long secret'),
  url: address('CONCORD_URL', 'server the command line talks to', 'http://127.0.0.1:7420'),
  key: optional('CONCORD_KEY', 'API key of the command line (default: CONCORD_HOME/admin.key)', 'ck_…'),
  faults: optional('CONCORD_FAULTS', 'planned crashes, for tests only', '[]'),
  unsafeTest: choice('CONCORD_UNSAFE_TEST', 'accept a database that may lose commits, for tests only', ['0', '1'], '0'),
  cliWorkspace: optional('CONCORD_WORKSPACE', 'workspace the command line works in (its slug)', 'finance'),
  workspace: optional('WORKSPACE_ID', 'workspace of requests that name none', 'default'),
  defaultWorkspace: text('DEFAULT_WORKSPACE_ID', 'the same, read after WORKSPACE_ID', 'default', 'default'),
} as const

export type SettingName = keyof typeof settings
