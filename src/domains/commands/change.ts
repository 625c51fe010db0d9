/** What is decided about a command, as data: a list of changes, and the one write that they make together. Pure. */
import type { Actor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { decideMove } from '#kernel/machine'
import { commandMachine, type CommandState, effectMachine, type EffectState } from '#kernel/machines/command'
import type { CommandPatch, CommandWithEffects, EffectPatch, StoredCommand, StoredEffect } from './command-table.ts'
import type { CommandEventType } from './events.ts'

export type Payload = Readonly<Record<string, unknown>>
export type Who = Pick<Actor, 'id' | 'kind'>

/** The actors of decisions that no person makes. */
export const bySystem = { id: 'system', kind: 'system' } as const
export const byWorker = { id: 'worker', kind: 'worker' } as const

export type NewEffect = Omit<StoredEffect, 'error' | 'error_class' | 'run_after' | 'read_back' | 'created_at'>
type Target = { readonly type: string; readonly id: string }

export type Change =
  | {
      readonly t: 'move'
      readonly to: CommandState
      readonly by: Who
      readonly payload: Payload
      /** Payloads of single events that the move tells, by type; the others bear `payload`. */
      readonly payloads: Readonly<Partial<Record<string, Payload>>>
    }
  | { readonly t: 'set'; readonly patch: CommandPatch }
  | {
      readonly t: 'tell'
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
      /** The change and its event depend on the command's status at the very moment of the write. */
      readonly requires?: CommandState
    }
  /** No move, but the row must still be in the state in which it was read. */
  | { readonly t: 'stay' }
  /** The turn ends with this write; the command is due again at the time. */
  | { readonly t: 'release'; readonly until: Date | null }

export const move = (to: CommandState, by: Who, payload: Payload = {}, payloads = {}): Change => ({
  t: 'move',
  to,
  by,
  payload,
  payloads,
})
export const set = (patch: CommandPatch): Change => ({ t: 'set', patch })
export const tell = (type: CommandEventType, by: Who, payload: Payload, about?: Target): Change =>
  about ? { t: 'tell', type, by, payload, about } : { t: 'tell', type, by, payload }
export const plan = (effect: NewEffect, by: Who): Change => ({ t: 'plan', effect, by })
export const stay: Change = { t: 'stay' }
export const release = (until: Date | null): Change => ({ t: 'release', until })
export const aboutEffect = ({ domain_effect_id }: Pick<StoredEffect, 'domain_effect_id'>): Target => ({
  type: 'effect',
  id: domain_effect_id,
})

/**
 * Held: the turn's token must stand on the row, and this write renews the lease. Free: no turn may stand on the row. Any: the status alone
 * decides.
 */
export type Hold = { readonly held: string; readonly leaseMs?: number } | 'free' | 'any'

type WriteEvent = {
  readonly event_id: string
  readonly event_type: CommandEventType
  readonly payload: Payload
  readonly actor: string
  readonly trace_id: string
  /** Written only if this effect was changed. */
  readonly with_effect: string | null
}

type EffectMove = {
  readonly domain_effect_id: string
  readonly from_status: EffectState
  readonly status: EffectState
  readonly requires_status: CommandState | null
  readonly set: EffectPatch & { readonly completed_at?: Date }
}

export type Write = {
  readonly command: StoredCommand
  readonly hold: Hold
  readonly from: CommandState | null
  readonly to: CommandState | null
  readonly releases: boolean
  readonly at: Date
  readonly set: CommandPatch & { readonly completed_at?: Date | null }
  readonly newEffects: readonly NewEffect[]
  readonly effectMoves: readonly EffectMove[]
  readonly events: readonly WriteEvent[]
}

/** A write in the making: the rows as they will be, and what is written to make them so. */
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

/** For a single decision: the write of these changes. */
export function composeWrite(
  found: CommandWithEffects,
  hold: Hold,
  changes: readonly Change[],
  at: Date,
  newId: NewId,
): Write {
  return applyChanges(openDraft(found, hold, at), changes, at, newId).write
}

/** An illegal move is a fault of the code that asked for it. */
export function applyChanges(draft: Draft, changes: readonly Change[], at: Date, newId: NewId): Draft {
  if (changes.length === 0) return draft
  const { command: read } = draft.write
  let { from, to, releases, set: patch } = draft.write
  let { command, effects } = draft.now
  const newEffects = [...draft.write.newEffects]
  const effectMoves = [...draft.write.effectMoves]
  const events = [...draft.write.events]
  const target = { type: 'command', id: read.command_id }

  function record(type: CommandEventType, by: Who, payload: Payload, about: Target, withEffect: string | null = null) {
    if (by.id.trim() === '') throw new KernelFault('commands.event.invalid', `${type} has no actor`)
    events.push({
      event_id: newId(),
      event_type: type,
      payload: { ...payload, target_type: about.type, target_id: about.id },
      actor: by.id,
      trace_id: read.context.trace_id,
      with_effect: withEffect,
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
      case 'tell':
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
        const place = newEffects.findIndex(({ domain_effect_id }) => domain_effect_id === change.id)
        const known = newEffects[place]
        // An effect that this very write plans is one new row; the row of the command answers for `requires`.
        if (known) {
          newEffects[place] = { ...known, ...asNew(moved.set), status: moved.status }
          if (change.requires !== undefined) from = read.status
        } else addMove(effectMoves, moved)
        const told = { ...change.payload, effect_type: effect.effect_type, from: effect.status, to: moved.status }
        const withEffect = known || change.requires === undefined ? null : change.id
        for (const type of moved.emits) record(type, change.by, told, aboutEffect(effect), withEffect)
        break
      }
      case 'stay':
        from = read.status
        break
      case 'release':
        from = read.status
        releases = true
        put({ run_after: change.until })
        break
    }
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

function moveEffect(
  effect: StoredEffect,
  { to, by, set: patch, requires }: Extract<Change, { t: 'effect' }>,
  at: Date,
) {
  const status = to ?? effect.status
  const decision = to === undefined ? undefined : decideMove(effectMachine, effect.status, to, by.kind)
  if (decision && !decision.ok)
    throw new KernelFault('commands.move.illegal', decision.reason, { domain_effect_id: effect.domain_effect_id })
  const isEnd = to === 'succeeded' || to === 'failed'
  return {
    domain_effect_id: effect.domain_effect_id,
    from_status: effect.status,
    status,
    requires_status: requires ?? null,
    set: { ...patch, ...(isEnd ? { completed_at: at } : {}) },
    emits: decision?.ok ? decision.value.emits : [],
  }
}

/** Two changes of one effect are one change of its row. */
function addMove(moves: EffectMove[], { emits: _emits, ...moved }: ReturnType<typeof moveEffect>): void {
  const place = moves.findIndex(({ domain_effect_id }) => domain_effect_id === moved.domain_effect_id)
  const first = moves[place]
  if (first) moves[place] = { ...first, status: moved.status, set: { ...first.set, ...moved.set } }
  else moves.push(moved)
}

/** A new row has no columns for what only a failed or a doubtful attempt leaves. */
function asNew({ error, error_class, run_after, read_back, ...rest }: EffectMove['set']): Partial<NewEffect> {
  if ([error, error_class, run_after, read_back].some((value) => value !== undefined && value !== null))
    throw new KernelFault('commands.effect.unknown', 'an effect that is being planned has no failed attempt')
  return rest
}

function asStored(effect: NewEffect, at: Date): StoredEffect {
  return { ...effect, error: null, error_class: null, run_after: null, read_back: null, created_at: at }
}

/** The effects after the write, without reading them again; one whose condition did not hold is as it was. */
export function applyWrite(
  effects: readonly StoredEffect[],
  { effectMoves, newEffects, at }: Write,
  touched: ReadonlySet<string>,
): readonly StoredEffect[] {
  const changed = effects.map((effect) => {
    const moved = effectMoves.find(({ domain_effect_id }) => domain_effect_id === effect.domain_effect_id)
    return moved && touched.has(effect.domain_effect_id) ? { ...effect, ...moved.set, status: moved.status } : effect
  })
  return [...changed, ...newEffects.map((effect) => asStored(effect, at))]
}
