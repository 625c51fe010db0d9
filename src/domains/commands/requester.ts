/**
 * Before an effect begins, the statement that records its begin checks that the requester may still act, with the role of the request. If not, the
 * effect does not begin and an operator is asked: nothing happens in the name of a person who left or was demoted.
 */
import type { ApprovalRequest } from '#domains/approvals'
import { findMember, hasLeft, isLiveKey, platformRoles, type Principal } from '#domains/identity'
import { statement } from '#store'
import type { Folded } from './advance.ts'
import { applyChanges, move, releaseTurn, systemActor } from './change.ts'
import { requesterOf, type StoredCommand, type StoredEffect } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { nextEffect } from './plan.ts'
import { contentOf, readBackOf, taskOf } from './tasks.ts'

/** The approval type of the question. One yes holds for the rest of the command. */
const REQUESTER_GONE = 'requester_gone'

/** A condition about the command `c`: the agent that proposed it has lost its last key, or the tool that it called. */
const hasLostAgent = (userId: string): string =>
  `(c.context->>'agent' is not null and not exists (select from identity.api_keys k
      where k.user_id = ${userId} and k.agent = c.context->>'agent' and ${isLiveKey('k', 'c.workspace_id')}
        and (not c.context->'metadata' ? 'tool_name' or c.task_name = any(k.tools))))`

/**
 * A condition about the command `c`: the person may no longer act as at the request, and no operator has agreed to continue the command. `offset 0`:
 * Postgres looks for the answer of this command, where it could read every approval first.
 */
export const isRequesterGone = (userId: string): string =>
  `((${hasLeft(userId, 'c.workspace_id', `c.context->'metadata'->>'role'`)} or ${hasLostAgent(userId)}) and not exists (select from concord.approvals a
      where a.command_id = c.command_id and a.approval_type = '${REQUESTER_GONE}' and a.status = 'approved' offset 0))`

/** $1 user, $2 workspace, $3 command. */
const findGone = statement<{ readonly gone: boolean }>(
  'commands_find_requester_gone',
  `select ${isRequesterGone('$1::uuid')} as gone from concord.commands as c
where c.workspace_id = $2::uuid and c.command_id = $3::uuid`,
)

/** A policy decision this long after the request is made with the rights of now. */
const RIGHTS_FRESH_MS = 5_000

/** The requester with the present role and org roles, never more than at the request. Undefined for Concord itself, and for a person who may no longer act. */
export async function findPresentRights(
  { db }: Pick<CommandDeps, 'db'>,
  command: Pick<StoredCommand, 'requested_by' | 'context' | 'workspace_id'>,
): Promise<Principal | undefined> {
  const userId = requesterOf(command)
  const roleMax = platformRoles.find((role) => role === command.context.metadata['role'])
  if (userId === undefined || roleMax === undefined) return undefined
  const member = await findMember(db, { userId, workspaceId: command.workspace_id, roleMax })
  return member?.role === 'reader' ? undefined : member
}

/**
 * The command with the present role and org roles of its requester, for a policy decision after a wait. As it is while the request is fresh, and for a
 * person who may no longer act: about these an operator is asked before anything begins.
 */
export async function withPresentRights(
  { db, now }: Pick<CommandDeps, 'db' | 'now'>,
  command: StoredCommand,
): Promise<StoredCommand> {
  // After a clock was set back, the request lies ahead of it.
  const ageMs = now().getTime() - command.created_at.getTime()
  const isFresh = ageMs >= 0 && ageMs < RIGHTS_FRESH_MS
  const present = isFresh ? undefined : await findPresentRights({ db }, command)
  if (!present) return command
  const { context } = command
  const rights = { role: present.role, org_roles: present.orgRoles }
  return { ...command, context: { ...context, metadata: { ...context.metadata, ...rights } } }
}

/** An attempt whose predecessor is in doubt settles it, as a look-up does: it is no begin. */
export const isBegin = (effect: StoredEffect) => readBackOf(effect).outcome !== 'unknown'

/** After the write of a begin was refused: whether this is the reason. */
export async function findRequesterGone({ db }: Pick<CommandDeps, 'db'>, command: StoredCommand): Promise<boolean> {
  const userId = requesterOf(command)
  if (userId === undefined) return false
  const [row] = await db.run(findGone, [userId, command.workspace_id, command.command_id])
  return row?.gone === true
}

/** Asks an operator instead of beginning the next effect. A fold that begins none stays as it is. */
export function askRequesterGone({ catalog }: Pick<CommandDeps, 'catalog'>, folded: Folded, at: Date): Folded {
  const { draft } = folded
  const { command } = draft.now
  const due = command.status === 'running' ? nextEffect(draft.now, at) : undefined
  if (folded.next.t !== 'proceed' || (due?.t !== 'begin' && due?.t !== 'retry') || !isBegin(due.effect)) return folded
  const changes = [move('blocked', systemActor, { reason: REQUESTER_GONE }), releaseTurn(null)]
  const requests = [requestOf({ catalog }, command, due.effect)]
  return { draft: applyChanges(draft, changes, at), next: { t: 'ask', what: 'outcome', requests } }
}

function requestOf(
  { catalog }: Pick<CommandDeps, 'catalog'>,
  command: StoredCommand,
  { domain_effect_id, effect_type, effect_payload: payload }: StoredEffect,
): ApprovalRequest {
  const task = taskOf(catalog, command)
  return {
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    approvalType: REQUESTER_GONE,
    requestedBy: command.requested_by,
    requestedAt: command.created_at,
    approver: 'role:operator',
    content: task
      ? contentOf(task, command.payload, [{ effect_type, payload }])
      : { arguments: command.payload, effects: [], policy_version: 'none', command_version: 'none' },
    packet: {
      requestedAction: `Continue ${command.task_name ?? command.command_type} although its requester may no longer act.`,
      why: 'The requester left, has a lower role than at the request, or may not enter this workspace any more; or the key of its agent was revoked, has expired or no longer covers the tool.',
      affected: [effect_type],
      policy: 'Nothing begins in the name of a person who may no longer act.',
      afterApproval:
        'Approved: the command continues as planned. Rejected: the command fails. What was done stays, unless its contract undoes it.',
    },
    domainEffectId: domain_effect_id,
  }
}
