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
import { type Decision, isUnavailable, type Refusal } from '#kernel/refusal'
import { kernelRefusals } from '#kernel/refusals'
import { decideStepKey } from '#kernel/retry-policy'
import { redactText, redactValue } from '#kernel/secret-shapes'
import { failpoint, storeRefusals, type Tx } from '#store'
import { isStillHeld, keepHeld, LATE, type Turn, withDeadline } from '#turns'
import { workerActor } from './change.ts'
import { type EffectArtifacts, type EffectCall, EffectFailure, EffectPending } from './catalog/effect-definition.ts'
import { commandTurns, type HeldCommand, type StoredCommand, type StoredEffect } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import type { AttemptFailure, CallResult, EffectHandler } from './tasks.ts'

/** Undefined: the turn was lost; a later turn finds out what the call did. */
export type Called =
  | {
      readonly result: CallResult
      /** The rows of the artifacts that the handler wrote, for the transaction that records the outcome. */
      readonly save: ((tx: Tx) => Promise<void>) | undefined
    }
  | undefined

type CommandTurn = Turn<HeldCommand>

/** Calls the handler of an effect that this very turn has begun. */
export async function callEffect(
  deps: CommandDeps,
  turn: CommandTurn,
  effect: StoredEffect,
  handler: EffectHandler,
): Promise<Called> {
  const key = decideStepKey(handler.retry, effect.idempotency_key)
  if (!key.ok) {
    const failure: AttemptFailure = { errorClass: 'validation_error', message: key.reason, happened: 'no' }
    return { result: { t: 'failed', failure, emitted: [] }, save: undefined }
  }
  await failpoint(handler.isUndo ? 'commands.undo_begun' : 'commands.effect_begun')
  const emitted: string[] = []
  const called = await callHeld(deps, turn, effect, handler, emitted, async (call) => {
    // What the provider cannot dedupe by our key is looked up before it is done once more.
    const known = handler.class === 'queryable' && effect.attempt > 1 ? await handler.find?.(call) : undefined
    if (known?.found) return doneWith(known.result, emitted)
    if (!(await isStillHeld(deps, commandTurns.table, turn))) return undefined
    return doneWith(await handler.run(call), emitted)
  })
  await failpoint(handler.isUndo ? 'commands.undo_called' : 'commands.effect_called')
  return called
}

/** Asks the provider what became of an effect. */
export async function lookUpEffect(
  deps: CommandDeps,
  turn: CommandTurn,
  effect: StoredEffect,
  handler: EffectHandler,
): Promise<Called> {
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
  make: (call: EffectCall) => Promise<CallResult | undefined>,
): Promise<Called> {
  const { command } = turn.found
  const opened = deps.artifacts && openEffectWriter(deps.artifacts, command, effect)
  const artifacts = opened?.artifacts ?? withoutArtifacts('this process has no store of artifacts')
  const answer = async (signal: AbortSignal) => {
    try {
      const call = callOf(command, effect, signal, (name) => void emitted.push(name), artifacts)
      return (await make(call)) ?? 'lost'
    } catch (error) {
      return thrown(error, emitted)
    }
  }
  const deadline = { sleep: deps.sleep, ms: handler.timeoutMs, signal: turn.signal }
  const result = await withDeadline(deadline, answer, keepHeld(deps, commandTurns.table, turn))
  if (result === 'lost') return undefined
  const told = result === LATE ? late(handler.timeoutMs, emitted) : result
  return { result: told, save: saverOf(deps.artifacts, opened?.writer, command) }
}

/** A request is not held longer than this; the key makes a repeat by the driver harmless. */
const INLINE_BUDGET_MS = 2_000

/** Calls a bounded effect inside the request. Undefined: not done, or not known to be done; the driver takes the command. */
export async function callInline(
  { sleep }: Pick<CommandDeps, 'sleep'>,
  command: StoredCommand,
  effect: StoredEffect,
  handler: EffectHandler,
): Promise<CallResult | undefined> {
  const deadline = { sleep, ms: Math.min(INLINE_BUDGET_MS, handler.timeoutMs) }
  // The rows of artifacts need the transaction of an outcome: left to the driver.
  const artifacts = withoutArtifacts('artifacts are not written inline')
  const answer = async (signal: AbortSignal) =>
    doneWith(await handler.run(callOf(command, effect, signal, () => {}, artifacts)), [])
  // Retries, backoff and records of failures are the driver's.
  const result = await withDeadline(deadline, answer).catch(() => undefined)
  return result !== LATE && result?.t === 'done' ? result : undefined
}

function callOf(
  command: StoredCommand,
  effect: StoredEffect,
  signal: AbortSignal,
  emit: (name: string) => void,
  artifacts: EffectArtifacts,
): EffectCall {
  return {
    commandId: command.command_id,
    workspaceId: command.workspace_id,
    effectId: effect.domain_effect_id,
    effectType: effect.effect_type,
    payload: effect.effect_payload,
    idempotencyKey: effect.idempotency_key ?? effect.domain_effect_id,
    attempt: effect.attempt,
    traceId: command.context.trace_id,
    requestedBy: command.requested_by,
    signal,
    emit,
    artifacts,
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

/** An error that nobody classified is our own fault, and whether the effect happened is unknown. */
function failureOf(error: unknown): AttemptFailure {
  const text = error instanceof Error ? error.message : 'the handler threw something that is no error'
  // Providers like to repeat the credential that they did not like.
  const message = redactText(text).slice(0, ERROR_CHARS_MAX)
  if (error instanceof EffectFailure) {
    const { happened, retryAfterMs } = error
    return { errorClass: classifyError(error.errorClass), message, happened, retryAfterMs }
  }
  return { errorClass: 'internal_error', message, happened: 'unknown' }
}

/** A result that cannot be stored is no result; the effect may have happened all the same. Secrets in it are not kept. */
function asResult(
  value: unknown,
): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly failure: AttemptFailure } {
  if (value === undefined || value === null) return { ok: true, value: {} }
  const guarded = guardValue(value)
  if (guarded.ok) return { ok: true, value: redactValue(guarded.value) }
  const message = `the result cannot be stored: ${guarded.reason}`
  return { ok: false, failure: { errorClass: 'internal_error', message, happened: 'unknown' } }
}

/** For a place that has no store of artifacts, or no transaction to put their rows into. */
export function withoutArtifacts(why: string): EffectArtifacts {
  const no = () => Promise.reject(new EffectFailure('internal_error', why, 'no'))
  return { write: no, find: no, text: no, publish: no, withdraw: no }
}

/** A writer of artifacts that speaks in the failures of effects, and whose rows are saved with the effect's outcome. */
function openEffectWriter(
  deps: ArtifactDeps,
  command: StoredCommand,
  effect: StoredEffect,
): { readonly artifacts: EffectArtifacts; readonly writer: ArtifactWriter } {
  const writer = openArtifactWriter(deps, {
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    effectId: effect.domain_effect_id,
    agentRunId: null,
    swarmRunId: null,
    createdBy: command.requested_by,
    seesAll: command.context.metadata['role'] === 'admin',
    undoneEffectId: effect.compensates_effect_id,
    scope: effect.domain_effect_id,
  })
  // Whether a handler did something outside before it wrote is unknown here; a handler of artifacts did not.
  const afterWrite = effect.effect_type.startsWith('artifact.') ? 'no' : 'unknown'
  // A handler reads what it works with before it acts: without its input it did nothing.
  const afterRead = () => (writer.writes.length === 0 ? 'no' : afterWrite)
  const valueOf = <T>(decision: Decision<T>, happened: 'no' | 'unknown'): T => {
    if (decision.ok) return decision.value
    throw artifactFailure(decision, happened)
  }
  const artifacts: EffectArtifacts = {
    write: async (draft: ArtifactDraft, name?: string) => valueOf(await writer.write(draft, name), afterWrite),
    find: async (id): Promise<StoredArtifact> => valueOf(await writer.find(id), afterRead()),
    text: async (id) => valueOf(await writer.text(id), afterRead()),
    publish: async (id, destination) => void valueOf(await writer.publish(id, destination), afterWrite),
    withdraw: async (id) => void valueOf(await writer.withdraw(id), afterWrite),
  }
  return { artifacts, writer }
}

/** The same call can succeed later: a store or the database does not answer. */
export function isPassing({ code }: Refusal): boolean {
  return isUnavailable([kernelRefusals, storeRefusals, artifactRefusals], code)
}

function artifactFailure(refusal: Refusal, happened: 'no' | 'unknown'): EffectFailure {
  const said = refusal.path === undefined ? refusal.reason : `${refusal.path}: ${refusal.reason}`
  return new EffectFailure(isPassing(refusal) ? 'transient_connector_error' : 'validation_error', said, happened)
}

/** Undefined: the effect has written nothing, and its outcome may go through the lane. */
function saverOf(
  deps: ArtifactDeps | undefined,
  writer: ArtifactWriter | undefined,
  command: StoredCommand,
): ((tx: Tx) => Promise<void>) | undefined {
  if (!deps || !writer || writer.writes.length === 0) return undefined
  const by = { ...workerActor, traceId: command.context.trace_id }
  return (tx) => saveArtifacts(tx, deps, by, command.workspace_id, writer.writes)
}
