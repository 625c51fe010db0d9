/** Requests approvals: one durable row per question, bound to its content, in the transaction of the caller. */
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { encodeId, isUuid } from '#kernel/ids'
import { higherRisk, type RiskLevel } from '#kernel/policy/policy'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { statement, type Tx, untilSettled } from '#store'
import { type ApprovalType, contractOf, MINUTES_MAX } from './approval-type.ts'
import { actorAs, approvalTable, cancelApprovals } from './approval.ts'
import {
  approvalHash,
  editsOf,
  type ApprovalRequest,
  type AskedContract,
  type RequestPayload,
  type StoredApproval,
} from './stored-approval.ts'
import { approverRef, type Asked, isPersonRef, personIdsOf, roleRef, roleSlug } from './approver.ts'
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
  readonly riskLevel: RiskLevel
  readonly contract: AskedContract
  /** The person who edited the request, if their approval does not count. */
  readonly author: string | undefined
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
  const riskLevel = higherRisk(type.riskLevel, request.riskLevel)
  const contract = contractOf(type, riskLevel)
  const editor = request.edits?.by
  const author = editor === requestedBy || contract.editor_may_approve ? undefined : editor
  const couldDecide = [approver, ...approvers, ...roles.map((slug) => slug && roleRef(slug))].some(
    (ref) => ref !== undefined && request.edits?.refs?.includes(ref),
  )
  // An edit is an approval of all the rest, so with the requester as many people agree as without it. Input is no approval.
  const isEditOfApprover = author !== undefined && request.edits?.of !== undefined && couldDecide
  const confirmers = isEditOfApprover && !request.isByAgent && isPersonRef(requestedBy) ? [requestedBy] : []
  const resolved: ResolvedApprovers = {
    requestedBy,
    riskLevel,
    contract,
    author,
    approver,
    approvers: [...new Set([...approvers.filter((ref) => ref !== undefined), ...confirmers])],
    roles: [...new Set(roles.filter((slug) => slug !== undefined))],
    approvalsRequired: Math.max(type.quorum, request.approvalsRequired ?? 1),
    selfDecisionAllowed: confirmers.length > 0 || (type.selfDecision && request.selfDecisionAllowed !== false),
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

/**
 * The number of members of a role is unknown here; if only persons are named, enough of them must be allowed to decide. An author among them blocks
 * the approval, which is reported: a command that has input must not fail because of who supplied it.
 */
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
}

const columns = `approval_id, workspace_id, command_id, requested_by, approver, approval_type, request_payload, review_packet,
    expires_at, idempotency_key, payload_hash, self_decision_allowed, approvals_required, approver_roles, domain_effect_id`

const isVoid = `(t.status in ('changes_requested', 'expired', 'cancelled') or (t.status = 'approved' and t.payload_hash <> $11::text))`
const isSameQuestion = `t.workspace_id = $2::uuid and t.command_id = $3::uuid and t.domain_effect_id is not distinct from $15::uuid
        and t.approval_type = $6::text and t.approver = $5::text`

/**
 * Inserts the approval, or returns the existing one: the unique key decides, not an earlier read. An answer that no longer counts
 * (changes requested, expired, cancelled, approved for another content, or replaced before) allows another round, which has its own
 * key and replaces it. It replaces only the same question, of the same type and to the same approver: a role that is not asked again
 * has not agreed. The event of the request is a part of the statement: the database knows the deadline and what is replaced.  $1 approval, $2 workspace, $3 command, $4 requested by, $5 approver, $6 type, $7 payload, $8 packet, $9
 * minutes until it expires or null, $10 key, $11 hash, $12 self decision, $13 quorum, $14 roles, $15 effect, $16 to $18 the id, trace and
 * audit type of the event, $19 to $21 its text before the deadline, between both, and after what it replaces, $22 the authors. The issuers
 * of an author only grow from one approval of the command to the next.
 */
const insertApproval = statement<AskedRow>(
  'approvals.insert_once',
  `with due as materialized (
     select c.at, c.at + make_interval(mins => $9::integer) as expires_at
       from (select date_trunc('milliseconds', statement_timestamp()) as at) c
   ), shown as materialized (
     select d.at, d.expires_at, to_char(d.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as deadline from due d
   ), round as (
     select $10::text || case count(*) when 0 then '' else ':r' || count(*) + 1 end as key
       from concord.approvals t
      where ${isSameQuestion} and (t.superseded_by is not null or ${isVoid})
   ), hands as (
     select jsonb_strip_nulls(jsonb_build_object('issuers', jsonb_object_agg(a.person, a.issuers))) as authors
       from (select i.person, jsonb_agg(distinct i.issuer) as issuers
               from (select 'user:' || u.id as person, unnest(u.issuers)::text as issuer
                       from identity.users u where u.id = any ($22::uuid[])
                     union all
                     select e.key, jsonb_array_elements_text(e.value)
                       from concord.approvals t cross join lateral jsonb_each(t.request_payload->'issuers') e
                      where t.command_id = $3::uuid) i
              group by i.person) a
   ), fresh as (
     insert into concord.approvals (${columns})
     select $1::uuid, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, $7::jsonb || h.authors,
            $8::jsonb || jsonb_build_object('expiration', coalesce(s.deadline, 'never')), s.expires_at, r.key, $11::text,
            $12::boolean, $13::integer, $14::text[], $15::uuid
       from round r, shown s, hands h
         on conflict (workspace_id, idempotency_key) do nothing
     returning *
   ), replaced as (
     update concord.approvals t set superseded_by = f.approval_id
       from fresh f
      where ${isSameQuestion} and t.superseded_by is null and ${isVoid}
     returning t.approval_id
   ), event as (
     select $16::uuid as entry_id, $17::text as trace_id, s.at as created_at, $18::text as audit_type, f.workspace_id, f.command_id,
            ($19::text || coalesce(to_json(s.deadline)::text, 'null') || $20::text
              || array_to_json(array(select approval_id from replaced))::text || $21::text)::json as events
       from fresh f, shown s
   ), told as (
     ${approvalTable.appendText('event', 'event')}
   )
   select true as once_inserted, true as once_same, f.*
     from fresh f
   union all
   select false, t.payload_hash = $11::text, t.*
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
  const { approvalsRequired } = asked.value
  const { afterApproval } = request.packet
  const people = approvalsRequired > 1 ? ` ${approvalsRequired} different people must approve.` : ''
  const packet = buildPacket({
    ...request,
    packet: { ...request.packet, afterApproval: `${afterApproval}${people}` },
    requester: asked.value.requestedBy,
    riskLevel: asked.value.riskLevel,
    // The statement writes the deadline, by the clock of the database.
    expiresAt: null,
  })
  if (!packet.ok) return packet
  const approvalId = deps.newId()
  const values = [
    approvalId,
    request.workspaceId,
    request.commandId,
    asked.value.requestedBy,
    asked.value.approver,
    type.name,
    JSON.stringify(payloadOf(request, asked.value)),
    JSON.stringify(packet.value),
    minutesOf(type, request),
    keyOf(type, request, asked.value),
    approvalHash(request.content),
    asked.value.selfDecisionAllowed,
    asked.value.approvalsRequired,
    asked.value.roles,
    request.domainEffectId ?? null,
    ...requestedEvent(deps, by, approvalId, request, asked.value),
    authorIdsOf(asked.value),
  ]
  const row = await untilSettled('concord.approvals', async () => (await tx.run(insertApproval, values))[0])
  return settle(tx, deps, row)
}

function authorIdsOf({ requestedBy, author }: ResolvedApprovers): readonly string[] {
  return personIdsOf([requestedBy, author ?? null]).filter(isUuid)
}

export function payloadOf(
  request: ApprovalRequest,
  { approvers, contract, author }: ResolvedApprovers,
): RequestPayload {
  const { content, readBack, edits, requestedAt } = request
  return {
    ...content,
    approvers,
    contract,
    ...(requestedAt === undefined ? {} : { requested_at: requestedAt.toISOString() }),
    ...(readBack === undefined ? {} : { read_back: readBack }),
    ...(edits === undefined ? {} : { edits: author === undefined ? edits : { ...edits, author } }),
  }
}

/** The values of the event, with its text cut where the statement adds the deadline and the replaced approvals. */
function requestedEvent(
  { newId }: Pick<ApprovalDeps, 'newId'>,
  by: Actor,
  approval_id: string,
  { workspaceId: workspace_id, commandId: command_id, approvalType: approval_type, content }: ApprovalRequest,
  { requestedBy: requested_by, approver, approvalsRequired: approvals_required }: ResolvedApprovers,
): readonly unknown[] {
  const [deadline, replaced] = [newId(), newId()]
  const row = { approval_id, workspace_id, command_id, approval_type, payload_hash: approvalHash(content) }
  const payload = { requested_by, approver, approvals_required, expires_at: deadline, supersedes: replaced }
  // The statement sets the time.
  const fact = { type: 'approval_requested', at: new Date(0), newId, payload } as const
  // The event reads no other field of the row.
  const event = approvalTable.eventRow(row as StoredApproval, actorAs(by, 'system'), fact)
  const [before = '', rest = ''] = JSON.stringify(event['events']).split(JSON.stringify(deadline))
  return [event['entry_id'], event['trace_id'], event['audit_type'], before, ...rest.split(JSON.stringify(replaced))]
}

async function settle(
  tx: Tx,
  { notify }: Pick<ApprovalDeps, 'notify'>,
  { once_inserted, once_same, ...approval }: AskedRow,
): Promise<Decision<Requested>> {
  if (!once_same) {
    return refuse('key_reused', 'This approval was already requested for different content.', {
      hint: 'Supersede the open approval before you request one for a changed command.',
      facts: { first: encodeId('approval', approval.approval_id) },
    })
  }
  if (once_inserted) await notify?.(tx, { approval, why: 'requested' })
  return accept({ inserted: once_inserted, approval })
}

function missingFields(type: ApprovalType, { content, domainEffectId }: ApprovalRequest): string[] {
  const fields = type.requiredFields.filter(
    (name) => (content.arguments[name] ?? null) === null || content.arguments[name] === '',
  )
  return type.about === 'effect' && domainEffectId === undefined ? [...fields, 'domain_effect_id'] : fields
}

/** A request may shorten the time of the type, never lengthen it. */
function minutesOf(type: ApprovalType, { expiresInMinutes }: ApprovalRequest): number | null {
  const minutes = Math.min(
    type.expirationMinutes ?? Number.POSITIVE_INFINITY,
    expiresInMinutes ?? Number.POSITIVE_INFINITY,
  )
  if (minutes === Number.POSITIVE_INFINITY) return null
  return Math.min(Math.max(Math.ceil(minutes), 1), MINUTES_MAX)
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
  const requests = asked.value.map((request) => ({ ...request, ...editsOf(approval) }))
  const fresh = await supersedeApprovals(tx, deps, by, { workspaceId, commandId, why: 'plan_changed', requests })
  if (!fresh.ok) return fresh
  const [first] = fresh.value
  if (!first) throw new KernelFault('approvals.revision.empty', 'No approval was requested for the changed plan.')
  return accept(first)
}
