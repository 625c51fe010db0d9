/** What an agent may do, as data. `defineAgent`, a YAML file and an agent of a swarm give the same terms; they become the row and the manifest of each run. */
import { z } from 'zod'
import { memoryTypes } from '#domains/memory'
import type { JsonObject } from '#kernel/json-value'
import { agentLimits } from './limits.ts'

const name = z.string().min(1)
export const jsonField = z.record(z.string(), z.json()) as unknown as z.ZodType<JsonObject, JsonObject>
/** The name of an agent runtime of the project, and its settings. */
export const runtimeField = z.intersection(jsonField, z.looseObject({ name }))
const names = z
  .array(name)
  .default([])
  .transform((all): readonly string[] => [...new Set(all)])

export const agentForm = z.strictObject({
  name,
  version: name.nullable().default(null),
  role: name,
  tools: names,
  forbidden_tools: names,
  connectors: names,
  memory: z
    .strictObject({
      /** The scopes of memories that a search of the run may return. */
      read_scopes: names,
      /** A run without it cannot use a task that may write memory. */
      write_allowed: z.boolean().default(false),
      /** A memory is proposed, and policy decides. */
      write_requires_policy: z.literal(true).default(true),
      /** `customer:{customer_id}`: the only subject that the run may read and propose about. */
      subject: name.nullable().default(null),
      /** The schemas of the memories about the subject that the run may read, and propose if it may write. Memories without a schema need none. */
      schemas: names,
      memory_types: z.array(z.enum(memoryTypes)).readonly().default(memoryTypes),
    })
    .prefault({}),
  /** Tools whose calls by this agent a person approves, whatever their own policy says. */
  approval_gates: names,
  limits: agentLimits.prefault({}),
  /** The reasons for which a run ends by itself or by a person. `policy_denied` ends it only where it is named. */
  termination: z
    .strictObject({
      conditions: z
        .array(z.enum(['final_answer_created', 'human_cancelled', 'max_steps_reached', 'policy_denied']))
        .min(1)
        .readonly(),
    })
    .default({ conditions: ['final_answer_created', 'human_cancelled', 'max_steps_reached'] }),
  /** The model and its settings, as its runtime reads them. */
  model: jsonField.default({}),
  runtime: runtimeField,
  /** The types of artifacts that the tools of a run write; empty: every type. */
  artifacts: names,
})

export type AgentTerms = Readonly<z.output<typeof agentForm>>
