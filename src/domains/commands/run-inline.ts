/**
 * The short way for what is fast, low in risk and bounded: decided, done and recorded in the request itself, with the same rows
 * and events as the long way, in two commits altogether. Whatever does not go through smoothly is left to the driver.
 */
import { KernelFault } from '#kernel/errors'
import { failpoint } from '#store'
import type { CompiledTask } from './catalog/open-catalog.ts'
import { findCase } from './command-repository.ts'
import type { StoredCommand } from './command-row.ts'
import { asResult, CALL_OVER } from './call-effect.ts'
import { contentHash, contentOf } from './content.ts'
import { askPolicy, decideCourse } from './decide-course.ts'
import { draftWrite, type NewEffect } from './draft-write.ts'
import { withoutArtifacts } from './effect-artifacts.ts'
import { gatherFacts } from './gather-facts.ts'
import { decideMode } from './plan.ts'
import { draftEffects, planInto } from './plan-effects.ts'
import { validatePayload } from './validate-payload.ts'
import { bySystem, byWorker, type CommandDeps } from './deps.ts'

/** A request is not held longer than this; the key makes the driver's repeat harmless. */
const BUDGET_MS = 2_000

/** Undefined: not done here, or not known to be done; the command is as it was and the driver takes it. */
export async function runInline(
  deps: CommandDeps,
  task: CompiledTask,
  stored: StoredCommand,
): Promise<StoredCommand | undefined> {
  const verdict = validatePayload(task.type, task.spec, stored.payload)
  if (verdict.t === 'malformed') return endMalformed(deps, stored, verdict.errors)
  if (verdict.t !== 'fits') return undefined
  const drafts = draftEffects(task, { command: { ...stored, payload: verdict.payload } })
  if (!drafts.ok || decideMode(task, false, drafts.value, deps.catalog) !== 'sync') return undefined
  const content = contentOf(task, verdict.payload, drafts.value)
  const command = { ...stored, payload: verdict.payload, payload_hash: contentHash(content) }
  const question = askPolicy(task, command, await gatherFacts(deps, command, task.factNames))
  const course = decideCourse(task, question.result, { byOperation: false }, deps.now())
  if (course.t !== 'go') return undefined

  const draft = draftWrite(stored, 'free', { at: deps.now(), newId: deps.newId })
  draft.move('validated', bySystem).set({ payload: command.payload, payload_hash: command.payload_hash })
  draft.tell('policy_evaluated', bySystem, question.record)
  const scratch = draftWrite(stored, 'free', { at: deps.now(), newId: deps.newId })
  const planned = planInto(
    scratch,
    deps,
    task,
    { command, effects: [] },
    { policy: question.result, isApproved: false },
  )
  if (!planned.ok || planned.value.plan.execution_mode !== 'sync') return undefined
  const { plan, effects } = planned.value
  draft.set({ plan, runtime_workflow_id: null })
  draft.tell('plan_created', bySystem, {
    plan_id: plan.plan_id,
    execution_mode: plan.execution_mode,
    queue: plan.queue,
    steps: plan.steps.length,
  })
  draft.move('running', byWorker)
  const results: unknown[] = []
  const done: NewEffect[] = []
  for (const effect of effects) {
    const result = await callOnce(deps, command, effect)
    if (!result) return undefined
    results.push(result.value)
    done.push({ ...effect, status: 'succeeded', attempt: 1, result: result.value, completed_at: deps.now() })
  }
  for (const effect of done) draft.planDone(effect, byWorker)
  await failpoint('commands.inline_called')
  const result = task.fn.result ? task.fn.result(results) : (results.at(-1) ?? {})
  draft.set({ result, run_after: null }).move('succeeded', byWorker)
  const written = await deps.writes.commit(draft.done())
  if (!written.ok) await recordUnderCancelled(deps, stored, done)
  return written.ok ? written.value.command : undefined
}

/** A cancel came while the call was under way. Nothing runs any more, but that it was done is on record; a driver would find it out by itself. */
async function recordUnderCancelled(
  deps: CommandDeps,
  { workspace_id, command_id }: StoredCommand,
  done: readonly NewEffect[],
): Promise<void> {
  const found = await findCase(deps.db, workspace_id, command_id)
  if (found?.command.status !== 'cancelled' || found.effects.length > 0) return
  const draft = draftWrite(found.command, 'any', { at: deps.now(), newId: deps.newId }).stay()
  for (const effect of done) draft.planDone(effect, byWorker)
  if (done.length > 0) await deps.writes.commit(draft.done())
}

/** What makes no sense is told in the answer to the request itself, not only to those who look again. */
export async function failMalformed(
  deps: CommandDeps,
  task: CompiledTask,
  stored: StoredCommand,
): Promise<StoredCommand | undefined> {
  const verdict = validatePayload(task.type, task.spec, stored.payload)
  return verdict.t === 'malformed' ? endMalformed(deps, stored, verdict.errors) : undefined
}

/** The same row and event as the driver would write; whoever of the two comes first. */
async function endMalformed(
  deps: CommandDeps,
  stored: StoredCommand,
  errors: readonly string[],
): Promise<StoredCommand | undefined> {
  const why = { error_class: 'malformed_payload', error: errors.join('; ') } as const
  const { turn_token: held } = stored
  const draft = draftWrite(stored, held === null ? 'free' : { held }, { at: deps.now(), newId: deps.newId })
  draft.set(why).move('failed', bySystem, why).release(null)
  const written = await deps.writes.commit(draft.done())
  return written.ok ? written.value.command : undefined
}

async function callOnce(
  deps: CommandDeps,
  command: StoredCommand,
  effect: NewEffect,
): Promise<{ readonly value: unknown } | undefined> {
  const definition = deps.catalog.effects.get(effect.effect_type)?.definition
  if (!definition) throw new KernelFault('commands.effect.unknown', `nothing carries out ${effect.effect_type}`)
  const stop = new AbortController()
  const call = definition.do({
    commandId: command.command_id,
    workspaceId: command.workspace_id,
    effectId: effect.domain_effect_id,
    effectType: effect.effect_type,
    payload: effect.effect_payload,
    idempotencyKey: effect.idempotency_key ?? effect.domain_effect_id,
    attempt: 1,
    traceId: command.context.trace_id,
    requestedBy: command.requested_by,
    signal: stop.signal,
    emit: () => {},
    // Their rows need the transaction of an outcome: left to the driver.
    artifacts: withoutArtifacts('artifacts are not written inline'),
  })
  const late = deps.sleep(Math.min(BUDGET_MS, definition.timeout_ms), stop.signal).then(() => undefined)
  try {
    const answer = await Promise.race([call.then((value) => ({ value })), late])
    const result = answer && asResult(answer.value)
    return result?.ok ? { value: result.value } : undefined
  } catch {
    // Retries, backoff and records of failures are the driver's.
    return undefined
  } finally {
    stop.abort(CALL_OVER)
  }
}
