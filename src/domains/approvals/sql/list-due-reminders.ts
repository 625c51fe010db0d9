/** Reminders whose time has come and that were not sent yet: the contract on the row says when, the events say what was. */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'

export type DueReminder = StoredApproval & {
  /** The how-manieth reminder, from 1. */
  readonly reminder: number
}

/** $1 limit, $2 only this approval, or null. Of several that are due for one approval only the last is worth sending. */
export const listDueRemindersSql = statement<DueReminder>(
  'approvals.list_due_reminders',
  `select t.*, due.reminder
     from concord.approvals t
    cross join lateral (
          select max(r.n)::int as reminder
            from jsonb_array_elements_text(t.request_payload->'contract'->'reminders_after_minutes') with ordinality as r(minutes, n)
           where t.created_at + make_interval(mins => r.minutes::int) <= statement_timestamp()
          ) as due
    where t.status = 'pending' and (t.expires_at is null or t.expires_at > statement_timestamp())
      and due.reminder is not null and ($2::uuid is null or t.approval_id = $2)
      and not exists (select from concord.domain_events e
                       where e.command_id = t.command_id and e.event_type = 'approval_reminded'
                         and e.payload->>'approval_id' = t.approval_id::text and (e.payload->>'reminder')::int >= due.reminder)
    order by t.created_at, t.approval_id
    limit $1`,
)
