/** A running command: its effects one after the other, and its end. */
import { KernelFault } from '#kernel/errors'
import { failpoint } from '#store'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { byWorker } from './deps.ts'
import type { StoredEffect } from './command-row.ts'
import { findHandler } from './effect-handler.ts'
import { decideInDoubt } from './decide-outcome.ts'
import { begin, beginInto, markBegun } from './begin-effect.ts'
import { callAndRecord } from './execute-effect.ts'
import { lookUp, recordFailed } from './settle-attempt.ts'
import type { WriteDraft } from './draft-write.ts'
import { nextStep } from './next-step.ts'
import { type EffectEnd, recordUnknown } from './record-outcome.ts'
import { endFailed, type StepEnd } from './end-failed.ts'
import { taskOf } from './task-of.ts'
import { commitTurn, draftOf, type Turn } from './turn.ts'

export async function stepRunning(turn: Turn): Promise<StepEnd> {
  const next = nextStep(turn, turn.deps.now())
  switch (next.t) {
    case 'finished':
      return finish(turn, next.results)
    case 'torn':
      // Nothing is lost by asking again: the turn fails, comes back with a fresh look at the rows, and in the end is stuck for all to see.
      throw new KernelFault('commands.plan.torn', `not every step is settled: ${next.steps.join(', ')}`, {
        command_id: turn.command.command_id,
      })
    case 'failed':
      return endFailed(
        turn,
        draftOf(turn),
        next.effect.error_class ?? 'internal_error',
        next.effect.error ?? 'an effect failed',
      )
    case 'wait':
      return release(turn, next.until)
    case 'begin':
    case 'again':
      await begin(turn, next.effect, 'running')
      return undefined
    case 'in_doubt':
      return endOf(turn, await continueEffect(turn, next.effect))
  }
}

/** Begun by this turn: call it. Left behind by another: find out first. */
export async function continueEffect(turn: Turn, effect: StoredEffect): Promise<EffectEnd> {
  const handler = findHandler(turn.deps.catalog, turn, effect)
  if (!handler) {
    return recordUnknown(turn, effect, {
      errorClass: 'internal_error',
      message: `nothing here carries out ${effect.effect_type}`,
      happened: 'unknown',
    })
  }
  if (turn.begun.has(effect.domain_effect_id)) {
    turn.begun.delete(effect.domain_effect_id)
    const ended = await callAndRecord(turn, effect, handler, (draft, done) => goOnInto(draft, turn, done))
    markNext(turn, effect)
    return ended
  }
  const cut = {
    errorClass: 'internal_error' as const,
    message: 'the driver ended during the call',
    happened: 'unknown' as const,
  }
  switch (decideInDoubt(handler.class, effect.attempt, effect.max_attempts)) {
    case 'repeat':
      // Whatever the command is doing now: this deed had begun, and its outcome must be known.
      await begin(turn, effect, turn.command.status)
      return { t: 'on' }
    case 'look_up':
      return lookUp(turn, effect, handler, { ...cut, errorClass: 'transient_connector_error' }, true)
    case 'fail':
      return recordFailed(turn, effect, cut, [])
    case 'ask_person':
      return recordUnknown(turn, effect, cut)
  }
}

/** The outcome of one effect, and the beginning of the next or the end of the command, in one commit. */
function goOnInto(draft: WriteDraft, turn: Turn, done: StoredEffect): void {
  const effects = turn.effects.map((each) => (each.domain_effect_id === done.domain_effect_id ? done : each))
  const next =
    done.compensates_effect_id === null ? nextStep({ command: turn.command, effects }, turn.deps.now()) : undefined
  if (next?.t === 'begin') beginInto(draft, turn, next.effect, 'running')
  if (next?.t !== 'finished' || turn.command.status !== 'running') return
  const result = resultOf(turn, next.results)
  if (result.ok) finishInto(draft, result.value)
}

/**
 * What the shared commit has really begun; a cancel in between leaves it planned. Never the one that was just called: where its record
 * did not get through, its row looks like a fresh beginning, and it would be called a second time.
 */
function markNext(turn: Turn, called: StoredEffect): void {
  for (const effect of turn.effects) {
    const isOurs =
      effect.domain_effect_id !== called.domain_effect_id &&
      effect.status === 'executing' &&
      effect.turn_token === turn.token &&
      effect.run_after === null &&
      effect.attempt === 1
    if (isOurs && effect.read_back === null && effect.error === null) markBegun(turn, effect.domain_effect_id)
  }
}

export async function endOf(turn: Turn, ended: EffectEnd): Promise<StepEnd> {
  switch (ended.t) {
    case 'on':
    case 'lost':
      return undefined
    case 'wait':
      return release(turn, ended.until)
    case 'person':
      return { t: 'wait', until: null }
    case 'ended':
      return { t: 'done' }
  }
}

export async function release(turn: Turn, until: Date | null): Promise<StepEnd> {
  const write = draftOf(turn).stay().release(until).done()
  return (await commitTurn(turn, write)) ? { t: 'wait', until } : undefined
}

async function finish(turn: Turn, results: readonly unknown[]): Promise<StepEnd> {
  const result = resultOf(turn, results)
  if (!result.ok) return endFailed(turn, draftOf(turn), 'internal_error', result.reason)
  const draft = draftOf(turn)
  finishInto(draft, result.value)
  await failpoint('commands.finishing')
  const isWritten = await commitTurn(turn, draft.done())
  await failpoint('commands.finished')
  return isWritten ? { t: 'done' } : undefined
}

function finishInto(draft: WriteDraft, result: unknown): void {
  draft.set({ result, error: null, error_class: null }).move('succeeded', byWorker).release(null)
}

/** A function that cannot say what came of it is a fault of that function: what was done stays done and is on record. */
function resultOf(turn: Turn, results: readonly unknown[]): Decision<unknown> {
  const task = taskOf(turn)
  try {
    return accept(task?.fn.result ? task.fn.result(results) : (results.at(-1) ?? {}))
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown'
    return refuse('commands.plan.invalid', `the function ${task?.fn.name ?? ''} could not give its result: ${why}`)
  }
}
