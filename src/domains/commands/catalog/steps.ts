/** The steps that Concord ships: to wait for a time and for a signal, and to recall memories. Their effects read, so they need no approval and no undo. */
import type { SearchMemory } from '#domains/memory'
import { type DurationMs, parseDuration } from '#kernel/duration'
import { checkInstant, formatInstant, parseInstant } from '#kernel/instant'
import type { JsonObject } from '#kernel/json-value'
import type { Decision } from '#kernel/refusal'
import { parseSignalKey, parseSignalName, parseSignalSender } from '#kernel/signal'
import { type CommandStep, makeOperation } from '#kernel/step'

/** The source of a step whose effect is in every catalog. */
const shipped = Object.freeze({ kind: 'shipped' as const })
export type ShippedSource = typeof shipped

export const SLEEP = 'time.sleep'
export const WAIT_FOR_SIGNAL = 'signal.wait'
export const RECALL = 'memory.recall'

/** A value that is not known while the steps are listed is checked when its step begins. */
function checked<T>(value: T, check: (value: T & string) => Decision<unknown>): T {
  const decision = typeof value === 'string' ? check(value) : undefined
  if (decision && !decision.ok) throw new TypeError([decision.reason, decision.hint].filter(Boolean).join(' '))
  return value
}

function durationOf(text: string): DurationMs {
  const duration = parseDuration(text)
  if (!duration.ok) throw new TypeError([duration.reason, duration.hint].filter(Boolean).join(' '))
  return duration.value
}

const sleep = makeOperation<{ readonly until: unknown } | { readonly for_ms: number }, Readonly<Record<string, never>>>(
  SLEEP,
  shipped,
)

type Slept = CommandStep<Readonly<Record<string, never>>>

/** Waits until a time: a date, or a text such as `2026-05-01T10:00:00Z`. A time that has passed is no wait. */
export const sleepUntil = Object.assign(
  (at: Date | string): Slept => sleep({ until: at instanceof Date ? timeOf(at) : checked(at, parseInstant) }),
  { effect_type: SLEEP, source: shipped },
)

function timeOf(at: Date): string {
  const time = checkInstant(at)
  if (!time.ok) throw new TypeError(time.reason)
  return formatInstant(time.value)
}

/** Waits for a duration, such as `'2h'`, from the moment when the step begins. */
export const sleepFor = Object.assign((duration: string): Slept => sleep({ for_ms: durationOf(duration) }), {
  effect_type: SLEEP,
  source: shipped,
})

const wait = makeOperation<object, never>(WAIT_FOR_SIGNAL, shipped)

type WaitTerms<Late> = {
  /** Names the thing, such as the order: the sender of the signal sends the same. */
  readonly key: string
  /** How long it waits, such as `'14d'`. */
  readonly timeout: string
  /** The webhook that must send it, such as `webhook:carrier`. Omitted: any writer of the workspace may. */
  readonly from?: `webhook:${string}`
  /** The result when no signal has come in time. Omitted: the step fails with the class `timeout`. */
  readonly onTimeout?: Late
}

/**
 * Waits for a signal with this name and key. Its payload is the result of the step. It comes from outside: the steps that use it check it. A signal that
 * came before the wait is kept and counts.
 */
export const waitFor = Object.assign(
  <Payload extends object = JsonObject, Late extends object = Payload>(
    name: string,
    { key, timeout, from, onTimeout }: WaitTerms<Late>,
  ): CommandStep<Payload | Late> => {
    if (key === undefined) throw new TypeError(`waitFor('${name}') needs a key`)
    return wait({
      name: checked(name, parseSignalName),
      key: checked(key, parseSignalKey),
      timeout_ms: durationOf(timeout),
      ...(from === undefined ? {} : { from: checked(from, parseSignalSender) }),
      ...(onTimeout === undefined ? {} : { on_timeout: onTimeout }),
    })
  },
  { effect_type: WAIT_FOR_SIGNAL, source: shipped },
)

type Recall = {
  /** `customer:4711`. */
  readonly subject?: string | undefined
  readonly memory_type?: NonNullable<SearchMemory['memoryTypes']>[number] | undefined
  readonly task_type?: string | undefined
  readonly connector?: string | undefined
  /** At most 100. Default: 20. */
  readonly limit?: number | undefined
}

/** Memory in steps; a project imports it as `memory`. */
export const memorySteps = {
  /**
   * Finds memories as the requester; the read is recorded. The result has their ids, never their content, because results are kept for ever. An effect that
   * gets the ids reads the content with `memory.read` of its call.
   */
  recall: makeOperation<Recall, { memory_ids: string[] }>(RECALL, shipped),
}
