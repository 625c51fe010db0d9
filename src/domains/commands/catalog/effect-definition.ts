/** An effect: one kind of change in the outside world, written together with what undoes it and how far its outcome can be known. */
import type { ArtifactDraft, StoredArtifact, WrittenArtifact } from '#domains/artifacts'
import type { ErrorClass } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'
import type { RuntimeCapability } from '#kernel/saga/catalog'
import type { Process } from '#runtime'
import type { Reversibility } from './closed-lists.ts'

/**
 * `read`: changes nothing, may be repeated at will. `keyed`: the provider dedupes by our key. `queryable`: it can be looked
 * up by our key before any repeat. `opaque`: neither; a cut in the window is a question for a person.
 */
export const effectClasses = ['read', 'keyed', 'queryable', 'opaque'] as const
export type EffectClass = (typeof effectClasses)[number]

/**
 * What a handler may do with artifacts. Content is stored at once; the rows, and every move, are committed with the outcome of the
 * effect, or not at all. The id that `write` gives is the same in every attempt.
 */
export type EffectArtifacts = {
  write(draft: ArtifactDraft, name?: string): Promise<WrittenArtifact>
  /** Read before the effect: an artifact that is not there, or cannot be read, fails the effect as one that did nothing. */
  find(artifactId: string): Promise<StoredArtifact>
  text(artifactId: string): Promise<string>
  publish(artifactId: string, destination: string): Promise<void>
  /** What is published is taken back, what nobody has seen is cancelled: what an undo does. */
  withdraw(artifactId: string): Promise<void>
}

/** What a handler is given. It has no handle to any table: it acts outside and returns what came of it. */
export type EffectCall = {
  readonly commandId: string
  readonly workspaceId: string
  readonly effectId: string
  readonly effectType: string
  readonly payload: JsonObject
  readonly idempotencyKey: string
  readonly attempt: number
  readonly traceId: string
  readonly requestedBy: string
  /** Aborted when the time is up or the turn was lost. */
  readonly signal: AbortSignal
  /** Tells the interceptor what was really done, by the names of `produces`. */
  readonly emit: (effect: string) => void
  readonly artifacts: EffectArtifacts
}

/** The call of an undo also carries what the effect returned, and the key under which its provider knows it. */
export type UndoCall = EffectCall & {
  readonly undone: {
    readonly effectId: string
    readonly idempotencyKey: string
    readonly payload: JsonObject
    readonly result: unknown
  }
}

export type Found = { readonly found: true; readonly result: unknown } | { readonly found: false }

/** How an attempt ended badly; thrown by handlers. Whatever else is thrown is `internal_error` with an unknown outcome. */
export class EffectFailure extends Error {
  readonly errorClass: ErrorClass
  /** Whether the effect may have happened all the same. */
  readonly happened: 'no' | 'unknown'
  /** The provider asked to be left alone for so long. */
  readonly retryAfterMs: number | undefined

  constructor(errorClass: ErrorClass, message: string, happened?: 'no' | 'unknown', retryAfterMs?: number) {
    super(message)
    this.name = 'EffectFailure'
    this.errorClass = errorClass
    this.happened = happened ?? defaultHappened(errorClass)
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * Thrown by a handler that has started another command and waits for its end; the effect's result is that command's result. What the handler
 * has asked for is `succeeded`, or `compensated` where it had the other command undone.
 */
export class EffectPending extends Error {
  readonly awaits: Awaits

  constructor(commandId: string, wanted?: AwaitedEnd)
  constructor(awaits: Awaits)
  constructor(awaits: string | Awaits, wanted: AwaitedEnd = 'succeeded') {
    super('the effect waits for the end of something that it started')
    this.name = 'EffectPending'
    this.awaits = typeof awaits === 'string' ? { commandId: awaits, wanted } : awaits
  }

  /**
   * The effect waits for a process of another room, and its command stays `running`. The room wakes the command (kind `command`, its id) when
   * the process has ended; then `find` of the effect is asked: found is its result, not found means that the process still runs, and an
   * `EffectFailure` with `happened: 'no'` fails the effect.
   */
  static ofProcess(kind: string, id: string): EffectPending {
    return new EffectPending({ process: { kind, id } })
  }
}

export type AwaitedEnd = 'succeeded' | 'compensated'

/** What an effect waits for: another command, or a process of another room. */
export type Awaits = { readonly commandId: string; readonly wanted: AwaitedEnd } | { readonly process: Process }

/** An answer that says no was given before anything was done; silence says nothing. */
function defaultHappened(errorClass: ErrorClass): 'no' | 'unknown' {
  switch (errorClass) {
    case 'rate_limited':
    case 'validation_error':
    case 'policy_denied':
    case 'approval_rejected':
    case 'permission_denied':
    case 'malformed_payload':
      return 'no'
    case 'transient_connector_error':
    case 'timeout':
    case 'temporary_database_error':
    case 'internal_error':
      return 'unknown'
  }
}

type EffectHandler<Call> = {
  readonly class: EffectClass
  readonly timeout_ms: number
  readonly do: (call: Call) => Promise<unknown>
  /** Looks the effect up by our key; required of `queryable`. */
  readonly find?: (call: Call) => Promise<Found>
  /** The names of what it does, as the drift detector will compare them. */
  readonly produces: readonly string[]
  readonly inverses: Readonly<Record<string, string>>
  readonly requires_compensation: boolean
  readonly requires_capabilities: readonly RuntimeCapability[]
}

export type UndoDefinition = EffectHandler<UndoCall> & {
  readonly name: string
  readonly counter_effects: boolean
}

export type EffectDefinition = EffectHandler<EffectCall> & {
  readonly kind: 'effect'
  readonly effect_type: string
  /** `connector.operation` for connectors; what retry policies and manifests go by. */
  readonly operation: string
  readonly reversibility: Reversibility
  /** Fits into the time of a request: may run inline. */
  readonly bounded: boolean
  readonly key_template?: string
  readonly undo?: UndoDefinition
}

type HandlerInput<Call> = Pick<EffectHandler<Call>, 'do'> & Partial<EffectHandler<Call>>
type UndoInput = HandlerInput<UndoCall> & Pick<UndoDefinition, 'name'> & Partial<UndoDefinition>
type EffectInput = HandlerInput<EffectCall> &
  Pick<EffectDefinition, 'effect_type' | 'class'> &
  Partial<Omit<EffectDefinition, 'kind' | 'undo'>> & { readonly undo?: UndoInput }

const TIMEOUT_MS = 30_000

function handlerOf<Call>(input: HandlerInput<Call>, name: string, effectClass: EffectClass): EffectHandler<Call> {
  return {
    class: effectClass,
    timeout_ms: input.timeout_ms ?? TIMEOUT_MS,
    do: input.do,
    ...(input.find ? { find: input.find } : {}),
    produces: input.produces ?? (effectClass === 'read' ? [] : [name]),
    inverses: input.inverses ?? {},
    requires_compensation: input.requires_compensation ?? false,
    requires_capabilities: input.requires_capabilities ?? [],
  }
}

/** The effect and its undo in one place: `do` returns what `undo` will need. */
export function defineEffect({ undo, ...input }: EffectInput): EffectDefinition {
  const operation = input.operation ?? operationOf(input.effect_type)
  const own = handlerOf(input, operation, input.class)
  const inverses = undo && Object.keys(own.inverses).length === 0 ? inversesOf(own.produces, undo) : own.inverses
  return Object.freeze({
    ...own,
    inverses,
    kind: 'effect' as const,
    effect_type: input.effect_type,
    operation,
    reversibility:
      input.reversibility ?? (undo ? 'compensatable' : input.class === 'read' ? 'reversible' : 'irreversible'),
    bounded: input.bounded ?? false,
    ...(input.key_template === undefined ? {} : { key_template: input.key_template }),
    ...(undo
      ? {
          undo: {
            ...handlerOf(undo, undo.name, undo.class ?? input.class),
            name: undo.name,
            counter_effects: undo.counter_effects ?? true,
          },
        }
      : {}),
  })
}

/** One effect with one undo: each is the other's inverse, unless somebody said more. */
function inversesOf(produces: readonly string[], undo: UndoInput): Readonly<Record<string, string>> {
  const undone = undo.produces ?? [undo.name]
  const [first, other] = [produces[0], undone[0]]
  return produces.length === 1 && undone.length === 1 && first && other ? { [first]: other } : {}
}

/** `connector.hotel_booking.book_hotel` is the operation `hotel_booking.book_hotel`; other effects go by their own name. */
function operationOf(effectType: string): string {
  // One without a name is named by the catalog, not by an exception here.
  if (typeof (effectType as unknown) !== 'string') return effectType
  return effectType.startsWith('connector.') ? effectType.slice('connector.'.length) : effectType
}
