/**
 * The two keys of a command. The caller's key names the request: the same request again gets the same command. The contract's key names
 * the thing done: a command holds it from its first commit until it ends with nothing done that stands, and no other command can have it.
 */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import { decideKeyOwner, decideKeys, type RequestKeys, renderContractKey } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { hasSecretShape } from '#kernel/secret-shapes'
import type { Process } from '#runtime'
import { constraintOf, type Sql, statement, type Tx } from '#store'
import type { DependsOn } from './add-dependency.ts'
import type { CompiledTask } from './catalog/open-catalog.ts'
import { type Change, composeWrite, emitEvent, set, systemActor, type Who, type Write } from './change.ts'
import { columnsOf, type StoredCommand, listForeignUndos, lockCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { isFreed } from './standing.ts'
import { validatePayload } from './tasks.ts'
import { asEffect, undoneIdOf, UNDO_TYPE } from './undo-plan.ts'

type KeyedRequest = {
  readonly payload: JsonObject
  readonly idempotencyKey?: string | undefined
  readonly ingress: string
  readonly follower?: Process | undefined
}

/**
 * The keys of a request. The contract's key is made from the payload as it would be stored, since two spellings of one value are one thing.
 * A malformed payload gets none: it would block the corrected request.
 */
export function keysOf(
  task: CompiledTask,
  { payload, idempotencyKey, ingress, follower }: KeyedRequest,
): Decision<RequestKeys> {
  const verdict = task.key.template && validatePayload(task.type, task.spec, payload)
  const keys = decideKeys(task.key, idempotencyKey, verdict?.t === 'fits' ? verdict.payload : payload)
  if (!keys.ok) return keys
  const { caller } = keys.value
  const contract = verdict?.t === 'malformed' ? undefined : keys.value.contract
  const owned = caller === undefined ? accept(null) : decideKeyOwner(caller, ingress, follower?.kind)
  if (!owned.ok) return { ...owned, path: 'idempotency_key' }
  for (const [key, path] of [
    [caller, 'idempotency_key'],
    [contract, 'payload'],
  ] as const)
    if (key !== undefined && hasSecretShape(key))
      return refuse('commands.payload.secret', 'The key looks like a credential.', { path })
  return accept({ caller, contract })
}

/** The contract's key for a payload that has changed. */
export function contractKeyOf({ key }: CompiledTask, payload: JsonObject, path: string): Decision<string | null> {
  const made = renderContractKey(key, payload)
  return made.ok ? accept(made.value ?? null) : { ...made, path }
}

/** A request that met a command with one of its keys. */
export type Repeat = {
  readonly task: CompiledTask
  readonly payload: JsonObject
  /** The request sets a cancellation mode or dependencies. */
  readonly hasTerms: boolean
  /** A person of the workspace may read the first command anyway; an external system or another agent is shown nothing of it. */
  readonly mayRead: boolean
}

/** The first command, if the request asks for it again; otherwise a refusal that names it. */
export function decideRepeat(
  first: StoredCommand,
  asked: StoredCommand,
  { task, payload, hasTerms, mayRead }: Repeat,
): Decision<StoredCommand> {
  const isSent = first.request_fingerprint === asked.request_fingerprint
  if (asked.idempotency_key !== null && first.idempotency_key === asked.idempotency_key)
    return isSent ? accept(first) : refuseReused(first, mayRead)
  // A row that no turn has validated yet has the payload as it was sent.
  const contentOf = (given: JsonObject) => {
    const verdict = validatePayload(task.type, task.spec, given)
    return canonicalJson(verdict.t === 'fits' ? verdict.payload : given)
  }
  const isSame = first.task_name === asked.task_name && contentOf(first.payload) === contentOf(payload)
  const isMine = first.requested_by === asked.requested_by
  // Input or an edit may have changed the first command since: then only its requester repeats the request, and others ask for something else.
  const isRepeat = isSent ? isSame || isMine : isSame && !hasTerms
  // With a key of its own it is another request, also for the same content.
  return asked.idempotency_key === null && isRepeat ? accept(first) : refuseTaken(first, task, mayRead)
}

function refuseReused(first: StoredCommand, mayRead: boolean): Refusal {
  return refuse('key_reused', 'This key was used before for another request.', {
    path: 'idempotency_key',
    hint: 'Use a new key for a new request, and the same key only to repeat the same request.',
    ...(mayRead ? { facts: { command_id: encodeId('command', first.command_id) } } : {}),
  })
}

function refuseTaken(first: StoredCommand, { key }: CompiledTask, mayRead: boolean): Refusal {
  if (!mayRead) return refuse('commands.contract_key.taken', 'This was already asked for.')
  const id = encodeId('command', first.command_id)
  const made = key.template ? ` Its contract makes one key from ${key.template.text}.` : ''
  return refuse(
    'commands.contract_key.taken',
    `${id} was asked for the same thing; it ${sayState(first.status)}.${made}`,
    {
      hint: hintFor(first, id),
      facts: { command_id: id, status: first.status },
    },
  )
}

function hintFor({ status, completed_at }: StoredCommand, id: string): string {
  if (completed_at === null) return `Wait for ${id}, or cancel it and submit this again.`
  if (status === 'succeeded')
    return `Read ${id}: it is done. To do another thing, change a field that the key is made of.`
  if (status === 'failed') return `Effects of ${id} stand. Retry it, or undo its effects and submit this again.`
  return `Effects of ${id} stand or are in doubt. Its \`next\` says how to undo them or to free the key.`
}

/** $1 workspace, $2 keys. */
const listHolders = statement<StoredCommand>(
  'commands_list_holders',
  `select ${columnsOf('c')} from concord.commands as c where c.contract_key = any($2::text[]) and c.workspace_id = $1`,
)

/** The commands that have one of these keys of a contract: while they do, no other command can have it. */
export const findHolders = (sql: Sql, workspaceId: string, keys: readonly string[]): Promise<StoredCommand[]> =>
  keys.length === 0 ? Promise.resolve([]) : sql.run(listHolders, [workspaceId, keys])

/** Gives the command another key of its contract. Nothing if the key stays. */
export function moveKey(
  { contract_key: from }: StoredCommand,
  to: string | null,
  by: Who,
  reason: string,
): readonly Change[] {
  if (from === to) return []
  return [set({ contract_key: to }), emitEvent('contract_key_changed', by, { from, to, reason })]
}

/** Runs a write that may give a command another key. The unique index decides; if another command has the key, nothing is written. */
export async function takeContractKey<T>(
  tx: Tx,
  task: CompiledTask,
  { command, changes }: { readonly command: StoredCommand; readonly changes: readonly Change[] },
  write: (tx: Tx) => Promise<Decision<T>>,
): Promise<Decision<T>> {
  const key = changes.map((change) => (change.t === 'set' ? change.patch.contract_key : undefined)).find(Boolean)
  if (!key) return write(tx)
  try {
    return await tx.savepoint(write)
  } catch (error) {
    if (constraintOf(error) !== 'commands_contract_key_uq') throw error
    const [holder] = await findHolders(tx, command.workspace_id, [key])
    if (holder) return refuseTaken(holder, task, true)
    return refuse('key_in_progress', 'Another command with this key was being written.', {
      facts: { retry_after_s: 1 },
    })
  }
}

/**
 * Adds what is missing in `given`, at any depth, and replaces nothing. Null counts as missing only in a field that was asked for. A list is
 * filled element by element, and gets no more of them.
 */
export function fillMissing(given: JsonObject, input: JsonObject, asked: readonly string[]): Decision<JsonObject> {
  const filled = fill(given, input, 'input', new Set(asked.map((field) => `input.${field}`)))
  // An object filled with an object is one.
  return filled.ok ? accept(filled.value as JsonObject) : filled
}

function fill(
  given: JsonValue | undefined,
  input: JsonValue,
  path: string,
  asked: ReadonlySet<string>,
): Decision<JsonValue> {
  if (given === undefined || (given === null && asked.has(path))) return accept(input)
  if (Array.isArray(given) && Array.isArray(input) && given.length === input.length) {
    const items: JsonValue[] = []
    for (const [index, item] of given.entries()) {
      const filled = fill(item, input[index] as JsonValue, `${path}[${index}]`, asked)
      if (!filled.ok) return filled
      items.push(filled.value)
    }
    return accept(items)
  }
  if (isJsonObject(given) && isJsonObject(input)) {
    const fields = new Map(Object.entries(given))
    for (const [name, value] of Object.entries(input)) {
      const filled = fill(fields.get(name), value, `${path}.${name}`, asked)
      if (!filled.ok) return filled
      fields.set(name, filled.value)
    }
    return accept(Object.fromEntries(fields))
  }
  if (canonicalJson(given) === canonicalJson(input)) return accept(given)
  return refuse('commands.input.given', 'The command already has a value here; input only adds what is missing.', {
    path,
  })
}

/** An undo that leaves nothing standing frees the contract's key of the command that it undid: the thing can be asked for again. */
export function freeUndone(
  { writes }: Pick<CommandDeps, 'writes'>,
  { command, to, at }: Write,
): ((tx: Tx) => Promise<void>) | undefined {
  if (command.command_type !== UNDO_TYPE || to !== 'succeeded') return undefined
  const { workspace_id: workspaceId } = command
  return async (tx) => {
    const commandId = undoneIdOf(command.payload)
    const found = await lockCommand(tx, workspaceId, commandId)
    if (!found || found.command.completed_at === null || found.command.contract_key === null) return
    const undos = await tx.run(listForeignUndos, [workspaceId, [commandId]])
    if (!isFreed({ ...found, effects: [...found.effects, ...undos.map(asEffect)] })) return
    const changes = moveKey(found.command, null, systemActor, 'undone')
    await writes.commitIn(tx, composeWrite(found, 'any', changes, at))
  }
}

type RequestTerms = {
  readonly dependsOn?: readonly DependsOn[] | undefined
  readonly cancellationMode?: string | undefined
}

/** Of the canonical JSON of `[task, payload, terms]`; the text of the payload is already known. */
export function fingerprintOf(
  taskName: string,
  payloadText: string,
  { dependsOn, cancellationMode }: RequestTerms,
): string {
  const parents = (dependsOn ?? []).map(({ commandId, requiredStatus, propagateCancellation }) => [
    commandId,
    requiredStatus ?? 'succeeded',
    propagateCancellation ?? true,
  ])
  const terms = { cancellation_mode: cancellationMode ?? null, depends_on: parents }
  return hash('sha256', `[${canonicalJson(taskName)},${payloadText},${canonicalJson(terms)}]`)
}
