/** Artifact types: what an installation declares about a kind of artifact, and the ones that come with Concord. */
import type { JsonObject } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { z } from 'zod'
import { artifactVisibilities, type ArtifactVisibility, type SourceKind, sourceKinds } from './artifact.ts'

/** From the freest to the strictest, in the words that commands use for payload fields. */
export const contentClasses = ['public', 'internal', 'confidential', 'pii', 'payment', 'secret'] as const
export type ContentClass = (typeof contentClasses)[number]

export const sharingRules = ['allow', 'require_approval', 'deny'] as const
export type SharingRule = (typeof sharingRules)[number]

export type ArtifactType = {
  readonly name: string
  /** Of the content's shape; an artifact keeps the one it was written under. */
  readonly version: string
  readonly description: string
  /** Of JSON content; a type that has one takes nothing else. */
  readonly schema?: z.ZodType
  /** What it may be handed out as, such as `text/csv`; left out: anything. */
  readonly media_types?: readonly string[]
  readonly visibility: ArtifactVisibility
  readonly data_class: ContentClass
  /** Sources that every artifact of this type must name: so many at least, of these kinds. */
  readonly lineage: { readonly sources_min: number; readonly kinds: readonly SourceKind[] }
  /** Null: for ever. */
  readonly retention_days: number | null
  readonly external_sharing: SharingRule
  /** Versions of this type, beside its own, that an artifact of it can take the place of. */
  readonly compatible_with: readonly string[]
  /** For whoever shows it. */
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
  name: z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'a lower-case name such as weekly_report'),
  version: z.string().regex(/^[\w.-]{1,32}$/, 'a version such as 2'),
  description: z.string().min(1),
  media_types: z.array(z.string().regex(/^[\w.+-]+\/[\w.+-]+$/, 'a media type such as text/csv')).optional(),
  visibility: z.enum(artifactVisibilities),
  data_class: z.enum(contentClasses),
  lineage: z.object({ sources_min: z.int().min(0).max(100), kinds: z.array(z.enum(sourceKinds)).min(1) }),
  retention_days: z.int().min(1).max(36_500).nullable(),
  external_sharing: z.enum(sharingRules),
})

/** A later definition of a name replaces an earlier one, so that an installation can bring its own `report`. */
export function openArtifactTypes(types: readonly ArtifactType[]): Decision<ArtifactTypes> {
  for (const type of types) {
    const checked = shape.safeParse(type)
    if (checked.success) continue
    const [issue] = checked.error.issues
    return refuse(
      'artifacts.type.invalid',
      `the artifact type ${JSON.stringify(type.name)}: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`,
      { path: issue?.path.join('.') ?? 'name', hint: 'See defineArtifactType.' },
    )
  }
  const known = new Map(types.map((type) => [type.name, type]))
  return accept({
    all: [...known.values()],
    get(name) {
      const type = known.get(name)
      if (type) return accept(type)
      return refuse('artifacts.type.unknown', `there is no artifact type ${JSON.stringify(name.slice(0, 64))}`, {
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
  text('booking_draft', 'A booking that nobody has agreed to yet.', { retention_days: 90, rendering: json }),
  text('reservation_confirmation', 'What a vendor confirmed.', { data_class: 'confidential' }),
  text('approval_packet', 'What an approver was shown.', { visibility: 'private', external_sharing: 'deny' }),
  text('query_result', 'Rows of a query.', { schema: queryResult, rendering: { view: 'table' } }),
  text('csv_export', 'A table for another program.', { media_types: ['text/csv'], rendering: { view: 'table' } }),
  text('dashboard_draft', 'A dashboard that is still being built.', { retention_days: 365, rendering: json }),
  text('sync_snapshot', 'What a connector had fetched.', { retention_days: 90, rendering: json }),
  text('agent_answer', 'What an agent answered.', { rendering: { view: 'markdown' } }),
  text('evaluation_result', 'What an evaluation found.', { schema: evaluationResult }),
  text('research_notes', 'What an agent found out.', { rendering: { view: 'markdown' } }),
  text('analysis', 'What an agent makes of what was found.', { rendering: { view: 'markdown' } }),
  text('review', 'What an agent thinks of the work of another.', { rendering: { view: 'markdown' } }),
  text('final_report', 'What a swarm came to, from the work of its agents.', {
    lineage: { sources_min: 1, kinds: ['artifact'] },
    rendering: { view: 'markdown' },
  }),
]
