/** The limits of the queues from the project's file and the environment, judged before anything starts. Pure. */
import { nearest } from '#kernel/nearest'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { decideQueue, type QueueSpec, semanticQueues } from '#runtime'

export type QueueLimits = Readonly<Record<string, QueueSpec>>

const FIELDS = ['concurrency', 'perWorker', 'rate', 'priority'] as const
const EXAMPLE = '{"connector_calls":{"concurrency":20,"rate":{"turns":100,"perMs":1000}}}'

/** What the environment says about a queue counts over what the project says about it; the rest keeps its default. */
export function readQueueLimits(project: unknown, environment: string | undefined): Decision<QueueLimits> {
  const parsed = parseEnvironment(environment)
  if (!parsed.ok) return parsed
  const limits: Record<string, QueueSpec> = {}
  for (const [source, given] of [
    ['queues of the project', project ?? {}],
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

/** A smaller limit for all also binds one worker, unless somebody said what one worker may do. */
function mergeLimits(name: string, before: QueueSpec | undefined, given: QueueSpec): QueueSpec {
  const merged: QueueSpec = { ...semanticQueues[name], ...before, ...given }
  const { concurrency, perWorker } = merged
  if (given.perWorker !== undefined || concurrency === undefined || (perWorker ?? 0) <= concurrency) return merged
  return { ...merged, perWorker: concurrency }
}

function parseEnvironment(text: string | undefined): Decision<unknown> {
  if (text === undefined) return accept({})
  try {
    return accept(JSON.parse(text))
  } catch {
    return wrong('CONCORD_QUEUES', 'CONCORD_QUEUES is not JSON')
  }
}

function checkSource(source: string, given: unknown): Decision<Record<string, QueueSpec>> {
  if (!isRecord(given)) return wrong(source, `${source} must be an object of queues and their limits`)
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
  return refuse(codeOf(source), `${source} names the queue ${quote(name)}, which does not exist`, {
    path: source,
    hint: guess ? `did you mean ${guess}?` : `the queues are ${known.join(', ')}`,
  })
}

function checkFields(source: string, name: string, spec: unknown): Refusal | undefined {
  if (!isRecord(spec)) return wrong(`${source}: ${name}`, `${source}: the limits of ${name} must be an object`)
  const strange = Object.keys(spec).find((field) => !FIELDS.some((known) => known === field))
  if (strange !== undefined)
    return refuse(codeOf(source), `${source}: ${name} has no limit ${quote(strange)}`, {
      path: `${source}: ${name}`,
      hint: `did you mean ${nearest(strange, FIELDS) ?? FIELDS.join(', ')}?`,
    })
  const { concurrency, perWorker, priority, rate } = spec
  const numbers = [concurrency, perWorker, priority, ...(isRecord(rate) ? Object.values(rate) : [])]
  const isWrong = numbers.some((value) => value !== undefined && typeof value !== 'number')
  const isRate = rate === undefined || (isRecord(rate) && Object.keys(rate).toSorted().join() === 'perMs,turns')
  return isWrong || !isRate
    ? wrong(`${source}: ${name}`, `${source}: the limits of ${name} are numbers, and a rate has turns and perMs`)
    : undefined
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Both stop the start; one is for whoever sets the environment, the other for whoever writes the project. */
function codeOf(path: string) {
  return path.startsWith('CONCORD_') ? 'app.setting.invalid' : 'app.project.invalid'
}

function wrong(path: string, reason: string): Refusal {
  return refuse(codeOf(path), reason, { path, hint: `it looks like ${EXAMPLE}` })
}
