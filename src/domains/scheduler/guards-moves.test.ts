/** The moves of every state column, against the tables of the kernel; and every rule about reservations, broken once. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { columnOfState, findMove, statesOf } from '#kernel/machine'
import { sqlCheckList } from '#kernel/machine-graph'
import { schedulerJobMachine, schedulerJobRunMachine, schedulerReservationMachine } from '#kernel/machines/scheduler'
import { aJobRow, aRawFile, aReservationRow, aRunRow, assertRefused, startRow } from '#test/scheduler/raw-file'
import { anId, START } from '#test/scheduler/fixture'

const { db } = aRawFile()
const OTHER = anId()

describe('moves', () => {
  const jobIn = (status: string) => {
    const jobId = aJobRow(db)
    if (status === 'RUNNING') startRow(db, jobId)
    if (status === 'CANCELLED')
      db.prepare(`update jobs set status = 'CANCELLED', cancelled_at = 1 where job_id = ?`).run(jobId)
    return jobId
  }
  const stamps = { QUEUED: '', RUNNING: ', started_at = 1', CANCELLED: ', cancelled_at = 1' } as const
  test('[SCH-067] [SCH-023] jobs: the file allows the 2 of 9 moves that the table has', () => {
    for (const from of statesOf(schedulerJobMachine)) {
      for (const to of statesOf(schedulerJobMachine)) {
        const jobId = jobIn(from)
        const sql = `update jobs set status = '${to}'${from === to ? '' : stamps[to]} where job_id = ?`
        if (findMove(schedulerJobMachine, from, to)) assert.equal(db.prepare(sql).run(jobId).changes, 1)
        else assertRefused(db, sql, [jobId], /only QUEUED moves/)
      }
    }
  })

  test('[SCH-039] runs: the file allows the 3 of 16 moves that the table has', () => {
    for (const from of statesOf(schedulerJobRunMachine)) {
      for (const to of statesOf(schedulerJobRunMachine)) {
        const runId = aRunRow(db)
        const column = columnOfState(schedulerJobRunMachine, from)
        if (column !== null) db.prepare('update job_runs set status = ? where run_id = ?').run(column, runId)
        const [sql, params] = [
          'update job_runs set status = ? where run_id = ?',
          [columnOfState(schedulerJobRunMachine, to), runId],
        ] as const
        if (findMove(schedulerJobRunMachine, from, to)) assert.equal(db.prepare(sql).run(...params).changes, 1)
        else assertRefused(db, sql, params, /one outcome, once/)
      }
    }
  })

  test('[SCH-080] [SCH-060] reservations: the file allows the 2 of 9 moves that the table has', () => {
    for (const from of statesOf(schedulerReservationMachine)) {
      for (const to of statesOf(schedulerReservationMachine)) {
        const id = aReservationRow(db)
        if (from !== 'ACTIVE')
          db.prepare('update direct_reservations set status = ?, ended_at = 5 where reservation_id = ?').run(from, id)
        const sql = `update direct_reservations set status = '${to}'${from === 'ACTIVE' && to !== 'ACTIVE' ? ', ended_at = 5' : ''} where reservation_id = ?`
        if (findMove(schedulerReservationMachine, from, to)) assert.equal(db.prepare(sql).run(id).changes, 1)
        else assertRefused(db, sql, [id], /only ACTIVE moves/)
        if (from === 'ACTIVE' && to === 'ACTIVE')
          db.prepare(`update direct_reservations set status = 'RELEASED', ended_at = 5 where reservation_id = ?`).run(
            id,
          )
      }
    }
  })

  test('[SCH-023] [SCH-039] [SCH-060] the lists of the file are the states of the machines', () => {
    for (const [table, list] of [
      ['jobs', sqlCheckList(schedulerJobMachine)],
      ['job_runs', sqlCheckList(schedulerJobRunMachine)],
      ['direct_reservations', sqlCheckList(schedulerReservationMachine)],
    ] as const) {
      const { sql } = db.prepare(`select sql from sqlite_schema where name = ?`).get(table) as { sql: string }
      const found = new RegExp(
        `constraint ${table}_status_ck check \\((?:status is null or )?status in \\(([^)]*)\\)`,
      ).exec(sql)?.[1]
      assert.equal(found, list)
    }
  })
})

describe('direct_reservations', () => {
  const ended = () => {
    const id = aReservationRow(db)
    db.prepare(`update direct_reservations set status = 'RELEASED', ended_at = 5 where reservation_id = ?`).run(id)
    return id
  }

  test('[SCH-062] [SCH-123] two ACTIVE reservations are refused by an index', () => {
    const id = aReservationRow(db)
    assert.throws(() => aReservationRow(db), /UNIQUE/)
    db.prepare(`update direct_reservations set status = 'EXPIRED', ended_at = 5 where reservation_id = ?`).run(id)
    ended()
  })

  for (const [title, values, message] of [
    [
      '[SCH-057] an id that is no UUID',
      { reservation_id: 'x' },
      'CHECK constraint failed: direct_reservations_reservation_id_ck',
    ],
    ['[SCH-058] no time', { reserved_at: null }, 'NOT NULL constraint failed: direct_reservations.reserved_at'],
    ['[SCH-059] nobody', { reserved_by: null }, 'NOT NULL constraint failed: direct_reservations.reserved_by'],
    ['[SCH-060] an unknown status', { status: 'HELD' }, 'direct_reservations: a reservation is created ACTIVE'],
    [
      '[SCH-060] one that is created ended',
      { status: 'EXPIRED', ended_at: 5 },
      'direct_reservations: a reservation is created ACTIVE',
    ],
    [
      '[SCH-061] an end before its beginning',
      { expires_at: START },
      'CHECK constraint failed: direct_reservations_expires_at_ck',
    ],
    ['an ACTIVE one that has ended', { ended_at: 5 }, 'CHECK constraint failed: direct_reservations_ended_at_ck'],
  ] as const) {
    test(`${title} is refused`, () => assert.throws(() => aReservationRow(db, values), { message }))
  }

  test('[SCH-103] an ACTIVE reservation is only made longer; an ended one not at all', () => {
    const id = aReservationRow(db)
    db.prepare('update direct_reservations set expires_at = expires_at + 1 where reservation_id = ?').run(id)
    assertRefused(
      db,
      'update direct_reservations set expires_at = expires_at - 1 where reservation_id = ?',
      [id],
      /only made longer/,
    )
    db.prepare(`update direct_reservations set status = 'RELEASED', ended_at = 5 where reservation_id = ?`).run(id)
    assertRefused(
      db,
      'update direct_reservations set expires_at = expires_at + 1 where reservation_id = ?',
      [id],
      /only made longer/,
    )
    assertRefused(db, 'update direct_reservations set ended_at = 6 where reservation_id = ?', [id], /only made longer/)
  })

  for (const [rows, column, value] of [
    ['[SCH-057]', 'reservation_id', OTHER],
    ['[SCH-058]', 'reserved_at', 1],
    ['[SCH-059]', 'reserved_by', 'x'],
  ] as const) {
    test(`${rows} ${column} of a reservation never changes`, () => {
      assertRefused(
        db,
        `update direct_reservations set ${column} = ? where reservation_id = ?`,
        [value, ended()],
        /never changes/,
      )
    })
  }

  test('reservations are kept', () =>
    assertRefused(db, 'delete from direct_reservations where reservation_id = ?', [ended()], /kept/))
})
