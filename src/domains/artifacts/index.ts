/** The public API of artifacts: what work produces, where its content is stored, its lineage and who may have it. */
export {
  archiveArtifacts,
  cancelArtifact,
  finishArtifact,
  forgetArtifacts,
  holdArtifact,
  releaseArtifact,
  unpublishArtifact,
} from './change-artifact.ts'
export { decideSharing, findArtifact, mayRead, type Source, type StoredArtifact } from './artifact.ts'
export {
  type ArtifactType,
  builtInArtifactTypes,
  contentClasses,
  defineArtifactType,
  openArtifactTypes,
  sharingRules,
} from './artifact-type.ts'
export { type BlobStore, openContent, parseRange, readArtifactText, sweepBlobs } from './blob-store.ts'
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
export {
  getArtifact,
  listArtifacts,
  listCommandsOfHeldArtifacts,
  listSwarmArtifacts,
  readLineage,
} from './read-artifacts.ts'
export {
  type ArtifactWriter,
  openArtifactWriter,
  type WriteArtifact,
  writeArtifact,
  type WrittenArtifact,
} from './artifact-writer.ts'
export { openS3Store } from './s3-store.ts'
export { saveArtifacts } from './save-artifacts.ts'
export type { ArtifactDeps } from './deps.ts'
export { artifactRefusals } from './refusals.ts'
