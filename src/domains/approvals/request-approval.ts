/** Requests approvals: one durable row per question, bound to its content, in the transaction of the caller. */
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { encodeId } from '#kernel/ids'
import { higherRisk } from '#kernel/policy/policy'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { statement, type Tx, untilSettled } from '#store'
import { type ApprovalType, contractOf, MINUTES_MAX } from './approval-type.ts'
import { actorAs, approvalTable, cancelApprovals, findDatabaseTime } from './approval.ts'
import { approvalHash, type ApprovalRequest, type RequestPayload, type StoredApproval } from './stored-approval.ts'
import { approverRef, type Asked, isPersonRef, roleSlug } from './approver.ts'
import { refuseChanged } from './decide-vote.ts'
import type { ApprovalDeps } from './deps.ts'
import { buildPacket } from './review-packet.ts'

type ResolvedApprovers = {
  readonly requestedBy: string
  readonly approver: string
  /** Further named persons. */
  readonly approvers: readonly string[]
  readonly roles: readonly string[]
  readonly approvalsRequired: number
  readonly selfDecisionAllowed: boolean
}

export function resolveApprovers(type: ApprovalType, request: ApprovalRequest): Decision<ResolvedApprovers> {
  const requestedBy = personOrSelf(request.requestedBy)
  const asked = askedBy(type, request, requestedBy)
  const approver = approverRef(asked.approver)
  const approvers = (asked.approvers ?? []).map(approverRef)
  const roles = (asked.roles ?? []).map(roleSlug)
  if (
    approver === undefined ||
    !approvers.every((ref) => ref !== undefined && isPersonRef(ref)) ||
    roles.includes(undefined)
  ) {
    return refuse('approvals.approver.unresolved', `The request names nobody who could decide ${type.name}.`, {
      path: 'approver',
      hint: 'Name a person as user:<uuid>, or an org role.',
    })
  }
  const resolved: ResolvedApprovers = {
    requestedBy,
    approver,
    approvers: [...new Set(approvers.filter((ref) => ref !== undefined))],
    roles: [...new Set(roles.filter((slug) => slug !== undefined))],
    approvalsRequired: Math.max(type.quorum, request.approvalsRequired ?? 1),
    selfDecisionAllowed: type.selfDecision && request.selfDecisionAllowed !== false,
  }
  return isReachable(resolved) ? accept(resolved) : unreachable(resolved)
}

function askedBy(type: ApprovalType, request: ApprovalRequest, requestedBy: string): Asked {
  const more = { approvers: request.approvers ?? [], roles: request.approverRoles ?? [] }
  if (type.approver === 'given') return { approver: request.approver ?? '', ...more }
  if (type.approver === 'requester') return { approver: requestedBy, ...more }
  if (typeof type.approver === 'function') return type.approver(request)
  return { approver: type.approver.role, ...more }
}

/** A bare UUID is a person; everything else (`system`, `service:…`) stays unchanged and can never decide. */
function personOrSelf(requestedBy: string): string {
  const ref = approverRef(requestedBy)
  return ref !== undefined && isPersonRef(ref) ? ref : requestedBy
}

/** The number of members of a role is unknown here; if only persons are named, enough of them must be allowed to decide. */
function isReachable({
  approver,
  approvers,
  roles,
  requestedBy,
  approvalsRequired,
  selfDecisionAllowed,
}: ResolvedApprovers): boolean {
  if (roles.length > 0 || !isPersonRef(approver)) return true
  const persons = new Set([approver, ...approvers])
  if (!selfDecisionAllowed) persons.delete(requestedBy)
  return persons.size >= approvalsRequired
}

function unreachable({ approvalsRequired }: ResolvedApprovers) {
  return refuse('approvals.quorum.unreachable', `Fewer than ${approvalsRequired} of the named persons may decide.`, {
    path: 'approvers',
    hint: 'The requester counts only if the type allows it. Name more persons, or a role.',
    facts: { required: approvalsRequired },
  })
}

type AskedRow = StoredApproval & {
  readonly once_inserted: boolean
  readonly once_same: boolean
  /** The approvals that this one replaces. */
  readonly supersedes: readonly string[]
}

const columns = `approval_id, workspace_id, command_id, requested_by, approver, approval_type, request_payload, review_packet,
    expires_at, idempotency_key, payload_hash, self_decision_allowed, approvals_required, approver_roles, domain_effect_id`

const isVoid = `(t.status in ('changes_requested', 'expired', 'cancelled') or (t.status = 'approved' and t.payload_hash <> $11::text))`
const isSameQuestion = `t.workspace_id = $2::uuid and t.command_id = $3::uuid and t.domain_effect_id is not distinct from $15::uuid
        and t.approval_type = $6::text and t.approver = $5::text`

/**
 * Inserts the approval, or returns the existing one: the unique key decides, not an earlier read. An answer that no longer counts
 * (changes requested, expired, cancelled, or approved for another content) allows another round, which has its own
 * key and replaces it. It replaces only the same question, of the same type and to the same approver: a role that is not asked again
 * has not agreed.  $1 approval, $2 workspace, $3 command, $4 requested by, $5 approver, $6 type, $7 payload, $8 packet, $9
 * expires at, $10 key, $11 hash, $12 self decision, $13 quorum, $14 roles, $15 effect.
 */
const insertApproval = statement<AskedRow>(
  'approvals.insert_once',
  `with round as (
     select $10::text || case count(*) when 0 then '' else ':r' || count(*) + 1 end as key
       from concord.approvals t
      where ${isSameQuestion} and ${isVoid}
   ), fresh as (
     insert into concord.approvals (${columns})
     select $1::uuid, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, $7::jsonb, $8::jsonb, $9::timestamptz, r.key, $11::text,
            $12::boolean, $13::integer, $14::text[], $15::uuid
       from round r
         on conflict (workspace_id, idempotency_key) do nothing
     returning *
   ), replaced as (
     update concord.approvals t set superseded_by = f.approval_id
       from fresh f
      where ${isSameQuestion} and t.superseded_by is null and ${isVoid}
     returning t.approval_id
   )
   select true as once_inserted, true as once_same, array(select approval_id from replaced) as supersedes, f.*
     from fresh f
   union all
   select false, t.payload_hash = $11::text, array[]::uuid[], t.*
     from round r
     join concord.approvals t on t.workspace_id = $2::uuid and t.idempotency_key = r.key
    where not exists (select from fresh)`,
)

type Requested = { readonly inserted: boolean; readonly approval: StoredApproval }

export async function requestApproval(
  tx: Tx,
  deps: Pick<ApprovalDeps, 'newId' | 'types' | 'notify'>,
  by: Actor,
  request: ApprovalRequest,
): Promise<Decision<Requested>> {
  const found = deps.types.find(request.approvalType)
  if (!found.ok) return found
  const type = found.value
  const missing = missingFields(type, request)
  if (missing.length > 0) {
    return refuse('approvals.field.missing', `An approval of the type ${type.name} needs ${missing.join(', ')}.`, {
      path: missing[0] ?? '',
      facts: { missing },
    })
  }
  const asked = resolveApprovers(type, request)
  if (!asked.ok) return asked
  const at = await findDatabaseTime(tx)
  const expiresAt = expiryOf(type, request, at)
  const { approvalsRequired } = asked.value
  const { afterApproval } = request.packet
  const people = approvalsRequired > 1 ? ` ${approvalsRequired} different people must approve.` : ''
  const packet = buildPacket({
    ...request,
    packet: { ...request.packet, afterApproval: `${afterApproval}${people}` },
    requester: asked.value.requestedBy,
    riskLevel: higherRisk(type.riskLevel, request.riskLevel),
    expiresAt,
  })
  if (!packet.ok) return packet
  const payload: RequestPayload = {
    ...request.content,
    approvers: asked.value.approvers,
    contract: contractOf(type),
    ...(request.requestedAt === undefined ? {} : { requested_at: request.requestedAt.toISOString() }),
    ...(request.readBack === undefined ? {} : { read_back: request.readBack }),
    ...(request.edits === undefined ? {} : { edits: request.edits }),
  }
  const values = [
    deps.newId(),
    request.workspaceId,
    request.commandId,
    asked.value.requestedBy,
    asked.value.approver,
    type.name,
    JSON.stringify(payload),
    JSON.stringify(packet.value),
    expiresAt,
    keyOf(type, request, asked.value),
    approvalHash(request.content),
    asked.value.selfDecisionAllowed,
    asked.value.approvalsRequired,
    asked.value.roles,
    request.domainEffectId ?? null,
  ]
  const row = await untilSettled('concord.approvals', async () => (await tx.run(insertApproval, values))[0])
  return settle(tx, deps, by, at, row)
}

async function settle(
  tx: Tx,
  deps: Pick<ApprovalDeps, 'newId' | 'notify'>,
  by: Actor,
  at: Date,
  { once_inserted, once_same, supersedes, ...approval }: AskedRow,
): Promise<Decision<Requested>> {
  if (!once_same) {
    return refuse('key_reused', 'This approval was already requested for different content.', {
      hint: 'Supersede the open approval before you request one for a changed command.',
      facts: { first: encodeId('approval', approval.approval_id) },
    })
  }
  if (once_inserted) {
    const payload = {
      requested_by: approval.requested_by,
      approver: approval.approver,
      approvals_required: approval.approvals_required,
      expires_at: approval.expires_at?.toISOString() ?? null,
      supersedes,
    }
    const fact = { type: 'approval_requested', at, newId: deps.newId, payload } as const
    await approvalTable.append(tx, approval, actorAs(by, 'system'), fact)
    await deps.notify?.(tx, { approval, why: 'requested' })
  }
  return accept({ inserted: once_inserted, approval })
}

function missingFields(type: ApprovalType, { content, domainEffectId }: ApprovalRequest): string[] {
  const fields = type.requiredFields.filter(
    (name) => (content.arguments[name] ?? null) === null || content.arguments[name] === '',
  )
  return type.about === 'effect' && domainEffectId === undefined ? [...fields, 'domain_effect_id'] : fields
}

/** By the clock of the database; a request may shorten the time of the type, never lengthen it. */
function expiryOf(type: ApprovalType, { expiresInMinutes }: ApprovalRequest, at: Date): Date | null {
  const minutes = Math.min(
    type.expirationMinutes ?? Number.POSITIVE_INFINITY,
    expiresInMinutes ?? Number.POSITIVE_INFINITY,
  )
  if (minutes === Number.POSITIVE_INFINITY) return null
  return new Date(at.getTime() + Math.min(Math.max(minutes, 1), MINUTES_MAX) * 60_000)
}

/** One question per command, type and approver, and per effect if it is about one; later rounds append their number. */
function keyOf(
  type: ApprovalType,
  { commandId, domainEffectId }: ApprovalRequest,
  { approver }: ResolvedApprovers,
): string {
  return ['approval', commandId, type.name, approver, ...(domainEffectId === undefined ? [] : [domainEffectId])].join(
    ':',
  )
}

/** $1 workspace, $2 command, $3 the current ones, $4 the replacing one, $5 its hash. A rejected approval stays. */
const replaceApprovals = statement<{ readonly approval_id: string }>(
  'approvals.replace',
  `update concord.approvals t set superseded_by = $4::uuid
    where t.workspace_id = $1::uuid and t.command_id = $2::uuid and t.domain_effect_id is null and t.superseded_by is null
      and t.approval_id <> all ($3::uuid[])
      and (t.status in ('changes_requested', 'expired', 'cancelled') or (t.status = 'approved' and t.payload_hash <> $5::text))
   returning t.approval_id`,
)

type SupersedeApprovals = {
  readonly workspaceId: string
  readonly commandId: string
  readonly why: string
  /** The whole set, for one content. */
  readonly requests: readonly ApprovalRequest[]
}

/** Replaces all approvals of a command. After a refusal the caller rolls back, since the old ones are already closed. */
export async function supersedeApprovals(
  tx: Tx,
  deps: Pick<ApprovalDeps, 'newId' | 'types' | 'notify'>,
  by: Actor,
  { workspaceId, commandId, why, requests }: SupersedeApprovals,
): Promise<Decision<readonly StoredApproval[]>> {
  await cancelApprovals(tx, deps.newId, by, { workspaceId, commandId, why })
  const fresh: StoredApproval[] = []
  for (const request of requests) {
    const asked = await requestApproval(tx, deps, by, request)
    if (!asked.ok) return asked
    fresh.push(asked.value.approval)
  }
  const [first] = fresh
  if (first) {
    const ids = fresh.map(({ approval_id }) => approval_id)
    await tx.run(replaceApprovals, [workspaceId, commandId, ids, first.approval_id, first.payload_hash])
  }
  return accept(fresh)
}

/**
 * What would run is no longer what people were asked about, for example after a deploy. The new requests replace the old ones. Returns the first of
 * them.
 */
export async function askAgain(
  tx: Tx,
  deps: Pick<ApprovalDeps, 'newId' | 'types' | 'notify' | 'owner'>,
  approval: StoredApproval,
  traceId: string,
): Promise<Decision<StoredApproval>> {
  const { workspace_id: workspaceId, command_id: commandId } = approval
  const asked = await deps.owner.askAgain?.(tx, approval)
  if (!asked?.ok) return asked ?? refuseChanged(approval)
  const by = { id: 'system', kind: 'system', traceId } as const
  const { value: requests } = asked
  const fresh = await supersedeApprovals(tx, deps, by, { workspaceId, commandId, why: 'plan_changed', requests })
  if (!fresh.ok) return fresh
  const [first] = fresh.value
  if (!first) throw new KernelFault('approvals.revision.empty', 'No approval was requested for the changed plan.')
  return accept(first)
}
