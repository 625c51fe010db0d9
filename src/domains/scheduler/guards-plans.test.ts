/** The rules of the file about templates, schedules, groups, firings and notifications, each broken once. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  aGroupRow,
  aJobRow,
  aRawFile,
  aScheduleRow,
  assertRefused,
  aTemplateRow,
  insertRow,
} from '#test/scheduler/raw-file'
import { anId, START } from '#test/scheduler/fixture'

const { db } = aRawFile()
const OTHER = anId()

describe('templates', () => {
  for (const [title, values, message] of [
    ['an id that is no UUID', { template_id: 'x' }, 'CHECK constraint failed: job_templates_template_id_ck'],
    ['an unregistered type', { job_type: 'poem' }, 'FOREIGN KEY constraint failed'],
    ['params that are no object', { params: '3' }, 'CHECK constraint failed: job_templates_params_ck'],
    ['a schema that is no object', { params_schema: '[]' }, 'CHECK constraint failed: job_templates_params_schema_ck'],
    ['a priority out of range', { priority: -1_000_001 }, 'CHECK constraint failed: job_templates_priority_ck'],
  ] as const) {
    test(`[SCH-056] a template with ${title} is refused`, () =>
      assert.throws(() => aTemplateRow(db, values), { message }))
  }

  test('[SCH-056] two live templates have different names, and an archived one frees its name', () => {
    const id = aTemplateRow(db, { name: 'n' })
    assert.throws(() => aTemplateRow(db, { name: 'n' }), /UNIQUE/)
    db.prepare('update job_templates set archived_at = 1 where template_id = ?').run(id)
    aTemplateRow(db, { name: 'n' })
  })

  test('[SCH-056] template_id and created_at never change', () => {
    const id = aTemplateRow(db)
    assertRefused(db, 'update job_templates set template_id = ? where template_id = ?', [OTHER, id], /never change/)
    assertRefused(db, 'update job_templates set created_at = 1 where template_id = ?', [id], /never change/)
  })
})

describe('schedules', () => {
  for (const [title, values, message] of [
    ['[SCH-046] an id that is no UUID', { schedule_id: 'x' }, 'CHECK constraint failed: schedules_schedule_id_ck'],
    ['[SCH-047] a template that is not there', { template_id: OTHER }, 'FOREIGN KEY constraint failed'],
    ['[SCH-048] no name', { name: null }, 'NOT NULL constraint failed: schedules.name'],
    ['[SCH-049] no cron text', { cron_expression: null }, 'NOT NULL constraint failed: schedules.cron_expression'],
    ['[SCH-051] a switch that is neither on nor off', { enabled: 2 }, 'CHECK constraint failed: schedules_enabled_ck'],
    [
      '[SCH-052] overrides that are no object',
      { param_overrides: '1' },
      'CHECK constraint failed: schedules_param_overrides_ck',
    ],
    [
      '[SCH-054] a next time that is text',
      { next_trigger_at: 'soon' },
      'cannot store TEXT value in INTEGER column schedules.next_trigger_at',
    ],
    ['[SCH-055] no time of creation', { created_at: null }, 'NOT NULL constraint failed: schedules.created_at'],
    [
      '[SCH-076] an unknown misfire policy',
      { misfire_policy: 'some' },
      'CHECK constraint failed: schedules_misfire_policy_ck',
    ],
    ['an unknown overlap policy', { overlap_policy: 'kill' }, 'CHECK constraint failed: schedules_overlap_policy_ck'],
    ['a deleted schedule that is on', { deleted_at: 1 }, 'CHECK constraint failed: schedules_deleted_at_ck'],
  ] as const) {
    test(`${title} is refused`, () => assert.throws(() => aScheduleRow(db, values), { message }))
  }

  test('[SCH-050] the time zone is UTC by default', () => {
    const id = aScheduleRow(db)
    const row = db
      .prepare('select timezone, enabled, misfire_policy, overlap_policy from schedules where schedule_id = ?')
      .get(id)
    assert.deepEqual({ ...row }, { timezone: 'UTC', enabled: 1, misfire_policy: 'last', overlap_policy: 'queue' })
  })

  test('[SCH-046] [SCH-055] schedule_id and created_at never change, and a schedule is kept', () => {
    const id = aScheduleRow(db)
    assertRefused(db, 'update schedules set schedule_id = ? where schedule_id = ?', [OTHER, id], /never change/)
    assertRefused(db, 'update schedules set created_at = 1 where schedule_id = ?', [id], /never change/)
    assertRefused(db, 'delete from schedules where schedule_id = ?', [id], /kept/)
  })

  test('[SCH-075] the newest decided due time never goes back', () => {
    const id = aScheduleRow(db, { last_due_at: 5 })
    db.prepare('update schedules set last_due_at = 6 where schedule_id = ?').run(id)
    for (const value of [5, null])
      assertRefused(db, 'update schedules set last_due_at = ? where schedule_id = ?', [value, id], /stays decided/)
  })

  test('[SCH-051] a deleted schedule cannot be enabled', () => {
    const id = aScheduleRow(db)
    db.prepare('update schedules set enabled = 0, deleted_at = 1 where schedule_id = ?').run(id)
    assertRefused(db, 'update schedules set enabled = 1 where schedule_id = ?', [id], /CHECK/)
    assertRefused(db, 'update schedules set deleted_at = null where schedule_id = ?', [id], /stays decided/)
  })
})

describe('firings', () => {
  const fire = (values = {}) => {
    const row = { schedule_id: aScheduleRow(db), due_at: START, outcome: 'overlapped', decided_at: START, ...values }
    insertRow(db, 'schedule_firings', row)
    return row
  }

  test('[SCH-075] a due time is decided once', () => {
    const { schedule_id } = fire()
    assert.throws(() => fire({ schedule_id, outcome: 'fired', job_id: aJobRow(db) }), /UNIQUE|PRIMARY/)
    assertRefused(
      db,
      `update schedule_firings set outcome = 'missed' where schedule_id = ?`,
      [schedule_id],
      /decided once/,
    )
    assertRefused(db, `delete from schedule_firings where schedule_id = ?`, [schedule_id], /kept/)
  })

  for (const [title, values] of [
    ['a schedule that is not there', { schedule_id: OTHER }],
    ['a job that is not there', { outcome: 'fired', job_id: OTHER }],
    ['fired without a job', { outcome: 'fired' }],
    ['missed without its beginning', { outcome: 'missed' }],
    ['missed from after its end', { outcome: 'missed', missed_since: START + 1 }],
    ['an unknown outcome', { outcome: 'perhaps' }],
  ] as const) {
    test(`[SCH-075] ${title} is refused`, () => assert.throws(() => fire(values), /CHECK|FOREIGN/))
  }
})

describe('groups and notifications', () => {
  test('[SCH-127] a group has a mode and a rule from the list, and keeps them', () => {
    for (const values of [{ mode: 'random' }, { on_failure: 'panic' }])
      assert.throws(() => aGroupRow(db, values), /CHECK/)
    const id = aGroupRow(db)
    assertRefused(db, `update job_groups set mode = 'sequential' where group_id = ?`, [id], /keeps its rules/)
    db.prepare('update job_groups set halted_at = 1 where group_id = ?').run(id)
    assertRefused(db, 'update job_groups set halted_at = null where group_id = ?', [id], /keeps its rules/)
  })

  const tell = (values = {}) => {
    const row = {
      notification_id: anId(),
      kind: 'run_failed',
      payload: '{}',
      next_attempt_at: 1,
      created_at: 1,
      ...values,
    }
    insertRow(db, 'notifications', row)
    return row.notification_id
  }

  test('[SCH-116] a notification has one id, and its content never changes', () => {
    const id = tell()
    assert.throws(() => tell({ notification_id: id }), /UNIQUE/)
    for (const change of [`payload = '{"a":1}'`, `kind = 'run_completed'`, `notification_id = 'x'`]) {
      assertRefused(db, `update notifications set ${change} where notification_id = ?`, [id], /never changes/)
    }
  })

  test('[SCH-116] a delivered notification stays delivered', () => {
    const id = tell()
    db.prepare(`update notifications set status = 'DELIVERED', ended_at = 2 where notification_id = ?`).run(id)
    assertRefused(
      db,
      `update notifications set status = 'PENDING', ended_at = null where notification_id = ?`,
      [id],
      /only PENDING moves/,
    )
    for (const values of [{ kind: 'gossip' }, { payload: '1' }, { status: 'LOST' }, { ended_at: 1 }])
      assert.throws(() => tell(values), /CHECK/)
  })

  test('there is one owner row', () => {
    assert.throws(() => insertRow(db, 'scheduler_owner', { one_row: 2, pid: 1, started_at: 1 }), /CHECK/)
  })
})
