/** An artifact as the database has it, and what its two documents hold. */
import type { JsonObject } from '#kernel/json-value'
import type { RowOf } from '#store/rows'
import type { ContentClass } from './artifact-type.ts'

/** What something can have been made from. Memories and datasets are rows of other rooms: here they are named, not looked up. */
export const sourceKinds = ['artifact', 'effect', 'memory', 'dataset'] as const
export type SourceKind = (typeof sourceKinds)[number]
export type Source = { readonly kind: SourceKind; readonly id: string }

export type Lineage = {
  readonly command_id: string
  readonly effect_id?: string
  readonly agent_run_id?: string
  readonly swarm_run_id?: string
  readonly sources: readonly Source[]
}

/** What the room itself writes there; the rest is whatever the writer wants to keep beside the content. */
export type ArtifactMetadata = JsonObject & {
  readonly type_version: string
  readonly data_class: ContentClass
  readonly title?: string
  readonly file_name?: string
}

/** One place where it is published, and the command that brought it there; null in rows from before these were kept. */
export type Publication = {
  readonly destination: string
  readonly command_id: string | null
  readonly domain_effect_id: string | null
  readonly published_at: string | null
}

export type StoredArtifact = RowOf<
  'concord.artifacts',
  {
    readonly metadata: ArtifactMetadata
    readonly lineage: Lineage
    /** What stands now, oldest first; `published_to` is the newest. */
    readonly publications: readonly Publication[]
  }
>

export const artifactVisibilities = ['private', 'workspace'] as const
export type ArtifactVisibility = (typeof artifactVisibilities)[number]
