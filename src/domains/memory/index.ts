/** The door of the memory room: candidates, records, consents, holds, retrieval and forgetting. */
export { assessCandidate } from './assess-candidate.ts'
export {
  candidateIdOf,
  checkProposal,
  getCandidate,
  insertCandidate,
  isSameProposal,
  listCandidates,
  type ProposedMemory,
} from './candidate.ts'
export {
  decideConsent,
  getConsent,
  grantConsent,
  hasConsent,
  listConsents,
  revokeConsent,
} from './consent.ts'
export { contentClasses, parseSubject, subjectDigest } from './memory-content.ts'
export {
  candidateStatus,
  candidateView,
  memoryListView,
  memoryType,
  memoryView,
  proposedView,
  proposeMemoryBody,
  subjectField,
  toCandidateView,
  toMemoryView,
} from './contract.ts'
export { countHolds, type Forgettable } from './forgettable.ts'
export { type Act } from './events.ts'
export {
  dropErasure,
  eraseSubject,
  getErasure,
  insertErasure,
  previewForget,
} from './forget-subject.ts'
export { listCommandsOfHeldSubjects, listHolds, placeHold, releaseHold } from './hold.ts'
export {
  candidateDetailView,
  consentListView,
  consentView,
  decideCandidateBody,
  erasureView,
  forgetBody,
  forgetPreviewView,
  grantConsentBody,
  holdListView,
  holdView,
  placeHoldBody,
  previewForgetBody,
  toConsentView,
  toErasureView,
  toForgetPreviewView,
  toHoldView,
} from './keeping-contract.ts'
export {
  findCandidate,
  saveCandidate,
  type StoredCandidate,
  type StoredConsent,
  type StoredErasure,
  type Subject,
} from './memory-repository.ts'
export { type MemorySchema, openMemorySchemas } from './memory-schema.ts'
export type {
  MemoryStore,
  NewMemory,
  SearchScope,
} from './memory-store.ts'
export { detectVectorSupport, openPostgresStore } from './postgres-store.ts'
export { reviewStaleMemory } from './review-stale-memory.ts'
export {
  type PersonReading,
  readMemory,
  type RunReading,
  type RunScope,
  type SearchMemory,
  searchMemory,
} from './search-memory.ts'
export { type MemoryOptions, type MemoryDeps, openMemory } from './deps.ts'
export { unwriteMemory, writeMemory } from './write-memory.ts'
