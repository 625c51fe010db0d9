/**
 * Asks once: inserts the approval, or gives the one that is there. The unique key decides; nobody looks before.
 *
 * An answer that no longer counts (changes requested, expired, cancelled, or approved for another content) leaves room for
 * the next round, which has a key of its own and takes its place. Only the same question gives way, of the same type and to the
 * same approver: a role that is not asked again has not agreed.
 */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'

export type AskedRow = StoredApproval & {
  readonly once_inserted: boolean
  readonly once_same: boolean
  /** The approvals whose place this one took. */
  readonly supersedes: readonly string[]
}

const columns = `approval_id, workspace_id, command_id, requested_by, approver, approval_type, request_payload, review_packet,
    expires_at, idempotency_key, payload_hash, self_decision_allowed, approvals_required, approver_roles, domain_effect_id`

const isVoid = `(t.status in ('changes_requested', 'expired', 'cancelled') or (t.status = 'approved' and t.payload_hash <> $11::text))`
const isSameQuestion = `t.workspace_id = $2::uuid and t.command_id = $3::uuid and t.domain_effect_id is not distinct from $15::uuid
        and t.approval_type = $6::text and t.approver = $5::text`

/**
 * $1 approval, $2 workspace, $3 command, $4 requested by, $5 approver, $6 type, $7 payload, $8 packet, $9 expires at,
 * $10 key, $11 hash, $12 self decision, $13 quorum, $14 roles, $15 effect.
 */
export const insertApproval = statement<AskedRow>(
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
