/** Records the calls of effects and operations of a project, and makes them misbehave as a test asks. */
import { type ConnectorDefinition, ConnectorFailure } from '#domains/connectors'
import { type CatalogEntry, type Definition, type EffectCall, EffectFailure, expandCatalog } from '#domains/commands'
import type { ErrorClass } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'

/** One call that reached the handler of an effect, or a connector. */
export type RecordedCall = {
  readonly effect: string
  readonly input: JsonObject
  readonly key: string | null
  readonly attempt: number
}

export type Misbehaviour = {
  /** How many calls. Default: one. */
  readonly times?: number
  /** Default: `transient_connector_error`. */
  readonly errorClass?: ErrorClass
  /** True: the call does its work, and the answer is lost. False: nothing happens. */
  readonly after?: boolean
}

export type WatchedEffects = {
  readonly calls: RecordedCall[]
  misbehave(effect: string, how?: Misbehaviour): void
  watch<P extends Watchable>(project: P): P
}

type Watchable = { readonly catalog: readonly CatalogEntry[]; readonly connectors?: readonly ConnectorDefinition[] }

export function watchEffects(): WatchedEffects {
  const calls: RecordedCall[] = []
  const faults = new Map<string, Required<Misbehaviour>[]>()
  const known = new Set<string>()

  async function call<T>(record: RecordedCall, make: () => Promise<T>, fail: (fault: Required<Misbehaviour>) => never) {
    const fault = faults.get(record.effect)?.shift()
    if (fault && !fault.after) fail(fault)
    calls.push(record)
    const done = await make()
    return fault ? fail(fault) : done
  }

  const watched =
    <Call extends EffectCall>(effect: string, make: (given: Call) => Promise<unknown>) =>
    (given: Call) =>
      call(
        { effect, input: given.payload, key: given.idempotencyKey, attempt: given.attempt },
        () => make(given),
        ({ errorClass, after }) => {
          throw new EffectFailure(errorClass, MESSAGE, after ? 'unknown' : 'no')
        },
      )

  const watchedEffect = (definition: Definition): Definition => {
    if (definition.kind !== 'effect') return definition
    const { do: make, effect_type: effect, undo } = definition
    known.add(effect)
    if (undo) known.add(undo.name)
    return {
      ...definition,
      do: watched(effect, make),
      ...(undo && { undo: { ...undo, do: watched(undo.name, undo.do) } }),
    }
  }

  const watchedConnector = (definition: ConnectorDefinition): ConnectorDefinition => ({
    ...definition,
    open(tools) {
      for (const { name } of definition.operations) known.add(`connector.${definition.name}.${name}`)
      const connector = definition.open(tools)
      return {
        ...connector,
        call(asked) {
          const { capability, input, context } = asked
          const effect = `connector.${definition.name}.${capability}`
          return call(
            { effect, input, key: context.idempotency_key, attempt: context.attempt },
            () => connector.call(asked),
            ({ errorClass, after }) => {
              throw new ConnectorFailure(errorClass, MESSAGE, after ? 'unknown' : 'no')
            },
          )
        },
      }
    },
  })

  return {
    calls,
    misbehave(effect, { times = 1, errorClass = 'transient_connector_error', after = false } = {}) {
      if (!known.has(effect))
        throw new RangeError(`No effect is called ${effect}; there are ${[...known].toSorted().join(', ')}`)
      const planned = Array.from({ length: times }, () => ({ times, errorClass, after }))
      faults.set(effect, [...(faults.get(effect) ?? []), ...planned])
    },
    watch(project) {
      const { catalog, connectors } = expandCatalog(project.catalog)
      const all = [...new Set([...(project.connectors ?? []), ...connectors])]
      return { ...project, catalog: catalog.map(watchedEffect), connectors: all.map(watchedConnector) }
    },
  }
}

const MESSAGE = 'The test made this call fail.'
