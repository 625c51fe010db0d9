/** Finds active records in one statement, built once per shape of the question; with a note, the same statement records the read. */
import { statement, type Statement } from '#store'
import { recordColumns } from '../memory-row.ts'
import type { FoundMemory, MemoryQuery, ReadNote, SearchScope } from '../memory-store.ts'
import { similaritySql, type VectorSupport } from '../vector-support.ts'

type Built = { readonly statement: Statement<FoundMemory>; readonly values: readonly unknown[] }

/** The words of the content; the index is over exactly this expression. */
const WORDS = `to_tsvector('simple'::regconfig, r.content::jsonb)`
const columns = recordColumns.replaceAll(/(\w+)(::float8 as \w+)?(,|$)/g, 'r.$1$2$3')

export function buildSearch(
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
  const found = `select ${columns}, ${score} as score from ${from}
where ${where.join(' and ')}
${order} limit ${mark(limit)}::integer`
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
