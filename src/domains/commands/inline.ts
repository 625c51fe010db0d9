/** Decides a new command in the request that submits it, before its first commit or right after it. */
import { type ApprovalRequest, requestApproval } from '#domains/approvals'
import { KernelFault } from '#kernel/errors'
import type { RequestKeys } from '#kernel/idempotency-key'
import { accept, type Decision } from '#kernel/refusal'
import { constraintOf, failpoint, type Once, refuseInProgress, sqlStateOf } from '#store'
import { inProcessTurnName } from '#turns'
import { type Folded, fold } from './advance.ts'
import { usesEnvelope } from './actions/envelope.ts'
import { callInline, type Work } from './call-effect.ts'
import { EffectFailure } from './catalog/effect-definition.ts'
import type { CompiledTask } from './catalog/open-catalog.ts'
import { composeWrite, planEffect, type Seen, stay, systemActor, workerActor, type Write } from './change.ts'
import {
  type CommandContext,
  type CommandWithEffects,
  findCommand,
  processOf,
  type StoredCommand,
} from './command-table.ts'
import { approvalDeps, type CommandDeps } from './deps.ts'
import { checkAsked, commitWith, foldFresh, passBefore } from './drive.ts'
import { isCounting } from './facts.ts'
import { type JoinedInsert, KEY_WAIT, keyedBy, type NewCommand } from './insert-command.ts'
import { findHandler, taskOf } from './tasks.ts'

/** The command was decided in memory; or an effect was called and has no result; or something has to be written first (undefined). */
type Decided = { readonly folded: Folded } | 'tried' | undefined

/**
 * Decides a new command before its first commit, up to what one commit can hold: until its first effect begins in the turn of the command,
 * until it asks for approvals, or until its end if its effects only read. Otherwise the command is inserted as it was requested, and decided afterwards.
 */
export async function decideNew(deps: CommandDeps, command: StoredCommand, mayInline: boolean): Promise<Decided> {
  const { catalog, random } = deps
  const { turn_token: token, context } = command
  if (taskOf(catalog, command)?.factNames.some((name) => isCounting(catalog, name))) return undefined
  // The write that ends a command or makes it wait for people wakes its follower in the same transaction. A run that proposes gets the answer itself.
  const isFollowed = context.follower !== undefined && command.agent_run_id === null
  if (token === null) return mayInline && !isFollowed ? foldInline(deps, command, true) : undefined
  const turn = { token, name: inProcessTurnName(processOf(command.command_id)) }
  const folded = await foldFresh(deps, command, { catalog, random, turn, hasParents: false })
  if (usesEnvelope(folded.draft.write)) return undefined
  if (folded.next.t !== 'call') return (isMalformed(folded) || isGate(folded)) && !isFollowed ? { folded } : undefined
  const { effectId } = folded.next
  const effect = folded.draft.now.effects.find(({ domain_effect_id }) => domain_effect_id === effectId)
  // If the answer to the insert is lost, nothing can tell whether an opaque effect was called.
  const isOpaque = !effect || findHandler(catalog, effect)?.class === 'opaque'
  return isOpaque ? undefined : { folded }
}

type OnceOpened = Decision<Once<StoredCommand>>
/** Calls `insert` with what follows from the end of the command. False: nothing was written, and the command is committed alone. */
export type CommitEnded = (
  command: StoredCommand,
  insert: <Row>(joined: JoinedInsert<Row>) => Promise<Row | undefined>,
) => Promise<boolean>

/** Undefined: another command has the key of an effect, or is writing it, or the approval cannot be requested. The driver finds that out too, and records it. */
export async function insertDecided(
  deps: CommandDeps,
  bare: NewCommand,
  { draft: { now, write }, next }: Folded,
  commitEnded: CommitEnded | undefined,
): Promise<OnceOpened | undefined> {
  const ended = { turn_token: null, turn_until: null }
  const whole: NewCommand = {
    command: { ...now.command, updated_at: write.at, ...(write.releases ? ended : {}) },
    turnMs: write.releases ? null : bare.turnMs,
    effects: write.newEffects,
    events: [...bare.events, ...write.events],
    accessVersion: bare.accessVersion,
  }
  const hasKeys = write.newEffects.some(({ idempotency_key }) => idempotency_key !== null)
  await passBefore(write)
  const insert = async () => {
    // A statement that holds the lock of a run does not wait for another command with the key of the contract.
    const mayJoin = next.t === 'end' && whole.command.contract_key === null
    const isJoined = mayJoin && (await commitEnded?.(whole.command, (joined) => deps.inserts.insertWith(whole, joined)))
    return isJoined ? accept({ inserted: true, row: whole.command }) : deps.inserts.insert(whole)
  }
  const inserting = next.t === 'ask' ? insertAsking(deps, whole, next.requests) : insert()
  const opened = await inserting.catch((error: unknown) => {
    if (constraintOf(error) === 'idx_domain_effects_idem' || (hasKeys && refuseInProgress(error))) return undefined
    if (error instanceof KernelFault && error.code === 'commands.approval.refused') return undefined
    throw error
  })
  return opened && !opened.ok && opened.code === 'key_in_progress' && hasKeys ? undefined : opened
}

/** Inserts a new command with the approvals that it asks for, in one transaction. It is new, so there is no earlier approval to replace. */
async function insertAsking(
  deps: CommandDeps,
  whole: NewCommand,
  requests: readonly ApprovalRequest[],
): Promise<OnceOpened> {
  const by = { ...systemActor, traceId: whole.command.context.trace_id }
  return deps.db.transaction(async (tx) => {
    const opened = await deps.inserts.insertIn(tx, whole).catch((error: unknown) => {
      const refusal = keyedBy(whole.command) === null ? undefined : refuseInProgress(error)
      if (refusal) return refusal
      throw error
    })
    if (!opened.ok || !opened.value.inserted) return opened
    for (const request of requests)
      checkAsked(await requestApproval(tx, approvalDeps(deps), by, request).catch(failToAsk))
    await failpoint('commands.approval_written')
    return opened
  }, `begin; set local ${KEY_WAIT}`)
}

/** A function of an approval type can throw. An error of the database stays, since it decides about a retry. */
function failToAsk(error: unknown): never {
  if (sqlStateOf(error) !== undefined) throw error
  throw new KernelFault('commands.approval.refused', error instanceof Error ? error.message : String(error))
}

/**
 * Runs a fast, bounded command of low risk inside the request: the effect is called before the second write, then everything is committed at
 * once. Undefined: nothing was written, and the driver takes the command.
 */
export async function runInline(deps: CommandDeps, stored: StoredCommand): Promise<StoredCommand | undefined> {
  const run = await foldInline(deps, stored, false)
  if (!run || run === 'tried') return undefined
  const { works } = run
  const { write } = run.folded.draft
  try {
    const written = works.length > 0 ? await commitWith(deps, write, works) : await deps.writes.commit(write)
    if (!written.ok && works.length === 0 && write.to === 'succeeded') await recordUnderCancelled(deps, stored, write)
    return written.ok ? written.value.command : undefined
  } catch (error) {
    // The rows that belong to the outcome were refused, so nothing has happened.
    if (error instanceof EffectFailure) return undefined
    throw error
  }
}

type InlineRun = { readonly folded: Folded; readonly works: readonly Work[] }

/** Folds and calls until the end of the command. With `isReadOnly`, calls only effects that change nothing and need no record. */
async function foldInline(
  deps: CommandDeps,
  command: StoredCommand,
  isReadOnly: boolean,
): Promise<InlineRun | 'tried' | undefined> {
  const { catalog, random } = deps
  const seen: Seen = { catalog, random, turn: null, hasParents: false }
  const works: Work[] = []
  let folded = await foldFresh(deps, command, seen)
  if (usesEnvelope(folded.draft.write)) return undefined
  while (folded.next.t === 'call') {
    const { now } = folded.draft
    const { effectId } = folded.next
    const effect = now.effects.find(({ domain_effect_id }) => domain_effect_id === effectId)
    const handler = effect && findHandler(catalog, effect)
    if (!handler || !isInline(now)) return undefined
    // The call of a connector is recorded with the id of the command, which has no row yet.
    const isFree = handler.class === 'read' && catalog.effects.get(effect.effect_type)?.operation === undefined
    if (isReadOnly && !isFree) return undefined
    const called = await callInline(deps, now.command, effect, handler)
    if (!called || (isReadOnly && called.works.length > 0)) return 'tried'
    works.push(...called.works)
    const outcome = { effectId, attempt: effect.attempt, result: called.result }
    folded = fold(folded.draft, { ...seen, outcome }, deps.now(), deps.newId)
  }
  const { now } = folded.draft
  const isDone = folded.next.t === 'end' && now.command.status === 'succeeded' && isInline(now)
  if (isDone) await failpoint('commands.inline_called')
  return isDone || isMalformed(folded) ? { folded, works } : undefined
}

/** It asks for approvals before anything is called. */
function isGate({ next }: Folded): boolean {
  return next.t === 'ask' && next.what === 'gates'
}

function isMalformed({ draft, next }: Folded): boolean {
  return next.t === 'end' && draft.now.command.error_class === 'malformed_payload'
}

/** Planned for the request itself: such a command has no runtime workflow. */
function isInline({ command: { plan: planned, runtime_workflow_id } }: CommandWithEffects): boolean {
  return planned?.execution_mode === 'sync' && runtime_workflow_id === null
}

/** The command was cancelled during the call. Records the effect that was done; nothing else runs. */
async function recordUnderCancelled(
  deps: CommandDeps,
  { workspace_id, command_id }: StoredCommand,
  { newEffects, events }: Write,
): Promise<void> {
  const found = await findCommand(deps.db, workspace_id, command_id)
  if (found?.command.status !== 'cancelled' || found.effects.length > 0 || newEffects.length === 0) return
  const planned = newEffects.map((effect) => planEffect(effect, workerActor))
  const alone = composeWrite(found, 'any', [stay, ...planned], deps.now())
  const told = events.filter(
    ({ event_type, payload }) => payload['target_type'] === 'effect' && event_type !== 'effect_planned',
  )
  await deps.writes.commit({ ...alone, events: [...alone.events, ...told] })
}

/**
 * A call of the inline path is not on record while it runs, and a cancel meanwhile would free the key of the thing that is being done. So a command with
 * a contract's key runs inline only if its effects read, and so does a command of an agent: a stop could come before the call.
 */
export function isInlineTask(
  { catalog }: Pick<CommandDeps, 'catalog'>,
  { task: { spec, type }, keys }: { readonly task: CompiledTask; readonly keys: RequestKeys },
  runAs: CommandContext['run_as'] | undefined,
): boolean {
  if (!spec.sync_allowed || spec.async_required) return false
  return (
    (keys.contract === undefined && runAs !== 'agent') ||
    type.side_effects.every((effect) => catalog.effects.get(effect)?.definition.class === 'read')
  )
}
