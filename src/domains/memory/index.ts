/** The door of the memory room: candidates, records, consents, holds, retrieval and forgetting. */
export { assessCandidate } from './assess-candidate.ts'
export { checkProposal, isSameProposal, type ProposedMemory } from './check-proposal.ts'
export {
  decideConsent,
  getConsent,
  grantConsent,
  hasConsent,
  listConsents,
  revokeConsent,
} from './consent.ts'
export { contentClasses } from './content-class.ts'
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
export { countHolds } from './decide-erasure.ts'
export { type Act } from './events.ts'
export { subjectDigest } from './fact-key.ts'
export {
  dropErasure,
  eraseSubject,
  getErasure,
  insertErasure,
  previewForget,
} from './forget-subject.ts'
export type { Forgettable } from './forgettable.ts'
export { listHolds, placeHold, releaseHold } from './hold.ts'
export { candidateIdOf, insertCandidate } from './insert-candidate.ts'
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
export { getCandidate, listCandidates } from './list-candidates.ts'
export { findCandidate, saveCandidate } from './memory-repository.ts'
export type {
  StoredCandidate,
  StoredConsent,
  StoredErasure,
  Subject,
} from './memory-row.ts'
export { type MemorySchema, openMemorySchemas } from './memory-schema.ts'
export type {
  MemoryStore,
  NewMemory,
  SearchScope,
} from './memory-store.ts'
export { listCommandsOfHeldSubjects } from './list-held-commands.ts'
export { openPostgresStore } from './postgres-store.ts'
export { reviewStaleMemory } from './review-stale-memory.ts'
export { type RunScope } from './run-scope.ts'
export {
  type PersonReading,
  readMemory,
  type RunReading,
  type SearchMemory,
  searchMemory,
} from './search-memory.ts'
export { parseSubject } from './subject.ts'
export { detectVectorSupport } from './vector-support.ts'
export { type MemoryOptions, type MemoryDeps, openMemory } from './deps.ts'
export { unwriteMemory, writeMemory } from './write-memory.ts'
