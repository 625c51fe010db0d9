/** The tools that every installation has, as tasks open to agents. A reading tool returns ids and digests; its content is only in the observation. */
import { z } from 'zod'
import {
  ask,
  allow,
  type CommandDefinition,
  defineCommand,
  defineEffect,
  type Definition,
  type EffectCall,
  EffectFailure,
  findPresentRights,
  labelReader,
  PERSON_FIELDS,
  readCommand,
} from '#domains/commands'
import { parseSubject, runScope, searchMemory, searchMemoryForRun } from '#domains/memory'
import { textField } from '#contract'
import { decodeId, encodeId } from '#kernel/ids'
import { statement } from '#store'
import type { StoredAgentRun } from './agent-run.ts'
import {
  artifactContent,
  artifactSources,
  idOfArtifact,
  orByReference,
  readWhole,
  wholeInputs,
} from './call-content.ts'
import type { AgentDeps } from './deps.ts'
import { evaluateOutput } from './evaluate-output.ts'

const AS_TOOL = { task: { ingress_types: ['agent_action'] as const } }
const question = textField(2_000, { filled: true })

const memoryQuery = orByReference(wholeInputs.retrieve_memory)
const checked = orByReference(wholeInputs.evaluate_output)
/** Of both tools that write an artifact. A draft of a report has a text. */
const written = z.strictObject({
  type: z.string(),
  title: z.string().optional(),
  text: z.string().optional(),
  content: artifactContent.optional(),
  sources: artifactSources,
})

/** `deps` is called by the first call, because the catalog opens before the room. */
export function agentToolDefinitions(deps: () => AgentDeps): readonly Definition[] {
  const retrieve = defineEffect('agent.retrieve_memory', {
    input: memoryQuery,
    class: 'read',
    async do({ input, ...call }) {
      const query = await readWhole(deps().commands.db, call, input, wholeInputs.retrieve_memory)
      return retrieveMemory(deps(), call, query)
    },
  })
  const readArtifact = defineEffect('agent.read_artifact', {
    input: z.object({ artifact_id: z.string() }),
    class: 'read',
    async do({ input, artifacts }) {
      const { artifact_id, artifact_type, checksum, size_bytes } = await artifacts.find(rawId(input.artifact_id))
      return { artifact_id: encodeId('artifact', artifact_id), artifact_type, digest: checksum, size_bytes }
    },
  })
  const writeArtifact = defineEffect('agent.write_artifact', {
    input: orByReference(written),
    class: 'keyed',
    outward: false,
    async do({ input, artifacts, ...call }) {
      const whole = await readWhole(deps().commands.db, call, input, written)
      const { type, title, text = '', content = { text }, sources } = whole
      await checkArtifactType(deps(), call.commandId, type)
      const kinds = sources.map((id) => ({ kind: 'artifact' as const, id: rawId(id) }))
      const draft = { type, content, sources: kinds, ...(title === undefined ? {} : { title }) }
      const { artifact_id, checksum } = await artifacts.write(draft)
      return { artifact_id: encodeId('artifact', artifact_id), digest: checksum }
    },
    undo: async ({ result, artifacts }) => artifacts.withdraw(rawId(result.artifact_id)),
  })
  const evaluate = defineEffect('agent.evaluate_output', {
    input: checked,
    class: 'keyed',
    outward: false,
    async do({ input, artifacts, ...call }) {
      const { check } = await readWhole(deps().commands.db, call, input, wholeInputs.evaluate_output)
      const named = 'artifact_id' in check ? check.artifact_id : undefined
      const exists = named === undefined || (await artifacts.find(rawId(named)).then(() => true, isMissing))
      const evaluation = evaluateOutput(check, exists)
      const sources = named !== undefined && exists ? [{ kind: 'artifact' as const, id: rawId(named) }] : []
      const json = { ...evaluation, issues: [...evaluation.issues] }
      const { artifact_id } = await artifacts.write({ type: 'evaluation_result', content: { json }, sources })
      return { ...json, artifact_id: encodeId('artifact', artifact_id) }
    },
  })
  const answered = defineEffect('agent.note_answer', {
    input: z.object({}),
    class: 'read',
    bounded: true,
    do: () => Promise.resolve({ answered: true }),
  })

  const tools: readonly CommandDefinition[] = [
    defineCommand('retrieve_memory', {
      description: 'Finds memories by subject, type, task type, connector or text. Returns their ids.',
      input: memoryQuery,
      policy: allow,
      steps: (input) => [retrieve(input)],
      uses: [retrieve],
      ...AS_TOOL,
    }),
    defineCommand('read_artifact', {
      description: 'Reads an artifact. Returns its id, type, digest and size.',
      input: z.object({ artifact_id: idOfArtifact }),
      policy: allow,
      steps: (input) => [readArtifact(input)],
      uses: [readArtifact],
      ...AS_TOOL,
    }),
    defineCommand('create_artifact', {
      description: 'Writes an artifact of a type that the installation knows.',
      input: orByReference(wholeInputs.create_artifact),
      policy: allow,
      steps: (input) => [writeArtifact(input)],
      uses: [writeArtifact],
      ...AS_TOOL,
    }),
    defineCommand('create_report_draft', {
      description: 'Writes the draft of a report.',
      input: orByReference(wholeInputs.create_report_draft),
      policy: allow,
      steps: (input) => [writeArtifact({ ...input, type: 'draft_report' })],
      uses: [writeArtifact],
      ...AS_TOOL,
    }),
    defineCommand('evaluate_output', {
      description: 'Checks an output. Returns the decision, the confidence, the issues and a recommendation.',
      input: checked,
      policy: allow,
      steps: (input) => [evaluate(input)],
      uses: [evaluate],
      ...AS_TOOL,
    }),
    defineCommand('request_approval', {
      description: 'Asks a person for a decision. The decision and its reason are the observation.',
      input: z.object({ question }),
      policy: ({ question: asked }) => ask(1, 'approver', asked),
      steps: () => [answered({})],
      ...AS_TOOL,
    }),
    defineCommand('request_human_input', {
      description: 'Asks the requester for input. The answer is the observation.',
      input: z.object({ question, answer: z.string().min(1).optional() }),
      policy: allow,
      steps: () => [answered({})],
      task: { ...AS_TOOL.task, required_inputs: ['answer'], metadata: { [PERSON_FIELDS]: ['answer'] } },
    }),
  ]
  return [...new Set(tools.flatMap(({ definitions }) => definitions))]
}

function rawId(shown: string): string {
  const id = decodeId('artifact', shown)
  if (!id.ok) throw new EffectFailure('validation_error', id.reason, 'no')
  return id.value
}

/** An artifact that the requester cannot see is missing; any other failure stays one. */
function isMissing(error: unknown): false {
  if (error instanceof EffectFailure && error.happened === 'no') return false
  throw error
}

/** $1 command. */
export const findRunOfCall = statement<StoredAgentRun>(
  'agents.find_run_of_call',
  `select r.* from concord.commands as c join concord.agent_runs as r on r.agent_run_id = c.agent_run_id
where c.command_id = $1::uuid`,
)

/** The manifest of a run can limit the types that it writes. */
async function checkArtifactType({ commands: { db } }: AgentDeps, commandId: string, type: string): Promise<void> {
  const [run] = await db.run(findRunOfCall, [commandId])
  const types = run ? (skillOf(run)?.artifact_scope?.write ?? []) : []
  if (types.length > 0 && !types.includes(type))
    throw new EffectFailure('permission_denied', `This run may write artifacts of the type ${types.join(', ')}.`, 'no')
}

type Query = z.output<typeof wholeInputs.retrieve_memory>

/** A run sees its own subject, or the scopes of its manifest. Without a run the requester sees what the requester may. */
async function retrieveMemory(deps: AgentDeps, call: Omit<EffectCall, 'payload'>, query: Query) {
  const { db, memory } = deps.commands
  if (!memory) throw new EffectFailure('internal_error', 'This process has no memory store.', 'no')
  const subject = query.subject === undefined ? undefined : parseSubject(query.subject)
  if (subject && !subject.ok) throw new EffectFailure('validation_error', subject.reason, 'no')
  const asked = {
    workspaceId: call.workspaceId,
    subject: subject?.value,
    memoryTypes: query.memory_type && [query.memory_type],
    taskType: query.task_type,
    connector: query.connector,
    text: query.text,
    limit: query.limit,
  }
  const [run] = await db.run(findRunOfCall, [call.commandId])
  if (!run) return { memory_ids: await call.memory.find(asked) }
  const seenBy = async (found: readonly { readonly memory_id: string }[]) => {
    const ids = found.map(({ memory_id }) => memory_id)
    await labelReader(deps.commands, { command_id: call.commandId, workspace_id: call.workspaceId }, 'memory', ids)
    return { memory_ids: ids.map((id) => encodeId('memory', id)) }
  }
  const scope = runScope.safeParse(run.memory_scope)
  if (scope.success) {
    const found = await searchMemoryForRun(
      memory,
      { agentRunId: run.agent_run_id, scope: scope.data, traceId: call.traceId },
      asked,
    )
    if (!found.ok) throw new EffectFailure('permission_denied', found.reason, 'no')
    return seenBy(found.value)
  }
  const scopes = skillOf(run)?.memory_scope?.read ?? []
  if (scopes.length === 0) throw new EffectFailure('permission_denied', 'This run may not read memory.', 'no')
  const command = await readCommand(db, call.workspaceId, call.commandId)
  const principal = command.ok ? await findPresentRights(deps.commands, command.value.command) : undefined
  if (!principal) throw new EffectFailure('permission_denied', 'The requester may no longer act.', 'no')
  const found = await searchMemory(memory, { id: call.requestedBy, traceId: call.traceId, principal }, asked)
  return seenBy(found.filter((each) => scopes.includes(each.scope)))
}

type Skill = {
  readonly memory_scope?: { readonly read?: readonly string[]; readonly write?: readonly string[] }
  readonly artifact_scope?: { readonly write?: readonly string[] }
}

/** As the insert of the run has written it. */
export function skillOf({ manifest }: Pick<StoredAgentRun, 'manifest'>): Skill | undefined {
  return (manifest['skills'] as readonly Skill[])[0]
}
