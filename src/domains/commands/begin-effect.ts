/** Begins an attempt at an effect: nothing begins unless the command is still in the state that allows it, asked by the very statement that begins. */
import type { CommandState } from '#kernel/machines/command'
import type { EffectCall } from './catalog/effect-definition.ts'
import type { StoredEffect } from './command-row.ts'
import { openEffectPen, withoutArtifacts } from './effect-artifacts.ts'
import type { NewEffect, WriteDraft } from './draft-write.ts'
import { commitTurn, draftOf, type Turn } from './turn.ts'
import { byWorker } from './deps.ts'

/** Adds the beginning of an effect's first attempt to the write that plans it. */
export function beginPlannedInto(draft: WriteDraft, turn: Turn, effect: NewEffect): void {
  const set = {
    attempt: effect.attempt + 1,
    turn_token: turn.token,
    executed_by_runtime_workflow_id: `command:${turn.command.command_id}`,
  }
  const payload = { attempt: set.attempt, max_attempts: effect.max_attempts, idempotency_key: effect.idempotency_key }
  draft.beginPlanned(effect, byWorker, set, payload)
}

/** Adds the beginning of an attempt to what is about to be written; `requires` is asked by the statement itself. */
export function beginInto(draft: WriteDraft, turn: Turn, effect: StoredEffect, requires: CommandState): void {
  // Found executing with no repeat due: an earlier attempt may have done it, and stays in doubt until somebody can tell.
  const isCut = effect.status === 'executing' && effect.run_after === null
  const set = {
    ...(isCut ? { read_back: { outcome: 'unknown' } } : {}),
    attempt: effect.attempt + 1,
    run_after: null,
    turn_token: turn.token,
    executed_by_runtime_workflow_id: turn.command.runtime_workflow_id ?? turn.runtimeWorkflowId,
  }
  const payload = { attempt: set.attempt, max_attempts: effect.max_attempts, idempotency_key: effect.idempotency_key }
  if (effect.status === 'planned') draft.moveEffect(effect, 'executing', byWorker, set, { payload, requires })
  else draft.setEffect(effect, set, requires)
}

/** True: this turn has begun the attempt and may call. */
export async function begin(
  turn: Turn,
  effect: StoredEffect,
  requires: CommandState,
  draft: WriteDraft = draftOf(turn),
): Promise<boolean> {
  beginInto(draft, turn, effect, requires)
  const before = effect.attempt
  if (!(await commitTurn(turn, draft.done()))) return false
  const now = turn.effects.find((each) => each.domain_effect_id === effect.domain_effect_id)
  const isBegun = now !== undefined && now.attempt === before + 1 && now.status === 'executing'
  if (isBegun) markBegun(turn, effect.domain_effect_id)
  return isBegun
}

/** From here on this turn may call it, and whoever finds it later must ask what became of it. */
export function markBegun(turn: Turn, effectId: string): void {
  turn.begun.add(effectId)
}

export function callOf(
  turn: Turn,
  effect: StoredEffect,
  signal: AbortSignal,
  emit: (name: string) => void,
): EffectCall {
  const { command, deps } = turn
  const opened = deps.artifacts && openEffectPen(deps.artifacts, command, effect)
  if (opened) turn.pens.set(effect.domain_effect_id, opened.writer)
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
    artifacts: opened?.artifacts ?? withoutArtifacts('this process has no store of artifacts'),
  }
}
