/**
 * One step of a command as data: what the step knows (`Seen`), the changes it makes, and what follows (`AfterStep`). The changes of
 * successive steps add up to one `Write`. Pure.
 */
import type { ApprovalRequest, StoredApproval } from '#domains/approvals'
import type { Actor } from '#kernel/actor'
import type { Random } from '#kernel/clock'
import type { ErrorClass } from '#kernel/error-classes'
import { KernelFault } from '#kernel/errors'
import { decideMove } from '#kernel/machine'
import { commandMachine, type CommandState, effectMachine, type EffectState } from '#kernel/machines/command'
import type { CallToCover, EnvelopeAnswer } from '#kernel/policy/envelope'
import type { Decision } from '#kernel/refusal'
import type { Catalog } from './catalog/open-catalog.ts'
import type {
  AwaitedRow,
  CommandContext,
  CommandPatch,
  CommandWithEffects,
  EffectPatch,
  ParentFact,
  StoredCommand,
  StoredEffect,
} from './command-table.ts'
import type { CommandEventType } from './events.ts'
import type { EffectTries } from './plan.ts'
import { isFreed } from './standing.ts'
import type { AttemptFailure, CallResult } from './tasks.ts'

type Payload = Readonly<Record<string, unknown>>
export type Who = Pick<Actor, 'id' | 'kind'>

/** The actors of decisions that Concord makes itself. */
export const systemActor = { id: 'system', kind: 'system' } as const
export const workerActor = { id: 'worker', kind: 'worker' } as const

export type NewEffect = Omit<StoredEffect, 'error' | 'error_class' | 'run_after' | 'read_back' | 'created_at'>
type Target = { readonly type: string; readonly id: string }

export type Change =
  | {
      readonly t: 'move'
      readonly to: CommandState
      readonly by: Who
      readonly payload: Payload
      /** Payloads of single events that the move emits, by type. The others get `payload`. */
      readonly payloads: Readonly<Partial<Record<string, Payload>>>
    }
  | { readonly t: 'set'; readonly patch: CommandPatch }
  | {
      readonly t: 'event'
      readonly type: CommandEventType
      readonly by: Who
      readonly payload: Payload
      readonly about?: Target
    }
  | { readonly t: 'plan'; readonly effect: NewEffect; readonly by: Who }
  | {
      readonly t: 'effect'
      readonly id: string
      /** Omitted: the state stays, and no event is written. */
      readonly to?: EffectState
      readonly by: Who
      readonly set: EffectPatch
      readonly payload?: Payload
    }
  /** No move, but the row must still have the status in which it was read. */
  | { readonly t: 'stay' }
  /** The turn ends with this write. The command is due again at the time. */
  | { readonly t: 'release_turn'; readonly until: Date | null }

export const move = (to: CommandState, by: Who, payload: Payload = {}, payloads = {}): Change => ({
  t: 'move',
  to,
  by,
  payload,
  payloads,
})
export const set = (patch: CommandPatch): Change => ({ t: 'set', patch })
export const emitEvent = (type: CommandEventType, by: Who, payload: Payload, about?: Target): Change =>
  about ? { t: 'event', type, by, payload, about } : { t: 'event', type, by, payload }
export const planEffect = (effect: NewEffect, by: Who): Change => ({ t: 'plan', effect, by })
export const stay: Change = { t: 'stay' }
export const releaseTurn = (until: Date | null): Change => ({ t: 'release_turn', until })
export const aboutEffect = ({ domain_effect_id }: Pick<StoredEffect, 'domain_effect_id'>): Target => ({
  type: 'effect',
  id: domain_effect_id,
})

type EffectFields = 'domain_effect_id' | 'effect_type' | 'effect_payload' | 'idempotency_key' | 'declaration_order'

/** Fields that are not given have the value of a planned effect that has no undo and is tried once. */
export function newEffect(given: Pick<NewEffect, EffectFields> & Partial<NewEffect>): NewEffect {
  return {
    status: 'planned',
    executed_by_runtime_workflow_id: null,
    result: null,
    compensates_effect_id: null,
    declared_compensation: null,
    attempt: 0,
    max_attempts: 1,
    turn_token: null,
    reversibility: 'irreversible',
    completed_at: null,
    ...given,
  }
}

/** Held: the row must have the turn's token, and the write renews the lease. Free: the row must have no turn. Any: only the status is checked. */
type Hold = { readonly held: string; readonly leaseMs?: number } | 'free' | 'any'

export type WriteEvent = {
  readonly event_type: CommandEventType
  readonly payload: Payload
  readonly actor: string
}

type EffectMove = {
  readonly domain_effect_id: string
  readonly from_status: EffectState
  readonly status: EffectState
  readonly set: EffectPatch
}

export type Write = {
  readonly command: StoredCommand
  readonly hold: Hold
  readonly from: CommandState | null
  readonly to: CommandState | null
  readonly releases: boolean
  readonly at: Date
  readonly set: CommandPatch
  readonly newEffects: readonly NewEffect[]
  readonly effectMoves: readonly EffectMove[]
  readonly events: readonly WriteEvent[]
  /** Set if the write begins an effect: it changes nothing if this person may no longer act. */
  readonly requester?: string | undefined
  /** Set if the write begins an effect for an agent: it changes nothing if a stop covers the agent. */
  readonly isOfAgent?: boolean | undefined
}

/** An unfinished write: the rows as they will be, and the write that makes them so. */
export type Draft = { readonly now: CommandWithEffects; readonly write: Write }

export function openDraft({ command, effects }: CommandWithEffects, hold: Hold, at: Date): Draft {
  const write = {
    command,
    hold,
    from: null,
    to: null,
    releases: false,
    at,
    set: {},
    newEffects: [],
    effectMoves: [],
    events: [],
  }
  return { now: { command, effects }, write }
}

export function isEmpty({ from, set: patch, newEffects, effectMoves, events }: Write): boolean {
  const isUntouched = from === null && newEffects.length + effectMoves.length + events.length === 0
  return isUntouched && Object.keys(patch).length === 0
}

/** The write of a single decision. */
export function composeWrite(found: CommandWithEffects, hold: Hold, changes: readonly Change[], at: Date): Write {
  return applyChanges(openDraft(found, hold, at), changes, at).write
}

/** Throws on an illegal move: it is a fault of the code that decided it. */
export function applyChanges(draft: Draft, changes: readonly Change[], at: Date): Draft {
  if (changes.length === 0) return draft
  const { command: read } = draft.write
  let { from, to, releases, set: patch } = draft.write
  let { command, effects } = draft.now
  const newEffects = [...draft.write.newEffects]
  const effectMoves = [...draft.write.effectMoves]
  const events = [...draft.write.events]
  const target = { type: 'command', id: read.command_id }

  function record(type: CommandEventType, by: Who, payload: Payload, about: Target) {
    if (by.id.trim() === '') throw new KernelFault('commands.event.invalid', `${type} has no actor`)
    events.push({
      event_type: type,
      payload: { ...payload, target_type: about.type, target_id: about.id },
      actor: by.id,
    })
  }
  function put(more: Write['set']) {
    patch = { ...patch, ...more }
    command = { ...command, ...more }
  }

  for (const change of changes) {
    switch (change.t) {
      case 'move': {
        const { status } = command
        const decision = decideMove(commandMachine, status, change.to, change.by.kind, command)
        if (!decision.ok)
          throw new KernelFault('commands.move.illegal', decision.reason, { command_id: read.command_id })
        for (const type of decision.value.emits)
          record(type, change.by, { ...(change.payloads[type] ?? change.payload), from: status, to: change.to }, target)
        from = read.status
        to = change.to
        command = { ...command, status: change.to }
        const completedAt = endStamp(change.to, at)
        if (completedAt !== undefined) put({ completed_at: completedAt })
        break
      }
      case 'set':
        put(change.patch)
        break
      case 'event':
        record(change.type, change.by, change.payload, change.about ?? target)
        break
      case 'plan':
        newEffects.push(change.effect)
        effects = [...effects, asStored(change.effect, at)]
        record('effect_planned', change.by, planned(change.effect), aboutEffect(change.effect))
        break
      case 'effect': {
        const effect = effects.find(({ domain_effect_id }) => domain_effect_id === change.id)
        if (!effect) throw new KernelFault('commands.effect.unknown', 'a change names an effect that is not there')
        const moved = moveEffect(effect, change, at)
        effects = effects.map((each) => (each === effect ? { ...effect, ...moved.set, status: moved.status } : each))
        const index = newEffects.findIndex(({ domain_effect_id }) => domain_effect_id === change.id)
        const known = newEffects[index]
        // An effect that this write also plans is one new row.
        if (known) newEffects[index] = { ...known, ...asNew(moved.set), status: moved.status }
        else addMove(effectMoves, moved)
        const about = { ...change.payload, effect_type: effect.effect_type, from: effect.status, to: moved.status }
        for (const type of moved.emits) record(type, change.by, about, aboutEffect(effect))
        break
      }
      case 'stay':
        from = read.status
        break
      case 'release_turn':
        from = read.status
        releases = true
        put({ run_after: change.until })
        break
    }
  }
  const { contract_key } = command
  // Decided with the effects as they are after all changes: the key is free in the commit that ends the command.
  if (to !== null && contract_key !== null && isFreed({ command, effects })) {
    put({ contract_key: null })
    record('contract_key_changed', systemActor, { from: contract_key, to: null, reason: 'nothing_stands' }, target)
  }
  const write = { ...draft.write, from, to, releases, at, set: patch, newEffects, effectMoves, events }
  return { now: { command, effects }, write }
}

function endStamp(to: CommandState, at: Date): Date | null | undefined {
  const has = (stamps: readonly { readonly on: readonly string[] }[] | undefined) =>
    stamps?.some(({ on }) => on.includes(to)) ?? false
  if (has(commandMachine.stamps)) return at
  return has(commandMachine.clears) ? null : undefined
}

function planned(effect: NewEffect): Payload {
  const { effect_type, idempotency_key, declaration_order, declared_compensation, compensates_effect_id } = effect
  return { effect_type, idempotency_key, declaration_order, declared_compensation, compensates_effect_id }
}

function moveEffect(effect: StoredEffect, { to, by, set: patch }: Extract<Change, { t: 'effect' }>, at: Date) {
  const status = to ?? effect.status
  const decision = to === undefined ? undefined : decideMove(effectMachine, effect.status, to, by.kind)
  if (decision && !decision.ok)
    throw new KernelFault('commands.move.illegal', decision.reason, { domain_effect_id: effect.domain_effect_id })
  const isEnd = to === 'succeeded' || to === 'failed'
  return {
    domain_effect_id: effect.domain_effect_id,
    from_status: effect.status,
    status,
    set: { ...patch, ...(isEnd ? { completed_at: at } : {}) },
    emits: decision?.ok ? decision.value.emits : [],
  }
}

/** Merges two changes of one effect into one change of its row. */
function addMove(moves: EffectMove[], { emits: _emits, ...moved }: ReturnType<typeof moveEffect>): void {
  const index = moves.findIndex(({ domain_effect_id }) => domain_effect_id === moved.domain_effect_id)
  const first = moves[index]
  if (first) moves[index] = { ...first, status: moved.status, set: { ...first.set, ...moved.set } }
  else moves.push(moved)
}

/** The insert has no columns for what only a failed or an unsettled attempt leaves. */
function asNew({ error, error_class, run_after, read_back, ...rest }: EffectMove['set']): Partial<NewEffect> {
  if ([error, error_class, run_after, read_back].some((value) => value !== undefined && value !== null))
    throw new KernelFault('commands.effect.unknown', 'an effect that is being planned has no failed attempt')
  return rest
}

function asStored(effect: NewEffect, at: Date): StoredEffect {
  return { ...effect, error: null, error_class: null, run_after: null, read_back: null, created_at: at }
}

/** The effects after the write, without reading them again. */
export function applyWrite(
  effects: readonly StoredEffect[],
  { effectMoves, newEffects, at }: Write,
): readonly StoredEffect[] {
  const changed = effects.map((effect) => {
    const moved = effectMoves.find(({ domain_effect_id }) => domain_effect_id === effect.domain_effect_id)
    return moved ? { ...effect, ...moved.set, status: moved.status } : effect
  })
  return [...changed, ...newEffects.map((effect) => asStored(effect, at))]
}

/** Why an effect is looked up at its provider: an attempt failed, its driver died, or the process it waits for may have ended. */
export type LookUp = { readonly why: 'failed' | 'cut' | 'process'; readonly cause: AttemptFailure }

/** The outcome of the call or look-up that this turn has just made. */
export type CallOutcome = {
  readonly effectId: string
  /** The attempt that made the call. A later one may have replaced it. */
  readonly attempt: number
  readonly lookUp?: LookUp
  readonly result: CallResult
}

/** Everything that a step knows in addition to the rows of the command. */
export type Seen = {
  readonly catalog: Catalog
  readonly random: Random
  /** The turn that drives the step. Null: the request itself does. */
  readonly turn: { readonly token: string; readonly name: string } | null
  readonly hasParents: boolean
  readonly outcome?: CallOutcome
  /** Set when the unique index has refused the key of an effect. */
  readonly tries?: EffectTries | undefined
  readonly facts?: Readonly<Record<string, unknown>>
  /** Of the request, with the present rights of the requester. Loaded with the facts. */
  readonly context?: CommandContext
  readonly parents?: readonly ParentFact[]
  readonly approved?: Decision<readonly StoredApproval[]>
  readonly awaited?: { readonly commandId: string; readonly row: AwaitedRow | undefined }
  /** The stop that covers the agent of the command; null: none does. */
  readonly stop?: { readonly stop_id: string } | null
  /** What the envelope of the run says about the command; null: there is none. */
  readonly envelope?: EnvelopeAnswer | null
}

type Need = 'facts' | 'parents' | 'approved' | 'stop'

export type AfterStep =
  /** Take the next step at once, in memory. */
  | { readonly t: 'proceed' }
  /** The step needs this first and changes nothing before. */
  | { readonly t: 'need'; readonly what: Need }
  | { readonly t: 'need'; readonly what: 'awaited'; readonly commandId: string }
  | {
      readonly t: 'need'
      readonly what: 'envelope'
      readonly call: CallToCover
      readonly requests: readonly ApprovalRequest[]
    }
  | { readonly t: 'call'; readonly effectId: string }
  | { readonly t: 'look_up'; readonly effectId: string; readonly lookUp: LookUp }
  /** `gates` replace earlier requests; `outcome` adds one. */
  | { readonly t: 'ask'; readonly what: 'gates' | 'outcome'; readonly requests: readonly ApprovalRequest[] }
  /** Records the wait for another command. That command may already have ended, so it is read after the commit. */
  | { readonly t: 'follow'; readonly commandId: string }
  | { readonly t: 'wait'; readonly until: Date | null; readonly isTaskGone?: true }
  | { readonly t: 'end' }

export type Step = { readonly changes: readonly Change[]; readonly next: AfterStep }

/** The error of a command that waits, `blocked`, because a stop covers its agent. */
export const STOPPED = 'A stop of agents is in force.'

export const proceed: AfterStep = { t: 'proceed' }

export const need = (what: Need): Step => ({ changes: [], next: { t: 'need', what } })

/** Waits until the time, or until a wake. */
export const rest = (until: Date | null, ...changes: readonly Change[]): Step => ({
  changes: [...changes, releaseTurn(until)],
  next: { t: 'wait', until },
})

export function fail(errorClass: ErrorClass, error: string, ...before: readonly Change[]): Step {
  const why = { error_class: errorClass, error }
  return { changes: [...before, set(why), move('failed', systemActor, why), releaseTurn(null)], next: { t: 'end' } }
}
