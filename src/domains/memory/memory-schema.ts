/** A memory schema: what an installation declares about one kind of memory. It sets its subject, its visibility, and how it is written, kept and found. */
import { z } from 'zod'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { memoryScopes, memorySensitivities, memoryTypes } from './memory-record.ts'

const supersessions = ['supersede', 'ask'] as const
const writePolicies = ['direct', 'approval', 'forbidden'] as const
const retrievalWays = ['subject', 'task_type', 'connector', 'semantic'] as const

export const memorySchema = z
  .strictObject({
    /** `user.travel_preferences`. */
    name: z.string().regex(/^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/),
    subject_type: z.string().min(1).max(100),
    memory_types: z.array(z.enum(memoryTypes)).min(1),
    /** The scopes that it may have, which decide who sees it. */
    visibility: z.array(z.enum(memoryScopes)).min(1),
    consent: z.strictObject({ required: z.boolean() }),
    /** A lower confidence always needs an approval. */
    confidence: z.strictObject({ direct_from: z.number().min(0.8).max(1) }).default({ direct_from: 0.8 }),
    /** Every record expires after so many days; null: never. */
    expiration: z.strictObject({ after_days: z.int().min(1).max(3_650).nullable() }),
    supersession: z.enum(supersessions),
    retrieval: z.array(z.enum(retrievalWays)).min(1),
    write_policy: z.enum(writePolicies),
    sensitivity: z.enum(memorySensitivities).default('internal'),
  })
  .meta({ id: 'MemorySchema' })
export type MemorySchema = z.infer<typeof memorySchema>

export type MemorySchemas = { find(name: string): MemorySchema | undefined; readonly names: readonly string[] }

/** Accepts all schemas, or refuses with every mistake at once. */
export function openMemorySchemas(given: readonly unknown[]): Decision<MemorySchemas> {
  const schemas = new Map<string, MemorySchema>()
  const wrong: string[] = []
  for (const [index, each] of given.entries()) {
    const parsed = memorySchema.safeParse(each)
    if (!parsed.success) {
      wrong.push(...parsed.error.issues.map(({ path, message }) => `[${index}].${path.join('.')}: ${message}`))
    } else if (schemas.has(parsed.data.name))
      wrong.push(`[${index}]: The name ${parsed.data.name} is registered twice.`)
    else schemas.set(parsed.data.name, parsed.data)
  }
  if (wrong.length > 0) return refuse('memory.schema.invalid', wrong.join('; '), { facts: { findings: wrong } })
  return accept({ find: (name) => schemas.get(name), names: [...schemas.keys()] })
}
