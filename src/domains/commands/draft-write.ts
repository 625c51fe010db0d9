/**
 * Puts together what one step writes about a command: moves along the machine, changed fields, effects and events, in the order
 * in which they are told. Nothing here touches the database; an illegal move is a fault of the step that asked for it.
 */
import { KernelFault } from '#kernel/errors'
import type { NewId } from '#kernel/clock'
import { decideMove } from '#kernel/machine'
import type { ConcordActor } from '#kernel/machines/actors'
import { type CommandState, commandMachine } from '#kernel/machines/command'
import { effectMachine, type EffectState } from '#kernel/machines/effect'
import type { CommandPatch, EffectPatch, StoredCommand, StoredEffect } from './command-row.ts'
import { type CommandEventType, commandEventPurposes, commandLog } from './events.ts'

export type Payload = Readonly<Record<string, unknown>>
export type Who = { readonly actor: string; readonly kind: ConcordActor }
export type NewEffect = Omit<StoredEffect, 'error' | 'error_class' | 'run_after' | 'read_back' | 'created_at'>

/**
 * Held: the turn's token must stand on the row, and the turn has its whole time again from this write on: what it calls right after it is
 * called within that time. Free: nobody may have a turn. Any: the status alone decides.
 */
export type Hold = { readonly held: string; readonly leaseMs?: number } | 'free' | 'any'

export type WriteEvent = {
  readonly event_id: string
  readonly purpose: string
  readonly event_type: CommandEventType
  readonly payload: Payload
  readonly actor: string
  readonly trace_id: string
  readonly with_effect: string | null
}

export type EffectMove = {
  readonly domain_effect_id: string
  readonly from_status: EffectState
  readonly status: EffectState
  readonly requires_status: CommandState | null
  readonly set: EffectPatch & { readonly completed_at?: Date }
}

export type BeginSet = Pick<StoredEffect, 'attempt' | 'turn_token' | 'executed_by_runtime_workflow_id'>

export type Taking = { readonly token: string; readonly leaseMs: number }

export type Write = {
  readonly command: StoredCommand
  readonly hold: Hold
  readonly from: CommandState | null
  readonly to: CommandState | null
  readonly releases: boolean
  /** The turn that begins with this write, unless another one is alive on the row. */
  readonly takes: Taking | null
  readonly at: Date
  readonly set: CommandPatch & { readonly completed_at?: Date | null }
  readonly newEffects: readonly NewEffect[]
  readonly effectMoves: readonly EffectMove[]
  readonly events: readonly WriteEvent[]
}

export type WriteDraft = {
  /** Where the draft's moves have brought the command. */
  readonly status: CommandState
  /** Nothing has been told: there is nothing to write. */
  readonly isEmpty: boolean
  /** That is an end. */
  readonly isEnd: boolean
  move(to: CommandState, by: Who, payload?: Payload | ((type: string) => Payload)): WriteDraft
  /** No move, but the row must still be in the state it was read in. */
  stay(): WriteDraft
  set(patch: CommandPatch): WriteDraft
  tell(
    type: CommandEventType,
    by: Who,
    payload: Payload,
    about?: { readonly type: string; readonly id: string },
  ): WriteDraft
  plan(effect: NewEffect, by: Who): WriteDraft
  /** Begins an effect that this very write plans: one row, and the same events as if it had been planned before. */
  beginPlanned(effect: NewEffect, by: Who, set: BeginSet, payload: Payload): WriteDraft
  /** An effect that was planned, begun and done before this very write: one row, the same three events. */
  planDone(effect: NewEffect, by: Who): WriteDraft
  /** `requires` makes the change, and its event, depend on the command's status at that very moment. */
  moveEffect(
    effect: StoredEffect,
    to: EffectState,
    by: Who,
    set: EffectPatch,
    more?: { payload?: Payload; requires?: CommandState },
  ): WriteDraft
  /** Changes an effect that stays where it is. */
  setEffect(effect: StoredEffect, set: EffectPatch, requires?: CommandState): WriteDraft
  release(runAfter: Date | null): WriteDraft
  /** Takes the turn with this write; the row that comes back says whether it did. */
  take(turn: Taking): WriteDraft
  done(): Write
}

export function draftWrite(
  command: StoredCommand,
  hold: Hold,
  deps: { readonly at: Date; readonly newId: NewId },
): WriteDraft {
  const { at, newId } = deps
  const events: WriteEvent[] = []
  const newEffects: NewEffect[] = []
  const effectMoves: EffectMove[] = []
  let status = command.status
  let [moved, stays, releases] = [false, false, false]
  let patch: Write['set'] = {}
  let takes: Taking | null = null

  function tell(
    type: CommandEventType,
    by: Who,
    payload: Payload,
    target: { type: string; id: string },
    withEffect: string | null = null,
  ): void {
    events.push({
      event_id: newId(),
      purpose: commandEventPurposes[type],
      event_type: type,
      payload: { ...payload, target_type: target.type, target_id: target.id },
      actor: by.actor,
      trace_id: command.context.trace_id,
      with_effect: withEffect,
    })
    if (!commandLog.types.includes(type) || by.actor.trim() === '')
      throw new KernelFault('commands.event.invalid', `${type} cannot be told`)
  }
  const target = { type: 'command', id: command.command_id }

  const draft: WriteDraft = {
    get status() {
      return status
    },
    get isEmpty() {
      return events.length === 0
    },
    get isEnd() {
      return patch.completed_at instanceof Date
    },
    move(to, by, payload = {}) {
      const decision = decideMove(commandMachine, status, to, by.kind, { ...command, ...patch })
      if (!decision.ok)
        throw new KernelFault('commands.move.illegal', decision.reason, { command_id: command.command_id })
      for (const type of decision.value.emits) {
        tell(type, by, { ...(typeof payload === 'function' ? payload(type) : payload), from: status, to }, target)
      }
      status = to
      moved = true
      if (commandMachine.stamps?.some(({ on }) => (on as readonly string[]).includes(to)))
        patch = { ...patch, completed_at: at }
      else if (commandMachine.clears?.some(({ on }) => (on as readonly string[]).includes(to)))
        patch = { ...patch, completed_at: null }
      return draft
    },
    stay() {
      stays = true
      return draft
    },
    set(more) {
      patch = { ...patch, ...more }
      return draft
    },
    tell(type, by, payload, about = target) {
      tell(type, by, payload, about)
      return draft
    },
    plan(effect, by) {
      newEffects.push(effect)
      const {
        domain_effect_id: id,
        effect_type,
        idempotency_key,
        declaration_order,
        declared_compensation,
        compensates_effect_id,
      } = effect
      const told = { effect_type, idempotency_key, declaration_order, declared_compensation, compensates_effect_id }
      tell('effect_planned', by, told, { type: 'effect', id })
      return draft
    },
    beginPlanned(effect, by, set, payload) {
      const { domain_effect_id: id, effect_type, status: from } = effect
      const decision = decideMove(effectMachine, from, 'executing', by.kind)
      const at = newEffects.findIndex((each) => each.domain_effect_id === id)
      if (!decision.ok || at < 0)
        throw new KernelFault('commands.move.illegal', 'only what is planned here can begin here')
      newEffects[at] = { ...effect, ...set, status: 'executing' }
      const told = { ...payload, effect_type, from, to: 'executing' }
      for (const type of decision.value.emits) tell(type, by, told, { type: 'effect', id })
      return draft
    },
    planDone(effect, by) {
      draft.plan(effect, by)
      const { domain_effect_id: id, effect_type, idempotency_key, attempt, max_attempts, result } = effect
      const told = { effect_type, attempt, max_attempts, idempotency_key }
      tell('status_changed', by, { ...told, from: 'planned', to: 'executing' }, { type: 'effect', id })
      tell('effect_executed', by, { ...told, result, from: 'executing', to: 'succeeded' }, { type: 'effect', id })
      return draft
    },
    moveEffect(effect, to, by, set, { payload = {}, requires } = {}) {
      const decision = decideMove(effectMachine, effect.status, to, by.kind)
      if (!decision.ok)
        throw new KernelFault('commands.move.illegal', decision.reason, { domain_effect_id: effect.domain_effect_id })
      const { domain_effect_id: id, status: from } = effect
      const isEnd = to === 'succeeded' || to === 'failed'
      effectMoves.push({
        domain_effect_id: id,
        from_status: from,
        status: to,
        requires_status: requires ?? null,
        set: { ...set, ...(isEnd ? { completed_at: at } : {}) },
      })
      const told = { ...payload, effect_type: effect.effect_type, from, to }
      for (const type of decision.value.emits)
        tell(type, by, told, { type: 'effect', id }, requires === undefined ? null : id)
      return draft
    },
    setEffect(effect, set, requires) {
      const { domain_effect_id, status: same } = effect
      effectMoves.push({ domain_effect_id, from_status: same, status: same, requires_status: requires ?? null, set })
      return draft
    },
    release(runAfter) {
      releases = true
      patch = { ...patch, run_after: runAfter }
      return draft
    },
    take({ token, leaseMs }) {
      takes = { token, leaseMs }
      return draft
    },
    done: () => ({
      command,
      hold,
      from: moved || stays ? command.status : null,
      to: moved ? status : null,
      releases,
      takes,
      at,
      set: patch,
      newEffects,
      effectMoves,
      events,
    }),
  }
  return draft
}
