/**
 * The content of a call travels by reference. Its command, the decision and the effect are kept for ever, and content can be forgotten: they name the
 * message of the answer, and the effect reads the content from the message when it is called.
 */
import { z } from 'zod'
import { type EffectCall, EffectFailure } from '#domains/commands'
import { memoryTypes, proposeMemoryBody } from '#domains/memory'
import { checkSecrets } from '#kernel/data-class'
import { decodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { accept } from '#kernel/refusal'
import { type Sql, statement } from '#store'
import { answerOf, type StoredAgentMessage } from './agent-message.ts'
import type { AgentCall } from './agent-runtime.ts'
import { evaluationInput } from './evaluate-output.ts'
import { measure, toolOf } from './observe-call.ts'

export const idOfArtifact = z.string().refine((text) => decodeId('artifact', text).ok, 'the id of an artifact, art_…')
export const artifactContent = z.union([z.strictObject({ text: z.string() }), z.strictObject({ json: z.json() })])
export const artifactSources = z.array(idOfArtifact).max(100).default([])

/** The shipped tools that take content, as an agent calls them. */
export const wholeInputs = {
  retrieve_memory: z.strictObject({
    subject: z
      .string()
      .regex(/^[^:]+:.+$/, 'a subject such as customer:4711')
      .optional(),
    memory_type: z.enum(memoryTypes).optional(),
    task_type: z.string().optional(),
    connector: z.string().optional(),
    text: z.string().optional(),
    limit: z.int().min(1).max(100).default(20),
  }),
  create_artifact: z.strictObject({
    type: z.string().min(1).meta({ example: 'analysis' }),
    title: z.string().optional(),
    content: artifactContent,
    sources: artifactSources,
  }),
  create_report_draft: z.strictObject({ title: z.string().min(1), text: z.string().min(1), sources: artifactSources }),
  evaluate_output: z.strictObject({ check: evaluationInput }),
  propose_memory: proposeMemoryBody.omit({ idempotency_key: true }),
}
type ContentTool = keyof typeof wholeInputs

/** Their fields that hold content. */
const contentFields: Readonly<Record<ContentTool, readonly string[]>> = {
  retrieve_memory: ['text'],
  create_artifact: ['title', 'content'],
  create_report_draft: ['title', 'text'],
  evaluate_output: ['check'],
  // The subject too: it is in no command.
  propose_memory: Object.keys(wholeInputs.propose_memory.shape),
}

const contentRef = z.strictObject({
  agent_message_id: z.uuid(),
  call_id: z.string(),
  digest: z.string(),
  size_bytes: z.int(),
})
type ContentRef = z.output<typeof contentRef>
type Stored = { readonly content_ref?: ContentRef | undefined }
type Checked<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly code: string; readonly reason: string }

/** The input of such a tool as its command stores it: whole, or with a reference. Agents see the whole form. */
export function orByReference<Shape extends z.ZodRawShape>(whole: z.ZodObject<Shape>) {
  const { $schema: _, ...shown } = z.toJSONSchema(whole, { io: 'input', unrepresentable: 'any' })
  return z
    .object({ ...whole.partial().shape, content_ref: contentRef.optional() })
    .superRefine((payload, context) => {
      if ((payload as Stored).content_ref) return
      for (const { path, message } of whole.safeParse(payload).error?.issues ?? [])
        context.addIssue({ code: 'custom', path, message })
    })
    .meta(shown)
}

/** The same for a tool whose content no command may hold. */
export function byReference(whole: z.ZodObject) {
  const { $schema: _, ...shown } = z.toJSONSchema(whole, { io: 'input', unrepresentable: 'any' })
  return z.strictObject({ content_ref: contentRef }).meta(shown)
}

/** The payload of the command of a call: content is replaced by a reference to the message of the answer. */
export function referToContent(
  call: AgentCall,
  answer: Pick<StoredAgentMessage, 'agent_message_id'>,
): Checked<JsonObject> {
  const { payload } = call
  const tool = contentToolOf(call)
  const content = contentOf(call)
  if (tool === undefined || (Object.keys(content).length === 0 && tool !== 'propose_memory')) return accept(payload)
  const checked = checkWhole(wholeInputs[tool], payload)
  if (!checked.ok) return checked
  const rest = Object.entries(payload).filter(([name]) => !Object.hasOwn(content, name))
  const content_ref: ContentRef = {
    agent_message_id: answer.agent_message_id,
    call_id: call.id,
    ...measure(content),
  }
  return accept({ ...Object.fromEntries(rest), content_ref })
}

function contentToolOf(call: AgentCall): ContentTool | undefined {
  const tool = toolOf(call) ?? ''
  return Object.hasOwn(wholeInputs, tool) ? (tool as ContentTool) : undefined
}

function contentOf(call: AgentCall): JsonObject {
  const tool = contentToolOf(call)
  const fields = tool === undefined ? [] : contentFields[tool]
  return Object.fromEntries(Object.entries(call.payload).filter(([name]) => fields.includes(name)))
}

/** What a command with the whole payload would have been refused for. */
function checkWhole<Schema extends z.ZodType>(whole: Schema, payload: JsonObject): Checked<z.output<Schema>> {
  const secrets = checkSecrets(payload, {})
  if (!secrets.ok) return secrets
  const parsed = whole.safeParse(payload)
  if (parsed.success) return accept(parsed.data)
  return { ok: false, code: 'agents.call.invalid', reason: z.prettifyError(parsed.error) }
}

/** $1 command, $2 message. A command reads the messages of its own run alone. */
const findMessage = statement<StoredAgentMessage>(
  'agents.find_message_of_call',
  `select m.* from concord.commands as c join concord.agent_messages as m on m.agent_run_id = c.agent_run_id
where c.command_id = $1::uuid and m.agent_message_id = $2::uuid and m.message_type = 'answer'`,
)

/** The whole input of an effect. */
export async function readWhole<Schema extends z.ZodType>(
  sql: Sql,
  { commandId }: Pick<EffectCall, 'commandId'>,
  { content_ref: named, ...rest }: Stored,
  whole: Schema,
): Promise<z.output<Schema>> {
  const content = named ? await readReferred(sql, commandId, named) : {}
  const checked = checkWhole(whole, { ...rest, ...content })
  if (checked.ok) return checked.value
  throw new EffectFailure('validation_error', checked.reason, 'no')
}

async function readReferred(sql: Sql, commandId: string, named: ContentRef): Promise<JsonObject> {
  const [message] = await sql.run(findMessage, [commandId, named.agent_message_id])
  const call = message && answerOf(message).calls.find(({ id }) => id === named.call_id)
  const content = call && contentOf(call)
  if (content && measure(content).digest === named.digest) return content
  const why = message?.content === '' ? 'The content of this call was erased.' : 'No call of the run has this content.'
  throw new EffectFailure('validation_error', why, 'no')
}
