/** The door of the memory room: candidates, records, consents, holds, retrieval and forgetting. */
export { type Assessment, assessCandidate, type CandidateRef } from './assess-candidate.ts'
export { checkProposal, type CheckedMemory, isSameProposal, type ProposedMemory } from './check-proposal.ts'
export {
  type ConsentTo,
  decideConsent,
  getConsent,
  grantConsent,
  hasConsent,
  isPersonal,
  listConsents,
  revokeConsent,
} from './consent.ts'
export { classifyContent, type ContentClass, contentClasses } from './content-class.ts'
export {
  candidateStatus,
  candidateView,
  memoryListView,
  memoryScope,
  memoryType,
  memoryView,
  proposedView,
  proposeMemoryBody,
  subjectField,
  toCandidateView,
  toMemoryView,
} from './contract.ts'
export { type Certificate, countHolds, decideErasure, type KnownItem, writeCertificate } from './decide-erasure.ts'
export { decideMemoryWrite, type MemoryWriteDecision, type MemoryWriteFacts } from './decide-memory-write.ts'
export { type Embedder, textOf } from './embedder.ts'
export { type Act, type MemoryEventType, memoryLog } from './events.ts'
export { factKeyOf, parseFactKey, subjectDigest } from './fact-key.ts'
export {
  dropErasure,
  type ErasureRef,
  eraseSubject,
  type ForgetPreview,
  getErasure,
  insertErasure,
  previewForget,
} from './forget-subject.ts'
export type { Forgettable, Lineage } from './forgettable.ts'
export { listHolds, placeHold, releaseHold } from './hold.ts'
export { candidateIdOf, insertCandidate, type NewCandidate } from './insert-candidate.ts'
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
export { type CandidatePage, getCandidate, listCandidates, type ShownCandidate } from './list-candidates.ts'
export { findCandidate, saveCandidate } from './memory-repository.ts'
export type {
  MemoryContent,
  StoredCandidate,
  StoredConsent,
  StoredErasure,
  StoredHold,
  StoredMemory,
  Subject,
} from './memory-row.ts'
export { type MemorySchema, memorySchema, type MemorySchemas, openMemorySchemas } from './memory-schema.ts'
export type {
  FoundMemory,
  MemoryQuery,
  MemoryRef,
  MemoryStore,
  NewMemory,
  ReadNote,
  SearchScope,
} from './memory-store.ts'
export { listCommandsOfHeldSubjects } from './list-held-commands.ts'
export { openPostgresStore } from './postgres-store.ts'
export { decideDecay, type Review, reviewStaleMemory } from './review-stale-memory.ts'
export { decideChildScope, decideRead, isScopeWithin, narrowScope, type RunScope, runScope } from './run-scope.ts'
export {
  type PersonReading,
  type Reader,
  readMemory,
  type RunReading,
  type SearchMemory,
  searchMemory,
} from './search-memory.ts'
export { parseSubject, showSubject } from './subject.ts'
export { detectVectorSupport, type VectorSupport } from './vector-support.ts'
export { type MemoryOptions, type MemoryDeps, openMemory } from './deps.ts'
export { unwriteMemory, type WriteMemory, writeMemory, type Written } from './write-memory.ts'
