/** Events, seals and archives are written once: no role changes them, and only the owner may delete old ones. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { insertRow, insertStoreRows, journalOf, rowsOf, type StoreRows } from '#test/store-rows'
import type { Tx } from '../transaction.ts'

const tables = [
  'concord.journal',
  'concord.domain_event_seals',
  'concord.history_archives',
  'concord.budget_entries',
] as const
const roles = ['concord_engine', 'concord_app'] as const

describe('append-only', () => {
  let opened: TestDb
  let world: StoreRows

  before(async () => {
    opened = await openTestDb()
    world = await insertStoreRows(opened.db)
    await insertRow(opened.db, 'concord.history_archives', rowsOf['concord.history_archives'](world))
  })
  after(() => opened.close())

  const as = (role: string, work: (tx: Tx) => Promise<unknown>) =>
    opened.db.transaction(async (tx) => {
      await tx.query(`set local role ${role}`)
      await tx.query(`select set_config('concord.workspace_id', $1, true)`, [world.workspace])
      await work(tx)
    })

  for (const table of tables) {
    for (const role of roles) {
      test(`[EVT-03] ${role} may not update, delete or truncate ${table}`, async () => {
        for (const change of [
          `update ${table} set workspace_id = workspace_id`,
          `delete from ${table}`,
          `truncate ${table}`,
        ]) {
          await assert.rejects(
            as(role, (tx) => tx.query(change)),
            { code: '42501', message: /permission denied/ },
            change,
          )
        }
      })
    }

    test(`[EVT-03] not even the owner of ${table} may, in a replica session either`, async () => {
      for (const setting of ['origin', 'replica']) {
        for (const change of [
          `update ${table} set workspace_id = workspace_id`,
          `delete from ${table}`,
          `truncate ${table}`,
        ]) {
          const attempt = opened.db.transaction(async (tx) => {
            await tx.query(`set local session_replication_role = ${setting}`)
            await tx.query(change)
          })
          await assert.rejects(attempt, { code: '42501', message: /append-only/ }, `${setting}: ${change}`)
        }
      }
    })

    test(`[EVT-03] retention deletes from ${table} as the owner, and still no role updates or truncates`, async () => {
      const retain = (change: string) =>
        opened.db.transaction(async (tx) => {
          await tx.query(`set local concord.retention = 'on'`)
          return tx.query(change)
        })
      await assert.rejects(retain(`update ${table} set workspace_id = workspace_id`), { code: '42501' })
      await assert.rejects(retain(`truncate ${table}`), { code: '42501' })
      const gone = await retain(`delete from ${table} where workspace_id = '${world.workspace}' returning 1`)
      assert.equal(gone.length, 1)
      await insertRow(opened.db, table, rowsOf[table](world))
    })
  }

  test('the setting alone allows nothing: with delete granted by mistake the trigger still checks the role', async () => {
    const attempt = opened.db.transaction(async (tx) => {
      await tx.query('grant delete on concord.journal to concord_engine')
      await tx.query(`set local concord.retention = 'on'`)
      await tx.query('set local role concord_engine')
      await tx.query('delete from concord.journal')
    })
    await assert.rejects(attempt, { code: '42501', message: /append-only/ })
  })

  test('a writer cannot choose its place in the feed', async () => {
    for (const role of roles) {
      const row = rowsOf['concord.journal'](world)
      await as(role, (tx) => insertRow(tx, 'concord.journal', row))
      const later = { ...rowsOf['concord.journal'](world), xid: '1' }
      await assert.rejects(
        as(role, (tx) => insertRow(tx, 'concord.journal', later)),
        { code: '42501' },
      )
      const earlier = `insert into concord.journal (entry_id, workspace_id, trace_id, events, seq)
        overriding system value values (gen_random_uuid(), $1, 't', '[{"type":"x","actor":"a","payload":{}}]', 1)`
      await assert.rejects(
        as(role, (tx) => tx.query(earlier, [world.workspace])),
        { code: '42501' },
      )
    }
  })

  test('[EVT-08] steps of a run come back in order, and the database gives place and transaction', async () => {
    for (const index of [2, 0, 1]) {
      const events = journalOf({ purpose: 'agent_step', type: 'tool_call' })
      const step = { agent_run_id: world.agent, step_index: index, events }
      await insertRow(opened.db, 'concord.journal', { ...rowsOf['concord.journal'](world), ...step })
    }
    // Other events of the same run have no step and do not get in each other's way.
    for (const _ of [1, 2]) {
      await insertRow(opened.db, 'concord.journal', {
        ...rowsOf['concord.journal'](world),
        agent_run_id: world.agent,
      })
    }
    const steps = await opened.db.query<{ step_index: number; seq: string; xid: string }>(
      `select step_index, seq, xid from concord.domain_events where agent_run_id = $1 and purpose = 'agent_step' order by step_index`,
      [world.agent],
    )
    assert.deepEqual(
      steps.map((step) => step.step_index),
      [0, 1, 2],
    )
    assert.equal(new Set(steps.flatMap(({ seq, xid }) => [`seq ${seq}`, `xid ${xid}`])).size, 6)
  })

  test('seals form one chain: the next continues number, place and hash', async () => {
    const next = {
      seal_no: 2,
      previous_seal_no: 1,
      xid_from: '9',
      xid_to: '12',
      previous_hash: Buffer.alloc(32, 2),
      seal_hash: Buffer.alloc(32, 4),
    }
    await insertRow(opened.db, 'concord.domain_event_seals', {
      ...rowsOf['concord.domain_event_seals'](world),
      ...next,
    })
    const fork = { ...rowsOf['concord.domain_event_seals'](world), ...next, seal_hash: Buffer.alloc(32, 5) }
    await assert.rejects(insertRow(opened.db, 'concord.domain_event_seals', fork), {
      constraint: 'domain_event_seals_pk',
    })
  })
})
