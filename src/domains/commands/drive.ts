/**
 * Drives a command: folds what can be decided, commits it as one write, makes the next call, and folds again with its outcome. A turn ends
 * when the command waits or has ended, or when the turn has used up its time.
 */
import { cancelApprovals, checkApproved, requestApproval, supersedeApprovals } from '#domains/approvals'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision } from '#kernel/refusal'
import type { Drive, Next } from '#runtime'
import { constraintOf, failpoint, type FailpointName, statement } from '#store'
import {
  type InProcessTurns,
  openInProcessTurns,
  type ReserveSlot,
  reconcile,
  settleTurn,
  takeTurn,
  type Turn,
} from '#turns'
import {
  type AfterStep,
  applyWrite,
  type CallOutcome,
  systemActor,
  workerActor,
  type Seen,
  isEmpty,
  openDraft,
  type Write,
} from './change.ts'
import { fold, type Folded, type FoldLimit } from './advance.ts'
import { askEnvelope, countEnvelopeUse, EnvelopeUsedUp } from './actions/envelope.ts'
import { callNext, failedWith, type LastCall, type Work } from './call-effect.ts'
import { EffectFailure } from './catalog/effect-definition.ts'
import {
  commandTurns,
  findAwaited,
  findCommand,
  type HeldCommand,
  insertWait,
  listParents,
  listForeignUndos,
  overdueCommands,
  processOf,
  type StoredCommand,
} from './command-table.ts'
import { freeUndone } from './command-keys.ts'
import { approvalDeps, type CommandDeps } from './deps.ts'
import { traceTurn } from './observe.ts'
import { appendCommandEvent, type CommandEventType } from './events.ts'
import { gatherFacts } from './facts.ts'
import { type EffectTries, effectKeyOf, keyOfTry } from './plan.ts'
import { isFreed } from './standing.ts'
import { askBegin, findHindrance, type Hindrance } from './may-begin.ts'
import { withPresentRights } from './requester.ts'
import { findStopOf } from './stops/stop.ts'
import { wakeDependents } from './write-command.ts'
import { readBackOf, taskOf, wakeOptionsOf } from './tasks.ts'
import { asEffect } from './undo-plan.ts'
import type { WriteResult } from './write-command.ts'

/** A longer command continues in another turn, so that no command holds a worker forever. */
const ROUNDS_MAX = 60
const SLICE_MS = 5_000

type CommandTurn = Turn<HeldCommand>

export function openDrive(deps: CommandDeps): Drive {
  return async (commandId, fence) => {
    const taken = await takeTurn(deps, commandTurns, commandId, fence)
    if ('next' in taken) return taken.next
    if (fence.attempt > 1) await failpoint('commands.taken_over')
    return traceTurn(taken.turn, () => driveTurn(deps, taken.turn))
  }
}

export function openCommandTurns(deps: CommandDeps, reserveSlot: ReserveSlot): InProcessTurns<HeldCommand> {
  const drive = (turn: CommandTurn) => traceTurn(turn, () => driveTurn(deps, turn))
  return openInProcessTurns(deps, commandTurns, drive, reserveSlot)
}

/** Returns the number of commands woken. A full batch means that there may be more. */
export function reconcileCommands(
  deps: Pick<CommandDeps, 'db' | 'now' | 'wake' | 'catalog'>,
  graceMs?: number,
): Promise<number> {
  const wakeOf = async (row: Parameters<typeof wakeOptionsOf>[1] & { readonly command_id: string }) => {
    await failpoint('commands.reconciling')
    return { process: processOf(row.command_id), options: wakeOptionsOf(deps.catalog, row) }
  }
  return reconcile(deps, overdueCommands, wakeOf, graceMs)
}

async function driveTurn(deps: CommandDeps, turn: CommandTurn): Promise<Next> {
  const startedMs = deps.now().getTime()
  const { begun, effects } = turn.found
  let last: LastCall | undefined
  let isAlone = false
  let hindrance: Hindrance | undefined
  let tries: EffectTries | undefined
  try {
    if (begun) last = await callNext(deps, turn, begun, effects)
    for (let round = 0; !turn.isLost; round++) {
      const isOver =
        turn.signal.aborted || round >= ROUNDS_MAX || (round > 0 && deps.now().getTime() - startedMs >= SLICE_MS)
      if (isOver && !last) break
      // The outcome of a call is always recorded, with all that follows from it. No call begins in a turn that has used up its time.
      const limit = isAlone ? 'outcome' : isOver || hindrance ? 'no_call' : 'none'
      const decided = await decideNext(deps, turn, last, tries, limit)
      const { draft, next } = hindrance ? hindrance(decided, deps.now()) : decided
      hindrance = undefined
      const written = await commitTurn(deps, turn, draft.write, next, last)
      if (written === 'key_taken') tries = await findTries(deps, draft.write)
      else if (written instanceof EffectFailure) last = last && failedWith(last, written)
      else if (written === 'moved') {
        hindrance = next.t === 'call' ? await findHindrance(deps, turn.found.command) : undefined
        if (hindrance) continue
        // The row has changed, for example by a cancel, and the next step may be impossible. The outcome is then written alone, once.
        isAlone = last !== undefined && !isAlone
        if (!isAlone) last = undefined
      } else {
        const answer = answerOf(deps, turn, next)
        if (answer) return answer
        last = await callNext(deps, turn, next, draft.now.effects)
        isAlone = false
      }
    }
  } catch (error) {
    if (isUnreadable(error)) return quarantine(deps, turn, error)
    throw error
  }
  return turn.isLost ? { t: 'done' } : { t: 'again' }
}

async function decideNext(
  deps: CommandDeps,
  turn: CommandTurn,
  outcome: CallOutcome | undefined,
  tries: EffectTries | undefined,
  limit: FoldLimit,
): Promise<Folded> {
  const { catalog, random } = deps
  const { token, name, leaseMs, found } = turn
  const at = deps.now()
  const seen: Seen = { catalog, random, turn: { token, name }, hasParents: found.hasParents, tries }
  const draft = openDraft(found, { held: token, leaseMs }, at)
  const first = fold(draft, outcome ? { ...seen, outcome } : seen, at, deps.newId, limit)
  return loadAndFold(deps, first, seen, limit, () => failpoint('commands.classified'))
}

/** Loads what the fold needs, and continues it. */
async function loadAndFold(
  deps: CommandDeps,
  first: Folded,
  known: Seen,
  limit?: FoldLimit,
  beforeFacts?: () => Promise<void> | undefined,
): Promise<Folded> {
  let [folded, seen] = [first, known]
  while (folded.next.t === 'need') {
    if (folded.next.what === 'facts') await beforeFacts?.()
    seen = { ...seen, ...(await load(deps, folded.draft.now.command, folded.next)) }
    folded = fold(folded.draft, seen, deps.now(), deps.newId, limit)
  }
  return folded
}

async function load(
  deps: CommandDeps,
  command: StoredCommand,
  needed: Extract<AfterStep, { t: 'need' }>,
): Promise<Partial<Seen>> {
  const { db, catalog } = deps
  const { workspace_id: workspaceId, command_id: commandId, payload_hash: payloadHash } = command
  switch (needed.what) {
    case 'facts': {
      const { context, ...asked } = await withPresentRights(deps, command)
      const facts = await gatherFacts(deps, { ...asked, context }, taskOf(catalog, command)?.factNames ?? [])
      return { facts, context }
    }
    case 'stop':
      return { stop: (await findStopOf(db, command)) ?? null }
    case 'parents':
      return { parents: await db.run(listParents, [commandId]) }
    case 'approved':
      return { approved: await checkApproved(db, { workspaceId, commandId, payloadHash }) }
    case 'envelope':
      return { envelope: await askEnvelope(deps, command, needed.call, needed.requests) }
    case 'awaited': {
      const [row] = await db.run(findAwaited, [needed.commandId, workspaceId])
      return { awaited: { commandId: needed.commandId, row } }
    }
  }
}

/** Commits the write, and in the same transaction the rows of other rooms that belong to it. */
async function commitTurn(
  deps: CommandDeps,
  turn: CommandTurn,
  write: Write,
  next: AfterStep,
  last: LastCall | undefined,
): Promise<'written' | 'moved' | 'key_taken' | EffectFailure> {
  if (isEmpty(write)) return 'written'
  if (write.from === 'cancelling' && write.to !== null) await failpoint('commands.exit_settled')
  await passAll(write, beforeWrite)
  const works = [
    ...(last?.works ?? []),
    workOf(deps, write, next),
    closeQuestion(deps, turn, write, last),
    freeUndone(deps, write),
    countEnvelopeUse(write),
  ].filter((work) => work !== undefined)
  let result: Decision<WriteResult>
  const checked = askBegin(turn.found, write, next)
  try {
    result = works.length === 0 ? await deps.writes.commit(checked) : await commitWith(deps, checked, works)
  } catch (error) {
    if (error instanceof EffectFailure) return error
    if (error instanceof EnvelopeUsedUp) return 'moved'
    const own = new Set(turn.found.effects.map(({ domain_effect_id }) => domain_effect_id))
    // The command's own compensations have keys that no other command can have.
    const isPlanned = write.newEffects.some(({ compensates_effect_id: of }) => of === null || !own.has(of))
    if (!isPlanned || constraintOf(error) !== 'idx_domain_effects_idem') throw error
    return 'key_taken'
  }
  const after = result.ok ? accept(heldAfter(turn.found, write, result.value)) : result
  const isWritten = await settleTurn(deps, commandTurns, turn, write.at, after)
  if (!isWritten || !result.ok) return 'moved'
  if (result.value.dependents.length > 0) await failpoint('commands.dependents_marked')
  await wakeDependents(deps, result.value.dependents)
  if (write.newEffects.some((effect) => effect.compensates_effect_id !== null)) await failpoint('commands.undo_planned')
  await passAll(write, last?.isUndo ? { ...afterWrite, effect_executed: 'commands.undo_recorded' } : afterWrite)
  return 'written'
}

/** How often the key of an effect can be tried: after this it counts as taken. */
const TRIES_MAX = 50

type KeyHolder = { readonly idempotency_key: string; readonly command_id: string; readonly is_own: boolean }

/** $1 workspace, $2 keys, $3 command. */
const listHolders = statement<KeyHolder>(
  'commands_list_key_holders',
  `select idempotency_key, command_id, command_id = $3::uuid as is_own
from concord.domain_effects where workspace_id = $1::uuid and idempotency_key = any($2::text[])`,
)

/** A key can be tried again when every other command that has tried it has ended with nothing done that stands. */
async function findTries({ db, catalog }: CommandDeps, { command, newEffects }: Write): Promise<EffectTries> {
  const { workspace_id, command_id } = command
  const tries = new Map<string, number | 'taken'>()
  for (const { effect_type, effect_payload, idempotency_key } of newEffects) {
    const made = effectKeyOf(catalog, effect_type, effect_payload)
    const base = made.ok ? made.value : undefined
    const keys =
      base === undefined ? [idempotency_key] : Array.from({ length: TRIES_MAX }, (_, n) => keyOfTry(base, n + 1))
    const holders = await db.run(listHolders, [workspace_id, keys, command_id])
    const others = new Set(holders.flatMap((holder) => (holder.is_own ? [] : [holder.command_id])))
    const last = Math.max(0, ...holders.map((holder) => keys.indexOf(holder.idempotency_key) + 1))
    // A key that names its command, and one that two effects of the plan share, cannot be tried again.
    let isFree = base !== undefined && last > 0 && last < TRIES_MAX
    for (const id of others) {
      const found = await findCommand(db, workspace_id, id)
      const undos = await db.run(listForeignUndos, [workspace_id, [id]])
      isFree &&= found !== undefined && isFreed({ ...found, effects: [...found.effects, ...undos.map(asEffect)] })
    }
    if (isFree || base !== undefined || last > 0) tries.set(base ?? idempotency_key ?? '', isFree ? last + 1 : 'taken')
  }
  return tries
}

function heldAfter(found: HeldCommand, write: Write, { command }: WriteResult): HeldCommand {
  return { ...found, command, effects: applyWrite(found.effects, write) }
}

export function commitWith(deps: CommandDeps, write: Write, works: readonly Work[]) {
  return deps.db.transaction(async (tx) => {
    const written = await deps.writes.commitIn(tx, write)
    if (written.ok) for (const work of works) await work(tx)
    return written
  })
}

function workOf(deps: CommandDeps, { command, at }: Write, next: AfterStep): Work | undefined {
  const { workspace_id: workspaceId, command_id: commandId } = command
  if (next.t === 'follow')
    return async (tx) => void (await tx.run(insertWait, [commandId, next.commandId, workspaceId, at]))
  if (next.t !== 'ask') return undefined
  const { what, requests } = next
  const by = { ...(what === 'gates' ? systemActor : workerActor), traceId: command.context.trace_id }
  return async (tx) => {
    if (what === 'gates') {
      // Replaces all gates at once: a gate of an earlier round that is no longer required must not block the command.
      checkAsked(
        await supersedeApprovals(tx, approvalDeps(deps), by, { workspaceId, commandId, why: 'asked_again', requests }),
      )
      await failpoint('commands.approval_written')
    } else for (const request of requests) checkAsked(await requestApproval(tx, approvalDeps(deps), by, request))
  }
}

/** A person was asked for the outcome of a call that a superseded turn had made, and this write records it. */
function closeQuestion(
  { newId }: CommandDeps,
  { found: { command, effects } }: CommandTurn,
  { effectMoves }: Write,
  last: LastCall | undefined,
): Work | undefined {
  const isSettled = effectMoves.some(
    (moved) => moved.domain_effect_id === last?.effectId && moved.status === 'succeeded',
  )
  const effect = isSettled ? effects.find(({ domain_effect_id }) => domain_effect_id === last?.effectId) : undefined
  if (!effect || !readBackOf(effect).asked) return undefined
  const by = { ...systemActor, traceId: command.context.trace_id }
  const { workspace_id: workspaceId, command_id: commandId } = command
  const { domain_effect_id: domainEffectId } = effect
  return async (tx) =>
    void (await cancelApprovals(tx, newId, by, { workspaceId, commandId, domainEffectId, why: 'outcome_known' }))
}

export function checkAsked(asked: Decision<unknown>): void {
  if (!asked.ok) throw new KernelFault('commands.approval.refused', asked.reason, { code: asked.code })
}

type Passed = Readonly<Partial<Record<CommandEventType | NonNullable<Write['to']>, FailpointName>>>

/** Failpoints by the events of a write, and by the status it moves the command to. */
const beforeWrite: Passed = {
  policy_evaluated: 'commands.policy_decided',
  succeeded: 'commands.finishing',
  compensation_completed: 'commands.undo_finishing',
}
const afterWrite: Passed = {
  plan_created: 'commands.planned',
  waiting_for_input: 'commands.input_requested',
  waiting_for_approval: 'commands.approval_requested',
  retry_scheduled: 'commands.retry_recorded',
  wait_started: 'commands.wait_recorded',
  effect_executed: 'commands.effect_recorded',
  effect_outcome_unknown: 'commands.outcome_asked',
  succeeded: 'commands.finished',
}

export const passBefore = (write: Write) => passAll(write, beforeWrite)
export const passAfter = (write: Write) => passAll(write, afterWrite)

async function passAll({ events, to }: Write, points: Passed): Promise<void> {
  for (const { event_type } of events) {
    const name = points[event_type]
    if (name) await failpoint(name)
  }
  const name = to === null ? undefined : points[to]
  if (name) await failpoint(name)
}

/** Undefined: the turn continues. */
function answerOf(deps: CommandDeps, { found: { command } }: CommandTurn, next: AfterStep): Next | undefined {
  switch (next.t) {
    case 'wait':
      if (next.isTaskGone)
        deps.onTaskGone?.({ command_id: command.command_id, task_name: command.task_name ?? command.command_type })
      return { t: 'wait', until: next.until }
    case 'ask':
      return { t: 'wait', until: null }
    case 'end':
      return { t: 'done' }
    default:
      return undefined
  }
}

/** Folds a new command in memory: returns its first write and what would follow. */
export function foldFresh(deps: CommandDeps, command: StoredCommand, seen: Seen): Promise<Folded> {
  const at = deps.now()
  return loadAndFold(deps, fold(openDraft({ command, effects: [] }, 'free', at), seen, at, deps.newId), seen)
}

/** $1 command, $2 token. Without a due time the reconciler skips it. Its status stays, for operators to inspect. */
const setAside = statement<{ readonly command_id: string }>(
  'commands_set_aside',
  `update concord.commands set run_after = null, turn_token = null, turn_until = null
where command_id = $1::uuid and turn_token = $2::uuid returning command_id`,
)

/** A bug in Concord, or a stack overflow on a value that is nested too deeply. */
function isUnreadable(error: unknown): error is Error {
  return (error instanceof KernelFault && error.code === 'commands.row.unreadable') || error instanceof RangeError
}

/** Quarantines a command with an unreadable row, which no constraint would allow, and reports it once. Other commands are not affected. */
async function quarantine(deps: CommandDeps, { found: { command }, token }: CommandTurn, error: Error): Promise<Next> {
  await deps.db.transaction(async (tx) => {
    const [row] = await tx.run(setAside, [command.command_id, token])
    if (!row) return
    const by = { ...systemActor, traceId: command.context.trace_id }
    const payload = { reason: error.message, status: command.status }
    await appendCommandEvent(tx, deps, by, 'command_quarantined', command, payload)
  })
  return { t: 'wait', until: null }
}
