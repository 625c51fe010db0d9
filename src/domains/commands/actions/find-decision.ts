/** What the path has decided about a command so far, read from its own record; waited for within bounds, never guessed. */
import type { CommandState } from '#kernel/machines/command'
import type { ErrorClass } from '#kernel/error-classes'
import type { PolicyDecision } from '#kernel/policy/policy'
import { statement } from '#store'
import type { CommandDeps } from '../deps.ts'

export type Standing = {
  readonly status: CommandState
  readonly error: string | null
  readonly error_class: ErrorClass | null
  readonly result: unknown
  /** The latest `policy_evaluated`; null while policy has not been asked. */
  readonly decision: PolicyDecision | null
  readonly reasons: readonly string[] | null
  readonly missing: readonly string[] | null
  /** Events of it are in files: that there is none here says nothing. */
  readonly is_archived: boolean
}

/** $1 command, $2 workspace. The question that policy was asked stands in the same event and is not needed here. */
const findStanding = statement<Standing>(
  'commands_find_standing',
  `select c.status, c.error, c.error_class, c.result, p.payload->>'decision' as decision, p.payload->'reasons' as reasons, i.payload->'missing_fields' as missing,
  c.completed_at is not null and exists (select from concord.history_archives as h
    where h.workspace_id = c.workspace_id and h.command_ids @> array[c.command_id]) as is_archived
from concord.commands as c
left join lateral (select e.payload from concord.domain_events as e
  where e.command_id = c.command_id and e.event_type = 'policy_evaluated' order by e.seq desc limit 1) as p on true
left join lateral (select e.payload from concord.domain_events as e
  where e.command_id = c.command_id and e.event_type = 'input_requested' order by e.seq desc limit 1) as i on true
where c.command_id = $1::uuid and c.workspace_id = $2::uuid`,
)

/** Decided, or at an end that needed no policy: a payload that makes no sense, or lacks something. */
export function isDecided({ status, decision }: Pick<Standing, 'status' | 'decision'>): boolean {
  return decision !== null || !['created', 'validated'].includes(status)
}

const POLL_FIRST_MS = 10
const POLL_LAST_MS = 200

type Of = { readonly workspaceId: string; readonly commandId: string }

/** Undefined: there is no such command. The waits are added up, so that a clock that jumps cannot lengthen them. */
export async function awaitDecision(
  { db, sleep }: Pick<CommandDeps, 'db' | 'sleep'>,
  { workspaceId, commandId }: Of,
  waitMs: number,
  signal: AbortSignal,
): Promise<Standing | undefined> {
  let pauseMs = POLL_FIRST_MS
  for (let waitedMs = 0; ; waitedMs += pauseMs, pauseMs = Math.min(pauseMs * 2, POLL_LAST_MS)) {
    const [standing] = await db.run(findStanding, [commandId, workspaceId])
    if (!standing || isDecided(standing) || waitedMs >= waitMs || signal.aborted) return standing
    await sleep(pauseMs, signal)
  }
}
