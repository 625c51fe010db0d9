/** Every environment variable that Concord reads: its name, meaning, default and parser. */
import { type DurationMs, formatDuration, parseDuration } from '#kernel/duration'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { SCHEDULES_MAX } from '#kernel/schedule'
import { SIGNAL_KEEP_MS } from '#kernel/signal'
import { decideEnvironment } from '#runtime'

type Setting<T> = {
  readonly variable: string
  readonly meaning: string
  readonly example: string
  readonly parse: (text: string | undefined) => Decision<T>
}

/** A variable that is missing or empty has the value `fallback`. `parse` reads every other text. */
function setting<T, F>(
  [variable, meaning, example]: readonly [variable: string, meaning: string, example: string],
  fallback: F,
  parse: (given: string) => Decision<T>,
): Setting<T | F> {
  return {
    variable,
    meaning,
    example,
    parse: (given) => (given === undefined || given === '' ? accept<T | F>(fallback) : parse(given)),
  }
}

function invalid(variable: string, reason: string, hint: string) {
  return refuse('app.setting.invalid', reason, { path: variable, hint })
}

function text(variable: string, meaning: string, example: string, fallback: string): Setting<string> {
  return setting([variable, meaning, example], fallback, accept)
}

function optional(variable: string, meaning: string, example: string): Setting<string | undefined> {
  return setting([variable, meaning, example], undefined, accept)
}

function address(variable: string, meaning: string, example: string): Setting<string | undefined> {
  return setting([variable, meaning, example], undefined, (given) =>
    URL.canParse(given) && /^https?:$/.test(new URL(given).protocol)
      ? accept(given)
      : invalid(variable, `${variable} is ${quote(given)}, which is not an HTTP address.`, `Use the form ${example}.`),
  )
}

/** Plain decimal only: `Number` would also accept 0x1F90, 1e3 and blanks. */
function parseInteger(variable: string, [min, max]: readonly [number, number], example: string) {
  return (given: string): Decision<number> => {
    const value = /^\d{1,9}$/.test(given) ? Number(given) : Number.NaN
    if (value >= min && value <= max) return accept(value)
    const reason = `${variable} is ${quote(given)}, which is not a number from ${min} to ${max}.`
    return invalid(variable, reason, `Set ${variable}=${example}, or unset it.`)
  }
}

function integer(
  variable: string,
  meaning: string,
  range: readonly [number, number],
  fallback: number,
): Setting<number> {
  const example = String(fallback)
  return setting([variable, meaning, example], fallback, parseInteger(variable, range, example))
}

function days(variable: string, meaning: string, example: string): Setting<number | undefined> {
  return setting([variable, meaning, example], undefined, parseInteger(variable, [1, 36_500], example))
}

/** Keeps the reason of another parser. */
function named<T>(variable: string, example: string, parsed: Decision<T>): Decision<T> {
  return parsed.ok ? parsed : invalid(variable, `${variable}: ${parsed.reason}`, `Use the form ${example}.`)
}

function duration(variable: string, meaning: string, fallbackMs: number): Setting<number> {
  const example = formatDuration(fallbackMs as DurationMs)
  return setting([variable, meaning, example], fallbackMs, (given) => named(variable, example, parseDuration(given)))
}

function choice<const C extends string, const F extends C | undefined>(
  variable: string,
  meaning: string,
  allowed: readonly C[],
  fallback: F,
): Setting<C | F> {
  return setting([variable, meaning, fallback ?? allowed.join('|')], fallback, (given) => {
    const found = allowed.find((value) => value === given)
    if (found !== undefined) return accept(found)
    return invalid(variable, `${variable} cannot be ${quote(given)}.`, `Use one of: ${allowed.join(', ')}.`)
  })
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
  databaseUrl: optional('DATABASE_URL', 'a Postgres to use instead of the embedded one', 'postgres://user@host/db'),
  poolMax: integer('CONCORD_POOL_MAX', 'database connections of one process', [2, 200], 10),
  engine: choice('CONCORD_ENGINE', 'the engine that delivers turns to workers', ['dbos'], 'dbos'),
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
  jwtIssuer: optional('CONCORD_JWT_ISSUER', 'issuer of an external identity provider', 'https://id.example.com/'),
  jwtAudience: optional('CONCORD_JWT_AUDIENCE', 'audience that its tokens must name', 'concord'),
  jwtJwksUrl: address('CONCORD_JWT_JWKS_URL', 'address of its signing keys', 'https://id.example.com/jwks.json'),
  mcpResource: address(
    'CONCORD_MCP_RESOURCE',
    'public address of /mcp: the audience of its tokens for MCP clients, which open nothing else',
    'https://concord.example.com/mcp',
  ),
  jwtLifetimeMax: duration('CONCORD_JWT_LIFETIME_MAX', 'longest lifetime of a token that is accepted', 86_400_000),
  countInvited: choice(
    'CONCORD_COUNT_INVITED_APPROVERS',
    'who may approve besides people of others (1: also people whom the requester invited, or who invited the requester; strict: nobody whom one person invited together with the requester)',
    ['0', '1', 'strict'],
    '0',
  ),
  schedulerFile: optional(
    'CONCORD_SCHEDULER_FILE',
    'file whose jobs `concord up` runs; without it the scheduler is off',
    './.concord/jobs.db',
  ),
  schedulerWorkers: integer('CONCORD_SCHEDULER_WORKERS', 'how many of its jobs run at once', [1, 1_000], 1),
  schedulerHttp: choice(
    'CONCORD_SCHEDULER_HTTP',
    'which jobs a request may run: registered types and templates, or any command of an administrator',
    ['registered', 'any'],
    'registered',
  ),
  schedulerTypes: optional('CONCORD_SCHEDULER_TYPES', 'JSON file with the job types it registers', 'job-types.json'),
  schedulerGrace: duration('CONCORD_SCHEDULER_GRACE', 'how long its running jobs may continue after a stop', 30_000),
  schedulerKeep: duration(
    'CONCORD_SCHEDULER_KEEP',
    'how long its logs and sent notifications are kept',
    30 * 86_400_000,
  ),
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
  historyDays: days(
    'CONCORD_HISTORY_DAYS',
    'days after which events of ended work move into the archive (default: never)',
    '365',
  ),
  historyFolder: optional(
    'CONCORD_HISTORY_FOLDER',
    'folder of the archive (default: CONCORD_HOME/history)',
    '/var/lib/concord/history',
  ),
  environmentName: setting(
    [
      'CONCORD_ENVIRONMENT',
      'environment of the project: selects its queue limits and prefixes queue names in the engine',
      'staging',
    ],
    undefined,
    (given) => named('CONCORD_ENVIRONMENT', 'staging', decideEnvironment(given)),
  ),
  queues: optional(
    'CONCORD_QUEUES',
    'queue limits as JSON; they override those of the project',
    '{"connector_calls":{"concurrency":20}}',
  ),
  schedulesMax: integer(
    'CONCORD_SCHEDULES_MAX',
    'maximum number of schedules in one workspace',
    [1, 100_000],
    SCHEDULES_MAX,
  ),
  signalKeep: duration(
    'CONCORD_SIGNAL_KEEP',
    'how long signals are kept, also those that no command has waited for',
    SIGNAL_KEEP_MS,
  ),
  dataUrl: optional(
    'CONCORD_DATA_URL',
    'database of published datasets (default: none)',
    'postgres://data@db.example.com/concord_data',
  ),
  functionSecret: optional(
    'CONCORD_FUNCTION_SECRET',
    'signs the calls of functions that run flow tasks, at least 16 characters (default: none, and `lambda` is refused)',
    'a long secret',
  ),
  notifyUrl: address(
    'CONCORD_NOTIFY_URL',
    'address to notify when an approval waits (default: only the inbox)',
    'https://hooks.example.com/concord',
  ),
  notifySecret: optional('CONCORD_NOTIFY_SECRET', 'signs what is sent there, at least 16 characters', 'a long secret'),
  onCallRole: optional(
    'CONCORD_ON_CALL_ROLE',
    'organisation role whose holders are told of incidents (default: the administrators)',
    'on_call',
  ),
  url: address('CONCORD_URL', 'server the command line talks to', 'http://127.0.0.1:7420'),
  key: optional('CONCORD_KEY', 'API key of the command line (default: CONCORD_HOME/admin.key)', 'ck_…'),
  agentKey: optional(
    'CONCORD_AGENT_KEY',
    'API key of the agents that `concord connect` configures, and of `concord mcp` (default: CONCORD_KEY)',
    'ck_…',
  ),
  faults: optional('CONCORD_FAULTS', 'planned crashes, for tests only', '[]'),
  unsafeTest: choice('CONCORD_UNSAFE_TEST', 'accept a database that may lose commits, for tests only', ['0', '1'], '0'),
  cliWorkspace: optional('CONCORD_WORKSPACE', 'workspace the command line works in (its slug)', 'finance'),
  workspace: optional('WORKSPACE_ID', 'workspace of requests that do not name one', 'default'),
  defaultWorkspace: text('DEFAULT_WORKSPACE_ID', 'the same, read after WORKSPACE_ID', 'default', 'default'),
} as const

export type SettingName = keyof typeof settings

/** The variables of OpenTelemetry that matter here. Other programs read them too, so a wrong value is ignored and not refused. */
export const telemetrySettings: readonly Omit<Setting<unknown>, 'parse'>[] = [
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector that gets traces and metrics (default: none)', 'http://127.0.0.1:4318'],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'headers for the collector, with its credential', 'api-key=…'],
  ['OTEL_TRACES_EXPORTER', 'otlp or none: whether traces are sent', 'none'],
  ['OTEL_METRICS_EXPORTER', 'otlp or none: whether metrics are sent; /metrics shows them in any case', 'none'],
  ['OTEL_TRACES_SAMPLER', 'which traces are kept (default: all)', 'parentbased_traceidratio'],
  ['OTEL_TRACES_SAMPLER_ARG', 'the share of traces that a ratio keeps', '0.1'],
  ['OTEL_METRIC_EXPORT_INTERVAL', 'milliseconds between two exports of metrics', '60000'],
  ['OTEL_SERVICE_NAME', 'name of this process in traces and metrics', 'concord'],
  ['OTEL_RESOURCE_ATTRIBUTES', 'attributes of this process in traces and metrics', 'deployment.environment.name=prod'],
  ['OTEL_SDK_DISABLED', 'true: nothing is sent', 'true'],
].map(([variable = '', meaning = '', example = '']) => ({ variable, meaning, example }))
