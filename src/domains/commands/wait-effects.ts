/** The effects of the steps that wait: for a time and for a signal. Between two turns nothing runs: the row has the due time. */
import { z } from 'zod'
import { parsedField } from '#contract'
import { formatDuration, type DurationMs, MAX_DURATION_MS } from '#kernel/duration'
import { parseInstant } from '#kernel/instant'
import { parseSignalKey, parseSignalName, parseSignalSender } from '#kernel/signal'
import { retryableErrorClasses } from '#kernel/error-classes'
import { defineRetryPolicy } from '#kernel/retry-policy'
import { type Definition, registerRetry } from './catalog/definitions.ts'
import { defineEffect, type EffectCall, EffectFailure, EffectPending } from './catalog/effect-definition.ts'
import { SLEEP, WAIT_FOR_SIGNAL } from './catalog/steps.ts'
import type { CommandDeps } from './deps.ts'
import { beginSignalWait, findSignal, takeSignal } from './signals.ts'

const durationMs = z.int().min(1).max(MAX_DURATION_MS)

const sleepInput = z.union([
  z.strictObject({ until: parsedField((text) => parseInstant(text)) }),
  z.strictObject({ for_ms: durationMs }),
])

const waitInput = z.strictObject({
  name: parsedField(parseSignalName),
  key: parsedField(parseSignalKey),
  timeout_ms: durationMs,
  from: parsedField(parseSignalSender).optional(),
  on_timeout: z.record(z.string(), z.json()).optional(),
})

const STILL_WAITS = { found: false } as const

/** `deps` is called by the first step that waits, because the catalog opens before the room. */
export function waitDefinitions(deps: () => CommandDeps): readonly Definition[] {
  const dueIn = (ms: number) => new Date(deps().now().getTime() + ms)
  const isDue = (at: Date) => at <= deps().now()

  const sleep = defineEffect(SLEEP, {
    input: sleepInput,
    class: 'read',
    async do({ input }) {
      const until = 'until' in input ? input.until : dueIn(input.for_ms)
      if (isDue(until)) return {}
      throw EffectPending.until(until)
    },
    async find({ input, dueAt }) {
      const until = 'until' in input ? input.until : (dueAt ?? dueIn(input.for_ms))
      if (isDue(until)) return { found: true, result: {} }
      throw EffectPending.until(until)
    },
  })

  type Given = Exclude<Awaited<ReturnType<typeof findSignal>>, string>
  const use = ({ alongside, workspaceId }: Pick<EffectCall, 'alongside' | 'workspaceId'>, signal: Given) => {
    const { signal_id, sent_by, payload } = signal
    alongside((tx) => takeSignal(tx, signal, workspaceId, deps().now()), { signal_id, sent_by })
    return payload
  }

  const waitForSignal = defineEffect(WAIT_FOR_SIGNAL, {
    input: waitInput,
    class: 'read',
    async do({ input, ...call }) {
      const signal = await asked(beginSignalWait(deps(), { ...call, ...input }))
      if (signal) return use(call, signal)
      throw EffectPending.until(dueIn(input.timeout_ms))
    },
    async find({ input, dueAt, ...call }) {
      const signal = await asked(findSignal(deps().db, { ...call, ...input }, dueAt !== null && isDue(dueAt)))
      if (signal === 'waiting') return STILL_WAITS
      if (signal !== 'timed_out') return { found: true, result: use(call, signal) }
      if (input.on_timeout) return { found: true, result: input.on_timeout }
      throw timedOut(input.name, input.key, input.timeout_ms)
    },
  })
  return [sleep.source, waitForSignal.source, ...[SLEEP, WAIT_FOR_SIGNAL].map(patientRetry)]
}

/** A wait changes nothing, so it outlasts a database that is away and workers that die. */
function patientRetry(operation: string): Definition {
  return registerRetry(
    defineRetryPolicy({
      operation,
      retryable: retryableErrorClasses,
      max_attempts: 100,
      backoff_seconds: [1, 5, 30, 60],
      requires_idempotency_key: false,
    }),
  )
}

/** The calls below only use the database, so each of their errors is one of the database. */
async function asked<T>(answer: Promise<T>): Promise<T> {
  return answer.catch(() => {
    throw new EffectFailure('temporary_database_error', 'The database did not answer.')
  })
}

function timedOut(name: string, key: string, ms: number): EffectFailure {
  const within = formatDuration(ms as DurationMs)
  return new EffectFailure('timeout', `no signal ${name} for ${key} came within ${within}`, 'no')
}
