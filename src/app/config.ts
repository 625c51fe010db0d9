/** Reads the environment once and strictly: refuses to start on a wrong value or an unknown CONCORD_ variable. */
import { resolve } from 'node:path'
import { nearest } from '#kernel/nearest'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type SettingName, settings } from './settings.ts'

export type Config = {
  readonly [Name in SettingName]: Extract<ReturnType<(typeof settings)[Name]['parse']>, { ok: true }>['value']
}

export type Environment = Readonly<Record<string, string | undefined>>

/** Variables of Concord's own test runs. */
const TEST_VARIABLES = new Set([
  'CONCORD_PROOF',
  'CONCORD_CHAOS_SEED',
  'CONCORD_PROPERTY_SEED',
  'CONCORD_PROPERTY_RUNS',
  'CONCORD_FAULTS_COVER',
])

/** Names that other programs use for the same setting. */
const OTHER_NAMES: Readonly<Record<string, string>> = { CONCORD_API_KEY: 'CONCORD_KEY', CONCORD_TOKEN: 'CONCORD_KEY' }

/** Settings that are set together or not at all. */
const together: readonly (readonly [subject: string, ...names: readonly SettingName[]])[] = [
  ['The external identity provider', 'jwtIssuer', 'jwtAudience', 'jwtJwksUrl'],
  ['The webhook of the scheduler', 'schedulerWebhook', 'schedulerWebhookSecret'],
  ['The artifact store', 's3Url', 's3Bucket', 's3AccessKey', 's3SecretKey'],
  ['The receiver of notifications', 'notifyUrl', 'notifySecret'],
]

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
  const wrong = findPartial(config) ?? findFaultPlan(config) ?? findShortSecret(config)
  return wrong ?? accept({ ...config, ...inFolder(config, folder) })
}

/** Resolves relative paths against the folder in which the program was started. */
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
    return refuse('app.setting.unknown', `${variable} is not a setting of Concord.`, {
      path: variable,
      hint: guess
        ? `Did you mean ${guess}? Otherwise unset it.`
        : 'Unset it. `concord doctor --settings` lists all settings.',
    })
  }
  return undefined
}

function findPartial(config: Config): Refusal | undefined {
  for (const [subject, ...names] of together) {
    const missing = names.filter((name) => config[name] === undefined).map((name) => settings[name].variable)
    const [path] = missing
    if (path === undefined || missing.length === names.length) continue
    const all = names.map((name) => settings[name].variable)
    return refuse('app.setting.invalid', `${subject} needs ${missing.join(' and ')} too.`, {
      path,
      hint: `Set ${all.slice(0, -1).join(', ')} and ${all.at(-1)} together, or none of them.`,
    })
  }
  return undefined
}

/** Only a run that declares itself a test may plan crashes. */
function findFaultPlan({ faults, unsafeTest }: Config): Refusal | undefined {
  if (faults === undefined) return undefined
  const no = (reason: string, hint: string) => refuse('app.setting.invalid', reason, { path: 'CONCORD_FAULTS', hint })
  if (unsafeTest !== '1')
    return no('CONCORD_FAULTS plans crashes, which only a test may do.', 'Unset it, or set CONCORD_UNSAFE_TEST=1.')
  try {
    if (Array.isArray(JSON.parse(faults))) return undefined
  } catch {
    // Refused below, like JSON that is not a list.
  }
  return no('CONCORD_FAULTS is not a JSON list.', 'Use the form [{"point":"lane.committed","hit":1,"act":"kill"}].')
}

const SECRET_CHARS_MIN = 16

function findShortSecret({ notifySecret, functionSecret }: Config): Refusal | undefined {
  const given = [
    ['CONCORD_NOTIFY_SECRET', notifySecret, 'The receiver verifies notifications with it. Use a longer secret.'],
    ['CONCORD_FUNCTION_SECRET', functionSecret, 'Functions verify calls with it. Use a longer secret.'],
  ] as const
  const short = given.find(([, secret]) => secret !== undefined && secret.length < SECRET_CHARS_MIN)
  if (!short) return undefined
  const [path, , hint] = short
  return refuse('app.setting.invalid', `${path} must have at least ${SECRET_CHARS_MIN} characters.`, { path, hint })
}

/** The address of the server of this configuration. An IPv6 address is in brackets. */
export function serverAddress({ url, host, port }: Pick<Config, 'url' | 'host' | 'port'>): string {
  return (url ?? `http://${host.includes(':') ? `[${host}]` : host}:${port}`).replace(/\/+$/, '')
}
