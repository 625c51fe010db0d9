/** The refusals of this room, each with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const memoryRefusals = {
  'memory.record.not_found': ['not_found', 'GET /memory searches memories.'],
  'memory.candidate.not_found': ['not_found', 'GET /memory/candidates lists the candidates.'],
  'memory.candidate.decided': ['conflict', 'Propose again to change it.'],
  'memory.candidate.nothing_pending': ['conflict', 'GET /memory/candidates/{id} shows its state.'],
  'memory.content.secret': ['invalid', 'Store its location instead, such as vault://team/name.'],
  'memory.content.empty': ['invalid', 'Send `content` with at least one field.'],
  'memory.expiry.missing': ['invalid', 'Send `expires_at`, or leave out `temporary`.'],
  'memory.expiry.past': ['invalid', 'Send an `expires_at` in the future.'],
  'memory.fact.conflict': ['conflict', 'Read it, and name it in `supersedes` to replace it.'],
  'memory.source.not_found': ['not_found', 'Name memories of this workspace by their ids.'],
  'memory.schema.unknown': ['invalid', 'Use a memory schema that the project declares.'],
  'memory.schema.mismatch': ['invalid', 'Send a memory that matches the schema.'],
  'memory.schema.invalid': [
    'configuration',
    'Fix the definition in the project and restart; `facts` names every finding.',
  ],
  'memory.scope.exceeded': ['forbidden', 'Ask for less, or give the run a wider memory scope.'],
  'memory.subject.invalid': ['invalid', 'Write kind:id, such as customer:4711.'],
  'memory.consent.missing': ['conflict', 'Ask the subject for consent, then propose again.'],
  'memory.consent.not_found': ['not_found', 'GET /memory/consents lists them.'],
  'memory.consent.not_yours': ['forbidden', 'Ask them, or an administrator who has their consent in writing.'],
  'memory.hold.not_found': ['not_found', 'GET /memory/holds lists them.'],
  'memory.forget.held': ['conflict', 'Wait until the hold is released, or ask for its release.'],
  'memory.forget.nothing_known': ['not_found', 'Check the spelling of the subject: GET /memory shows it.'],
  'memory.erasure.not_found': ['not_found', 'Check the id: POST /memory/forget returned it.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    memory: typeof memoryRefusals
  }
}
