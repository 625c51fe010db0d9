/** The exports of the memory room: candidates, records, consents, holds, retrieval and erasure. */
export {
  candidateIdOf,
  checkProposal,
  findCandidate,
  getCandidate,
  insertCandidate,
  isSameProposal,
  listCandidates,
  saveCandidate,
} from './candidate.ts'
export {
  grantConsent,
  hasConsent,
  listConsents,
  type MemoryReader,
  revokeConsent,
  seesSubject,
  viewerOf,
} from './consent.ts'
export {
  candidateDetailView,
  candidateStatus,
  candidateView,
  consentListView,
  consentView,
  decideCandidateBody,
  erasureView,
  forgetBody,
  forgetPreviewView,
  grantConsentBody,
  holdListView,
  holdView,
  memoryListView,
  memoryType,
  memoryView,
  placeHoldBody,
  previewForgetBody,
  type ProposedMemory,
  proposedView,
  proposeMemoryBody,
  subjectField,
  toCandidateView,
  toConsentView,
  toErasureView,
  toForgetPreviewView,
  toHoldView,
  toMemoryView,
} from './contract.ts'
export type { Forgettable, MemoryDeps } from './deps.ts'
export { dropErasure, eraseSubject, getErasure, insertErasure, previewForget } from './forget-subject.ts'
export { listCommandsOfHeldSubjects, listHolds, placeHold, releaseHold } from './hold.ts'
export { parseSubject, subjectDigest } from './memory-content.ts'
export {
  memoryTypes,
  type StoredCandidate,
  type StoredErasure,
  type StoredMemory,
  type Subject,
} from './memory-record.ts'
export { type MemorySchema, openMemorySchemas } from './memory-schema.ts'
export type { MemoryStore, NewMemory, SearchScope } from './memory-store.ts'
export { type MemoryOptions, openMemory } from './open-memory.ts'
export { detectVectorSupport, openPostgresStore } from './postgres-store.ts'
export { reviewStaleMemory } from './review-stale-memory.ts'
export {
  readMemory,
  type ReadingRun,
  type RunScope,
  runScope,
  type SearchMemory,
  searchMemory,
  searchMemoryForRun,
} from './search-memory.ts'
export { assessCandidate, prepareWrite, unwriteMemory, writeMemory, type Written } from './write-memory.ts'
