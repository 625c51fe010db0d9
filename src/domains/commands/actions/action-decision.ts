/**
 * The decision about a proposal: read from the record of its command within a time limit, never guessed, and put into words for the agent.
 */
import { showActor } from '#domains/approvals'
import type { CommandState } from '#kernel/machines/command'
import type { PolicyDecision } from '#kernel/policy/policy'
import { sayState } from '#kernel/say-state'
import { statement } from '#store'
import type { CommandDeps } from '../deps.ts'

export type DecisionRecord = {
  readonly status: CommandState
  readonly error: string | null
  readonly result: unknown
  /** Of the latest `policy_evaluated`; null before the first. */
  readonly decision: PolicyDecision | null
  readonly reasons: readonly string[] | null
  readonly missing: readonly string[] | null
  /** Some events are in files, so a missing event proves nothing. */
  readonly is_archived: boolean
}

/** $1 command, $2 workspace. */
const findRecord = statement<DecisionRecord>(
  'commands_find_decision',
  `select c.status, c.error, c.result, p.payload->>'decision' as decision, p.payload->'reasons' as reasons, i.payload->'missing_fields' as missing,
  c.completed_at is not null and exists (select from concord.history_archives as h
    where h.workspace_id = c.workspace_id and h.command_ids @> array[c.command_id]) as is_archived
from concord.commands as c
left join lateral (select e.payload from concord.domain_events as e
  where e.command_id = c.command_id and e.event_type = 'policy_evaluated' order by e.seq desc limit 1) as p on true
left join lateral (select e.payload from concord.domain_events as e
  where e.command_id = c.command_id and e.event_type = 'input_requested' order by e.seq desc limit 1) as i on true
where c.command_id = $1::uuid and c.workspace_id = $2::uuid`,
)

const POLL_FIRST_MS = 10
const POLL_LAST_MS = 200

/** Returns undefined if there is no such command. Adds up its pauses, so that a clock that jumps cannot lengthen the wait. */
export async function awaitDecision(
  { db, sleep }: Pick<CommandDeps, 'db' | 'sleep'>,
  { workspaceId, commandId }: { readonly workspaceId: string; readonly commandId: string },
  waitMs: number,
  signal: AbortSignal,
): Promise<DecisionRecord | undefined> {
  let pauseMs = POLL_FIRST_MS
  for (let waitedMs = 0; ; waitedMs += pauseMs, pauseMs = Math.min(pauseMs * 2, POLL_LAST_MS)) {
    const [record] = await db.run(findRecord, [commandId, workspaceId])
    if (!record || isDecided(record) || waitedMs >= waitMs || signal.aborted) return record
    await sleep(pauseMs, signal)
  }
}

/** Also true for a command that has ended, or waits for input, before policy was evaluated. */
export function isDecided({ status, decision }: Pick<DecisionRecord, 'status' | 'decision'>): boolean {
  return decision !== null || !['created', 'validated'].includes(status)
}

/** An approval that the command waits for. */
export type Gate = { readonly approval_id: string; readonly status: string; readonly approver: string }

export type ActionAnswer = {
  /** Null: not decided in time, ended before a decision, or archived. */
  readonly decision: PolicyDecision | null
  readonly approvalId: string | null
  readonly status: CommandState
  readonly reasons: readonly string[]
  readonly output: unknown
  readonly message: string
}

export function decideAnswer(record: DecisionRecord, gates: readonly Gate[]): ActionAnswer {
  const decision = decisionOf(record, gates)
  const reasons = decision === 'deny' && record.decision === null ? [record.error ?? ''] : (record.reasons ?? [])
  return {
    decision,
    approvalId: (gates.find(({ status }) => status === 'pending') ?? gates[0])?.approval_id ?? null,
    status: record.status,
    reasons,
    output: record.result ?? null,
    message: say(decision, record, reasons, gates),
  }
}

/** A contract can require an approval that policy does not: then the answer is `require_approval` as well. */
function decisionOf({ decision, status, is_archived }: DecisionRecord, gates: readonly Gate[]): PolicyDecision | null {
  if (decision === 'allow' || decision === 'route') return gates.length > 0 ? 'require_approval' : decision
  if (decision !== null) return decision
  if (is_archived) return null
  // Policy was not evaluated: the payload lacks something, or is invalid.
  if (status === 'waiting_for_input') return 'require_more_input'
  return status === 'failed' ? 'deny' : null
}

function say(
  decision: PolicyDecision | null,
  record: DecisionRecord,
  reasons: readonly string[],
  gates: readonly Gate[],
): string {
  const { status, error, missing, is_archived } = record
  const why = reasons.join(' ')
  const state = `It ${sayState(status)}${error === null ? '' : `: ${error}`}.`
  switch (decision) {
    case null:
      if (is_archived) return `Its decision is in the archive. ${state}`
      return `${isDecided(record) ? 'It was never decided.' : 'It is recorded and not decided yet.'} ${state}`
    case 'deny':
      return `Denied. ${why}`.trim()
    case 'require_more_input':
      return `Something is missing: ${(missing ?? []).join(', ') || why}.`
    case 'escalate':
    case 'require_approval': {
      const asked = [...new Set(gates.map(({ approver }) => showActor(approver)))].join(', ')
      const isOpen = gates.some((gate) => gate.status === 'pending')
      const who = asked === '' ? '' : `${asked} ${isOpen ? 'must agree' : 'was asked'}.`
      return [who, why, state].filter((part) => part !== '').join(' ')
    }
    case 'delay':
      return `Not now. ${why}`.trim()
    case 'route':
    case 'allow':
      return `Allowed. ${state}`
  }
}
