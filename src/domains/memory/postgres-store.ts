/** The default store: memories in Concord's own database. The unique index on the fact decides between concurrent writers (M1). */
import type { Actor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type Db, pageText, type Sql, sqlStateOf, statement, type Statement, type Tx } from '#store'
import { isSameContent } from './memory-content.ts'
import { findRecord, findRival, recordColumns, saveRecord, type StoredMemory } from './memory-record.ts'
import type {
  FoundMemory,
  MemoryQuery,
  MemoryRef,
  MemoryStore,
  NewMemory,
  ReadNote,
  SearchScope,
} from './memory-store.ts'

export function refuseConflict(memoryId: string | undefined): Refusal {
  return refuse('memory.fact.conflict', 'Another active memory states the same fact.', {
    hint: 'Read it, and name it in `supersedes` to replace it.',
    facts: memoryId === undefined ? {} : { memory_id: memoryId },
  })
}

export function refuseAbsent(): Refusal {
  return refuse('memory.record.not_found', 'There is no such memory.')
}

/** Whether this Postgres has pgvector. Without it the search computes the same similarity in plain SQL. */
export type VectorSupport = 'pgvector' | 'plain'

const PROBE = `select (array[1, 0]::real[]::vector <=> array[0, 1]::real[]::vector)::float8 as distance`
/** Undefined type, undefined operator, undefined cast. */
const ABSENT = new Set(['42704', '42883', '42846'])

export async function detectVectorSupport(db: Pick<Db, 'query'>): Promise<VectorSupport> {
  try {
    const [row] = await db.query<{ distance: number }>(PROBE)
    // The distance of orthogonal vectors is 1 in pgvector; another type named `vector` fails this check.
    return row?.distance === 1 ? 'pgvector' : 'plain'
  } catch (error) {
    if (ABSENT.has(sqlStateOf(error) ?? '')) return 'plain'
    throw error
  }
}

/** SQL for the cosine similarity of `e.embedding` and the given vector: 1 for the same direction. */
function similaritySql(support: VectorSupport, vector: string): string {
  if (support === 'pgvector') return `1 - (e.embedding::vector <=> ${vector}::real[]::vector)::float8`
  return `(select sum(u.a::float8 * u.b) / nullif(sqrt(sum(u.a::float8 * u.a)) * sqrt(sum(u.b::float8 * u.b)), 0)
    from unnest(e.embedding, ${vector}::real[]) as u (a, b))`
}

/**
 * $1 the row as JSON. Inserts it unless its fact, its id or its candidate is already there; waits for a concurrent writer of the
 * same fact.
 */
const insertRecord = statement<StoredMemory>(
  'memory_insert_record',
  `insert into concord.memory_records select * from jsonb_populate_record(null::concord.memory_records, $1::jsonb)
on conflict do nothing
returning ${recordColumns}`,
)

type Built = { readonly statement: Statement<FoundMemory>; readonly values: readonly unknown[] }

/** The words of the content. The index covers exactly this expression. */
const WORDS = `to_tsvector('simple'::regconfig, r.content::jsonb)`
const columns = recordColumns.replaceAll(/(\w+)(::float8 as \w+)?(,|$)/g, 'r.$1$2$3')

/** Builds one statement per shape of query that finds active records. With a note, the same statement records the read. */
function buildSearch(
  support: VectorSupport,
  scope: SearchScope,
  query: MemoryQuery | null,
  limit: number,
  note: ReadNote | null,
): Built {
  const values: unknown[] = []
  const mark = (value: unknown) => `$${values.push(value)}`
  const shape: string[] = [support === 'pgvector' ? 'v' : 'p']
  const where = [
    `r.workspace_id = ${mark(scope.workspaceId)}::uuid and r.status = 'active'`,
    `(r.expires_at is null or r.expires_at > ${mark(scope.at)}::timestamptz)`,
  ]
  const narrow = (name: string, value: unknown, sql: (mark: string) => string) => {
    if (value === undefined) return
    shape.push(name)
    where.push(sql(mark(value)))
  }
  narrow('s', scope.subject?.subject_type, (at) => `r.subject_type = ${at}::text`)
  narrow('i', scope.subject?.subject_id, (at) => `r.subject_id = ${at}::text`)
  narrow('m', scope.memoryTypes, (at) => `r.memory_type = any (${at}::text[])`)
  narrow('n', scope.schemaNames, (at) => `(r.schema_name is null or r.schema_name = any (${at}::text[]))`)
  narrow('t', scope.taskType, (at) => `r.task_type = ${at}::text`)
  narrow('c', scope.connector, (at) => `r.connector = ${at}::text`)
  narrow('u', scope.viewer, (at) => `(r.scope <> 'user' or r.subject_type <> 'user' or r.subject_id = ${at}::text)`)

  let [from, score] = ['concord.memory_records as r', 'null::float8']
  if (query?.embedding) {
    shape.push('e')
    from += ` join concord.memory_embeddings as e on e.memory_id = r.memory_id and e.model = ${mark(query.embedding.model)}::text and e.embedding is not null`
    score = similaritySql(support, mark(query.embedding.vector))
  } else if (query) {
    shape.push('x')
    const words = `websearch_to_tsquery('simple'::regconfig, ${mark(query.text)}::text)`
    where.push(`${WORDS} @@ ${words}`)
    score = `ts_rank(${WORDS}, ${words})::float8`
  }
  const order = `order by score desc nulls last, created_at desc, memory_id`
  const found = pageText(`select ${columns}, ${score} as score from ${from}
where ${where.join(' and ')}
${order} limit ${mark(limit)}::integer`)
  if (!note) return { statement: statement(`memory_search_${shape.join('')}`, found), values }
  const noted = [note.readId, scope.workspaceId, note.reader, note.agentRunId, note.kind, note.traceId, scope.at]
  const [id, workspace, reader, run, kind, trace, at] = noted.map(mark)
  const text = `with found as (${found}),
noted as (insert into concord.memory_reads (memory_read_id, workspace_id, reader, agent_run_id, query_kind, trace_id, read_at, memory_ids)
  select ${id}::uuid, ${workspace}::uuid, ${reader}::text, ${run}::uuid, ${kind}::text, ${trace}::text, ${at}::timestamptz,
    coalesce(array_agg(memory_id), '{}') from found)
select * from found ${order}`
  return { statement: statement(`memory_search_noted_${shape.join('')}`, text), values }
}

function search(sql: Sql, built: Built): Promise<readonly FoundMemory[]> {
  return sql.run(built.statement, built.values)
}

type StoreDeps = { readonly db: Db; readonly newId: NewId; readonly vectors: VectorSupport }

export function openPostgresStore({ db, newId, vectors }: StoreDeps): MemoryStore {
  const storeOn = (sql: Sql, inTransaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>): MemoryStore => ({
    name: 'postgres',
    insert: (memory, actor, at) => inTransaction((tx) => insert(tx, newId, memory, actor, at)),
    get: ({ workspaceId, memoryId }) => findRecord(sql, workspaceId, memoryId),
    findFact: (place) => findRival(sql, place),
    search: (scope, query, limit) => search(sql, buildSearch(vectors, scope, query, limit, null)),
    searchNoted: (scope, query, limit, note) => search(sql, buildSearch(vectors, scope, query, limit, note)),
    supersede: (old, by, actor, at) => inTransaction((tx) => supersede(tx, newId, old, by, actor, at)),
    delete: (ref, actor, at) => inTransaction((tx) => empty(tx, newId, ref, actor, at)),
    within: (tx) => storeOn(tx, (work) => work(tx)),
  })
  return storeOn(db, (work) => db.transaction(work))
}

const insertDerivations = statement<never>(
  'memory_insert_derivations',
  `insert into concord.memory_derivations (workspace_id, memory_id, source_memory_id, created_at)
select $1, $2, source, $4 from unnest($3::uuid[]) as source on conflict do nothing`,
)

const insertEmbedding = statement<never>(
  'memory_insert_embedding',
  `insert into concord.memory_embeddings (workspace_id, memory_id, model, embedding, created_at) values ($1, $2, $3, $4::real[], $5)
on conflict do nothing`,
)

async function insert(
  tx: Tx,
  newId: NewId,
  memory: NewMemory,
  actor: Actor,
  at: Date,
): Promise<Decision<StoredMemory>> {
  const rival = await findRival(tx, memory)
  if (rival?.expires_at && rival.expires_at <= at) {
    // It has expired, but the review has not marked it yet: it must not block the new record.
    await saveRecord(tx, rival, 'expired', actor, { at, newId })
  } else if (rival && memory.supersedes === rival.memory_id) {
    const set = { superseded_by: memory.memory_id }
    const moved = await saveRecord(tx, rival, 'superseded', actor, { at, newId, set })
    if (!moved.ok) return refuseConflict(rival.memory_id)
  }
  const { derived_from, embedding, supersedes: _, ...content } = memory
  const { workspace_id, memory_id } = content
  const [row] = await tx.run(insertRecord, [{ ...content, status: 'active', created_at: at, updated_at: at }])
  if (!row) return findWritten(tx, memory)
  if (derived_from.length > 0) await tx.run(insertDerivations, [workspace_id, memory_id, derived_from, at])
  if (embedding) await tx.run(insertEmbedding, [workspace_id, memory_id, embedding.model, embedding.vector, at])
  return accept(row)
}

/** A row with the same id is the result of the same write; any other row is a conflict. */
async function findWritten(tx: Tx, memory: NewMemory): Promise<Decision<StoredMemory>> {
  const own = await findRecord(tx, memory.workspace_id, memory.memory_id)
  if (own && own.fact_key === memory.fact_key && isSameContent(own.content, memory.content)) return accept(own)
  return refuseConflict((await findRival(tx, memory))?.memory_id)
}

async function supersede(
  tx: Tx,
  newId: NewId,
  { workspaceId, memoryId }: MemoryRef,
  by: string,
  actor: Actor,
  at: Date,
): Promise<Decision<StoredMemory>> {
  const [record, successor] = [await findRecord(tx, workspaceId, memoryId), await findRecord(tx, workspaceId, by)]
  if (!record || !successor) return refuseAbsent()
  const moved = await saveRecord(tx, record, 'superseded', actor, { at, newId, set: { superseded_by: by } })
  return moved.ok ? accept(moved.row) : moved
}

const eraseEmbeddings = statement<never>(
  'memory_erase_embeddings',
  `update concord.memory_embeddings set embedding = null where workspace_id = $1 and memory_id = $2`,
)

async function empty(
  tx: Tx,
  newId: NewId,
  { workspaceId, memoryId }: MemoryRef,
  actor: Actor,
  at: Date,
): Promise<Decision<StoredMemory>> {
  const record = await findRecord(tx, workspaceId, memoryId)
  if (!record) return refuseAbsent()
  const set = { content: {}, fact_key: `erased:${memoryId}` }
  const moved = await saveRecord(tx, record, 'deleted', actor, { at, newId, set })
  if (!moved.ok) return moved
  await tx.run(eraseEmbeddings, [workspaceId, memoryId])
  return accept(moved.row)
}
