/** What can be forgotten of runs: what they have said and seen, and what their calls of connectors sent and got. Ids, digests and sizes stay. */
import type { Forgettable } from '#domains/memory'
import { accept } from '#kernel/refusal'
import { statement } from '#store'
import { OPEN_RUN } from './agent-run.ts'

/** The id as it is written in JSON, with every sign quoted. */
const quotedId = String.raw`regexp_replace(right(left(to_json($3::text)::text, -1), -1), '([^[:alnum:]])', '\\\1', 'g')`
/** A whole word: the id `c1` is not in `abc12`. */
const namesSubject = (text: string) => `${text} ~ ('(^|[^[:alnum:]_])' || ${quotedId} || '([^[:alnum:]_]|$)')`

/** The run works for the subject, or has read one of its memories. */
const isRunAbout = (run: string) => `exists (select from concord.agent_runs as r where r.agent_run_id = ${run}
    and r.memory_scope->>'subject_type' = $2 and r.memory_scope->>'subject_id' = $3)
  or exists (select from concord.memory_reads as k where k.agent_run_id = ${run} and k.memory_ids && $4::uuid[])`

const valuesOf = ({ workspaceId, subject, memoryIds, commandIds }: Parameters<Forgettable['list']>[1]) => [
  workspaceId,
  subject.subject_type,
  subject.subject_id,
  memoryIds,
  commandIds,
]

/** $1 workspace, $2 subject type, $3 subject id, $4 memories, $5 commands, of an erasure also $6 at. */
function forgettable(kind: string, table: string, emptied: string, isAbout: string): Forgettable {
  const ids = `${kind}_id as id`
  const where = `where t.workspace_id = $1::uuid and ${isAbout}`
  const list = statement<{ readonly id: string }>(
    `agents.list_${kind}s_about`,
    `select ${ids} from ${table} as t ${where}`,
  )
  const empty = statement<{ readonly id: string }>(
    `agents.empty_${kind}s_about`,
    `update ${table} as t set ${emptied} ${where} returning ${ids}`,
  )
  const known = ({ id }: { readonly id: string }) => ({ kind, id })
  return {
    kind,
    list: async (sql, lineage) => (await sql.run(list, valuesOf(lineage))).map(known),
    erase: async (tx, lineage, { at }) => accept((await tx.run(empty, [...valuesOf(lineage), at])).map(known)),
  }
}

const isMessageAbout = `t.content <> '' and (${isRunAbout('t.agent_run_id')}
  or (t.metadata->>'command_id')::uuid = any($5::uuid[]) or ${namesSubject('t.content')})`

const messages = forgettable('agent_message', 'concord.agent_messages', `content = '', erased_at = $6`, isMessageAbout)

/**
 * Takes the lock of each open run before its messages are emptied: an answer is committed before and is emptied too, or it finds the number changed.
 * The parameters are those of a list.
 */
const countErasure = statement<never>(
  'agents.count_erasure',
  `update concord.agent_runs as t set erasures = t.erasures + 1 where t.workspace_id = $1::uuid and ${OPEN_RUN}
  and t.agent_run_id in (select t.agent_run_id from concord.agent_messages as t where t.workspace_id = $1::uuid and ${isMessageAbout})`,
)

/** Messages of runs about the subject, those that a command of its lineage caused, and those that name the subject. */
export const forgetMessages: Forgettable = {
  ...messages,
  async erase(tx, lineage, more) {
    await tx.run(countErasure, valuesOf(lineage))
    return messages.erase(tx, lineage, more)
  },
}

/**
 * Calls that the tools of such runs made, those of a command of the lineage, and those of any run that name the subject. The calls of models are recorded by digest.
 */
export const forgetCalls = forgettable(
  'connector_invocation',
  'concord.connector_invocations',
  `request_payload = '{"erased": true}', response_payload = null, error = case when t.error is not null then 'erased at ' || $6::timestamptz end`,
  `t.request_payload <> '{"erased": true}' and exists (select from concord.commands as c
  where c.command_id = t.command_id and c.agent_run_id is not null and (${isRunAbout('c.agent_run_id')}
  or c.command_id = any($5::uuid[]) or ${namesSubject(`concat_ws(' ', t.request_payload, t.response_payload, t.error)`)}))`,
)
