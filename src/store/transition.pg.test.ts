/** Moves on the real tables: legality, stamps, events in the same commit, guards and tenants. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import {
  aCommand,
  aWorkspace,
  by,
  type CommandRow,
  someApprovals,
  storedApproval,
  storedCommand,
} from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { canMove, statesOf } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/index'
import { isLostRace, transition } from './transition.ts'

describe('transition', () => {
  let opened: TestDb
  let workspaceId: string

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    workspaceId = await aWorkspace(opened.db)
  })
  after(() => opened.close())

  async function eventsOf(commandId: string) {
    return opened.db.query<{ event_type: string; payload: Record<string, unknown>; actor: string; trace_id: string }>(
      'select event_type, payload, actor, trace_id from concord.domain_events where command_id = $1 order by seq',
      [commandId],
    )
  }

  async function readCommand(commandId: string) {
    const [row] = await opened.db.query<CommandRow & { written_by: string }>(
      'select *, xmin::text as written_by from concord.commands where command_id = $1',
      [commandId],
    )
    assert.ok(row)
    return row
  }

  test('[ST-16] a move and its event (from, to, actor, trace) are one commit', async () => {
    const command = await aCommand(opened.db, workspaceId)
    const moved = await transition(opened.db, storedCommand, command, 'validated', by('system'))
    assert.ok(moved.ok)
    assert.equal(moved.row.status, 'validated')
    const [event, ...rest] = await eventsOf(command.command_id)
    assert.deepEqual(rest, [])
    assert.deepEqual(event, {
      event_type: 'status_changed',
      actor: 'system:1',
      trace_id: 'trace_test',
      payload: { from: 'created', to: 'validated', target_type: 'command', target_id: command.command_id },
    })
    const [written] = await opened.db.query<{ same: boolean }>(
      'select c.xmin = e.xmin as same from concord.commands c join concord.journal e using (command_id) where command_id = $1',
      [command.command_id],
    )
    assert.equal(written?.same, true)
  })

  test('[ST-16] the events of a command replay to its current status, without a gap', async () => {
    let row: CommandRow = await aCommand(opened.db, workspaceId)
    const path = [
      ['validated', 'system'],
      ['queued', 'system'],
      ['running', 'worker'],
      ['cancelling', 'user'],
      ['compensating', 'worker'],
      ['compensated', 'worker'],
      ['cancelled', 'worker'],
    ] as const
    for (const [to, actor] of path) {
      const moved = await transition(opened.db, storedCommand, row, to, {
        ...by(actor),
        ...(to === 'cancelling' ? { set: { cancellation_requested: true } } : {}),
      })
      assert.ok(moved.ok, JSON.stringify(moved))
      row = moved.row
    }
    const events = await eventsOf(row.command_id)
    const changes = events.filter(({ event_type }) => event_type === 'status_changed')
    let status = 'created'
    for (const { payload } of changes) {
      assert.equal(payload['from'], status)
      status = String(payload['to'])
    }
    assert.equal(status, (await readCommand(row.command_id)).status)
    assert.deepEqual(
      events.map(({ event_type }) => event_type),
      [
        'status_changed',
        'status_changed',
        'status_changed',
        'status_changed',
        'cancellation_requested',
        'status_changed',
        'compensation_started',
        'status_changed',
        'compensation_completed',
        'status_changed',
      ],
    )
  })

  test('[ST-15] every undeclared pair of the 225 is refused and leaves the row untouched', async () => {
    const states = statesOf(commandMachine)
    let refused = 0
    for (const from of states) {
      const command = { ...(await aCommand(opened.db, workspaceId, from)), cancellation_requested: true }
      const before = await readCommand(command.command_id)
      for (const to of states.filter((state) => !canMove(commandMachine, from, state))) {
        for (const actor of ['system', 'user', 'approver', 'operator', 'worker'] as const) {
          const answer = await transition(opened.db, storedCommand, command, to, by(actor))
          assert.equal(answer.ok ? 'moved' : answer.code, 'machine.move.illegal')
        }
        refused += 1
      }
      assert.deepEqual(await readCommand(command.command_id), before)
      assert.deepEqual(await eventsOf(command.command_id), [])
    }
    assert.equal(refused, 225 - 43)
  })

  test('an actor who may not make the move is refused', async () => {
    const command = await aCommand(opened.db, workspaceId, 'running')
    const answer = await transition(opened.db, storedCommand, command, 'succeeded', by('user'))
    assert.equal(answer.ok ? 'moved' : answer.code, 'machine.actor.not_allowed')
    assert.equal((await readCommand(command.command_id)).status, 'running')
  })

  test('[ST-17] the loser of a race gets the row that the winner left, and writes nothing', async () => {
    const command = await aCommand(opened.db, workspaceId, 'waiting_for_approval')
    const won = await transition(opened.db, storedCommand, command, 'approved', by('approver'))
    assert.ok(won.ok)
    const lost = await transition(opened.db, storedCommand, command, 'cancelled', by('user'))
    assert.ok(isLostRace(lost))
    assert.equal(lost.code, 'row.conflict')
    assert.equal(lost.row.status, 'approved')
    assert.equal((await eventsOf(command.command_id)).length, 1)
  })

  test('a foreign workspace and an unknown id are both not found', async () => {
    const command = await aCommand(opened.db, workspaceId)
    for (const foreign of [
      { ...command, workspace_id: await aWorkspace(opened.db) },
      { ...command, command_id: randomUUID() },
    ]) {
      const answer = await transition(opened.db, storedCommand, foreign, 'validated', by('system'))
      assert.deepEqual(answer, { ok: false, code: 'row.not_found', reason: 'There is no such command.' })
    }
    assert.equal((await readCommand(command.command_id)).status, 'created')
  })

  test('entering an end stamps its time, leaving it clears it', async () => {
    const command = await aCommand(opened.db, workspaceId, 'running')
    const at = new Date('2026-03-01T12:00:00.000Z')
    const failed = await transition(opened.db, storedCommand, command, 'failed', { ...by('worker'), at })
    assert.ok(failed.ok)
    assert.deepEqual(failed.row.completed_at, at)
    const queued = await transition(opened.db, storedCommand, failed.row, 'queued', by('operator'))
    assert.ok(queued.ok)
    assert.equal(queued.row.completed_at, null)
  })

  test('a document, a list and a null reach a jsonb column unchanged', async () => {
    for (const result of [{ a: [1, 2] }, [1, 'two', null], 'text', 7, null]) {
      const command = await aCommand(opened.db, workspaceId, 'running')
      const moved = await transition(opened.db, storedCommand, command, 'succeeded', {
        ...by('worker'),
        set: { result },
      })
      assert.ok(moved.ok)
      assert.deepEqual(moved.row.result, result)
    }
  })

  test('a column that is not declared settable cannot be set', async () => {
    const command = await aCommand(opened.db, workspaceId)
    for (const set of [{ workspace_id: randomUUID() }, { status: 'succeeded' }, { 'result = null --': 1 }]) {
      await assert.rejects(transition(opened.db, storedCommand, command, 'validated', { ...by('system'), set }), {
        code: 'store.column.not_settable',
      })
    }
  })

  test('a guard that does not hold refuses the move', async () => {
    const command = await aCommand(opened.db, workspaceId)
    const [late, open] = [
      (await someApprovals(opened.db, command, 1, new Date('2020-01-01')))[0],
      (await someApprovals(opened.db, command, 1, new Date('2126-01-01')))[0],
    ]
    assert.ok(late && open)
    const decide = { ...by('approver'), set: { decided_by: 'user:9' }, guards: ['unexpired'] }
    const refused = await transition(opened.db, storedApproval, late, 'approved', decide)
    assert.ok(isLostRace(refused))
    assert.equal(refused.row.status, 'pending')
    assert.ok((await transition(opened.db, storedApproval, open, 'approved', decide)).ok)
  })

  test('[EVT-11] a rolled-back transaction leaves neither the change nor its event', async () => {
    const command = await aCommand(opened.db, workspaceId)
    const stop = new Error('stop')
    await assert.rejects(
      opened.db.transaction(async (tx) => {
        const moved = await transition(tx, storedCommand, command, 'validated', by('system'))
        assert.ok(moved.ok)
        throw stop
      }),
      stop,
    )
    assert.equal((await readCommand(command.command_id)).status, 'created')
    assert.deepEqual(await eventsOf(command.command_id), [])
  })

  test('a transaction that ignored a failed statement does not report success', async () => {
    await assert.rejects(
      opened.db.transaction(async (tx) => {
        await tx.query('select 1/0').catch(() => {})
        return 'fine'
      }),
      { code: 'store.transaction.rolled_back' },
    )
  })
})
