/** What an agent is told about its proposal: the decision that stands on record, in the words of policy and in a sentence. Pure. */
import { showActor } from '#domains/approvals'
import type { CommandState } from '#kernel/machines/command'
import type { PolicyDecision } from '#kernel/policy/policy'
import { sayState } from '#kernel/say-state'
import { isDecided, type Standing } from './find-decision.ts'

/** A question to people that holds the command back. */
export type Gate = { readonly approval_id: string; readonly status: string; readonly approver: string }

export type ActionAnswer = {
  /** Null: not decided within the time that a request is held, given up before that, or so long ago that it is archived. */
  readonly decision: PolicyDecision | null
  readonly approvalId: string | null
  readonly status: CommandState
  readonly reasons: readonly string[]
  readonly output: unknown
  readonly message: string
}

export function decideAnswer(standing: Standing, gates: readonly Gate[]): ActionAnswer {
  const decision = decisionOf(standing, gates)
  const reasons = decision === 'deny' && standing.decision === null ? [standing.error ?? ''] : (standing.reasons ?? [])
  return {
    decision,
    approvalId: (gates.find(({ status }) => status === 'pending') ?? gates[0])?.approval_id ?? null,
    status: standing.status,
    reasons,
    output: standing.result ?? null,
    message: say(decision, standing, reasons, gates),
  }
}

/** A contract may ask for an approval where policy would have let it through: then a person decides all the same. */
function decisionOf({ decision, status, is_archived }: Standing, gates: readonly Gate[]): PolicyDecision | null {
  if (decision === 'allow' || decision === 'route') return gates.length > 0 ? 'require_approval' : decision
  if (decision !== null) return decision
  if (is_archived) return null
  // Before policy could be asked: what the contract needs is not there, or makes no sense.
  if (status === 'waiting_for_input') return 'require_more_input'
  return status === 'failed' ? 'deny' : null
}

function say(
  decision: PolicyDecision | null,
  standing: Standing,
  reasons: readonly string[],
  gates: readonly Gate[],
): string {
  const { status, error, missing, is_archived } = standing
  const why = reasons.join(' ')
  const stands = `It ${sayState(status)}${error === null ? '' : `: ${error}`}.`
  switch (decision) {
    case null:
      if (is_archived) return `What was decided about it is in the archive. ${stands}`
      return isDecided(standing) ? `It was never decided. ${stands}` : `It is on record and not decided yet. ${stands}`
    case 'deny':
      return `Denied. ${why}`.trim()
    case 'require_more_input':
      return `Something is missing: ${(missing ?? []).join(', ') || why}.`
    case 'escalate':
    case 'require_approval': {
      const asked = [...new Set(gates.map(({ approver }) => showActor(approver)))].join(', ')
      const isOpen = gates.some(({ status: answer }) => answer === 'pending')
      const who = asked === '' ? '' : `${asked} ${isOpen ? 'must agree' : 'was asked'}.`
      return [who, why, stands].filter((part) => part !== '').join(' ')
    }
    case 'delay':
      return `Not now. ${why}`.trim()
    case 'route':
    case 'allow':
      return `Allowed. ${stands}`
  }
}
