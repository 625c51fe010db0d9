/** The door of the artifacts room: what work produces, where its content lies, what it was made from and how far it may go. */
export { archiveArtifacts } from './archive-artifacts.ts'
export { findArtifact } from './artifact-repository.ts'
export { type Source, type StoredArtifact } from './artifact-row.ts'
export {
  type ArtifactType,
  contentClasses,
  defineArtifactType,
  openArtifactTypes,
  sharingRules,
} from './artifact-type.ts'
export type { BlobStore } from './blob-store.ts'
export { builtInArtifactTypes } from './built-in-types.ts'
export { parseRange } from './byte-range.ts'
export {
  cancelArtifact,
  finishArtifact,
  holdArtifact,
  releaseArtifact,
  unpublishArtifact,
} from './change-artifact.ts'
export { type ArtifactDraft } from './check-draft.ts'
export {
  artifactStatus,
  type ArtifactView,
  artifactView,
  lineageView,
  publishBody,
  reasonBody,
  toArtifactView,
} from './contract.ts'
export { openDiskStore } from './disk-store.ts'
export { forgetArtifacts } from './forget-artifacts.ts'
export { listCommandsOfHeldArtifacts } from './list-held-commands.ts'
export { openContent, readText } from './locate-content.ts'
export { decideSharing, mayRead } from './may-read.ts'
export { openArtifactWriter, type ArtifactWriter, type WrittenArtifact } from './artifact-writer.ts'
export { getArtifact, listArtifacts } from './read-artifacts.ts'
export { readLineage } from './read-lineage.ts'
export { openS3Store } from './s3-store.ts'
export { saveArtifacts } from './save-artifacts.ts'
export { sweepBlobs } from './sweep-blobs.ts'
export type { Acting, ArtifactDeps } from './deps.ts'
export { type WriteArtifact, writeArtifact } from './write-artifact.ts'
export { artifactRefusals } from './refusals.ts'
