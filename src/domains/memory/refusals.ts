/** The refusals of memory: writing, reading, consent, holds, forgetting: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const memoryRefusals = {
  'memory.record.not_found': ['not_found', 'GET /memory finds what is remembered.'],
  'memory.candidate.not_found': ['not_found', 'GET /memory/candidates lists what was proposed.'],
  'memory.candidate.decided': ['conflict', 'There is nothing to do. Propose again to change it.'],
  'memory.candidate.nothing_pending': ['conflict', 'GET /memory/candidates/{id} shows what became of it.'],
  'memory.content.secret': ['invalid', 'Remember where it is kept, such as vault://team/name.'],
  'memory.content.empty': ['invalid', 'Say what is to be remembered in `content`.'],
  'memory.expiry.missing': ['invalid', 'Send `expires_at`, or another kind of memory.'],
  'memory.expiry.past': ['invalid', 'Send an `expires_at` in the future.'],
  'memory.fact.conflict': ['conflict', 'Look at it, and name it in `supersedes` to put yours in its place.'],
  'memory.source.not_found': ['not_found', 'Name memories of this workspace by their ids.'],
  'memory.schema.unknown': ['invalid', 'Use a memory schema that the project declares.'],
  'memory.schema.mismatch': ['invalid', 'Send content that fits the schema.'],
  'memory.schema.invalid': [
    'configuration',
    'Fix the definition in the project and restart; `facts` names every finding.',
  ],
  'memory.scope.exceeded': ['forbidden', 'Ask for less, or give the run a wider memory scope.'],
  'memory.subject.invalid': ['invalid', 'Write kind:id, such as customer:4711.'],
  'memory.consent.missing': ['conflict', 'Ask the subject for consent, then propose again.'],
  'memory.consent.not_found': ['not_found', 'GET /memory/consents lists them.'],
  'memory.consent.not_yours': ['forbidden', 'Ask them, or an administrator who has it in writing.'],
  'memory.hold.not_found': ['not_found', 'GET /memory/holds lists them.'],
  'memory.forget.held': ['conflict', 'Wait until the hold is released, or have it released.'],
  'memory.forget.nothing_known': ['not_found', 'Look at how the subject is written: GET /memory shows it.'],
  'memory.erasure.not_found': ['not_found', 'Check the id: the request to forget gave it.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    memory: typeof memoryRefusals
  }
}
