/** What was told about an approval so far, and what was tried in vain. */
import { statement } from '#store'

export type NoticeRecord = {
  readonly event_type: 'approval_reminded' | 'approval_escalated' | 'approval_notified' | 'approval_notice_failed'
  readonly payload: Readonly<Record<string, unknown>>
}

/** $1 command, $2 approval. By the command, whose events have an index. */
export const listNoticeRecords = statement<NoticeRecord>(
  'approvals.list_notice_records',
  `select e.event_type, e.payload
     from concord.domain_events e
    where e.command_id = $1::uuid and e.payload->>'approval_id' = $2
      and e.event_type in ('approval_reminded', 'approval_escalated', 'approval_notified', 'approval_notice_failed')
    order by e.seq`,
)
