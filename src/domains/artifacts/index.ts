/** The door of the artifacts room: what work produces, where its content lies, what it was made from and how far it may go. */
export { archiveArtifacts } from './archive-artifacts.ts'
export { findArtifact } from './artifact-repository.ts'
export { type Lineage, type Source, type SourceKind, sourceKinds, type StoredArtifact } from './artifact-row.ts'
export {
  type ArtifactType,
  type ArtifactTypeInput,
  type ArtifactTypes,
  type ContentClass,
  contentClasses,
  defineArtifactType,
  openArtifactTypes,
  type SharingRule,
  sharingRules,
} from './artifact-type.ts'
export type { BlobEntry, BlobRef, BlobStore, ByteRange, OpenBlob } from './blob-store.ts'
export { builtInArtifactTypes } from './built-in-types.ts'
export { parseRange } from './byte-range.ts'
export {
  cancelArtifact,
  type ChangeArtifact,
  finishArtifact,
  holdArtifact,
  releaseArtifact,
  unpublishArtifact,
} from './change-artifact.ts'
export { type ArtifactDraft, checkDraft, type DraftContent } from './check-draft.ts'
export {
  artifactStatus,
  type ArtifactView,
  artifactView,
  lineageView,
  publishBody,
  reasonBody,
  toArtifactView,
} from './contract.ts'
export { type DiskStoreOptions, openDiskStore } from './disk-store.ts'
export { type ArtifactEventType, artifactEventTypes } from './events.ts'
export { forgetArtifacts } from './forget-artifacts.ts'
export { listCommandsOfHeldArtifacts } from './list-held-commands.ts'
export { openContent, readText } from './locate-content.ts'
export { decideSharing, mayRead } from './may-read.ts'
export {
  openArtifactWriter,
  type ArtifactWriter,
  type WriterOwner,
  type PendingWrite,
  type WrittenArtifact,
} from './artifact-writer.ts'
export {
  type ArtifactPage,
  getArtifact,
  type ListArtifacts,
  listArtifacts,
  listSwarmArtifacts,
} from './read-artifacts.ts'
export { type LineageEdge, type LineageGraph, type LineageNode, readLineage } from './read-lineage.ts'
export { openS3Store, type S3StoreOptions } from './s3-store.ts'
export { saveArtifacts } from './save-artifacts.ts'
export { sweepBlobs, type SweptBlobs } from './sweep-blobs.ts'
export type { Acting, ArtifactDeps, Reader } from './deps.ts'
export { type WriteArtifact, writeArtifact } from './write-artifact.ts'
export { artifactRefusals } from './refusals.ts'
