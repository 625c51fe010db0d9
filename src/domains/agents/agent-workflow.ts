/** The YAML form of an agent: `agent_workflow`. The rest of its contract, such as the schema of its input, is in the same file. */
import { z } from 'zod'
import { readYamlForm } from '#domains/commands'
import { accept, type Decision, quote } from '#kernel/refusal'
import { type AgentDefinition, agentOf } from './agent-definition.ts'
import { agentForm } from './agent-form.ts'
import { asLimit } from './limits.ts'
import { hintOfRole } from './roles.ts'

const { tools: _tools, role, runtime, ...terms } = agentForm.shape

const form = z.strictObject({
  agent_workflow: z.strictObject({
    ...terms,
    command_type: z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'a name in lower_snake_case'),
    description: z.string().optional(),
    goal: z.string().optional(),
    role: role
      .refine((given) => hintOfRole(given) === undefined, {
        error: ({ input }) => `There is no role ${quote(String(input))}. ${hintOfRole(String(input)) ?? ''}`,
      })
      .default('worker'),
    /** The JSON Schema of the input. Default: a text `goal`. */
    input: z.looseObject({ type: z.literal('object') }).optional(),
    allowed_tools: z.array(z.string().min(1)),
    runtime: runtime.default({ name: 'ai_sdk' }),
  }),
})

/** Undefined: the file defines no agent. An unknown field is refused with its path and line. */
export function loadAgentWorkflow(file: string, bytes: Uint8Array): Decision<AgentDefinition | undefined> {
  const read = readYamlForm(file, bytes, 'agent_workflow', form)
  if (!read.ok) return asLimit(read)
  if (!read.value) return accept(undefined)
  const {
    command_type: commandType,
    allowed_tools: tools,
    description,
    goal,
    input,
    ...given
  } = read.value.agent_workflow
  return accept(
    agentOf(
      { ...given, tools },
      {
        commandType,
        description,
        input: input ? (z.fromJSONSchema(input) as z.ZodObject) : z.object({ goal: z.string().min(1) }),
        goal: goal ?? ((asked) => (asked as { readonly goal?: string }).goal ?? given.name),
      },
    ),
  )
}
