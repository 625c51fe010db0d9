/** A database from before the key of the contract: its keys hold as both keys, and those of commands that did nothing are free. */
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

test('[H1] keys from before become keys of the contract, unless nothing that their command did stands', async (t) => {
  const { db, url } = await freshDatabase(t, { migrated: false })
  const folder = await aMigrationFolder(t)
  const names = await migrationFileNames()
  const own = names.find((file) => file.endsWith('_contract_key.sql')) ?? ''
  for (const name of names.filter((file) => file < own))
    await copyFile(path.join(migrationsFolder, name), path.join(folder, name))
  assert.equal((await migrateUp(url, { folder })).ok, true)

  const world = aStoreRowsOf()
  const put = (table: TableName, row: Row) => insertRow(db, table, { ...rowsOf[table](world), ...row })
  await put('identity.orgs', { id: world.org })
  await put('identity.users', { id: world.user })
  await put('identity.workspaces', { id: world.workspace })
  const at = '2026-05-01T09:00:00Z'
  const add = async (key: string | null, status: string, effects: readonly Row[] = []) => {
    const command_id = randomUUID()
    const isOver = ['succeeded', 'failed', 'cancelled', 'expired', 'compensated'].includes(status)
    const keyed = key === null ? {} : { idempotency_key: key, request_fingerprint: 'f' }
    await put('concord.commands', { command_id, status, completed_at: isOver ? at : null, ...keyed })
    for (const [order, effect] of effects.entries())
      await put('concord.domain_effects', {
        domain_effect_id: randomUUID(),
        command_id,
        effect_type: 'invoice.pay',
        effect_payload: {},
        idempotency_key: `${command_id}:${order}`,
        declaration_order: order,
        compensates_effect_id: null,
        completed_at: effect['status'] === 'executing' ? null : at,
        ...effect,
      })
  }
  const done = { status: 'succeeded', reversibility: 'irreversible' }
  const paid = randomUUID()
  await add('pay:living', 'running')
  await add('pay:done', 'succeeded', [done])
  await add('pay:stands', 'failed', [done])
  await add('pay:doubt', 'failed', [{ status: 'executing', reversibility: 'irreversible' }])
  await add('pay:nothing', 'failed')
  await add('pay:rejected', 'cancelled', [{ ...done, effect_type: 'approval.request' }])
  await add('pay:read', 'failed', [{ status: 'succeeded', reversibility: 'reversible' }])
  await add('pay:refused', 'failed', [{ status: 'failed', reversibility: 'irreversible' }])
  await add('pay:undone', 'compensated', [
    { ...done, domain_effect_id: paid, reversibility: 'compensatable' },
    { ...done, compensates_effect_id: paid },
  ])
  await add('schedule:nightly:1', 'succeeded', [done])
  await add(null, 'succeeded')

  assert.equal((await migrateUp(url)).ok, true)
  const keys = await db.query<{ idempotency_key: string; contract_key: string | null }>(
    'select idempotency_key, contract_key from concord.commands where idempotency_key is not null order by 1',
  )
  const held = ['pay:done', 'pay:doubt', 'pay:living', 'pay:stands']
  assert.deepEqual(
    keys.filter(({ contract_key }) => contract_key !== null),
    held.map((key) => ({ idempotency_key: key, contract_key: key })),
  )
  assert.equal(keys.length, 10)

  // A key that only the contract has made goes back where it was.
  await db.query(`update concord.commands set idempotency_key = null where contract_key = 'pay:done'`)
  const down = await migrateDown(url, { to: Number.parseInt(own, 10) - 1 })
  assert.equal(down.ok, true, JSON.stringify(down))
  const back = await db.query<{ idempotency_key: string }>(
    'select idempotency_key from concord.commands where idempotency_key is not null order by 1',
  )
  assert.deepEqual(
    back.map(({ idempotency_key }) => idempotency_key),
    keys.map(({ idempotency_key }) => idempotency_key),
  )
})
