/**
 * Runs several environments with one set of queue names: domains and catalogs use `connector_calls` everywhere, and only the name
 * that reaches the engine carries the environment as a prefix. Pure apart from the runtime that is passed in.
 */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Runtime, ScheduleView } from './port.ts'
import { DEFAULT_QUEUE, type QueueSpec, semanticQueues } from './queues.ts'

/** No underscore, so that a name splits in only one way; 32 characters leave room for the longest queue name within 63. */
const NAME = /^[a-z][a-z0-9]{0,31}$/
const SEPARATOR = '__'
/** Any worker of the engine decides the due times of schedules; the firings belong to the environment. */
const COMMON_QUEUE = 'scheduled_maintenance'

export function decideEnvironment(name: string): Decision<string> {
  if (NAME.test(name)) return accept(name)
  return refuse(
    'runtime.environment.invalid',
    `${quote(name)} is not an environment name: use lower-case letters and digits, at most 32.`,
    { path: 'environment', hint: 'Use a short name such as staging or production.' },
  )
}

export function queueIn(environment: string, queue: string): string {
  return `${environment}${SEPARATOR}${queue}`
}

/** Returns the semantic name; a name of another environment stays unchanged. */
export function queueOutOf(environment: string, name: string): string {
  const prefix = environment + SEPARATOR
  return name.startsWith(prefix) ? name.slice(prefix.length) : name
}

type EngineQueues = {
  readonly queues: Readonly<Record<string, QueueSpec>>
  /** The queues that a worker of this environment takes; undefined means all. */
  readonly only: readonly string[] | undefined
}

/** Returns what an adapter receives: every semantic queue under its prefixed name, with the limits of this environment. */
export function queuesIn(environment: string | undefined, limits: Readonly<Record<string, QueueSpec>>): EngineQueues {
  if (environment === undefined) return { queues: limits, only: undefined }
  const all = Object.entries({ ...semanticQueues, ...limits })
  const queues = Object.fromEntries(all.map(([name, spec]) => [queueIn(environment, name), spec]))
  return { queues, only: [...Object.keys(queues), COMMON_QUEUE] }
}

/** Wraps the runtime for the rest of Concord; without an environment it returns the given runtime. */
export function inEnvironment(runtime: Runtime, environment: string | undefined): Runtime {
  if (environment === undefined) return runtime
  const inside = (queue: string) => queueIn(environment, queue)
  const queueOf = new Map<string, string>()
  const shown = ({ spec: { queue, ...spec }, ...view }: ScheduleView): ScheduleView => ({
    ...view,
    spec: queue === undefined ? spec : { ...spec, queue: queueOutOf(environment, queue) },
  })
  return {
    profile: runtime.profile,
    register(kind, drive, options = {}) {
      const queue = options.queue ?? DEFAULT_QUEUE
      queueOf.set(kind, queue)
      runtime.register(kind, drive, { ...options, queue: inside(queue) })
    },
    defineQueue: (name, spec) => runtime.defineQueue(inside(name), spec),
    open: () => runtime.open(),
    close: (options) => runtime.close(options),
    // A wake without a queue leaves the process in its queue, so there is no queue to name.
    wake: (process, { queue, ...options } = {}) =>
      runtime.wake(process, queue === undefined ? options : { ...options, queue: inside(queue) }),
    reserveSlot: (queue) => runtime.reserveSlot(inside(queue)),
    health: () => runtime.health(),
    repairTimes: (also) => runtime.repairTimes(also),
    async describe(process) {
      const view = await runtime.describe(process)
      return view && { ...view, queue: queueOutOf(environment, view.queue) }
    },
    async schedule(spec) {
      // A worker of another environment may decide the due time. Without a queue the firing would go to the queue of that environment.
      const queue = inside(spec.queue ?? queueOf.get(spec.kind) ?? DEFAULT_QUEUE)
      const saved = await runtime.schedule({ ...spec, queue })
      return saved.ok ? accept(shown(saved.value)) : saved
    },
    unschedule: (name) => runtime.unschedule(name),
    async describeSchedule(name) {
      const view = await runtime.describeSchedule(name)
      return view && shown(view)
    },
    stuck: (options) => runtime.stuck(options),
    resume: (process, options) => runtime.resume(process, options),
    abort: (process, reason, { queue = DEFAULT_QUEUE, ...options } = {}) =>
      runtime.abort(process, reason, { ...options, queue: inside(queue) }),
  }
}
