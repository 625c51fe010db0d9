/** `sync_connector_metadata` as a server runs it every hour: operations, health and provider metadata of each connector. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { ConnectorFailure, defineConnector, type RefreshContext, succeeded } from '#domains/connectors'
import type { JsonObject } from '#kernel/json-value'
import { insertRow } from '#test/store-rows'
import { aCommand } from '#test/concord-rows'
import { openScheduleBench, type ScheduleBench } from '#test/schedules'
import { until } from '#test/until'

const HOUR_MS = 3_600_000

type Refresh = (context: RefreshContext) => Promise<JsonObject>

function aConnector(name: string, refresh?: Refresh, description = 'For a test.') {
  return defineConnector({
    connector_type: 'test',
    name,
    description,
    auth: refresh ? { mode: 'bearer', secret_ref: 'vault://tools' } : {},
    operations: [
      {
        name: 'ask',
        description: 'Asks.',
        input: z.strictObject({}),
        output: z.looseObject({}),
        side_effect_class: 'none',
      },
    ],
    open: () => ({
      name,
      connector_type: 'test',
      capabilities: () => ['ask'],
      call: () => Promise.resolve(succeeded({})),
      ...(refresh ? { refresh } : {}),
    }),
  })
}

type Synced = { name: string; refreshed: JsonObject | null; error: string | null; contract_hash: string } & JsonObject

describe('sync_connector_metadata', () => {
  let bench: ScheduleBench
  let tools = ['search']
  const mount = (description?: string) =>
    aConnector('mounted', async ({ secret }) => ({ tools, as: await secret('vault://tools') }), description)
  const broken = aConnector('broken', () =>
    Promise.reject(new ConnectorFailure('transient_connector_error', 'hunter2hunter2 was refused', 'no')),
  )
  const project = {
    connectors: [aConnector('plain'), mount(), broken],
    secrets: { vault: () => Promise.resolve('hunter2hunter2') },
  }
  before(async () => {
    bench = await openScheduleBench({}, project)
  })
  after(() => bench.close())

  const resultOf = async (nth: number) => {
    await bench.pass(HOUR_MS)
    await until(async () => (await bench.shipped('sync_connector_metadata'))[nth]?.status === 'succeeded', 'the sync')
    await bench.rest()
    const rows = await bench.opened.db.query<{ result: { connectors: Synced[]; failed: number } }>(
      `select result from concord.commands where command_type = 'sync_connector_metadata' order by created_at`,
    )
    return rows[nth]?.result ?? assert.fail('no result')
  }

  test('[SCD-03] it is registered with connectors, fires every hour, and puts the facts of each on record without its secret', async () => {
    const { db } = bench.opened
    const workspaceId = bench.tenant.workspace.id
    const [schedule] = await db.query(
      `select command_type, cron, queue from schedules.command_schedules where name = 'sync_connector_metadata' and removed_at is null`,
    )
    const spec = { command_type: 'sync_connector_metadata', cron: '0 * * * *', queue: 'scheduled_maintenance' }
    assert.deepEqual(schedule, spec)
    const at = new Date('2026-05-01T10:00:00.000Z')
    const call = {
      connector_name: 'plain',
      operation: 'ask',
      status: 'succeeded',
      request_payload: {},
      completed_at: at,
    }
    for (const workspace of [workspaceId, bench.other.workspace.id]) {
      const { command_id } = await aCommand(db, workspace)
      const row = { ...call, connector_invocation_id: bench.identity.newId(), workspace_id: workspace, command_id }
      const other = { connector_name: 'mounted' }
      await insertRow(db, 'concord.connector_invocations', { ...row, ...(workspace === workspaceId ? {} : other) })
    }

    const first = await resultOf(0)
    const facts = { connector_type: 'test', operations: ['ask'], is_open: false, contract_hash: 'some' }
    assert.deepEqual(
      first.connectors.map((each) => ({ ...each, contract_hash: 'some' })),
      [
        { ...facts, name: 'plain', last_success_at: at.toISOString(), refreshed: null, error: null },
        // The calls of another workspace are not included.
        {
          ...facts,
          name: 'mounted',
          last_success_at: null,
          refreshed: { tools: ['search'], as: '[secret]' },
          error: null,
        },
        { ...facts, name: 'broken', last_success_at: null, refreshed: null, error: '[secret] was refused' },
      ],
    )
    assert.equal(first.failed, 1)

    tools = ['search', 'send']
    const second = await resultOf(1)
    assert.deepEqual(second.connectors[1]?.refreshed?.['tools'], ['search', 'send'])
    const hashes = (result: typeof first) => result.connectors.map(({ contract_hash }) => contract_hash)
    assert.deepEqual(hashes(second), hashes(first))
    await bench.restart(undefined, { ...project, connectors: [aConnector('plain'), mount('Says more.'), broken] })
    const third = await resultOf(2)
    assert.deepEqual(
      hashes(third).map((each, index) => each === hashes(first)[index]),
      [true, false, true],
    )
  })
})
