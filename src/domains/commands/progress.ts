/** Describes a command for people: the step it is at, what it waits for, what can happen next and who can do it. Pure. */
import { showActor } from '#domains/approvals'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { awaitedOf } from './advance.ts'
import { decideCancel } from './cancel-command.ts'
import type { Catalog } from './catalog/open-catalog.ts'
import { WAIT_FOR_SIGNAL } from './catalog/steps.ts'
import { decideRetryRun } from './change-command.ts'
import type { CommandWithEffects, StoredCommand, StoredEffect } from './command-table.ts'
import { type RunStanding, sayCall, sayStop } from './run-waits.ts'
import { sayAgain } from './standing.ts'
import { isWaiting, readBackOf, sayTaskGone, taskOf, REQUEST_INPUT } from './tasks.ts'
import { isInForce, type KeptWhy, planUndo, UNDO_TYPE, type UndoLink, type UndoPlan } from './undo-plan.ts'

type Progress = {
  /** The effect that is under way, or the next one. */
  readonly current_step: string | null
  readonly waiting_reason: string | null
}

export function describeProgress({ command, effects }: CommandWithEffects, standing?: RunStanding): Progress {
  if (command.completed_at !== null) return { current_step: null, waiting_reason: null }
  const open =
    effects.find(({ status }) => status === 'executing') ?? effects.find(({ status }) => status === 'planned')
  const reason = sayRunWait(command, standing) ?? waitingReason(command.status, effects, open)
  return { current_step: open?.effect_type ?? null, waiting_reason: reason }
}

const isRunOpen = ({ run }: RunStanding) => run !== null && run.end_reason === null

/** Undefined: it waits for neither the lift of a stop nor a call of its run. */
function sayRunWait({ status }: StoredCommand, standing: RunStanding | undefined): string | undefined {
  if (!standing || (status !== 'running' && status !== 'blocked')) return undefined
  if (standing.stop) return `the lift of ${sayStop(standing.stop)}`
  if (status !== 'blocked' || !isRunOpen(standing)) return undefined
  if (standing.calls.length === 0) return 'the run of its agent'
  const calls = standing.calls.map(
    (call) => `${sayCall(call)}${call.approver === null ? '' : ` by ${showActor(call.approver)}`}`,
  )
  return `an answer to its agent's call of ${calls.join(', ')}`
}

function waitingReason(
  status: string,
  effects: readonly StoredEffect[],
  open: StoredEffect | undefined,
): string | null {
  switch (status) {
    case 'waiting_for_input': {
      const asked = effects.findLast(({ effect_type }) => effect_type === REQUEST_INPUT)
      const fields = asked?.effect_payload['missing_fields']
      return Array.isArray(fields) && fields.length > 0 ? `input: ${fields.join(', ')}` : 'input'
    }
    case 'waiting_for_approval':
      return 'the decision of a person'
    case 'queued':
      return 'its turn, and the commands it depends on'
    case 'blocked':
      if (open && readBackOf(open).asked === true) return `a person who says whether ${open.effect_type} was done`
      return awaitedOf(effects) ? 'another command' : 'an operator who says whether it continues without its requester'
    default:
      return open ? sayWait(open) : null
  }
}

function sayWait(effect: StoredEffect): string | null {
  if (!effect.run_after) return null
  return sayWaiting(effect) ?? `the next attempt at ${formatInstant(effect.run_after)}`
}

/** Undefined: the effect does not wait for a time or a signal. */
function sayWaiting(effect: StoredEffect): string | undefined {
  const { run_after: until, effect_type, effect_payload } = effect
  if (!until || !isWaiting(effect)) return undefined
  const { name, key, from } = effect_payload
  const isSignal = effect_type === WAIT_FOR_SIGNAL && typeof name === 'string' && typeof key === 'string'
  const signal = isSignal ? `the signal ${name} for ${key}${typeof from === 'string' ? ` from ${from}` : ''}, ` : ''
  return `${signal}until ${formatInstant(until)}`
}

export type NextMove = {
  readonly action:
    | 'wait'
    | 'lift_stop'
    | 'supply_input'
    | 'decide_approval'
    | 'reconcile_effect'
    | 'cancel'
    | 'retry'
    | 'undo'
    | 'submit_again'
    | 'free_key'
  readonly by: string[]
  readonly what: string
}

/** What Concord does next, by status. */
const NEXT_BY_CONCORD: Readonly<Record<string, string>> = {
  created: 'It is validated and evaluated by policy.',
  validated: 'Policy decides, or has delayed the decision.',
  approved: 'It is planned and queued.',
  queued: 'It runs when a worker is free and the commands it depends on are done.',
  running: 'Its effects are carried out one after the other.',
  cancelling: 'The effect under way is finished; nothing new starts.',
  compensating: 'Its effects are undone, last first.',
}

function sayNext(status: string, effects: readonly StoredEffect[]): string | undefined {
  const open = status === 'running' ? effects.find((effect) => effect.status === 'executing') : undefined
  const waiting = open && sayWaiting(open)
  return waiting && `It waits ${waiting.startsWith('until') ? '' : 'for '}${waiting}.`
}

function* runMoves({ status }: StoredCommand, { stop, calls }: RunStanding): Generator<NextMove> {
  if (stop && (status === 'running' || status === 'blocked'))
    yield { action: 'lift_stop', by: ['admin'], what: `It waits until an administrator lifts ${sayStop(stop)}.` }
  if (status !== 'blocked') return
  for (const call of calls) {
    const { approval_id: id, approver } = call
    if (id !== null && approver !== null) {
      const what = `Answer ${encodeId('approval', id)} about ${sayCall(call)}, which its agent called.`
      yield { action: 'decide_approval', by: [showActor(approver)], what }
    } else if (call.status === 'waiting_for_input') {
      const what = `Send the missing fields of ${sayCall(call)}, which its agent called.`
      yield { action: 'supply_input', by: ['requester', 'admin'], what }
    } else yield { action: 'wait', by: ['concord'], what: `It waits for ${sayCall(call)}, which its agent called.` }
  }
}

/** `undo` is its last undo. */
export function nextMoves(
  found: CommandWithEffects,
  catalog: Catalog,
  at: Date,
  { undo, standing }: { readonly undo?: UndoLink | undefined; readonly standing?: RunStanding | undefined } = {},
): NextMove[] {
  const { command, effects } = found
  const { type, spec } = taskOf(catalog, command) ?? {}
  const plan = planUndo(effects, catalog, at)
  const { status } = command
  const moves: NextMove[] = []
  const add = (action: NextMove['action'], by: NextMove['by'], what: string) => void moves.push({ action, by, what })
  // An approval has no effect while the task is missing. A queued command has its plan and needs only the handlers of its effects.
  if (!type && (status === 'approved' || status === 'waiting_for_approval'))
    add('wait', ['operator'], `It cannot continue: ${sayTaskGone(command)}.`)
  else if (standing?.stop && status === 'running') moves.push(...runMoves(command, standing))
  else if (NEXT_BY_CONCORD[status] !== undefined)
    add('wait', ['concord'], sayNext(status, effects) ?? NEXT_BY_CONCORD[status])
  if (status === 'waiting_for_input') add('supply_input', ['requester', 'admin'], 'Send the missing fields.')
  if (status === 'waiting_for_approval') add('decide_approval', ['approver'], 'Approve, reject, or ask for changes.')
  const asked = effects.find((effect) => effect.status === 'executing' && readBackOf(effect).asked)
  if (asked) add('reconcile_effect', ['operator'], 'Say whether the effect was done.')
  if (status === 'blocked' && !asked) {
    const ofRun = standing ? [...runMoves(command, standing)] : []
    if (ofRun.length > 0) moves.push(...ofRun)
    else if (awaitedOf(effects)) add('wait', ['concord'], 'It waits for the command that it started.')
    else if (standing && isRunOpen(standing)) add('wait', ['concord'], 'It waits for the run of its agent.')
    else add('decide_approval', ['operator'], 'Say whether it continues, because its requester may no longer act.')
  }
  if (decideCancel(command, plan).t !== 'nothing') {
    const first = asked ? ` First a person says whether ${asked.effect_type} was done.` : ''
    add('cancel', [...(type?.cancellable_by ?? ['requester', 'admin'])], sayCancel(command, plan) + first)
  }
  if (decideRetryRun(found, spec?.max_attempts ?? 1).ok)
    add('retry', ['requester', 'admin'], 'Run it again; effects that succeeded are kept.')
  const again = sayAgain(found)
  if (again !== undefined) add('submit_again', ['requester'], again)
  if (isUndoable(command, plan, catalog) && !(undo && isInForce(undo)))
    add('undo', ['requester', 'admin'], `Request the undo of ${sayUndone(plan)}; policy decides who must approve.`)
  // What is left after an undo has no undo.
  const isLeft =
    undo?.status === 'succeeded' || (status !== 'succeeded' && plan.steps.length + plan.unsettled.length === 0)
  if (command.completed_at !== null && command.contract_key !== null && isLeft)
    add('free_key', ['admin'], 'Cancel it with `force`: its effects stay, and the same thing can be asked for again.')
  return moves
}

/** A cancel that was requested before goes on with the rest. */
function isUndoable({ status, command_type, cancellation_requested }: StoredCommand, plan: UndoPlan, catalog: Catalog) {
  const isEnded = status === 'succeeded' || status === 'cancelled' || (status === 'failed' && !cancellation_requested)
  const isKnown = plan.steps.every(({ compensation }) => catalog.undos.has(compensation))
  return isEnded && plan.steps.length > 0 && isKnown && command_type !== UNDO_TYPE
}

function sayCancel({ status, cancellation_mode, completed_at }: StoredCommand, plan: UndoPlan): string {
  const stop = completed_at === null ? 'Stop it' : 'Close it permanently'
  const isUndoable = plan.steps.length + plan.unsettled.length > 0
  const isClean = !plan.isTouched
  // A running command may begin its next effect before the cancel arrives.
  if (isClean && status !== 'running') return `${stop}; it has changed nothing.`
  if (cancellation_mode === 'graceful') return `${stop}; its effects are kept.`
  return isUndoable || isClean
    ? `${stop} and undo ${sayUndone(plan)}.`
    : `${stop}; its effects cannot be undone and are kept.`
}

const KEPT: Readonly<Record<KeptWhy, string>> = {
  no_undo_declared: 'has no undo',
  already_undone: 'is undone already',
  in_doubt: 'is in doubt',
  too_late: 'can no longer be undone',
}

/** Names the effects that stay. An effect in doubt is settled first, and undone if it was done. */
function sayUndone({ kept }: UndoPlan): string {
  const stays = kept.filter(({ why }) => why === 'no_undo_declared' || why === 'too_late')
  const except = stays.map(({ effect: { effect_type }, why }) => `${effect_type}, which ${KEPT[why]}`)
  return except.length === 0 ? 'its effects' : `its effects except ${except.join(', and ')}`
}
