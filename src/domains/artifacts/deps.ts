/** What the services of this room need from outside, and who acts. */
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
  /** The first one is written to; all of them are read from. */
  readonly stores: readonly [BlobStore, ...BlobStore[]]
}

/** Who reads: an administrator sees everything in the workspace, others what is theirs or everybody's. */
export type ArtifactReader = Pick<Principal, 'userId' | 'role'>
