/** One descriptor: look-ups inside their tenant, moves and facts with what every event says about the row. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { approvalMachine } from '#kernel/machines/approval'
import { aCommand, aWorkspace, by, events, someApprovals } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import type { Rows } from './rows.ts'
import { defineTable } from './table.ts'

const approvals = defineTable<Rows['concord.approvals']>()({
  name: 'concord.approvals',
  noun: 'approval',
  id: 'approval_id',
  tenant: 'workspace_id',
  machine: approvalMachine,
  state: 'status',
  settable: { decision_reason: 'text' },
  log: events,
  links: ['workspace_id', 'command_id'],
  about: ({ approval_type }) => ({ approval_type }),
})
const system = { id: 'system', kind: 'system', traceId: 'trace_1' } as const

describe('defineTable', () => {
  let opened: TestDb
  let row: Rows['concord.approvals']

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    const command = await aCommand(opened.db, await aWorkspace(opened.db), 'waiting_for_approval')
    const [approval] = await someApprovals(opened.db, command, 1)
    const found = await approvals.get(opened.db, command.workspace_id, String(approval?.approval_id))
    assert.ok(found.ok)
    row = found.value
  })
  after(() => opened.close())

  const told = () =>
    opened.db.query(
      `select event_type, actor, payload, workspace_id, command_id from concord.domain_events where payload->>'target_id' = $1 order by seq`,
      [row.approval_id],
    )

  test('a foreign id, an unknown id and a malformed id are all not found', async () => {
    for (const [tenant, id] of [
      [randomUUID(), row.approval_id],
      [row.workspace_id, randomUUID()],
      [row.workspace_id, 'not-an-id'],
    ] as const) {
      assert.equal(await approvals.find(opened.db, tenant, id), undefined)
      assert.deepEqual(await approvals.get(opened.db, tenant, id), approvals.missing())
    }
    assert.equal(approvals.missing().reason, 'There is no such approval.')
  })

  test('a fact of one round is written once, and a move carries the common part of every event', async () => {
    const fact = { type: 'policy_evaluated', at: new Date(), round: 'first', payload: { n: 1 } } as const
    const answers = [
      await approvals.append(opened.db, row, system, fact),
      await approvals.append(opened.db, row, system, fact),
    ]
    assert.deepEqual(answers, [true, false])
    const set = { decision_reason: 'late' }
    const { newId } = by('system')
    const moved = await approvals.transition(opened.db, row, 'cancelled', system, { at: new Date(), newId, set })
    assert.equal(moved.ok && moved.row.status, 'cancelled')
    const target = { target_type: 'approval', target_id: row.approval_id, approval_type: row.approval_type }
    const links = { workspace_id: row.workspace_id, command_id: row.command_id }
    assert.deepEqual(await told(), [
      { event_type: 'policy_evaluated', actor: 'system', payload: { ...target, n: 1 }, ...links },
      {
        event_type: 'approval_cancelled',
        actor: 'system',
        payload: { ...target, from: 'pending', to: 'cancelled' },
        ...links,
      },
    ])
  })

  test('a call that needs a missing part of the table throws', () => {
    const none = {} as never
    assert.throws(() => void approvals.insertOnce(opened.db, none, none, none), { code: 'store.table.binding' })
  })
})
