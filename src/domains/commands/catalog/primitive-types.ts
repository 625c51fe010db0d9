/** The types of three families of primitives, and where each stands on record: a state, an event, a purpose, a column, a type of artifact. */

export type OnRecord =
  | { readonly machine: string; readonly state?: string }
  | { readonly event: string }
  | { readonly purpose: 'event' | 'audit' | 'agent_step' }
  | { readonly artifactType: string }
  | { readonly column: string }
  /** A rule of every installation; what it said stands in `policy_evaluated`. */
  | { readonly policy: string }
  /** Not on a row: measured by each process, shown at `/metrics`. */
  | { readonly metricPrefix: string }

/** What people decide. An override is a yes to other arguments than were asked for: the question is asked anew and answered at once. */
export const judgmentTypes = {
  approval: { machine: 'approval', state: 'approved' },
  rejection: { machine: 'approval', state: 'rejected' },
  change_request: { machine: 'approval', state: 'changes_requested' },
  input_request: { event: 'input_requested' },
  override: { column: 'concord.approvals.superseded_by' },
  escalation: { event: 'approval_escalated' },
  review: { column: 'concord.approvals.review_packet' },
} as const satisfies Readonly<Record<string, OnRecord>>

export const knowledgeTypes = {
  memory_record: { machine: 'memory-record' },
  memory_candidate: { machine: 'memory-candidate' },
  artifact: { machine: 'artifact' },
  lineage_link: { column: 'concord.artifacts.lineage' },
  evaluation_result: { artifactType: 'evaluation_result' },
} as const satisfies Readonly<Record<string, OnRecord>>

export const observabilityTypes = {
  audit_event: { purpose: 'audit' },
  domain_event: { purpose: 'event' },
  agent_step: { purpose: 'agent_step' },
  metric: { metricPrefix: 'concord_' },
  cost_record: { column: 'concord.domain_events.cost_units' },
  data_safety_decision: { policy: 'data_safety' },
} as const satisfies Readonly<Record<string, OnRecord>>
