/** A database with a history: its events become rows of the journal and back, and no reader sees a difference. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { copyFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { freshDatabase } from '#test/database'
import { aMigrationFolder, migrationFileNames } from '#test/migrations'
import { aStoreRowsOf, insertRow, type Row, rowsOf, type TableName } from '#test/store-rows'
import { migrateDown, migrateUp } from '../migrate.ts'
import { migrationsFolder } from './migration-file.ts'

const COLUMNS = `event_id, command_id, agent_run_id, swarm_run_id, purpose, event_type, payload, actor, trace_id, step_index, tool_name,
  latency_ms, token_usage, cost_units, created_at, workspace_id, seq, xid`

test('a history becomes a journal and comes back, event by event', async (t) => {
  const { db, url } = await freshDatabase(t, { migrated: false })
  const folder = await aMigrationFolder(t)
  const names = await migrationFileNames()
  for (const name of names.filter((file) => file < '0018')) {
    await copyFile(path.join(migrationsFolder, name), path.join(folder, name))
  }
  assert.equal((await migrateUp(url, { folder })).ok, true)

  const world = aStoreRowsOf()
  const put = (table: TableName, row: Row) => insertRow(db, table, { ...rowsOf[table](world), ...row })
  await put('identity.orgs', { id: world.org })
  await put('identity.users', { id: world.user })
  await put('identity.workspaces', { id: world.workspace })
  await put('concord.commands', { command_id: world.command })
  await put('concord.commands', { command_id: world.parent })
  await put('concord.swarm_runs', { swarm_run_id: world.swarm })
  await put('concord.agent_runs', { agent_run_id: world.agent })

  const payloads = [{}, { from: 'a', to: null }, { text: 'ä "quoted" \\ \u2028', list: [1, 2.5, null] }]
  let steps = 0
  for (let n = 0; n < 200; n++)
    await db.transaction(async (tx) => {
      for (let k = 0; k < 1 + (n % 7); k++) {
        const about = [{ command_id: world.command }, { command_id: world.parent }, {}][(n + Math.floor(k / 3)) % 3]
        const step = {
          agent_run_id: world.agent,
          step_index: steps,
          tool_name: 'sql',
          latency_ms: 3,
          cost_units: '0.25',
        }
        const isStep = n % 11 === 0
        if (isStep) steps += 1
        await insertRow(tx, 'concord.domain_events', {
          event_id: randomUUID(),
          workspace_id: world.workspace,
          purpose: isStep ? 'agent_step' : k % 2 === 0 ? 'audit' : 'event',
          event_type: `type_${k}`,
          payload: payloads[k % payloads.length],
          actor: `user:${k % 2}`,
          trace_id: `trace_${n % 5}`,
          ...about,
          ...(isStep ? step : {}),
        })
      }
    })
  const all = () => db.query(`select ${COLUMNS} from concord.domain_events order by xid, seq`)
  const before = await all()
  assert.equal(before.length > 700, true)

  assert.equal((await migrateUp(url)).ok, true)
  assert.deepEqual(await all(), before)
  const [rows] = await db.query<{ count: number }>('select count(*)::int as count from concord.journal')
  assert.ok((rows?.count ?? 0) < before.length, 'neighbours share a row')
  const untyped = await db.query(
    `select from concord.domain_events as e join concord.journal as j on j.entry_id = e.entry_id
     where e.purpose = 'audit' and j.audit_type is distinct from e.event_type`,
  )
  assert.equal(untyped.length, 0, 'a row has the type of its audit events, of which it holds one')

  // What is written now comes after it, with numbers of its own.
  await insertRow(db, 'concord.journal', rowsOf['concord.journal'](world))
  const after = await all()
  assert.deepEqual(after.slice(0, -1), before)
  assert.equal((await migrateDown(url, { to: 17 })).ok, true)
  assert.deepEqual(await all(), after)
})
