/** The conversation of a run: written once, and it can only be emptied. Never the only record: decisions are commands and events. */
import { hash } from 'node:crypto'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { type Db, pageText, type Paged, scoped, type Sql, statement, type Tx } from '#store'
import type { RowOf } from '#store/rows'
import type { AgentCall, AgentMessage, AgentObservation, ModelUsage } from './agent-runtime.ts'
import type { EndReason } from './advance-run.ts'
import type { StoredAgentRun } from './agent-run.ts'

/** What Concord notes beside the content. It stays when the content is erased, so it holds no content. */
type MessageNotes = {
  readonly last_because?: EndReason
  readonly latency_ms?: number
  readonly usage?: ModelUsage
  readonly cost_units?: string
  /** Equal for the same call with the same observation. */
  readonly signature?: string
  /** How many messages before it have this signature. */
  readonly repeats?: number
  readonly command_id?: string
  /** The digest of the key of an action from outside of Concord. */
  readonly action_key?: string
  /** The digest of that action, for the comparison with a repeat. */
  readonly action_digest?: string
}

export type StoredAgentMessage = RowOf<
  'concord.agent_messages',
  { readonly metadata: MessageNotes; readonly labels: readonly string[] }
>

export type AnswerContent = {
  readonly text: string | null
  readonly calls: readonly AgentCall[]
  readonly final: JsonObject | null
}

export type NewMessage = Pick<StoredAgentMessage, 'message_role' | 'message_type'> & {
  /** Omitted: a new id. */
  readonly agent_message_id?: string
  readonly turn: number
  readonly stepIndex?: number | undefined
  readonly content: JsonValue
  readonly labels?: readonly string[] | undefined
  readonly metadata?: MessageNotes
}

const TABLE = 'concord.agent_messages'

/**
 * SQL: inserts the messages, which are JSON, into the conversation of the run in the rows `run`. The caller holds the lock of the run, so positions
 * have no gap. A signature is counted where there is one.
 */
export const insertMessagesOf = (run: string, id = '$1::uuid', messages = '$2::jsonb') =>
  `insert into ${TABLE} (agent_message_id, workspace_id, agent_run_id, swarm_run_id, parent_agent_run_id, position, turn, step_index,
    message_role, message_type, content, digest, size_bytes, labels, metadata, created_at)
select m.agent_message_id, r.workspace_id, r.agent_run_id, r.swarm_run_id, r.parent_agent_run_id,
  coalesce((select max(b.position) from ${TABLE} as b where b.agent_run_id = r.agent_run_id), -1) + m.nth, m.turn, m.step_index,
  m.message_role, m.message_type, m.content, m.digest, m.size_bytes, m.labels,
  case when m.metadata ? 'signature' then m.metadata || jsonb_build_object('repeats', (select count(*) from ${TABLE} as b
    where b.agent_run_id = r.agent_run_id and b.metadata ? 'signature' and b.metadata->>'signature' = m.metadata->>'signature'))
  else m.metadata end, m.created_at
from ${run} as r, jsonb_to_recordset(${messages}) as m(agent_message_id uuid, nth integer, turn integer, step_index integer,
  message_role text, message_type text, content text, digest text, size_bytes integer, labels jsonb, metadata jsonb, created_at timestamptz)
where r.agent_run_id = ${id}`

/** $1 run, $2 the messages as JSON. */
const insertMessages = statement<StoredAgentMessage>(
  'agents.insert_messages',
  `${insertMessagesOf('concord.agent_runs')} order by m.nth returning *`,
)

/** The messages as the parameter of `insertMessagesOf`. */
export function toMessageRows(newId: () => string, messages: readonly NewMessage[], at: Date): string {
  const rows = messages.map(({ content, stepIndex, labels = [], metadata = {}, ...message }, index) => {
    const text = JSON.stringify(content)
    return {
      agent_message_id: newId(),
      ...message,
      nth: index + 1,
      step_index: stepIndex ?? null,
      content: text,
      digest: hash('sha256', text),
      size_bytes: Buffer.byteLength(text),
      labels,
      metadata,
      created_at: at,
    }
  })
  return JSON.stringify(rows)
}

/** Returns the stored messages in their order. */
export async function appendMessages(
  tx: Tx,
  newId: () => string,
  run: Pick<StoredAgentRun, 'agent_run_id'>,
  messages: readonly NewMessage[],
  at: Date,
): Promise<readonly StoredAgentMessage[]> {
  const stored = await tx.run(insertMessages, [run.agent_run_id, toMessageRows(newId, messages, at)])
  return stored.toSorted((a, b) => a.position - b.position)
}

/** More than a request can hold: a model gets 1 MB. Beyond this a run would fill the memory of its worker. */
export const CONVERSATION_BYTES_MAX = 16_777_216

/** The messages up to the first that passes the limit. $1 run, $2 bytes. */
const listOfRun = statement<StoredAgentMessage>(
  'agents.list_messages_of_run',
  `select m.* from ${TABLE} as m join (
    select s.agent_message_id, s.position, sum(s.size_bytes) filter (where s.erased_at is null) over (order by s.position) - s.size_bytes as bytes_before
      from ${TABLE} as s where s.agent_run_id = $1::uuid) as l on l.agent_message_id = m.agent_message_id
where coalesce(l.bytes_before, 0) <= $2::bigint order by l.position`,
)

/** SQL: the last answer of the run and the observations of its calls. */
export const lastAnswerOf = (run: string) =>
  `select m.* from ${TABLE} as m where m.agent_run_id = ${run} and m.message_role in ('assistant', 'tool') and m.position >=
  (select l.position from ${TABLE} as l where l.agent_run_id = ${run} and l.message_role = 'assistant' order by l.position desc limit 1)`

/** All messages of a run, or so many that `isTooLong` says so. */
export function readConversation(sql: Sql, agentRunId: string): Promise<readonly StoredAgentMessage[]> {
  return sql.run(listOfRun, [agentRunId, CONVERSATION_BYTES_MAX])
}

export function isTooLong(messages: readonly StoredAgentMessage[]): boolean {
  const bytes = messages.reduce((sum, { content, size_bytes }) => (content === '' ? sum : sum + size_bytes), 0)
  return bytes > CONVERSATION_BYTES_MAX
}

type ListMessages = {
  readonly workspaceId: string
  readonly agentRunId: string
  readonly after: number | null
  readonly limit: number
}

const listPage = statement<StoredAgentMessage & Paged>(
  'agents.list_messages',
  pageText(`select m.* from ${TABLE} as m
    where m.workspace_id = $1::uuid and m.agent_run_id = $2::uuid and ($3::integer is null or m.position > $3)
    order by m.position limit $4`),
)

export function listMessages(db: Db, { workspaceId, agentRunId, after, limit }: ListMessages) {
  return scoped(db, workspaceId).read((tx) => tx.run(listPage, [workspaceId, agentRunId, after, limit]))
}

/** Null for a message that was erased. */
export function readContent({ content }: Pick<StoredAgentMessage, 'content'>): JsonValue {
  return content === '' ? null : (JSON.parse(content) as JsonValue)
}

const ERASED_ANSWER: AnswerContent = { text: null, calls: [], final: null }

export function answerOf(message: StoredAgentMessage): AnswerContent {
  // Only `drive-run.ts` and `act-in-run.ts` write answers.
  return (readContent(message) as AnswerContent | null) ?? ERASED_ANSWER
}

export function observationOf(message: StoredAgentMessage): AgentObservation {
  const erased: AgentObservation = { callId: '', decision: 'failed', content: null }
  return (readContent(message) as AgentObservation | null) ?? erased
}

/** The conversation as a runtime gets it. Erased messages are left out. */
export function toConversation(messages: readonly StoredAgentMessage[]): readonly AgentMessage[] {
  return messages
    .filter(({ content }) => content !== '')
    .map((message): AgentMessage => {
      const { message_role: role } = message
      if (role === 'assistant') return { role, text: answerOf(message).text, calls: answerOf(message).calls }
      if (role === 'tool') return { role, observation: observationOf(message) }
      return { role, content: readContent(message) }
    })
}

/** $1 ended before, $2 limit, $3 now. */
const emptyOld = statement<Pick<StoredAgentMessage, 'agent_message_id'>>(
  'agents.empty_old_messages',
  `update ${TABLE} as m set content = '', erased_at = $3 where m.agent_message_id in (
  select k.agent_message_id from ${TABLE} as k join concord.agent_runs as r on r.agent_run_id = k.agent_run_id
  where k.erased_at is null and k.created_at < $1 and coalesce(r.completed_at, r.cancelled_at) < $1 limit $2)
returning m.agent_message_id`,
)
const SWEEP_MAX = 10_000

/** Empties the messages of runs that ended longer ago than this. Their digests, the steps, the commands and the artifacts stay. */
export async function sweepMessages(
  { db, now }: { readonly db: Db; readonly now: () => Date },
  keepMs: number,
): Promise<number> {
  const at = now()
  return (await db.run(emptyOld, [new Date(at.getTime() - keepMs), SWEEP_MAX, at])).length
}
