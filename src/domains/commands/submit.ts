/** Submits a command: one statement writes the command and its audit event, and the answer waits for the commit. */
import { hash } from 'node:crypto'
import { type Actor, credentialOf, eventBy } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import type { RequestKeys } from '#kernel/idempotency-key'
import type { JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { cutText } from '#kernel/cut-text'
import { redactText } from '#kernel/secret-shapes'
import { nearestNames } from '#kernel/nearest'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import type { Process } from '#runtime'
import { activeTraceparent } from '#telemetry'
import { appendEvents, failpoint, type Once, refuseInProgress, type Tx } from '#store'
import { cancellationModes, type CancellationMode, type IngressType } from './catalog/definitions.ts'
import { hideUndeclared } from './catalog/declared-fields.ts'
import type { CompiledTask } from './catalog/open-catalog.ts'
import { decideRepeat, fingerprintOf, keysOf } from './command-keys.ts'
import { type CommandContext, processOf, type StoredCommand } from './command-table.ts'
import { checkSecrets } from '#kernel/data-class'
import { commandLog } from './events.ts'
import { type DependsOn, insertDependency, refuseParent } from './add-dependency.ts'
import { decideAuthor, findTask, validatePayload } from './tasks.ts'
import type { Folded } from './advance.ts'
import { composeWrite, fail, type WriteEvent } from './change.ts'
import { type CommandDeps, mayReadCommand } from './deps.ts'
import { passAfter } from './drive.ts'
import { type CommitEnded, decideNew, insertDecided, isInlineTask, runInline } from './inline.ts'
import { KEY_WAIT, keyedBy, type NewCommand } from './insert-command.ts'
import { traceSubmit } from './observe.ts'

export type SubmitCommand = {
  readonly workspaceId: string
  readonly taskName: string
  readonly payload: JsonObject
  readonly idempotencyKey?: string | undefined
  readonly ingress: IngressType
  readonly requestId: string
  readonly cancellationMode?: string | undefined
  readonly dependsOn?: readonly DependsOn[] | undefined
  readonly runAs?: 'user' | 'service' | 'agent'
  readonly appId?: string
  readonly metadata?: JsonObject
  /** The run of an agent that proposes it; set by the gateway of agents, and for a memory that a run proposes. */
  readonly run?: { readonly agentRunId: string; readonly swarmRunId: string | null } | undefined
  /** A process that is woken by the write that ends the command or makes it wait for people. */
  readonly follower?: Process | undefined
  /**
   * The version of all rights under which a remembered caller was looked up. Such a submit inserts a new command or does nothing: every
   * other outcome, also one that is recorded, is left to a second submit after a new look-up.
   */
  readonly accessVersion?: string | undefined
  /**
   * Inserts the command in this transaction of the caller. It exists, and is woken, if the caller commits.
   */
  readonly tx?: Tx | undefined
  /** Runs in the transaction that inserts the command, only if it is new. A refusal rolls back both. */
  readonly alongside?: (tx: Tx, command: StoredCommand) => Promise<Decision<unknown>>
  /** Commits a command that ends with its insert. Undefined: it is committed alone. */
  readonly commitEnded?: CommitEnded | undefined
}

export type SubmittedCommand = { readonly command: StoredCommand; readonly isNew: boolean }

/** When the driver takes over an inline run whose process has died. */
const INLINE_GRACE_MS = 5_000
const reservedModes = ['immediate', 'checkpoint_then_stop']

export async function submitCommand(
  deps: CommandDeps,
  by: Actor,
  input: SubmitCommand,
): Promise<Decision<SubmittedCommand>> {
  const checked = checkRequest(deps, input)
  if (!checked.ok) return input.accessVersion === undefined ? rejectRequest(deps, by, input, checked) : checked
  return traceSubmit(checked.value.task, () => submitChecked(deps, by, input, checked.value))
}

async function submitChecked(
  deps: CommandDeps,
  by: Actor,
  input: SubmitCommand,
  checked: Checked,
): Promise<Decision<SubmittedCommand>> {
  const { task } = checked
  const at = deps.now()
  const mayInline = isInlineTask(deps, checked, input.runAs) && !input.dependsOn?.length && !input.tx
  // A command with dependencies is woken by their ends, through the runtime.
  const turn = mayInline || input.dependsOn?.length || input.tx ? undefined : deps.turns?.offer(task.queue)
  const command: StoredCommand = {
    ...rowOf(deps, by, input, checked, at),
    run_after: new Date(at.getTime() + (mayInline ? INLINE_GRACE_MS : 0)),
    turn_token: turn?.token ?? null,
    turn_until: turn ? new Date(at.getTime() + turn.leaseMs) : null,
  }
  const bare = {
    command,
    turnMs: turn?.leaseMs ?? null,
    effects: [],
    events: [createdEvent(command, by)],
    accessVersion: input.accessVersion,
  }
  const opening =
    input.dependsOn?.length || input.alongside || input.tx
      ? insertWithMore(deps, bare, input)
      : open(deps, bare, mayInline, input.commitEnded)
  const opened = await opening.catch((error: unknown) => {
    turn?.release()
    throw error
  })
  if (!opened.ok || !opened.value.inserted) turn?.release()
  if (!opened.ok) return opened
  if (!input.tx) await failpoint('commands.submitted')
  const { inserted, row: stored, decided, isTried = false } = opened.value
  if (!inserted) {
    const hasTerms = input.cancellationMode !== undefined || (input.dependsOn ?? []).length > 0
    const mayRead = by.principal !== undefined && mayReadCommand(by.principal, stored)
    const repeat = { task, payload: input.payload, hasTerms, mayRead }
    const first = decideRepeat(stored, command, repeat)
    return first.ok ? accept({ command: first.value, isNew: false }) : rejectRequest(deps, by, input, first)
  }
  if (input.tx) {
    // Only the caller learns of the commit.
    const { afterCommit: _commit, afterRollback: _rollback, ...tx } = input.tx
    await deps.wake(processOf(stored.command_id), { tx, queue: task.queue })
    return accept({ command: stored, isNew: true })
  }
  if (decided) await passAfter(decided.draft.write)
  // The command is committed: an error from here on must not look like a refusal. The driver meets the same error and records it.
  const isShort = mayInline && !isTried
  const short = decided ? undefined : isShort ? runInline(deps, stored) : failMalformed(deps, task, stored)
  const done = decided && decided.next.t !== 'call' ? stored : await short?.catch(() => undefined)
  if (done) {
    turn?.release()
    return accept({ command: done, isNew: true })
  }
  const begun = decided ? { effects: decided.draft.now.effects, begun: decided.next } : { effects: [] }
  if (turn) turn.start(stored.command_id, { command: stored, hasParents: false, ...begun })
  else await wakeQuietly(deps, stored.command_id, task.queue)
  return accept({ command: stored, isNew: true })
}

type Opened = Once<StoredCommand> & {
  /** What was decided about the command before its first commit, and is part of it. */
  readonly decided?: Folded | undefined
  /** An effect was called before the commit, without a result. */
  readonly isTried?: boolean
}

/** Inserts a command with all that one commit can hold of it; the rest is decided afterwards. */
async function open(
  deps: CommandDeps,
  bare: NewCommand,
  mayInline: boolean,
  commitEnded: CommitEnded | undefined,
): Promise<Decision<Opened>> {
  const { command } = bare
  const first = await decideNew(deps, command, mayInline).catch(() => undefined)
  const decided = first === 'tried' ? undefined : first?.folded
  const opened = decided && (await insertDecided(deps, bare, decided, commitEnded))
  if (opened) return opened.ok ? accept({ ...opened.value, decided }) : opened
  // The grace begins with the insert: a call before it may have taken two seconds.
  const run_after = mayInline ? new Date(deps.now().getTime() + INLINE_GRACE_MS) : command.run_after
  const inserted = await deps.inserts.insert({ ...bare, command: { ...command, run_after } })
  return inserted.ok ? accept({ ...inserted.value, isTried: first === 'tried' }) : inserted
}

function createdEvent(command: StoredCommand, by: Actor): WriteEvent {
  const { command_id, command_type, task_name, ingress, idempotency_key, contract_key } = command
  const target = { target_type: 'command', target_id: command_id }
  return {
    event_type: 'command_created',
    payload: {
      command_type,
      task_name,
      ingress,
      idempotency_key,
      contract_key,
      ...target,
      ...credentialOf(by.principal),
    },
    actor: by.id,
  }
}

/** Columns that later writes fill. */
const columnsSetLater = {
  cancellation_requested: false,
  runtime_workflow_id: null,
  plan: null,
  result: null,
  error: null,
  error_class: null,
  attempt: 1,
  run_after: null,
  turn_token: null,
  turn_until: null,
  completed_at: null,
} as const

/** The row of a request before anything is decided. It holds nothing that the contract does not declare. */
export function rowOf(
  { newId }: Pick<CommandDeps, 'newId'>,
  by: Actor,
  input: SubmitCommand,
  { task, keys, mode }: Checked,
  at: Date,
): StoredCommand {
  const { name } = task.spec
  const payload = hideUndeclared(task.type.payload, input.payload)
  const payloadText = canonicalJson(payload)
  return {
    ...columnsSetLater,
    command_id: newId(),
    workspace_id: input.workspaceId,
    command_type: task.type.name,
    task_name: name,
    requested_by: by.id,
    ingress: input.ingress,
    payload,
    payload_hash: hash('sha256', payloadText),
    context: contextOf(by, input),
    status: 'created',
    cancellation_mode: mode ?? task.type.cancellation_mode,
    idempotency_key: keys.caller ?? null,
    contract_key: keys.contract ?? null,
    request_fingerprint: fingerprintOf(name, payloadText, input),
    agent_run_id: input.run?.agentRunId ?? null,
    created_at: at,
    updated_at: at,
  }
}

type Checked = {
  readonly task: CompiledTask
  readonly keys: RequestKeys
  readonly mode: CancellationMode | undefined
}

export function checkRequest({ catalog }: Pick<CommandDeps, 'catalog'>, input: SubmitCommand): Decision<Checked> {
  const task = findTask(catalog, input.taskName)
  if (!task) {
    const near = nearestNames(input.taskName, catalog.tasks.keys())
    return refuse('task_unknown', `There is no task ${quote(input.taskName)}.`, {
      path: 'task_name',
      hint:
        near.length > 0
          ? `Did you mean ${near.map((name) => `\`${name}\``).join(' or ')}?`
          : 'GET /task-types lists them.',
      facts: { nearest: near },
    })
  }
  if (!task.spec.ingress_types.includes(input.ingress)) {
    return refuse('ingress_not_allowed', `The task ${quote(task.spec.name)} is not open to ${input.ingress}.`, {
      facts: { allowed: task.spec.ingress_types },
    })
  }
  const mode = decideCancellationMode(input.cancellationMode)
  if (!mode.ok) return mode
  const guarded = guardValue(input.payload)
  if (!guarded.ok) return { ...guarded, path: guarded.path === undefined ? 'payload' : `payload.${guarded.path}` }
  const secrets = checkSecrets(input.payload, task.type.fields)
  if (!secrets.ok) return { ...secrets, path: `payload.${secrets.path ?? ''}` }
  const author = decideAuthor(task, input)
  if (!author.ok) return author
  const keys = keysOf(task, input)
  return keys.ok ? accept({ task, keys: keys.value, mode: mode.value }) : keys
}

export function decideCancellationMode(asked: string | undefined): Decision<CancellationMode | undefined> {
  if (asked === undefined) return accept(undefined)
  const known = cancellationModes.find((mode) => mode === asked)
  if (known) return accept(known)
  const more = { path: 'cancellation_mode', facts: { allowed: cancellationModes } }
  if (reservedModes.includes(asked))
    return refuse('mode_reserved', `The mode ${asked} is reserved and not supported.`, more)
  return refuse('api.field.value', `${quote(asked)} is not a cancellation mode.`, more)
}

function contextOf(by: Actor, input: SubmitCommand): CommandContext {
  const { principal } = by
  const traceparent = activeTraceparent(by.traceId)
  return {
    user_id: principal?.userId ?? by.id,
    workspace_id: input.workspaceId,
    app_id: input.appId ?? null,
    run_as: input.runAs ?? (principal ? 'user' : 'service'),
    trace_id: by.traceId,
    ...(traceparent === undefined ? {} : { traceparent }),
    request_id: input.requestId,
    // Rules decide on the rights of the caller at submit. An agent has the rights of its requester and none of its own.
    metadata: {
      ...input.metadata,
      role: principal?.role ?? (input.runAs === 'agent' ? 'none' : 'system'),
      org_roles: principal?.orgRoles ?? [],
    },
    ...(principal?.agent ? { agent: principal.agent.name } : {}),
    ...(input.run?.swarmRunId ? { swarm_run_id: input.run.swarmRunId } : {}),
    ...(input.follower ? { follower: input.follower } : {}),
  }
}

/** Records a rejected request without its payload: who asked for what, and why it was refused. */
export async function rejectRequest(
  deps: CommandDeps,
  by: Actor,
  input: Pick<SubmitCommand, 'workspaceId' | 'taskName' | 'ingress'>,
  refusal: Refusal,
): Promise<Refusal> {
  const payload = {
    task_name: cutText(redactText(input.taskName), 200),
    ingress: input.ingress,
    code: refusal.code,
    reason: redactText(refusal.reason),
    target_type: 'request',
    target_id: null,
    ...credentialOf(by.principal),
  }
  const event = {
    eventId: deps.newId(),
    type: 'command_rejected' as const,
    payload,
    ...eventBy(by),
    at: deps.now(),
  }
  await appendEvents(deps.db, commandLog, [{ ...event, links: { workspace_id: input.workspaceId } }])
  return refusal
}

/** The command is committed, so a failed wake must not look like a refusal. The reconciler wakes overdue commands. */
async function wakeQuietly(deps: Pick<CommandDeps, 'wake'>, commandId: string, queue: string): Promise<void> {
  await deps.wake(processOf(commandId), { queue }).catch(() => {})
  await failpoint('commands.woken')
}

/** Fails a malformed payload in the request itself, with the same row and event that the driver would write. */
async function failMalformed(
  deps: CommandDeps,
  task: CompiledTask,
  stored: StoredCommand,
): Promise<StoredCommand | undefined> {
  const verdict = validatePayload(task.type, task.spec, stored.payload)
  if (verdict.t !== 'malformed') return undefined
  const { changes } = fail('malformed_payload', verdict.errors.join('; '))
  const { turn_token: held } = stored
  const found = { command: stored, effects: [] }
  const write = composeWrite(found, held === null ? 'free' : { held }, changes, deps.now())
  const written = await deps.writes.commit(write)
  return written.ok ? written.value.command : undefined
}

/** A new command depends only on existing commands, so it cannot close a cycle. */
async function insertWithMore(
  deps: Pick<CommandDeps, 'db' | 'inserts'>,
  bare: NewCommand,
  { dependsOn: parents = [], alongside, tx: given }: Pick<SubmitCommand, 'dependsOn' | 'alongside' | 'tx'>,
): Promise<Decision<Opened>> {
  const { command_id, workspace_id, created_at } = bare.command
  const insert = async (tx: Tx): Promise<Decision<Opened>> => {
    await tx.query(`set local ${KEY_WAIT}`)
    const opened = await deps.inserts.insertIn(tx, bare).catch((error: unknown) => {
      const refusal = keyedBy(bare.command) === null ? undefined : refuseInProgress(error)
      if (refusal) return refusal
      throw error
    })
    if (!opened.ok) return opened
    await tx.query('set local lock_timeout = 0')
    if (!opened.value.inserted) return opened
    for (const { commandId, requiredStatus = 'succeeded', propagateCancellation = true } of parents) {
      const values = [command_id, commandId, workspace_id, requiredStatus, propagateCancellation, created_at]
      const [inserted] = await tx.run(insertDependency, values)
      if (!inserted) return refuseParent(commandId)
    }
    const more = await alongside?.(tx, opened.value.row)
    return more?.ok === false ? more : opened
  }
  return given ? given.savepoint(insert) : deps.db.transaction(insert)
}
