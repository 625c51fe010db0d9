/** Artifact types: the declaration of a kind of artifact, and the built-in types. */
import type { JsonObject } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { z } from 'zod'
import { artifactVisibilities, type ArtifactVisibility, type SourceKind, sourceKinds } from './artifact.ts'

/** From the least to the most strict, named like the data classes of command payloads. */
export const contentClasses = ['public', 'internal', 'confidential', 'pii', 'payment', 'secret'] as const
export type ContentClass = (typeof contentClasses)[number]

export const sharingRules = ['allow', 'require_approval', 'deny'] as const
export type SharingRule = (typeof sharingRules)[number]

export type ArtifactType = {
  readonly name: string
  /** The version of the schema. An artifact keeps the version that it was written with. */
  readonly version: string
  readonly description: string
  /** The schema of JSON content. A type with a schema accepts only JSON. */
  readonly schema?: z.ZodType
  /** The allowed media types, such as `text/csv`. Without a list, all are allowed. */
  readonly media_types?: readonly string[]
  readonly visibility: ArtifactVisibility
  readonly data_class: ContentClass
  /** The minimum number of sources of these kinds. */
  readonly lineage: { readonly sources_min: number; readonly kinds: readonly SourceKind[] }
  /** Null keeps artifacts forever. */
  readonly retention_days: number | null
  readonly external_sharing: SharingRule
  /** Other versions of this type that an artifact of this version can replace. */
  readonly compatible_with: readonly string[]
  /** Hints for user interfaces. */
  readonly rendering: JsonObject
}

type ArtifactTypeInput = Pick<ArtifactType, 'name' | 'description'> & Partial<ArtifactType>

export function defineArtifactType(input: ArtifactTypeInput): ArtifactType {
  return Object.freeze({
    version: '1',
    visibility: 'workspace' as const,
    data_class: 'internal' as const,
    lineage: { sources_min: 0, kinds: sourceKinds },
    retention_days: null,
    external_sharing: 'require_approval' as const,
    compatible_with: [],
    rendering: { view: input.schema ? 'json' : 'text' },
    ...input,
  })
}

export type ArtifactTypes = {
  readonly all: readonly ArtifactType[]
  get(name: string): Decision<ArtifactType>
}

const shape = z.object({
  name: z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'expected a lower-case name such as weekly_report'),
  version: z.string().regex(/^[\w.-]{1,32}$/, 'expected a version such as 2'),
  description: z.string().min(1),
  media_types: z.array(z.string().regex(/^[\w.+-]+\/[\w.+-]+$/, 'expected a media type such as text/csv')).optional(),
  visibility: z.enum(artifactVisibilities),
  data_class: z.enum(contentClasses),
  lineage: z.object({ sources_min: z.int().min(0).max(100), kinds: z.array(z.enum(sourceKinds)).min(1) }),
  retention_days: z.int().min(1).max(36_500).nullable(),
  external_sharing: z.enum(sharingRules),
})

/** A later definition replaces an earlier one of the same name, so that a project can define its own `report`. */
export function openArtifactTypes(types: readonly ArtifactType[]): Decision<ArtifactTypes> {
  for (const type of types) {
    const checked = shape.safeParse(type)
    if (checked.success) continue
    const [issue] = checked.error.issues
    const path = issue?.path.join('.') ?? 'name'
    return refuse(
      'artifacts.type.invalid',
      `The artifact type ${quote(type.name)} is not valid at \`${path}\`: ${issue?.message ?? 'unexpected value'}.`,
      { path, hint: 'Fix the call of defineArtifactType.' },
    )
  }
  const known = new Map(types.map((type) => [type.name, type]))
  return accept({
    all: [...known.values()],
    get(name) {
      const type = known.get(name)
      if (type) return accept(type)
      return refuse('artifacts.type.unknown', `There is no artifact type ${quote(name)}.`, {
        path: 'type',
        hint: 'Define it with defineArtifactType.',
        ...didYouMean(name, [...known.keys()]),
      })
    },
  })
}

const text = (name: string, description: string, more: Partial<ArtifactType> = {}) =>
  defineArtifactType({ name, description, ...more })

const queryResult = z.strictObject({
  columns: z.array(z.string()).min(1),
  rows: z.array(z.array(z.unknown())),
  query: z.string().optional(),
})

const evaluationResult = z.strictObject({
  evaluation_type: z.string().min(1),
  decision: z.string().min(1),
  confidence: z.number().min(0).max(1),
  issues: z.array(z.string()),
  recommendation: z.string(),
})

const json = { view: 'json' }

export const builtInArtifactTypes: readonly ArtifactType[] = [
  text('report', 'A finished report.'),
  text('draft_report', 'A report that is still being written.', { retention_days: 365 }),
  text('booking_draft', 'A booking that has not been approved yet.', { retention_days: 90, rendering: json }),
  text('reservation_confirmation', 'The confirmation of a vendor.', { data_class: 'confidential' }),
  text('approval_packet', 'The information that an approver saw.', { visibility: 'private', external_sharing: 'deny' }),
  text('query_result', 'The rows of a query.', { schema: queryResult, rendering: { view: 'table' } }),
  text('csv_export', 'A table for other programs.', { media_types: ['text/csv'], rendering: { view: 'table' } }),
  text('dashboard_draft', 'A dashboard that is still being built.', { retention_days: 365, rendering: json }),
  text('sync_snapshot', 'The data that a connector fetched.', { retention_days: 90, rendering: json }),
  text('agent_answer', 'The answer of an agent.', { rendering: { view: 'markdown' } }),
  text('evaluation_result', 'The findings of an evaluation.', { schema: evaluationResult }),
  text('research_notes', 'The findings of an agent.', { rendering: { view: 'markdown' } }),
  text('analysis', 'The conclusions that an agent draws from findings.', { rendering: { view: 'markdown' } }),
  text('review', 'The review of one agent of the work of another.', { rendering: { view: 'markdown' } }),
  text('final_report', 'The result of a swarm, made from the work of its agents.', {
    lineage: { sources_min: 1, kinds: ['artifact'] },
    rendering: { view: 'markdown' },
  }),
]
