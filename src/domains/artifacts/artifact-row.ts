/** An artifact as the database has it, and what its two documents hold. */
import type { JsonObject } from '#kernel/json-value'
import type { ArtifactState } from '#kernel/machines/artifact'
import type { ArtifactVisibility } from '#store/schema/artifacts'
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

export type StoredArtifact = {
  readonly artifact_id: string
  readonly command_id: string
  readonly artifact_type: string
  readonly location: string
  readonly version: number
  readonly status: ArtifactState
  readonly metadata: ArtifactMetadata
  readonly lineage: Lineage
  readonly created_by: string
  readonly created_at: Date
  readonly agent_run_id: string | null
  readonly swarm_run_id: string | null
  /** `sha256:` and the digits. */
  readonly checksum: string
  readonly idempotency_key: string | null
  readonly workspace_id: string
  readonly domain_effect_id: string | null
  readonly content_type: string
  readonly size_bytes: number
  readonly visibility: ArtifactVisibility
  readonly published_to: string | null
  /** What stands now, oldest first; `published_to` is the newest. */
  readonly publications: readonly Publication[]
  readonly superseded_by: string | null
  readonly retain_until: Date | null
  readonly hold_reason: string | null
}
