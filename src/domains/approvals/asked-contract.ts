/** Reads the contract that was copied when an approval was asked; a row without one is held to the strictest usual. */
import { effectResume, gateResume } from './approval-type.ts'
import { type AskedContract, decisionValues, type StoredApproval } from './stored-approval.ts'

export function askedContract(approval: Pick<StoredApproval, 'request_payload' | 'domain_effect_id'>): AskedContract {
  const about = approval.domain_effect_id === null ? 'command' : 'effect'
  // Rows written by hand or by an older version may hold less than the type says.
  const stored: Partial<AskedContract> = approval.request_payload.contract ?? {}
  return {
    type_version: '0',
    decision_values: about === 'command' ? decisionValues : ['approved', 'rejected'],
    meanings: {},
    reason_required: ['rejected', 'request_changes'],
    edits_allowed: false,
    resume: about === 'command' ? gateResume : effectResume,
    reminders_after_minutes: [],
    escalation: null,
    ui: {},
    ...stored,
    about,
  }
}
