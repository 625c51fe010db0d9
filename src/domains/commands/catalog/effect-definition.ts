/** An effect: one kind of external change, defined together with its undo and with how its outcome can be found out. */
import type { ArtifactDraft, StoredArtifact, WrittenArtifact } from '#domains/artifacts'
import type { SearchMemory, StoredMemory } from '#domains/memory'
import type { z } from 'zod'
import type { ErrorClass } from '#kernel/error-classes'
import { defined, type JsonObject } from '#kernel/json-value'
import type { RiskLevel } from '#kernel/policy/policy'
import { makeOperation, type Operation } from '#kernel/step'
import type { RuntimeCapability } from '#kernel/saga/catalog'
import type { Process } from '#runtime'
import type { Tx } from '#store'
import { checkFields, placed } from './place.ts'

type Reversibility = 'reversible' | 'compensatable' | 'irreversible'

/**
 * `read`: changes nothing and may be repeated. `keyed`: the provider deduplicates by our key. `queryable`: it is looked up by our key
 * before any repeat. `opaque`: neither; after an interrupted call a person decides.
 */
export const effectClasses = ['read', 'keyed', 'queryable', 'opaque'] as const
export type EffectClass = (typeof effectClasses)[number]

/**
 * The artifact operations of a handler. Content is stored at once; rows and transitions are committed with the outcome of the effect.
 * `write` returns the same id in every attempt.
 */
export type EffectArtifacts = {
  write(draft: ArtifactDraft, name?: string): Promise<WrittenArtifact>
  /** Call it before the external change: an artifact that is missing or unreadable fails the effect as one that did nothing. */
  find(artifactId: string): Promise<StoredArtifact>
  text(artifactId: string): Promise<string>
  publish(artifactId: string, destination: string): Promise<void>
  /** For an undo: unpublishes a published artifact and cancels any other. */
  withdraw(artifactId: string): Promise<void>
}

/**
 * The memory operations of a handler. Content must not be in a result: results are kept for ever, and a memory can be forgotten. Pass ids on, and read the
 * content in the effect that uses it.
 */
export type EffectMemory = {
  /** The ids of the memories that the requester may see, the best first. */
  find(
    query: Omit<SearchMemory, 'workspaceId' | 'limit'> & { readonly limit?: number | undefined },
  ): Promise<readonly string[]>
  /** Undefined for a memory that `find` no longer finds: forgotten, superseded, expired, or not for the requester. */
  read(memoryId: string): Promise<Pick<StoredMemory, 'memory_type' | 'content' | 'confidence'> | undefined>
}

/** The input of a handler. It gives no access to tables: a handler acts outside and returns its result. */
export type EffectCall = {
  readonly commandId: string
  readonly workspaceId: string
  readonly effectId: string
  readonly effectType: string
  readonly payload: JsonObject
  readonly idempotencyKey: string
  readonly attempt: number
  /** The time of `EffectPending.until`, while the effect waits for it. */
  readonly dueAt: Date | null
  readonly traceId: string
  readonly requestedBy: string
  /** Aborted on a timeout or when the turn is lost. */
  readonly signal: AbortSignal
  /** Reports an effect that really happened, by its name in `produces`. */
  readonly emit: (effect: string) => void
  readonly artifacts: EffectArtifacts
  readonly memory: EffectMemory
  /**
   * For Concord's own rooms: writes rows in the transaction that records the outcome. An `EffectFailure` rolls back both and becomes the
   * outcome of the attempt. `facts` are added to the event of the success.
   */
  readonly alongside: (work: (tx: Tx) => Promise<void>, facts?: JsonObject) => void
}

/** The input of an undo also has the payload, the result and the idempotency key of the effect. */
export type UndoCall = EffectCall & {
  readonly undone: {
    readonly effectId: string
    readonly idempotencyKey: string
    readonly payload: JsonObject
    readonly result: unknown
  }
}

export type LookupResult = { readonly found: true; readonly result: unknown } | { readonly found: false }

/** A failed attempt; thrown by handlers. Any other error counts as `internal_error` with an unknown outcome. */
export class EffectFailure extends Error {
  readonly errorClass: ErrorClass
  /** `unknown`: the effect may have happened nevertheless. */
  readonly happened: 'no' | 'unknown'
  /** The provider asked to wait this long. */
  readonly retryAfterMs: number | undefined
  /** Concord cannot keep what the effect has made. A repeat makes the same, and nobody can settle it by an answer. */
  readonly isRefused: boolean

  constructor(
    errorClass: ErrorClass,
    message: string,
    happened?: 'no' | 'unknown',
    retryAfterMs?: number,
    isRefused = false,
  ) {
    super(message)
    this.name = 'EffectFailure'
    this.errorClass = errorClass
    this.happened = happened ?? (definite.includes(errorClass) ? 'no' : 'unknown')
    this.retryAfterMs = retryAfterMs
    this.isRefused = isRefused
  }
}

/**
 * Thrown by a handler that has started another command and waits for its end. The result of that command becomes the result of the
 * effect. `wanted` is the expected end: `compensated` if the handler asked for an undo.
 */
export class EffectPending extends Error {
  readonly awaits: Awaits

  constructor(awaits: string | Awaits, wanted: AwaitedEnd = 'succeeded') {
    super('The effect waits for something that it started.')
    this.name = 'EffectPending'
    this.awaits = typeof awaits === 'string' ? { commandId: awaits, wanted } : awaits
  }

  /**
   * Waits for a process of another room while the command stays `running`. The room wakes the command (kind `command`, its id) when the
   * process has ended. Then `find` of the effect returns its result; not found means that the process still runs, and an `EffectFailure`
   * with `happened: 'no'` fails the effect.
   */
  static ofProcess(kind: string, id: string): EffectPending {
    return new EffectPending({ process: { kind, id } })
  }

  /**
   * Waits until the time, or until a wake of the command before it. Nothing runs meanwhile. Then `find` of the effect returns its result;
   * not found means that it still waits. A cancel ends the wait at once if the class of the effect is `read`.
   */
  static until(at: Date): EffectPending {
    return new EffectPending({ until: at })
  }
}

export type AwaitedEnd = 'succeeded' | 'compensated'

/** Another command, a process of another room, or a time. */
export type Awaits =
  | { readonly commandId: string; readonly wanted: AwaitedEnd }
  | { readonly process: Process }
  | { readonly until: Date }

/** With these classes the provider has refused, so nothing happened. Without an answer the outcome is unknown. */
const definite: readonly ErrorClass[] = [
  'rate_limited',
  'validation_error',
  'policy_denied',
  'approval_rejected',
  'permission_denied',
  'malformed_payload',
]

type EffectHandler<Call> = {
  readonly class: EffectClass
  readonly timeout_ms: number
  readonly do: (call: Call) => Promise<unknown>
  /** Looks the effect up by our key; required for `queryable`. */
  readonly find?: (call: Call) => Promise<LookupResult>
  /** The names of its effects, for the drift detector. */
  readonly produces: readonly string[]
  readonly inverses: Readonly<Record<string, string>>
  readonly requires_compensation: boolean
  readonly requires_capabilities: readonly RuntimeCapability[]
}

export type UndoDefinition = EffectHandler<UndoCall> & {
  readonly name: string
  readonly counter_effects: boolean
  /** How long after the effect the provider accepts the undo. Omitted: always. */
  readonly within_ms?: number
}

export type EffectDefinition = EffectHandler<EffectCall> & {
  readonly kind: 'effect'
  readonly effect_type: string
  /** The name for retry policies and manifests; `connector.operation` for connectors. */
  readonly operation: string
  readonly reversibility: Reversibility
  /** The approval card shows the highest of the type, the task and the effects. */
  readonly risk_level: RiskLevel
  /** Short enough for a request: may run inline. */
  readonly bounded: boolean
  /** It changes something outside of Concord. Default: everything but the class `read`. */
  readonly outward: boolean
  readonly key_template?: string
  readonly undo?: UndoDefinition
}

type UndoInput = Pick<UndoDefinition, 'name' | 'do'> & Partial<UndoDefinition>
type EffectInput = Pick<EffectDefinition, 'effect_type' | 'class' | 'do'> &
  Partial<Omit<EffectDefinition, 'kind' | 'undo'>> & { readonly undo?: UndoInput }

const defaults = { timeout_ms: 30_000, inverses: {}, requires_compensation: false, requires_capabilities: [] } as const

const producedBy = (effectClass: EffectClass, name: string) => (effectClass === 'read' ? [] : [name])

type Typed<Call, Input> = Omit<Call, 'payload'> & { readonly input: Input }
type TypedUndo<Input, Result> = Omit<UndoCall, 'payload' | 'undone'> & {
  readonly input: Input
  readonly result: Result
  /** The key of the effect that it undoes. */
  readonly undoneKey: string
}

type EffectTerms = Partial<Pick<EffectDefinition, (typeof TERMS)[number]>>

type UndoTerms<Input, Result> = {
  readonly do: (call: TypedUndo<Input, Result>) => Promise<unknown>
  readonly within_ms?: number
  readonly class?: EffectDefinition['class']
}

type EffectSpec<Schema extends z.ZodType<object, object>, Result> = EffectTerms & {
  readonly input: Schema
  readonly do: (call: Typed<EffectCall, z.output<Schema>>) => Promise<Result>
  /** Looks the effect up by its key; required for the class `queryable`. */
  readonly find?: (
    call: Typed<EffectCall, z.output<Schema>>,
  ) => Promise<{ readonly found: true; readonly result: Result } | { readonly found: false }>
  /** Takes the effect back. A function, or the function with its terms. */
  readonly undo?: UndoTerms<z.output<Schema>, Result>['do'] | UndoTerms<z.output<Schema>, Result>
}

export type TypedEffect<Schema extends z.ZodType<object, object>, Result> = Operation<z.input<Schema>, Result> & {
  readonly source: EffectDefinition
  readonly input: Schema
}

/**
 * Defines an effect and its undo together: `do` returns what `undo` needs. With a name first, the effect is a function of its typed
 * input, and a call of it is a step of a command. Its class is then `opaque` by default: after an interrupted call a person decides.
 */
export function defineEffect(input: EffectInput): EffectDefinition
export function defineEffect<Schema extends z.ZodType<object, object>, Result>(
  name: string,
  spec: EffectSpec<Schema, Result>,
): TypedEffect<Schema, Result>
export function defineEffect(
  input: EffectInput | string,
  spec?: EffectSpec<z.ZodType<object, object>, unknown>,
): EffectDefinition | TypedEffect<z.ZodType<object, object>, unknown> {
  // A missing specification is reported by the catalog with the other errors.
  return typeof input === 'string' && spec ? defineTyped(input, spec) : defineUntyped(input as EffectInput)
}

const TERMS = ['class', 'risk_level', 'timeout_ms', 'bounded', 'outward', 'key_template', 'operation'] as const
const UNDO_TERMS = ['do', 'within_ms', 'class']

function defineTyped<Schema extends z.ZodType<object, object>, Result>(
  name: string,
  { input, do: run, find, undo, ...terms }: EffectSpec<Schema, Result>,
): TypedEffect<Schema, Result> {
  checkFields(name, terms, TERMS)
  const parse = (payload: JsonObject): z.output<Schema> => {
    const parsed = input.safeParse(payload)
    if (parsed.success) return parsed.data
    const [issue] = parsed.error.issues
    throw new EffectFailure(
      'validation_error',
      `${[name, ...(issue?.path ?? [])].join('.')}: ${issue?.message ?? ''}`,
      'no',
    )
  }
  const typed = ({ payload, ...call }: EffectCall) => ({ ...call, input: parse(payload) })
  const undoName = `${name}.undo`
  const undoTerms = typeof undo === 'function' ? { do: undo } : undo
  if (undoTerms) checkFields(`The undo of ${name}`, undoTerms, UNDO_TERMS)
  const source = defineUntyped({
    class: 'opaque',
    ...defined(terms),
    effect_type: name,
    do: (call) => run(typed(call)),
    ...(find && { find: (call: EffectCall) => find(typed(call)) }),
    ...(undoTerms && {
      requires_compensation: true,
      undo: {
        // An undo has no lookup of its own, so after an interrupted call a person decides.
        ...(terms.class === 'queryable' ? { class: 'opaque' as const } : {}),
        ...undoTerms,
        name: undoName,
        async do({ undone, payload: _payload, ...call }: UndoCall) {
          const { idempotencyKey: undoneKey, payload } = undone
          // The result was stored as JSON by the effect itself.
          const done = await undoTerms.do({
            ...call,
            input: parse(payload),
            result: undone.result as Result,
            undoneKey,
          })
          call.emit(undoName)
          return done
        },
      },
    }),
  })
  return Object.assign(makeOperation<z.input<Schema>, Result>(name, source), { source, input })
}

function defineUntyped({ undo: undoInput, ...input }: EffectInput): EffectDefinition {
  const operation = input.operation ?? operationOf(input.effect_type)
  const produces = input.produces ?? producedBy(input.class, operation)
  const undo = undoInput && undoOf(undoInput, input.class)
  const reversibility = undo ? 'compensatable' : input.class === 'read' ? 'reversible' : 'irreversible'
  return placed(
    Object.freeze({
      ...defaults,
      bounded: false,
      outward: input.class !== 'read',
      risk_level: 'low' as const,
      reversibility,
      inverses: inversesOf(produces, undo?.produces ?? []),
      ...input,
      kind: 'effect' as const,
      operation,
      produces,
      ...(undo && { undo }),
    }),
  )
}

function undoOf(input: UndoInput, effectClass: EffectClass): UndoDefinition {
  const own = { ...defaults, class: effectClass, counter_effects: true, ...input }
  return { ...own, produces: input.produces ?? producedBy(own.class, input.name) }
}

/** One produced name with one undone name are inverses of each other, unless the definition says more. */
function inversesOf(produces: readonly string[], undone: readonly string[]): Readonly<Record<string, string>> {
  const [first, other] = [produces[0], undone[0]]
  return produces.length === 1 && undone.length === 1 && first && other ? { [first]: other } : {}
}

/** `connector.hotel_booking.book_hotel` is the operation `hotel_booking.book_hotel`; other effects are their own operation. */
function operationOf(effectType: string): string {
  // The catalog reports an effect without a name; an exception here would hide the other errors.
  if (typeof (effectType as unknown) !== 'string') return effectType
  return effectType.startsWith('connector.') ? effectType.slice('connector.'.length) : effectType
}
