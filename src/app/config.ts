/** Reads the environment once, strictly: a wrong value or an unknown CONCORD_ variable stops the start with its name. */
import { resolve } from 'node:path'
import { nearest } from '#kernel/nearest'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type SettingName, settings } from './settings.ts'

type Parsed = {
  readonly [Name in SettingName]: Extract<ReturnType<(typeof settings)[Name]['parse']>, { ok: true }>['value']
}
export type Config = Parsed

export type Environment = Readonly<Record<string, string | undefined>>

/** Variables that belong to Concord's own test runs; known here so that they are not taken for typing mistakes. */
const TEST_VARIABLES = new Set([
  'CONCORD_PROOF',
  'CONCORD_CHAOS_SEED',
  'CONCORD_PROPERTY_SEED',
  'CONCORD_PROPERTY_RUNS',
  'CONCORD_FAULTS_COVER',
])

/** Names that other programs use for the same thing. */
const OTHER_NAMES: Readonly<Record<string, string>> = { CONCORD_API_KEY: 'CONCORD_KEY', CONCORD_TOKEN: 'CONCORD_KEY' }

export function readConfig(environment: Environment, folder: string): Decision<Config> {
  const unknown = findUnknown(environment)
  if (unknown) return unknown
  const values: Partial<Record<SettingName, unknown>> = {}
  for (const [name, setting] of Object.entries(settings)) {
    const parsed = setting.parse(environment[setting.variable])
    if (!parsed.ok) return parsed
    values[name as SettingName] = parsed.value
  }
  const config = values as Config
  const wrong =
    findPartialProvider(config) ??
    findPartialWebhook(config) ??
    findPartialBucket(config) ??
    findFaultPlan(config) ??
    findUnsignedNotices(config)
  return wrong ?? accept({ ...config, ...inFolder(config, folder) })
}

/** Paths count from the folder where the program was started. */
function inFolder(config: Config, folder: string): Pick<Config, 'home'> & Partial<Config> {
  const paths: Partial<Record<SettingName, string>> = { home: resolve(folder, config.home) }
  for (const name of ['schedulerFile', 'schedulerTypes', 'schedulerWebhookSecret', 'historyFolder'] as const) {
    const given = config[name]
    if (given !== undefined) paths[name] = resolve(folder, given)
  }
  return paths as Pick<Config, 'home'>
}

function findUnknown(environment: Environment): Refusal | undefined {
  const known = Object.values(settings).map((setting) => setting.variable)
  for (const variable of Object.keys(environment)) {
    if (!variable.startsWith('CONCORD_') || known.includes(variable) || TEST_VARIABLES.has(variable)) continue
    const guess = OTHER_NAMES[variable] ?? nearest(variable, known)
    return refuse('app.setting.unknown', `${variable} is not a setting of Concord`, {
      path: variable,
      hint: guess
        ? `did you mean ${guess}? Otherwise unset it`
        : 'unset it; `concord doctor --settings` lists all settings',
    })
  }
  return undefined
}

/** A plan of crashes has no business in a service; only a run that says it is a test may carry one. */
function findFaultPlan({ faults, unsafeTest }: Config): Refusal | undefined {
  if (faults === undefined) return undefined
  const no = (reason: string, hint: string) => refuse('app.setting.invalid', reason, { path: 'CONCORD_FAULTS', hint })
  if (unsafeTest !== '1')
    return no('CONCORD_FAULTS plans crashes, which only a test may do', 'unset it, or set CONCORD_UNSAFE_TEST=1')
  try {
    if (Array.isArray(JSON.parse(faults))) return undefined
  } catch {
    // Refused below, like JSON that is not a list.
  }
  return no('CONCORD_FAULTS is not a JSON list', 'it looks like [{"point":"lane.committed","hit":1,"act":"kill"}]')
}

function findPartialWebhook({ schedulerWebhook, schedulerWebhookSecret }: Config): Refusal | undefined {
  if ((schedulerWebhook === undefined) === (schedulerWebhookSecret === undefined)) return undefined
  return refuse('app.setting.invalid', 'the webhook of the scheduler is only half described', {
    path: 'CONCORD_SCHEDULER_WEBHOOK',
    hint: 'Set CONCORD_SCHEDULER_WEBHOOK and CONCORD_SCHEDULER_WEBHOOK_SECRET (a file) together, or neither.',
  })
}

const SECRET_CHARS_MIN = 16

/** Without a secret the receiver could not verify the sender. */
function findUnsignedNotices({ notifyUrl, notifySecret }: Config): Refusal | undefined {
  if (notifyUrl === undefined && notifySecret === undefined) return undefined
  if (notifyUrl !== undefined && (notifySecret ?? '').length >= SECRET_CHARS_MIN) return undefined
  const isAddress = notifyUrl === undefined
  const path = isAddress ? 'CONCORD_NOTIFY_URL' : 'CONCORD_NOTIFY_SECRET'
  const reason = isAddress
    ? 'CONCORD_NOTIFY_SECRET is set and CONCORD_NOTIFY_URL is not'
    : `CONCORD_NOTIFY_SECRET must have at least ${SECRET_CHARS_MIN} characters`
  return refuse('app.setting.invalid', reason, { path, hint: 'Set both, or neither.' })
}

function findPartialProvider(config: Config): Refusal | undefined {
  const parts = [config.jwtIssuer, config.jwtAudience, config.jwtJwksUrl]
  const given = parts.filter((part) => part !== undefined).length
  if (given === 0 || given === parts.length) return undefined
  return refuse('app.setting.invalid', 'the outside identity provider is only half described', {
    path: 'CONCORD_JWT_ISSUER',
    hint: 'Set CONCORD_JWT_ISSUER, CONCORD_JWT_AUDIENCE and CONCORD_JWT_JWKS_URL together, or none of them.',
  })
}

function findPartialBucket({ s3Url, s3Bucket, s3AccessKey, s3SecretKey }: Config): Refusal | undefined {
  const parts = [s3Url, s3Bucket, s3AccessKey, s3SecretKey]
  const given = parts.filter((part) => part !== undefined).length
  if (given === 0 || given === parts.length) return undefined
  return refuse('app.setting.invalid', 'the store of artifacts is only half described', {
    path: 'CONCORD_S3_URL',
    hint: 'Set CONCORD_S3_URL, CONCORD_S3_BUCKET, CONCORD_S3_ACCESS_KEY and CONCORD_S3_SECRET_KEY together, or none of them.',
  })
}

/** Where the server of this configuration answers; an IPv6 address needs its brackets. */
export function serverAddress({ url, host, port }: Pick<Config, 'url' | 'host' | 'port'>): string {
  return (url ?? `http://${host.includes(':') ? `[${host}]` : host}:${port}`).replace(/\/+$/, '')
}
