/**
 * Drives a command: fold what can be decided, commit it as one write, make the call that it asks for, and fold again with the outcome. A turn
 * ends when the command waits, has ended, or has had its share.
 */
import { checkApproved, requestApproval, supersedeApprovals } from '#domains/approvals'
import { KernelFault } from '#kernel/errors'
import type { Decision } from '#kernel/refusal'
import type { Drive, Next } from '#runtime'
import { appendEvents, constraintOf, failpoint, type FailpointName, statement, type Tx } from '#store'
import {
  type InProcessTurns,
  openInProcessTurns,
  type ReserveSlot,
  reconcile,
  settleTurn,
  takeTurn,
  type Turn,
} from '#turns'
import { applyWrite, bySystem, byWorker, composeWrite, isEmpty, openDraft, plan, stay, type Write } from './change.ts'
import { type Folded, fold } from './advance.ts'
import { type Called, callEffect, callInline, lookUpEffect } from './call-effect.ts'
import {
  commandTurns,
  type CommandWithEffects,
  findAwaited,
  findCommand,
  type HeldCommand,
  insertWait,
  listParents,
  overdueCommands,
  processOf,
  type StoredCommand,
  type StoredEffect,
} from './command-table.ts'
import { askingOf, type CommandDeps } from './deps.ts'
import { findHandler } from './effect-handler.ts'
import { commandLog, type CommandEventType } from './events.ts'
import { gatherFacts } from './gather-facts.ts'
import { wakeDependents } from './resume.ts'
import type { CallOutcome, Seen, AfterStep } from './step.ts'
import { queueOf, taskOf } from './tasks.ts'
import type { WriteResult } from './write-command.ts'

/** A turn ends after so many rounds or so long, and goes on in another: no command holds a worker for ever. */
const ROUNDS_MAX = 60
const SLICE_MS = 5_000

type CommandTurn = Turn<HeldCommand>
type LastCall = CallOutcome & { readonly isUndo: boolean; readonly save: ((tx: Tx) => Promise<void>) | undefined }

export function openDrive(deps: CommandDeps): Drive {
  return async (commandId, fence) => {
    const taken = await takeTurn(deps, commandTurns, commandId, fence)
    if ('next' in taken) return taken.next
    if (fence.attempt > 1) await failpoint('commands.taken_over')
    return driveTurn(deps, taken.turn)
  }
}

export function openCommandTurns(deps: CommandDeps, reserveSlot: ReserveSlot): InProcessTurns<HeldCommand> {
  return openInProcessTurns(deps, commandTurns, (turn) => driveTurn(deps, turn), reserveSlot)
}

/** How many were woken; a full batch says that there may be more. */
export function reconcileCommands(
  deps: Pick<CommandDeps, 'db' | 'now' | 'wake' | 'catalog'>,
  graceMs?: number,
): Promise<number> {
  const wakeOf = async (row: Parameters<typeof queueOf>[1] & { readonly command_id: string }) => {
    await failpoint('commands.reconciling')
    return { process: processOf(row.command_id), options: queueOf(deps.catalog, row) }
  }
  return reconcile(deps, overdueCommands, wakeOf, graceMs)
}

async function driveTurn(deps: CommandDeps, turn: CommandTurn): Promise<Next> {
  const startedMs = deps.now().getTime()
  let last: LastCall | undefined
  let [isAlone, isKeyTaken] = [false, false]
  try {
    for (let round = 0; !turn.isLost; round++) {
      const isOver =
        turn.signal.aborted || round >= ROUNDS_MAX || (round > 0 && deps.now().getTime() - startedMs >= SLICE_MS)
      if (isOver && !last) break
      // What a call came to is recorded in any case; nothing new begins in a turn that is over.
      const { draft, next } = await decideNext(deps, turn, last, isKeyTaken, isOver || isAlone)
      const written = await commitTurn(deps, turn, draft.write, next, last)
      if (written === 'key_taken') isKeyTaken = true
      else if (written === 'moved') {
        // What comes next may have become impossible, by a cancel for one; the outcome is written alone, once.
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
  isKeyTaken: boolean,
  isOutcomeOnly: boolean,
): Promise<Folded> {
  const { token, name, leaseMs, found } = turn
  const at = deps.now()
  const seen: Seen = { ...seenBy(deps), turn: { token, name }, hasParents: found.hasParents, isKeyTaken }
  const stepsMax = isOutcomeOnly ? 1 : undefined
  const draft = openDraft(found, { held: token, leaseMs }, at)
  const first = fold(draft, outcome ? { ...seen, outcome } : seen, at, deps.newId, stepsMax)
  return loadAndFold(deps, first, seen, stepsMax, () => failpoint('commands.classified'))
}

function seenBy({ catalog, random }: CommandDeps): Pick<Seen, 'catalog' | 'random'> {
  return { catalog, random }
}

/** Loads what the fold needs to see, and goes on with it. */
async function loadAndFold(
  deps: CommandDeps,
  first: Folded,
  known: Seen,
  stepsMax?: number,
  beforeFacts?: () => Promise<void> | undefined,
): Promise<Folded> {
  let [folded, seen] = [first, known]
  while (folded.next.t === 'need') {
    if (folded.next.what === 'facts') await beforeFacts?.()
    seen = { ...seen, ...(await load(deps, folded.draft.now.command, folded.next)) }
    folded = fold(folded.draft, seen, deps.now(), deps.newId, stepsMax)
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
    case 'facts':
      return { facts: await gatherFacts(deps, command, taskOf(catalog, command)?.factNames ?? []) }
    case 'parents':
      return { parents: await db.run(listParents, [commandId]) }
    case 'approved':
      return { approved: await checkApproved(db, { workspaceId, commandId, payloadHash }) }
    case 'awaited': {
      const [row] = await db.run(findAwaited, [needed.commandId, workspaceId])
      return { awaited: { commandId: needed.commandId, row } }
    }
  }
}

/** One commit: the write, and with it what other rooms store about it. */
async function commitTurn(
  deps: CommandDeps,
  turn: CommandTurn,
  write: Write,
  next: AfterStep,
  last: LastCall | undefined,
): Promise<'written' | 'moved' | 'key_taken'> {
  if (isEmpty(write)) return 'written'
  if (write.from === 'cancelling' && write.to !== null) await failpoint('commands.exit_settled')
  await passAll(write, beforeWrite)
  const works = [last?.save, workOf(deps, write, next)].filter((work) => work !== undefined)
  let result: Decision<WriteResult>
  try {
    result = works.length === 0 ? await deps.writes.commit(write) : await commitWith(deps, write, works)
  } catch (error) {
    const isPlanned = write.events.some(({ event_type }) => event_type === 'plan_created')
    if (!isPlanned || constraintOf(error) !== 'idx_domain_effects_idem') throw error
    return 'key_taken'
  }
  const { found } = turn
  const after = result.ok
    ? {
        ok: true as const,
        value: {
          ...found,
          command: result.value.command,
          effects: applyWrite(found.effects, write, result.value.touched),
        },
      }
    : result
  const isWritten = await settleTurn(deps, commandTurns, turn, write.at, after)
  if (!isWritten || !result.ok) return 'moved'
  if (result.value.dependents.length > 0) await failpoint('commands.dependents_marked')
  await wakeDependents(deps, result.value.dependents)
  if (write.newEffects.some((effect) => effect.compensates_effect_id !== null)) await failpoint('commands.undo_planned')
  await passAll(write, last?.isUndo ? { ...afterWrite, effect_executed: 'commands.undo_recorded' } : afterWrite)
  return 'written'
}

function commitWith(deps: CommandDeps, write: Write, works: readonly ((tx: Tx) => Promise<void>)[]) {
  return deps.db.transaction(async (tx) => {
    const written = await deps.writes.commitIn(tx, write)
    if (written.ok) for (const work of works) await work(tx)
    return written
  })
}

function workOf(deps: CommandDeps, { command, at }: Write, next: AfterStep): ((tx: Tx) => Promise<void>) | undefined {
  const { workspace_id: workspaceId, command_id: commandId } = command
  if (next.t === 'follow')
    return async (tx) => void (await tx.run(insertWait, [commandId, next.commandId, workspaceId, at]))
  if (next.t !== 'ask') return undefined
  const { what, requests } = next
  const by = { ...(what === 'gates' ? bySystem : byWorker), traceId: command.context.trace_id }
  return async (tx) => {
    if (what === 'gates') {
      // All gates at once: one that an earlier round asked for and this one does not must not stand in the way.
      checkAsked(
        await supersedeApprovals(tx, askingOf(deps), by, { workspaceId, commandId, why: 'asked_again', requests }),
      )
      await failpoint('commands.approval_written')
    } else for (const request of requests) checkAsked(await requestApproval(tx, askingOf(deps), by, request))
  }
}

function checkAsked(asked: Decision<unknown>): void {
  if (!asked.ok) throw new KernelFault('commands.approval.refused', asked.reason, { code: asked.code })
}

type Passed = Readonly<Partial<Record<CommandEventType | NonNullable<Write['to']>, FailpointName>>>

/** Failpoints by what a write tells, and by where it moves the command. */
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
  effect_executed: 'commands.effect_recorded',
  effect_outcome_unknown: 'commands.outcome_asked',
  succeeded: 'commands.finished',
}

async function passAll({ events, to }: Write, points: Passed): Promise<void> {
  for (const { event_type } of events) {
    const name = points[event_type]
    if (name) await failpoint(name)
  }
  const name = to === null ? undefined : points[to]
  if (name) await failpoint(name)
}

/** Undefined: the turn goes on. */
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

async function callNext(
  deps: CommandDeps,
  turn: CommandTurn,
  next: AfterStep,
  decided: readonly StoredEffect[],
): Promise<LastCall | undefined> {
  if (next.t !== 'call' && next.t !== 'look_up') return undefined
  const { effectId } = next
  const effect = turn.found.effects.find(({ domain_effect_id }) => domain_effect_id === effectId)
  const wanted = decided.find(({ domain_effect_id }) => domain_effect_id === effectId)
  // A cancel in between leaves it as it was: nothing has begun.
  if (!effect || effect.status !== 'executing' || effect.attempt !== wanted?.attempt) return undefined
  const handler = findHandler(deps.catalog, turn.found, effect)
  const failure = { errorClass: 'internal_error', message: 'no handler', happened: 'unknown' } as const
  const unhandled: Called = { result: { t: 'failed', failure, emitted: [] }, save: undefined }
  const make = next.t === 'call' ? callEffect : lookUpEffect
  const called = handler ? await make(deps, turn, effect, handler) : unhandled
  if (!called) {
    turn.isLost = true
    return undefined
  }
  const lookUp = next.t === 'look_up' ? { lookUp: next.lookUp } : {}
  const { result } = called
  // Artifacts of an attempt that failed are not kept.
  const save = result.t === 'done' || result.t === 'found' ? called.save : undefined
  return { effectId, attempt: effect.attempt, ...lookUp, result, save, isUndo: handler?.isUndo ?? false }
}

/**
 * The same loop inside the request, for what is fast, low in risk and bounded: decided and done before the first write, then committed at once.
 * Undefined: not done here; the command is as it was and the driver takes it.
 */
export async function runInline(deps: CommandDeps, stored: StoredCommand): Promise<StoredCommand | undefined> {
  const seen: Seen = { ...seenBy(deps), turn: null, hasParents: false }
  let folded = await foldFresh(deps, stored, seen)
  while (folded.next.t === 'call') {
    const { now } = folded.draft
    const { effectId } = folded.next
    const effect = now.effects.find(({ domain_effect_id }) => domain_effect_id === effectId)
    const handler = effect && findHandler(deps.catalog, now, effect)
    if (!handler || !isInline(now)) return undefined
    const result = await callInline(deps, now.command, effect, handler)
    if (!result) return undefined
    folded = fold(
      folded.draft,
      { ...seen, outcome: { effectId, attempt: effect.attempt, result } },
      deps.now(),
      deps.newId,
    )
  }
  const { now, write } = folded.draft
  const isDone = now.command.status === 'succeeded' && isInline(now)
  if (folded.next.t !== 'end' || !(isDone || now.command.error_class === 'malformed_payload')) return undefined
  if (isDone) await failpoint('commands.inline_called')
  const written = await deps.writes.commit(write)
  if (!written.ok && isDone) await recordUnderCancelled(deps, stored, write)
  return written.ok ? written.value.command : undefined
}

/** Planned for the request itself: such a command has no workflow of the runtime. */
function isInline({ command: { plan: planned, runtime_workflow_id } }: CommandWithEffects): boolean {
  return planned?.execution_mode === 'sync' && runtime_workflow_id === null
}

/** Everything that can be decided about a new command, in memory: what its first write would be, and what would come after it. */
export function foldFresh(deps: CommandDeps, command: StoredCommand, seen: Seen): Promise<Folded> {
  const at = deps.now()
  return loadAndFold(deps, fold(openDraft({ command, effects: [] }, 'free', at), seen, at, deps.newId), seen)
}

/** A cancel came during the call. Nothing runs any more, but what was done is on record. */
async function recordUnderCancelled(
  deps: CommandDeps,
  { workspace_id, command_id }: StoredCommand,
  { newEffects, events }: Write,
): Promise<void> {
  const found = await findCommand(deps.db, workspace_id, command_id)
  if (found?.command.status !== 'cancelled' || found.effects.length > 0 || newEffects.length === 0) return
  const planned = newEffects.map((effect) => plan(effect, byWorker))
  const alone = composeWrite(found, 'any', [stay, ...planned], deps.now(), deps.newId)
  const told = events.filter(
    ({ event_type, payload }) => payload['target_type'] === 'effect' && event_type !== 'effect_planned',
  )
  await deps.writes.commit({ ...alone, events: [...alone.events, ...told] })
}

/** $1 command, $2 token. Without a due time the reconciler does not see it; its state stays what it was, for operators to look at. */
const setAside = statement<{ readonly command_id: string }>(
  'commands_set_aside',
  `update concord.commands set run_after = null, turn_token = null, turn_until = null
where command_id = $1::uuid and turn_token = $2::uuid returning command_id`,
)

/** Our own verdict, or the engine's: a value nested too deep exhausts its stack. */
function isUnreadable(error: unknown): error is Error {
  return (error instanceof KernelFault && error.code === 'commands.row.unreadable') || error instanceof RangeError
}

/** Puts a command aside whose row cannot be understood. No rule lets such a row in; it is reported once, and all others go on. */
async function quarantine(deps: CommandDeps, { found: { command }, token }: CommandTurn, error: Error): Promise<Next> {
  await deps.db.transaction(async (tx) => {
    const [row] = await tx.run(setAside, [command.command_id, token])
    if (!row) return
    const event = {
      eventId: deps.newId(),
      type: 'command_quarantined' as const,
      payload: { reason: error.message, status: command.status, target_type: 'command', target_id: command.command_id },
      actor: bySystem.id,
      actorKind: bySystem.kind,
      traceId: command.context.trace_id,
      at: deps.now(),
    }
    const links = { workspace_id: command.workspace_id, command_id: command.command_id }
    await appendEvents(tx, commandLog, [{ ...event, links }])
  })
  return { t: 'wait', until: null }
}
