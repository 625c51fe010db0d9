/** Reads the limits of the queues from the project and the environment, before anything starts. Pure. */
import { nearest } from '#kernel/nearest'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { decideEnvironment, decideQueue, type QueueSpec, semanticQueues } from '#runtime'

export type QueueLimits = Readonly<Record<string, QueueSpec>>

export type EnvironmentTerms = {
  /** Over the limits of the project, under those of `CONCORD_QUEUES`. */
  readonly queues?: QueueLimits
}

type LimitSources = {
  /** `queues` of the project: for all environments. */
  readonly project?: unknown
  /** `environments` of the project. */
  readonly environments?: unknown
  /** The name of the environment of this process. */
  readonly environmentName?: string | undefined
  /** The text of `CONCORD_QUEUES`. */
  readonly variable?: string | undefined
}

/** No worker takes work of an undeclared environment. */
const DECLARE = 'Unset the variable, or declare it in concord.config.ts: environments: { staging: {} }.'
const FIELDS = ['concurrency', 'perWorker', 'rate', 'priority'] as const
const EXAMPLE = '{"connector_calls":{"concurrency":20,"rate":{"turns":100,"perMs":1000}}}'

/** The order of precedence, lowest first: default, project, environment, variable. */
export function readQueueLimits(sources: LimitSources): Decision<QueueLimits> {
  const parsed = parseVariable(sources.variable)
  if (!parsed.ok) return parsed
  const own = findTerms(sources)
  if (!own.ok) return own
  const limits: Record<string, QueueSpec> = {}
  for (const [source, given] of [
    ['queues', sources.project ?? {}],
    [`environments.${sources.environmentName ?? ''}.queues`, own.value],
    ['CONCORD_QUEUES', parsed.value],
  ] as const) {
    const checked = checkSource(source, given)
    if (!checked.ok) return checked
    for (const [name, spec] of Object.entries(checked.value)) {
      const decided = decideQueue(name, mergeLimits(name, limits[name], spec))
      if (!decided.ok) return wrong(`${source}: ${name}`, decided.reason)
      limits[name] = decided.value
    }
  }
  return accept(limits)
}

/** The limits of this environment. Every declared one is checked, so that a mistake in production's is found in staging. */
function findTerms({ environments = {}, environmentName }: LimitSources): Decision<unknown> {
  if (!isRecord(environments)) return wrong('environments', 'environments must be an object with one entry per name.')
  for (const [name, terms] of Object.entries(environments)) {
    const path = `environments.${name}`
    const named = decideEnvironment(name)
    if (!named.ok)
      return refuse('app.project.invalid', named.reason, { path, ...(named.hint ? { hint: named.hint } : {}) })
    const strange = isRecord(terms) ? Object.keys(terms).find((field) => field !== 'queues') : ''
    if (!isRecord(terms) || strange !== undefined)
      return wrong(
        path,
        `${path} ${strange ? `has no field ${quote(strange)}` : 'must be an object'}. Its only field is queues.`,
      )
    const checked = checkSource(`environments.${name}.queues`, terms['queues'] ?? {})
    if (!checked.ok) return checked
  }
  const known = Object.keys(environments)
  if (environmentName === undefined) return accept({})
  const terms = environments[environmentName]
  if (isRecord(terms)) return accept(terms['queues'] ?? {})
  const guess = nearest(environmentName, known)
  return refuse('app.setting.invalid', `The project has no environment ${quote(environmentName)}.`, {
    path: 'CONCORD_ENVIRONMENT',
    hint: guess ? `Did you mean ${guess}?` : known.length > 0 ? `The environments are ${known.join(', ')}.` : DECLARE,
  })
}

/** A smaller total limit also limits one worker, unless the limit of one worker is set. */
function mergeLimits(name: string, before: QueueSpec | undefined, given: QueueSpec): QueueSpec {
  const merged: QueueSpec = { ...semanticQueues[name], ...before, ...given }
  const { concurrency, perWorker } = merged
  if (given.perWorker !== undefined || concurrency === undefined || (perWorker ?? 0) <= concurrency) return merged
  return { ...merged, perWorker: concurrency }
}

function parseVariable(text: string | undefined): Decision<unknown> {
  if (text === undefined) return accept({})
  try {
    return accept(JSON.parse(text))
  } catch {
    return wrong('CONCORD_QUEUES', 'CONCORD_QUEUES is not JSON.')
  }
}

function checkSource(source: string, given: unknown): Decision<Record<string, QueueSpec>> {
  if (!isRecord(given)) return wrong(source, `${source} must be an object with one entry per queue.`)
  for (const [name, spec] of Object.entries(given)) {
    const flaw = checkName(source, name) ?? checkFields(source, name, spec)
    if (flaw) return flaw
  }
  return accept(given as Record<string, QueueSpec>)
}

function checkName(source: string, name: string): Refusal | undefined {
  const known = Object.keys(semanticQueues)
  if (known.includes(name)) return undefined
  const guess = nearest(name, known)
  return refuse(codeOf(source), `${source}: there is no queue ${quote(name)}.`, {
    path: source,
    hint: guess ? `Did you mean ${guess}?` : `The queues are ${known.join(', ')}.`,
  })
}

function checkFields(source: string, name: string, spec: unknown): Refusal | undefined {
  if (!isRecord(spec)) return wrong(`${source}: ${name}`, `${source}: the limits of ${name} must be an object.`)
  const strange = Object.keys(spec).find((field) => !FIELDS.some((known) => known === field))
  if (strange !== undefined)
    return refuse(codeOf(source), `${source}: ${name} has no limit ${quote(strange)}.`, {
      path: `${source}: ${name}`,
      hint: `Did you mean ${nearest(strange, FIELDS) ?? FIELDS.join(', ')}?`,
    })
  const { concurrency, perWorker, priority, rate } = spec
  const numbers = [concurrency, perWorker, priority, ...(isRecord(rate) ? Object.values(rate) : [])]
  const isWrong = numbers.some((value) => value !== undefined && typeof value !== 'number')
  const isRate = rate === undefined || (isRecord(rate) && Object.keys(rate).toSorted().join() === 'perMs,turns')
  return isWrong || !isRate
    ? wrong(
        `${source}: ${name}`,
        `${source}: the limits of ${name} must be numbers, and a rate must have turns and perMs.`,
      )
    : undefined
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Wrong settings and wrong projects have different codes. */
function codeOf(path: string) {
  return path.startsWith('CONCORD_') ? 'app.setting.invalid' : 'app.project.invalid'
}

function wrong(path: string, reason: string): Refusal {
  return refuse(codeOf(path), reason, { path, hint: `Use the form ${EXAMPLE}.` })
}
