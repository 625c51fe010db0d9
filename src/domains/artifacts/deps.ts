/** The dependencies of the artifact services, and the reader they check access for. */
import type { Clock, NewId } from '#kernel/clock'
import type { Principal } from '#domains/identity'
import type { Db } from '#store'
import type { ArtifactTypes } from './artifact-type.ts'
import type { BlobStore } from './blob-store.ts'

export type ArtifactDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly types: ArtifactTypes
  /** Writes go to the first one; reads look in all of them. */
  readonly stores: readonly [BlobStore, ...BlobStore[]]
}

/** An administrator sees every artifact of the workspace; others see their own and those visible to the workspace. */
export type ArtifactReader = Pick<Principal, 'userId' | 'role'>
