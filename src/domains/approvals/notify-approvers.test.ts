import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { nextApprovalTime, nextNoticeAt, type NoticeRecord, planNotices } from './notify-approvers.ts'
import type { StoredApproval } from './stored-approval.ts'

const now = new Date('2026-05-01T10:00:00Z')
const later = '2026-05-01T10:05:00.000Z'
const record = (event_type: NoticeRecord['event_type'], payload: object): NoticeRecord => ({
  event_type,
  payload: payload as NoticeRecord['payload'],
})
const notified = (channel: string, notice = 'requested') => record('approval_notified', { channel, notice })
const failed = (channel: string, retry_at: string | null, notice = 'requested') =>
  record('approval_notice_failed', { channel, notice, retry_at })

const planned = (records: readonly NoticeRecord[], channels = ['app', 'webhook']) => {
  const { deliver, retryAt } = planNotices(records, channels, now)
  return [
    deliver.map(({ notice, channel, attempt }) => `${notice} ${channel} ${attempt}`),
    retryAt?.toISOString() ?? null,
  ]
}

describe('which notices are due', () => {
  test('at first every channel hears of it, then only those that have not', () => {
    assert.deepEqual(planned([]), [['requested app 1', 'requested webhook 1'], null])
    assert.deepEqual(planned([notified('app')]), [['requested webhook 1'], null])
    assert.deepEqual(planned([notified('app'), notified('webhook')]), [[], null])
    assert.deepEqual(planned([], []), [[], null])
  })

  test('what failed is tried again at its time, one attempt higher, and not after it was given up', () => {
    assert.deepEqual(planned([notified('app'), failed('webhook', later)]), [[], later])
    const past = '2026-05-01T09:59:00.000Z'
    assert.deepEqual(planned([notified('app'), failed('webhook', past), failed('webhook', past)]), [
      ['requested webhook 3'],
      null,
    ])
    assert.deepEqual(planned([notified('app'), failed('webhook', past), failed('webhook', null)]), [[], null])
  })

  test('of the reminders the newest is sent, also to the next role', () => {
    const records = [
      notified('app'),
      record('approval_reminded', { reminder: 1 }),
      record('approval_reminded', { reminder: 2 }),
      record('approval_escalated', {}),
    ]
    assert.deepEqual(planned(records, ['app']), [['reminder:2 app 1', 'escalation app 1'], null])
    assert.deepEqual(planned([...records, notified('app', 'reminder:2'), notified('app', 'escalation')], ['app']), [
      [],
      null,
    ])
  })

  test('the pauses between attempts grow, and there is an end', () => {
    const waits = Array.from({ length: 20 }, (_, index) => nextNoticeAt(index + 1, now, () => 0.5))
    assert.equal(waits.at(-1), null)
    const ms = waits.slice(0, -1).map((at) => (at?.getTime() ?? 0) - now.getTime())
    assert.deepEqual(
      ms,
      ms.toSorted((one, other) => one - other),
    )
    assert.ok((ms[0] ?? 0) <= 2_000 && (ms.at(-1) ?? 0) <= 12 * 60_000)
  })

  test('the next time is the next reminder, the next role or the end, whichever is first', () => {
    const approval = (minutesAgo: number, expiresIn: number | null) =>
      ({
        created_at: new Date(now.getTime() - minutesAgo * 60_000),
        expires_at: expiresIn === null ? null : new Date(now.getTime() + expiresIn * 60_000),
        domain_effect_id: null,
        request_payload: {
          contract: { reminders_after_minutes: [10, 20], escalation: { after_minutes: 15, role: 'x' } },
        },
      }) as unknown as StoredApproval
    const inMinutes = (minutesAgo: number, expiresIn: number | null) => {
      const at = nextApprovalTime(approval(minutesAgo, expiresIn), now)
      return at && (at.getTime() - now.getTime()) / 60_000
    }
    assert.deepEqual(
      [
        inMinutes(0, 100),
        inMinutes(10, 100),
        inMinutes(15, 100),
        inMinutes(20, 100),
        inMinutes(30, null),
        inMinutes(0, 3),
      ],
      [10, 5, 5, 100, null, 3],
    )
  })
})
