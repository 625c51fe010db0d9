/**
 * Several environments, one set of names: domains and catalogs say `connector_calls` everywhere, and only what reaches the engine
 * carries the environment before it. Pure but for the runtime that is handed in.
 */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Runtime, ScheduleView } from './port.ts'
import { DEFAULT_QUEUE, type QueueSpec, semanticQueues } from './queues.ts'

/** No underscore, so that a name comes apart in one way; 32 leave room for the longest queue within 63. */
const NAME = /^[a-z][a-z0-9]{0,31}$/
const SEPARATOR = '__'
/** The due times of schedules are decided by any worker of the engine; their firings are the environment's own. */
const COMMON_QUEUE = 'scheduled_maintenance'

export function decideEnvironment(name: string): Decision<string> {
  if (NAME.test(name)) return accept(name)
  return refuse(
    'runtime.environment.invalid',
    `${quote(name)} is no name of an environment: lower-case letters and digits, at most 32`,
    { path: 'environment', hint: 'such as staging or production' },
  )
}

export function queueIn(environment: string, queue: string): string {
  return `${environment}${SEPARATOR}${queue}`
}

/** The semantic name again; one of another environment stays as it is. */
export function queueOutOf(environment: string, name: string): string {
  const prefix = environment + SEPARATOR
  return name.startsWith(prefix) ? name.slice(prefix.length) : name
}

export type EngineQueues = {
  readonly queues: Readonly<Record<string, QueueSpec>>
  /** What a worker of this environment takes; undefined: everything. */
  readonly only: readonly string[] | undefined
}

/** What an adapter is given: all semantic queues under their names there, with the limits of this environment. */
export function queuesIn(environment: string | undefined, limits: Readonly<Record<string, QueueSpec>>): EngineQueues {
  if (environment === undefined) return { queues: limits, only: undefined }
  const all = Object.entries({ ...semanticQueues, ...limits })
  const queues = Object.fromEntries(all.map(([name, spec]) => [queueIn(environment, name), spec]))
  return { queues, only: [...Object.keys(queues), COMMON_QUEUE] }
}

/** The runtime as the rest of Concord knows it; without an environment it is the one that was given. */
export function inEnvironment(runtime: Runtime, environment: string | undefined): Runtime {
  if (environment === undefined) return runtime
  const inside = (queue: string) => queueIn(environment, queue)
  const shown = ({ spec: { queue, ...spec }, ...view }: ScheduleView): ScheduleView => ({
    ...view,
    spec: queue === undefined ? spec : { ...spec, queue: queueOutOf(environment, queue) },
  })
  return {
    profile: runtime.profile,
    register: (kind, drive, options = {}) =>
      runtime.register(kind, drive, { ...options, queue: inside(options.queue ?? DEFAULT_QUEUE) }),
    defineQueue: (name, spec) => runtime.defineQueue(inside(name), spec),
    open: () => runtime.open(),
    close: (options) => runtime.close(options),
    // A wake without a queue leaves a process where it is, so there is none to name.
    wake: (process, { queue, ...options } = {}) =>
      runtime.wake(process, queue === undefined ? options : { ...options, queue: inside(queue) }),
    reserveSlot: (queue) => runtime.reserveSlot(inside(queue)),
    health: () => runtime.health(),
    async describe(process) {
      const view = await runtime.describe(process)
      return view && { ...view, queue: queueOutOf(environment, view.queue) }
    },
    async schedule({ queue, ...spec }) {
      const saved = await runtime.schedule(queue === undefined ? spec : { ...spec, queue: inside(queue) })
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
