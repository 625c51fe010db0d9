/** What a provider says about one operation, as the database has it. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { canonicalJson } from '#kernel/canonical-json'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { formatPath, isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { appendEvents, type Sql, statement } from '#store'
import type { RowOf } from '#store/rows'
import type { ConnectorDefinition } from '../define-connector.ts'
import type { ConnectorDeps } from '../deps.ts'
import { connectorLog } from '../events.ts'

export type StoredDefinition = RowOf<
  'concord.connector_definitions',
  { readonly seen_definition: JsonObject; readonly approved_definition: JsonObject | null }
>

export type DefinitionPlace = {
  readonly workspaceId: string
  readonly connectorName: string
  readonly operation: string
}

export async function findDefinition(
  sql: Sql,
  { workspaceId, connectorName, operation }: DefinitionPlace,
): Promise<StoredDefinition | undefined> {
  const [row] = await sql.run(findDefinitionSql, [workspaceId, connectorName, operation])
  return row
}

/** Nobody is served by a definition that no person has seen. */
function isQuarantined({ seen_hash, approved_hash }: StoredDefinition): boolean {
  return seen_hash !== approved_hash
}

/** One hash per definition, independent of key order, and a description of the differences between two definitions. */
export function hashDefinition(definition: JsonObject): string {
  return `sha256:${createHash('sha256').update(canonicalJson(definition)).digest('hex')}`
}

export type DefinitionChange = {
  /** `input_schema.properties.path.type`. */
  readonly path: string
  /** Null: it was not there, or is not there any more. JSON null is the text `null`. */
  readonly was: string | null
  readonly is: string | null
}

/** The smallest parts that differ, in the order of their paths. Complete, because approvers must see everything they approve. */
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

/** Short enough for the error of a call; the whole of it is in the list of definitions. */
export function sayChanges(changes: readonly DefinitionChange[]): string {
  const lines = changes.slice(0, LINES_MAX).map(({ path, was, is }) => {
    if (was === null) return `${path} is new: ${short(is)}`
    return is === null ? `${path} is gone` : `${path} was ${short(was)} and is ${short(is)}`
  })
  const more = changes.length - lines.length
  return more > 0 ? `${lines.join('; ')}; and ${more} more` : lines.join('; ')
}

function short(text: string | null): string {
  const plain = text ?? ''
  return plain.length <= LINE_CHARS_MAX ? plain : `${plain.slice(0, LINE_CHARS_MAX)}…`
}

/** $1 workspace, $2 connector, $3 operation or null for all. */
export const findDefinitionSql = statement<StoredDefinition>(
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

/** $1 workspace, $2 connector, $3 operation, $4 hash, $5 by whom, $6 time. */
export const saveApprovedDefinition = statement<StoredDefinition>(
  'connectors_save_approved_definition',
  `update concord.connector_definitions d
      set approved_definition = seen_definition, approved_hash = seen_hash, approved_by = $5, approved_at = $6
    where d.workspace_id = $1 and d.connector_name = $2 and d.operation = $3
      and d.seen_hash = $4 and d.approved_hash is distinct from d.seen_hash
   returning d.*`,
)

/** Writes down what a provider says about itself where it is news, with the event in the same commit. */
export async function noteDefinition(
  deps: Pick<ConnectorDeps, 'db' | 'now' | 'newId'>,
  { workspaceId, connectorName, operation }: DefinitionPlace,
  definition: JsonObject,
  traceId: string,
): Promise<void> {
  const [hash, at] = [hashDefinition(definition), deps.now()]
  await deps.db.transaction(async (tx) => {
    const values = [workspaceId, connectorName, operation, JSON.stringify(definition), hash, at]
    const [news] = await tx.run(saveSeenDefinition, values)
    if (!news) return
    const { approved_hash } = news
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

/** What the providers of a connector say about its operations, beside what was approved, with what differs. */
const text = z.string().nullable()

export const definitionView = z
  .object({
    operation: z.string().meta({ example: 'search' }),
    status: z.enum(['approved', 'quarantined']).meta({ description: 'Quarantined: calls are refused.' }),
    seen_hash: z.string().meta({ example: 'sha256:9f86…', description: 'What an approval names.' }),
    seen_definition: z.record(z.string(), z.unknown()),
    seen_at: z.string().meta({ format: 'date-time' }),
    approved_hash: text,
    approved_by: text,
    approved_at: text,
    changes: z
      .array(z.object({ path: z.string(), was: text, is: text }))
      .meta({ description: 'From what was approved to what was seen; all of it where nothing was approved.' }),
  })
  .meta({ id: 'ConnectorOperationDefinition', description: 'What a provider says about one of its operations.' })

export function listDefinitions(
  sql: Sql,
  workspaceId: string,
  connectorName: string,
): Promise<readonly StoredDefinition[]> {
  return sql.run(findDefinitionSql, [workspaceId, connectorName, null])
}

/** A connector as this workspace has approved it: with the texts and schemas of the provider where somebody agreed to them. */
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

export function toDefinitionView(row: StoredDefinition): z.infer<typeof definitionView> {
  return {
    operation: row.operation,
    status: isQuarantined(row) ? 'quarantined' : 'approved',
    seen_hash: row.seen_hash,
    seen_definition: { ...row.seen_definition },
    seen_at: formatInstant(row.seen_at),
    approved_hash: row.approved_hash,
    approved_by: row.approved_by === null ? null : encodeId('user', row.approved_by),
    approved_at: row.approved_at === null ? null : formatInstant(row.approved_at),
    changes: diffDefinitions(row.approved_definition, row.seen_definition).map((change) => ({ ...change })),
  }
}
