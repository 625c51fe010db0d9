/** What a provider says about its operations: recorded when it changes, compared, and approved by a person before it is called. */
import { createHash } from 'node:crypto'
import type { Principal } from '#domains/identity'
import { canonicalJson } from '#kernel/canonical-json'
import { formatPath, isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { appendEvents, type Sql, statement } from '#store'
import type { RowOf } from '#store/rows'
import {
  type CallContext,
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorOperationContract,
  succeeded,
} from './connector.ts'
import type { ConnectorDeps, OpenedConnector } from './deps.ts'
import { connectorLog } from './events.ts'
import { callInTime } from './judge-answer.ts'
import { openScrubber, openSecretAccess, type Scrubber } from './secrets.ts'

export type StoredDefinition = RowOf<
  'concord.connector_definitions',
  { readonly seen_definition: JsonObject; readonly approved_definition: JsonObject | null }
>

/** One hash per definition, independent of key order. */
export function hashDefinition(definition: JsonObject): string {
  return `sha256:${createHash('sha256').update(canonicalJson(definition)).digest('hex')}`
}

type DefinitionChange = {
  /** `input_schema.properties.path.type`. */
  readonly path: string
  /** Null if it is absent; JSON null is the text `null`. */
  readonly was: string | null
  readonly is: string | null
}

/** Returns the smallest parts that differ, in the order of their paths. It is complete, because approvers must see everything they approve. */
export function diffDefinitions(was: JsonObject | null, is: JsonObject): readonly DefinitionChange[] {
  return differences(was ?? {}, is, [])
}

function differences(
  was: JsonValue | undefined,
  is: JsonValue | undefined,
  path: readonly string[],
): readonly DefinitionChange[] {
  if (isNamed(was) && isNamed(is)) {
    const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].toSorted()
    return names.flatMap((name) => differences(own(was, name), own(is, name), [...path, name]))
  }
  const [before, after] = [textOf(was), textOf(is)]
  if (before === after) return []
  return [{ path: formatPath(path) || 'definition', was: before, is: after }]
}

function own(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

function isNamed(value: JsonValue | undefined): value is JsonObject {
  return value !== undefined && value !== null && isJsonObject(value)
}

function textOf(value: JsonValue | undefined): string | null {
  return value === undefined ? null : canonicalJson(value)
}

const LINE_CHARS_MAX = 90
const LINES_MAX = 2

/** A summary for the error of a call; the list of definitions shows everything. */
function sayChanges(changes: readonly DefinitionChange[]): string {
  const lines = changes.slice(0, LINES_MAX).map(({ path, was, is }) => {
    if (was === null) return `${path} is new: ${short(is)}`
    return is === null ? `${path} was removed` : `${path} was ${short(was)} and is ${short(is)}`
  })
  const more = changes.length - lines.length
  return more > 0 ? `${lines.join('; ')}; and ${more} more` : lines.join('; ')
}

function short(text: string | null): string {
  const plain = text ?? ''
  return plain.length <= LINE_CHARS_MAX ? plain : `${plain.slice(0, LINE_CHARS_MAX)}…`
}

/** $1 workspace, $2 connector, $3 operation or null for all. */
const findDefinitionSql = statement<StoredDefinition>(
  'connectors_find_definition',
  `select t.* from concord.connector_definitions t
    where t.workspace_id = $1 and t.connector_name = $2 and ($3::text is null or t.operation = $3)
    order by t.operation`,
)

/** $1 workspace, $2 connector, $3 operation, $4 definition, $5 hash, $6 time. */
const saveSeenDefinition = statement<StoredDefinition>(
  'connectors_save_seen_definition',
  `insert into concord.connector_definitions as d
     (workspace_id, connector_name, operation, seen_definition, seen_hash, seen_at)
   values ($1, $2, $3, $4::jsonb, $5, $6)
   on conflict on constraint connector_definitions_pk do update
     set seen_definition = excluded.seen_definition, seen_hash = excluded.seen_hash, seen_at = excluded.seen_at
     where d.seen_hash <> excluded.seen_hash
   returning d.*`,
)

/** $1 workspace, $2 connector, $3 operation, $4 hash, $5 approver, $6 time. */
const saveApprovedDefinition = statement<StoredDefinition>(
  'connectors_save_approved_definition',
  `update concord.connector_definitions d
      set approved_definition = seen_definition, approved_hash = seen_hash, approved_by = $5, approved_at = $6
    where d.workspace_id = $1 and d.connector_name = $2 and d.operation = $3
      and d.seen_hash = $4 and d.approved_hash is distinct from d.seen_hash
   returning d.*`,
)

type DefinitionPlace = {
  readonly workspaceId: string
  readonly connectorName: string
  readonly operation: string
}

async function findDefinition(
  sql: Sql,
  { workspaceId, connectorName, operation }: DefinitionPlace,
): Promise<StoredDefinition | undefined> {
  const [row] = await sql.run(findDefinitionSql, [workspaceId, connectorName, operation])
  return row
}

export function listDefinitions(
  sql: Sql,
  workspaceId: string,
  connectorName: string,
): Promise<readonly StoredDefinition[]> {
  return sql.run(findDefinitionSql, [workspaceId, connectorName, null])
}

/** Records what a provider says about itself if it is new, with the event in the same commit. */
async function noteDefinition(
  deps: ConnectorDeps,
  { workspaceId, connectorName, operation }: DefinitionPlace,
  definition: JsonObject,
  traceId: string,
): Promise<void> {
  const [hash, at] = [hashDefinition(definition), deps.now()]
  await deps.db.transaction(async (tx) => {
    const values = [workspaceId, connectorName, operation, JSON.stringify(definition), hash, at]
    const [changed] = await tx.run(saveSeenDefinition, values)
    if (!changed) return
    const { approved_hash } = changed
    await appendEvents(tx, connectorLog, [
      {
        eventId: deps.newId(),
        type: 'connector_definition_seen',
        payload: { connector: connectorName, operation, seen_hash: hash, approved_hash },
        actor: 'worker',
        actorKind: 'worker',
        traceId,
        at,
        links: { workspace_id: workspaceId },
      },
    ])
  })
}

/** Returns a connector as this workspace has approved it: with the approved texts and schemas of the provider. */
export async function approvedDefinition(
  sql: Sql,
  definition: ConnectorDefinition,
  workspaceId: string,
): Promise<ConnectorDefinition> {
  const { pinned } = definition
  if (pinned === null) return definition
  const rows = await listDefinitions(sql, workspaceId, definition.name)
  const operations = definition.operations.map((operation) => {
    const approved = rows.find((row) => row.operation === operation.name)?.approved_definition
    const contract = approved ? pinned.contractOf(operation, approved) : undefined
    return contract?.ok ? contract.value : operation
  })
  return { ...definition, operations }
}

export type CurrentContract = {
  readonly operation: ConnectorOperationContract
  readonly stored: StoredDefinition | undefined
}

/** Returns the declared contract, or the approved one where the provider describes itself. Throws `ConnectorFailure`. */
export async function currentContract(
  { db }: Pick<ConnectorDeps, 'db'>,
  { name, connector_id, pinned }: ConnectorDefinition,
  declared: ConnectorOperationContract,
  workspaceId: string,
): Promise<CurrentContract> {
  if (pinned === null) return { operation: declared, stored: undefined }
  const stored = await findDefinition(db, { workspaceId, connectorName: name, operation: declared.name })
  const subject = `${name}.${declared.name}`
  if (!stored?.approved_definition)
    throw new ConnectorFailure(
      'permission_denied',
      `The definition of ${subject} is not approved yet: run concord connectors check ${connector_id}, then concord connectors approve.`,
      'no',
    )
  const contract = pinned.contractOf(declared, stored.approved_definition)
  if (contract.ok) return { operation: contract.value, stored }
  const message = `The approved definition of ${subject} is not usable: ${contract.reason}`
  throw new ConnectorFailure('permission_denied', message, 'no')
}

/** Returns the `confirmDefinition` of a call, which throws when the current definition is not the approved one. */
export function openConfirm(
  deps: ConnectorDeps,
  called: { readonly definition: ConnectorDefinition; readonly operation: ConnectorOperationContract },
  { workspace_id: workspaceId, trace_id }: Pick<CallContext, 'workspace_id' | 'trace_id'>,
  stored: StoredDefinition | undefined,
  scrubber: Scrubber,
): CallContext['confirmDefinition'] {
  const [connectorName, operation] = [called.definition.name, called.operation.name]
  return async (given) => {
    const seen = scrubber.value(given)
    // Replacing texts does not change the type: an object stays an object; null means that the provider no longer has the operation.
    const said: JsonObject = seen !== null && isJsonObject(seen) ? seen : {}
    const hash = hashDefinition(said)
    if (hash !== stored?.seen_hash)
      await noteDefinition(deps, { workspaceId, connectorName, operation }, said, trace_id)
    if (hash === stored?.approved_hash) return
    const changes = diffDefinitions(stored?.approved_definition ?? null, said)
    throw new ConnectorFailure(
      'permission_denied',
      `The definition of ${connectorName}.${operation} is not the approved one: ${sayChanges(changes)}. ` +
        'A person must review it (concord connectors definitions) and approve it.',
      'no',
    )
  }
}

export type ApproveDefinition = {
  readonly workspaceId: string
  readonly operation: string
  /** The hash of the definition that the person reviewed. */
  readonly hash: string
  readonly principal: Pick<Principal, 'userId'>
  readonly traceId: string
}

/** Approves exactly the definition that the person reviewed. */
export async function approveDefinition(
  deps: Pick<ConnectorDeps, 'db' | 'now' | 'newId'>,
  definition: ConnectorDefinition,
  { workspaceId, operation, hash, principal, traceId }: ApproveDefinition,
): Promise<Decision<StoredDefinition>> {
  const place = { workspaceId, connectorName: definition.name, operation }
  const known = await findDefinition(deps.db, place)
  if (!known)
    return refuse('connectors.definition.not_found', `The operation ${quote(operation)} is not known.`, {
      path: 'operation',
      hint: `Run concord connectors check ${definition.connector_id} to ask the provider for its operations.`,
    })
  if (known.seen_hash !== hash)
    return refuse('connectors.definition.changed', 'The provider has changed this definition.', {
      path: 'hash',
      hint: `Review the new one with concord connectors definitions ${definition.connector_id}, then approve it.`,
      facts: { seen_hash: known.seen_hash },
    })
  const declared = definition.operations.find(({ name }) => name === operation)
  const readable = declared && definition.pinned?.contractOf(declared, known.seen_definition)
  if (readable && !readable.ok) return readable
  const at = deps.now()
  return deps.db.transaction(async (tx) => {
    const values = [workspaceId, definition.name, operation, hash, principal.userId, at]
    const [approved] = await tx.run(saveApprovedDefinition, values)
    // Already approved, or changed since it was read: the row says which.
    if (!approved) {
      const now = await findDefinition(tx, place)
      return now?.approved_hash === hash
        ? accept(now)
        : refuse('connectors.definition.changed', 'The definition changed during the approval.', { path: 'hash' })
    }
    await appendEvents(tx, connectorLog, [
      {
        eventId: deps.newId(),
        type: 'connector_definition_approved',
        payload: { connector: definition.name, operation, approved_hash: hash, was_hash: known.approved_hash },
        actor: `user:${principal.userId}`,
        actorKind: 'human',
        traceId,
        at,
        links: { workspace_id: workspaceId },
      },
    ])
    return accept(approved)
  })
}

const LOOK_MS = 30_000
const LOOK_BYTES_MAX = 1_048_576

export type CheckDefinitions = {
  readonly workspaceId: string
  readonly traceId: string
  readonly signal: AbortSignal
}

/** Asks a provider for its current definitions and records them. Calls none of its operations. */
export async function checkDefinitions(
  deps: ConnectorDeps,
  { definition, connector }: OpenedConnector,
  { workspaceId, traceId, signal: outer }: CheckDefinitions,
): Promise<Decision<readonly StoredDefinition[]>> {
  const { name } = definition
  const { look } = connector
  if (!look)
    return refuse('connectors.definition.not_found', `The provider of ${name} does not describe itself.`, {
      hint: 'There is nothing to approve: its contract is in the project.',
    })
  const scrubber = openScrubber()
  let seen: Awaited<ReturnType<typeof look>> = []
  const result = await callInTime(deps, LOOK_MS, outer, async (signal) => {
    const secrets = await openSecretAccess(deps.secrets, definition, scrubber)
    seen = await look.call(connector, {
      ...secrets,
      timeout_ms: LOOK_MS,
      output_max_bytes: LOOK_BYTES_MAX,
      signal,
    })
    return succeeded(null)
  })
  if (!result.ok) {
    const reason = scrubber.text(result.error?.message ?? 'The provider did not answer.')
    return refuse('connectors.definition.unavailable', `${name}: ${reason}`)
  }
  // Replacing texts does not change the type: an object stays an object.
  for (const { operation, definition: said } of seen)
    await noteDefinition(
      deps,
      { workspaceId, connectorName: name, operation },
      scrubber.value(said) as JsonObject,
      traceId,
    )
  return accept(await listDefinitions(deps.db, workspaceId, name))
}
