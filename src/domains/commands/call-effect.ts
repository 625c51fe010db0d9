/** Calls the handler of an effect, or looks the effect up at its provider, under its deadline and while the turn is held. */
import {
  type ArtifactDeps,
  type ArtifactDraft,
  artifactRefusals,
  type ArtifactWriter,
  openArtifactWriter,
  saveArtifacts,
  type StoredArtifact,
} from '#domains/artifacts'
import { classifyError } from '#kernel/error-classes'
import { guardValue } from '#kernel/json-guard'
import type { JsonObject } from '#kernel/json-value'
import { type Decision, isUnavailable, type Refusal } from '#kernel/refusal'
import { kernelRefusals } from '#kernel/refusals'
import { decideStepKey } from '#kernel/retry-policy'
import { cutText } from '#kernel/cut-text'
import { redactText } from '#kernel/secret-shapes'
import { redactValue } from '#kernel/secrets/redact-value'
import { failpoint, storeRefusals, type Tx } from '#store'
import { isStillHeld, keepHeld, LATE, type Turn, withDeadline } from '#turns'
import { type AfterStep, type CallOutcome, workerActor } from './change.ts'
import { type EffectArtifacts, type EffectCall, EffectFailure, EffectPending } from './catalog/effect-definition.ts'
import { commandTurns, findEffect, type HeldCommand, type StoredCommand, type StoredEffect } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { openEffectMemory } from './effect-memory.ts'
import { labelReader } from './labels.ts'
import { traceEffect } from './observe.ts'
import { findMissingInput } from './step-inputs.ts'
import {
  type AttemptFailure,
  type CallResult,
  type EffectHandler,
  findHandler,
  type HandlerCall,
  isWaiting,
} from './tasks.ts'

/** Writes rows in the transaction that records the outcome. An `EffectFailure` rolls back both. */
export type Work = (tx: Tx) => Promise<void>

/** `works` write the rows that the handler left for the outcome: its artifacts, a memory. */
type Called = { readonly result: CallResult; readonly works: readonly Work[] }
export type LastCall = CallOutcome & { readonly isUndo: boolean; readonly works: readonly Work[] }

type CommandTurn = Turn<HeldCommand>

/** What a handler has left for the outcome. */
type Left = Parameters<EffectCall['alongside']>

function withLeft(result: CallResult, left: readonly Left[], more: readonly Work[] = []): Called {
  const works = [...left.map(([work]) => work), ...more]
  if (left.length === 0 || (result.t !== 'done' && result.t !== 'found')) return { result, works }
  return { result: { ...result, facts: Object.assign({}, ...left.map(([, facts]) => facts)) as JsonObject }, works }
}

/** Makes the call or look-up that the fold has decided, if it was begun. Undefined: nothing was called, or the turn was lost during the call. */
export async function callNext(
  deps: CommandDeps,
  turn: CommandTurn,
  next: AfterStep,
  decided: readonly StoredEffect[],
): Promise<LastCall | undefined> {
  if (next.t !== 'call' && next.t !== 'look_up') return undefined
  const { effectId } = next
  const effect = turn.found.effects.find(({ domain_effect_id }) => domain_effect_id === effectId)
  const wanted = decided.find(({ domain_effect_id }) => domain_effect_id === effectId)
  // A cancel in between leaves the effect unchanged: nothing has begun.
  if (!effect || effect.status !== 'executing' || effect.attempt !== wanted?.attempt) return undefined
  const handler = findHandler(deps.catalog, effect)
  const called = handler
    ? await traceEffect(turn.found.command, effect, () =>
        (next.t === 'call' ? callEffect : lookUpEffect)(deps, turn, effect, handler),
      )
    : failed('internal_error', 'no handler', 'unknown')
  if (!called) {
    turn.isLost = true
    return undefined
  }
  const { result } = called
  // The rows of a failed attempt are not kept.
  const works = result.t === 'done' || result.t === 'found' ? called.works : []
  const lookUp = next.t === 'look_up' ? { lookUp: next.lookUp } : {}
  return { effectId, attempt: effect.attempt, ...lookUp, result, works, isUndo: handler?.isUndo ?? false }
}

function failed(errorClass: AttemptFailure['errorClass'], message: string, happened: 'no' | 'unknown'): Called {
  return { result: { t: 'failed', failure: { errorClass, message, happened }, emitted: [] }, works: [] }
}

/** Calls the handler of an effect that this turn has begun. Undefined: the turn was lost, and a later turn finds out what the call did. */
async function callEffect(
  deps: CommandDeps,
  turn: CommandTurn,
  effect: StoredEffect,
  handler: EffectHandler,
): Promise<Called | undefined> {
  const key = decideStepKey(handler.retry, effect.idempotency_key)
  if (!key.ok) return failed('validation_error', key.reason, 'no')
  const missing = findMissingInput(turn.found, effect)
  if (missing !== undefined) return failed('validation_error', missing, 'no')
  await failpoint(handler.isUndo ? 'commands.undo_begun' : 'commands.effect_begun')
  const emitted: string[] = []
  const called = await callHeld(deps, turn, effect, handler, emitted, async (call) => {
    // This provider does not deduplicate by our key, so a repeat is looked up first.
    const known = handler.class === 'queryable' && effect.attempt > 1 ? await handler.find?.(call) : undefined
    if (known?.found) return doneWith(known.result, emitted)
    if (!(await isStillHeld(deps, commandTurns.table, turn))) return undefined
    return doneWith(await handler.run(call), emitted)
  })
  await failpoint(handler.isUndo ? 'commands.undo_called' : 'commands.effect_called')
  return called
}

/** Asks the provider for the outcome of an effect. */
async function lookUpEffect(
  deps: CommandDeps,
  turn: CommandTurn,
  effect: StoredEffect,
  handler: EffectHandler,
): Promise<Called | undefined> {
  const called = await callHeld(deps, turn, effect, handler, [], async (call): Promise<CallResult> => {
    const found = await handler.find?.(call)
    if (!found?.found) return { t: 'missing' }
    const result = asResult(found.result)
    return { t: 'found', result: result.ok ? result.value : {} }
  })
  await failpoint('commands.looked_up')
  return called
}

/** Renews the turn while the call lasts; when the turn is lost, aborts the call and ignores its answer. */
async function callHeld(
  deps: CommandDeps,
  turn: CommandTurn,
  effect: StoredEffect,
  handler: EffectHandler,
  emitted: string[],
  make: (call: HandlerCall) => Promise<CallResult | undefined>,
): Promise<Called | undefined> {
  const { command } = turn.found
  const opened =
    deps.artifacts &&
    openEffectWriter(deps.artifacts, command, effect, (id) => labelReader(deps, command, 'artifact', [id]))
  const artifacts = opened?.artifacts ?? withoutArtifacts('This process has no artifact store.')
  const left: Left[] = []
  const answer = async (signal: AbortSignal) => {
    try {
      const call = callOf(deps, command, effect, signal, (name) => void emitted.push(name), artifacts, left)
      return (await make({ ...call, undone: await findUndone(deps, turn.found, effect) })) ?? 'lost'
    } catch (error) {
      return thrown(error, emitted)
    }
  }
  const deadline = { sleep: deps.sleep, ms: handler.timeoutMs, signal: turn.signal }
  const result = await withDeadline(deadline, answer, keepHeld(deps, commandTurns.table, turn))
  if (result === 'lost') return undefined
  const reported = result === LATE ? late(handler.timeoutMs, emitted) : result
  return withLeft(reported, left, saverOf(deps.artifacts, opened?.writer, command))
}

/** The effect that an undo undoes. The undo of a command that succeeded belongs to another command. */
async function findUndone(
  { db }: CommandDeps,
  { command, effects }: HeldCommand,
  { compensates_effect_id: id }: StoredEffect,
): Promise<HandlerCall['undone']> {
  if (id === null) return undefined
  const own = effects.find(({ domain_effect_id }) => domain_effect_id === id)
  const found = own ?? (await db.run(findEffect, [id, command.workspace_id]).catch(failToRead))[0]
  if (!found) return undefined
  const { idempotency_key, effect_payload: payload, result } = found
  return { effectId: id, idempotencyKey: idempotency_key ?? id, payload, result }
}

function failToRead(): never {
  throw new EffectFailure('transient_connector_error', 'the effect to undo could not be read', 'no')
}

/** The longest time that a request is held. The key makes a repeat by the driver harmless. */
const INLINE_BUDGET_MS = 2_000

/** Calls a bounded effect inside the request. Undefined: not done, or not known to be done; the driver takes the command. */
export function callInline(...[deps, command, effect, handler]: Parameters<typeof runBounded>) {
  return traceEffect(command, effect, () => runBounded(deps, command, effect, handler))
}

async function runBounded(
  deps: CommandDeps,
  command: StoredCommand,
  effect: StoredEffect,
  handler: EffectHandler,
): Promise<Called | undefined> {
  const deadline = { sleep: deps.sleep, ms: Math.min(INLINE_BUDGET_MS, handler.timeoutMs) }
  const left: Left[] = []
  // The rows of artifacts need the transaction of an outcome: left to the driver.
  const artifacts = withoutArtifacts('artifacts are not written inline')
  const answer = async (signal: AbortSignal) =>
    doneWith(
      await handler.run({ ...callOf(deps, command, effect, signal, () => {}, artifacts, left), undone: undefined }),
      [],
    )
  // The driver handles retries, backoff and records of failures.
  const result = await withDeadline(deadline, answer).catch(() => undefined)
  return result !== LATE && result?.t === 'done' ? withLeft(result, left) : undefined
}

function callOf(
  deps: CommandDeps,
  command: StoredCommand,
  effect: StoredEffect,
  signal: AbortSignal,
  emit: (name: string) => void,
  artifacts: EffectArtifacts,
  left: Left[],
): EffectCall {
  return {
    commandId: command.command_id,
    workspaceId: command.workspace_id,
    effectId: effect.domain_effect_id,
    effectType: effect.effect_type,
    payload: effect.effect_payload,
    idempotencyKey: effect.idempotency_key ?? effect.domain_effect_id,
    attempt: effect.attempt,
    dueAt: isWaiting(effect) ? effect.run_after : null,
    traceId: command.context.trace_id,
    requestedBy: command.requested_by,
    signal,
    emit,
    artifacts,
    memory: openEffectMemory(deps, command),
    alongside: (...more) => void left.push(more),
  }
}

function doneWith(value: unknown, emitted: readonly string[]): CallResult {
  const result = asResult(value)
  return result.ok ? { t: 'done', result: result.value, emitted } : { t: 'failed', failure: result.failure, emitted }
}

function thrown(error: unknown, emitted: readonly string[]): CallResult {
  if (error instanceof EffectPending) return { t: 'pending', awaits: error.awaits }
  return { t: 'failed', failure: failureOf(error), emitted }
}

function late(timeoutMs: number, emitted: readonly string[]): CallResult {
  const message = `no answer within ${timeoutMs} ms`
  return { t: 'failed', failure: { errorClass: 'timeout', message, happened: 'unknown' }, emitted }
}

const ERROR_CHARS_MAX = 500

/** An unclassified error is our own fault, and whether the effect happened is unknown. */
function failureOf(error: unknown): AttemptFailure {
  const text = error instanceof Error ? error.message : 'the handler threw a value that is not an error'
  // Providers often repeat a rejected credential in their answer.
  const message = cutText(redactText(text), ERROR_CHARS_MAX)
  if (error instanceof EffectFailure) {
    const { happened, retryAfterMs, isRefused } = error
    return { errorClass: classifyError(error.errorClass), message, happened, retryAfterMs, isRefused }
  }
  return { errorClass: 'internal_error', message, happened: 'unknown' }
}

/** The rows of a call could not be written: the call counts as failed. */
export function failedWith(last: LastCall, error: EffectFailure): LastCall {
  return { ...last, works: [], result: { t: 'failed', failure: failureOf(error), emitted: [] } }
}

/** Redacts secrets. A result that cannot be stored is a failure, although the effect may have happened. */
function asResult(
  value: unknown,
): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly failure: AttemptFailure } {
  if (value === undefined || value === null) return { ok: true, value: {} }
  const guarded = guardValue(value)
  if (guarded.ok) return { ok: true, value: redactValue(guarded.value) }
  const message = `the result cannot be stored: ${guarded.reason}`
  return { ok: false, failure: { errorClass: 'internal_error', message, happened: 'unknown', isRefused: true } }
}

/** For a process without an artifact store, or a call without a transaction for the rows. */
export function withoutArtifacts(why: string): EffectArtifacts {
  const no = () => Promise.reject(new EffectFailure('internal_error', why, 'no'))
  return { write: no, find: no, text: no, publish: no, withdraw: no }
}

/** Opens a writer of artifacts that throws effect failures. Its rows are saved with the effect's outcome. */
function openEffectWriter(
  deps: ArtifactDeps,
  command: StoredCommand,
  effect: StoredEffect,
  onRead: (artifactId: string) => Promise<void>,
): { readonly artifacts: EffectArtifacts; readonly writer: ArtifactWriter } {
  const writer = openArtifactWriter(deps, {
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    effectId: effect.domain_effect_id,
    agentRunId: command.agent_run_id,
    swarmRunId: command.context.swarm_run_id ?? null,
    createdBy: command.requested_by,
    seesAll: command.context.metadata['role'] === 'admin',
    undoneEffectId: effect.compensates_effect_id,
    scope: effect.domain_effect_id,
  })
  // Other handlers may have acted outside before they wrote. A handler of artifacts has not.
  const afterWrite = effect.effect_type.startsWith('artifact.') ? 'no' : 'unknown'
  // A handler reads its input before it acts, so without its input it has done nothing.
  const afterRead = () => (writer.writes.length === 0 ? 'no' : afterWrite)
  const valueOf = <T>(decision: Decision<T>, happened: 'no' | 'unknown'): T => {
    if (decision.ok) return decision.value
    throw artifactFailure(decision, happened)
  }
  const artifacts: EffectArtifacts = {
    write: async (draft: ArtifactDraft, name?: string) => valueOf(await writer.write(draft, name), afterWrite),
    async find(id): Promise<StoredArtifact> {
      const found = valueOf(await writer.find(id), afterRead())
      await onRead(id)
      return found
    },
    async text(id) {
      const text = valueOf(await writer.text(id), afterRead())
      await onRead(id)
      return text
    },
    publish: async (id, destination) => void valueOf(await writer.publish(id, destination), afterWrite),
    withdraw: async (id) => void valueOf(await writer.withdraw(id), afterWrite),
  }
  return { artifacts, writer }
}

/** The same call can succeed later: a store or the database is unavailable. */
export function isPassing({ code }: Refusal): boolean {
  return isUnavailable([kernelRefusals, storeRefusals, artifactRefusals], code)
}

function artifactFailure(refusal: Refusal, happened: 'no' | 'unknown'): EffectFailure {
  const said = refusal.path === undefined ? refusal.reason : `${refusal.path}: ${refusal.reason}`
  if (isPassing(refusal)) return new EffectFailure('transient_connector_error', said, happened)
  return new EffectFailure('validation_error', said, happened, undefined, true)
}

/** Empty if the effect has written nothing, so that its outcome can go through the lane. */
function saverOf(
  deps: ArtifactDeps | undefined,
  writer: ArtifactWriter | undefined,
  command: StoredCommand,
): readonly Work[] {
  if (!deps || !writer || writer.writes.length === 0) return []
  const by = { ...workerActor, traceId: command.context.trace_id }
  return [(tx) => saveArtifacts(tx, deps, by, command.workspace_id, writer.writes)]
}
