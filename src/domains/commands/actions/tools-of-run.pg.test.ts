/** The tools of a run: an operation of a connector as a tool, its rows as an artifact, and the five ways that a call can go. */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { openDiskStore, readArtifactText, type ArtifactDeps, findArtifact } from '#domains/artifacts'
import { type Connectors, mcpConnector, openConnectors, openSecrets, postgresConnector } from '#domains/connectors'
import { decodeId } from '#kernel/ids'
import { aRunAtWork, type TestRun } from '#test/agents'
import { aBlobFolder, CONTENT_BYTES_MAX } from '#test/artifacts'
import { openRoomOn, type TestRoom } from '#test/commands'
import { realSleep, testSecrets } from '#test/connectors'
import { openTestDb, type TestDb } from '#test/database'
import { onTestServer } from '#test/postgres'
import { agentTools } from '#test/projects/commands'
import { testArtifactTypes } from '#test/projects/connectors'
import { accepted, aTenant, aWorld } from '#test/tenant'
import { agentPolicies } from '../catalog/agent-policies.ts'
import { connectorDefinitions } from '../catalog/connector-effects.ts'
import { expandCatalog } from '../catalog/define-command.ts'
import { definitionName } from '../catalog/definitions.ts'
import { defineTool } from '../catalog/define-tool.ts'
import { findBrokenInvariants } from '../invariants/find-broken-invariants.ts'
import { proposeInRun } from './propose-in-run.ts'

const ALL = 'select owner, balance from accounts order by id'

describe('tools of a run', () => {
  const reader = `tool_reader_${process.pid}`
  let opened: TestDb
  let target: TestDb
  let room: TestRoom
  let artifacts: ArtifactDeps
  let connectors: Connectors
  let folder: string
  let workspaceId: string

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
    target = await openTestDb({ migrated: false })
    await target.db.query('create table accounts (id int primary key, owner text not null, balance numeric not null)')
    await target.db.query(`insert into accounts select n, 'owner-' || n, n * 10 from generate_series(1, 3) n`)
    await onTestServer((client) => client.query(`create role ${reader} login password 'canary-pass'`))
    await target.db.query(`grant select on accounts to ${reader}`)
    const url = new URL(target.url)
    Object.assign(url, { username: reader, password: 'canary-pass' })
    folder = await aBlobFolder()
    const clock = aWorld(opened.db)
    const { db, now, newId } = clock
    const store = openDiskStore({ folder, newId, contentBytesMax: CONTENT_BYTES_MAX })
    artifacts = { db, now, newId, types: testArtifactTypes, stores: [store] }
    const warehouse = postgresConnector({
      name: 'warehouse',
      description: 'Accounts.',
      secret_ref: 'vault://reader',
      output_artifact: 'query_result',
    })
    const secrets = openSecrets(testSecrets({ reader: url.href }))
    connectors = accepted(openConnectors([warehouse], { db, now, newId, sleep: realSleep, secrets }))
    const tool = defineTool({ connector: warehouse, operation: 'run_sql' })
    const { catalog } = expandCatalog([...agentTools(), tool, ...connectorDefinitions(connectors)])
    room = openRoomOn(
      clock,
      await aTenant(clock),
      (world) => ({ ...world, artifacts }),
      () => catalog,
    )
    workspaceId = room.tenant.workspace.id
  })
  after(async () => {
    await connectors.close()
    await room.close()
    await opened.close()
    await target.db.query(`drop owned by ${reader}`)
    await target.close()
    await onTestServer((client) => client.query(`drop role ${reader}`))
    await rm(folder, { recursive: true })
  })

  const call = async ({ agentRunId }: TestRun, toolName: string, stepIndex: number, payload: object) =>
    proposeInRun(
      room.world,
      { workspaceId, agentRunId, stepIndex, requestId: 'r' },
      { actionType: 'tool_call', toolName, payload: payload as never, reason: 'The goal needs it.' },
    )
  const rowOf = async (commandId: string) => {
    const [row] = await room.rows<{ status: string; error_class: string | null; result: Record<string, unknown> }>(
      'select status, error_class, result from concord.commands where command_id = $1',
      [commandId],
    )
    return row ?? assert.fail()
  }
  const sql = async (run: TestRun, step: number, payload: object) => {
    const { command } = accepted(await call(run, 'run_sql', step, payload))
    await room.settle(command.command_id)
    return { commandId: command.command_id, ...(await rowOf(command.command_id)) }
  }

  test('[AGT-14] run_sql is a command under policy; its rows are an artifact of the run, and only the id comes back', async () => {
    const parent = await aRunAtWork(room, { tools: ['run_sql'], connectors: ['warehouse'] })
    const run = await aRunAtWork(
      room,
      { tools: ['run_sql'], connectors: ['warehouse'] },
      { parent_agent_run_id: parent.agentRunId },
    )
    const { commandId, status, result } = await sql(run, 0, { sql: ALL })
    assert.equal(status, 'succeeded')
    const { artifact_id, ...rest } = result
    assert.deepEqual(rest, { row_count: 3, truncated: false })
    const id = accepted(decodeId('artifact', String(artifact_id)))
    const artifact = (await findArtifact(room.db, workspaceId, id)) ?? assert.fail()
    assert.deepEqual(
      [artifact.artifact_type, artifact.agent_run_id, artifact.lineage.agent_run_id, artifact.metadata.data_class],
      ['query_result', run.agentRunId, run.agentRunId, 'pii'],
    )
    const [own] = await room.rows<{ swarm_run_id: string }>(
      'select swarm_run_id from concord.agent_runs where agent_run_id = $1',
      [run.agentRunId],
    )
    assert.deepEqual([artifact.swarm_run_id, artifact.lineage.swarm_run_id], [own?.swarm_run_id, own?.swarm_run_id])
    const content = JSON.parse(accepted(await readArtifactText(artifacts, artifact))) as { rows: unknown[][] }
    assert.deepEqual(content.rows[0], ['owner-1', '10'])
    for (const table of ['commands', 'domain_effects', 'connector_invocations', 'domain_events']) {
      const kept = await room.rows(`select 1 from concord.${table} as t where t::text like '%owner-1%'`)
      assert.deepEqual(kept, [], `${table} keeps no rows`)
    }
    const [asked] = await room.rows<{ rules: readonly string[] }>(
      `select payload->'policies' as rules from concord.domain_events where command_id = $1 and event_type = 'policy_evaluated'`,
      [commandId],
    )
    const ofTask = ['connector_scope', 'data_safety', 'permission', 'risk']
    assert.deepEqual(asked?.rules.toSorted(), [...agentPolicies.map(definitionName), ...ofTask].toSorted())
  })

  test('[AGT-14] a statement that writes is refused by the database, and personal data in the parameters needs an approval', async () => {
    const run = await aRunAtWork(room, { tools: ['run_sql'], connectors: ['warehouse'] })
    const written = await sql(run, 0, { sql: 'delete from accounts' })
    assert.equal(written.status, 'failed')
    const sly = await sql(run, 1, { sql: 'with gone as (delete from accounts returning 1) select * from gone' })
    assert.equal(sly.status, 'failed')
    assert.equal((await target.db.query('select 1 from accounts')).length, 3)
    const asked = await sql(run, 2, { sql: 'select 1 from accounts where owner = $1', params: ['owner-1'] })
    assert.equal(asked.status, 'waiting_for_approval')
  })

  test('[AGT-15] the five ways of a call: refused outside the manifest, an approval, done at once, queued, through the connector', async () => {
    const tools = ['publish_note', 'run_sql', 'Confirm Note', 'sync_note']
    const run = await aRunAtWork(room, { tools, connectors: ['mail', 'warehouse'] })
    const wayOf = async (tool: string, step: number, payload: object) => {
      const called = await call(run, tool, step, payload)
      if (!called.ok) return called.code
      const { command } = called.value
      const first = command.status
      await room.settle(command.command_id)
      const [calls] = await room.rows<{ count: number }>(
        'select count(*)::integer as count from concord.connector_invocations where command_id = $1',
        [command.command_id],
      )
      return [first, await room.statusOf(command.command_id), calls?.count ?? 0].join(' ')
    }
    assert.equal(await wayOf('forbidden_note', 0, { subject: 's' }), 'agents.tool.outside_scope')
    assert.equal(await wayOf('confirm_note', 1, { subject: 's' }), 'created waiting_for_approval 0')
    assert.equal(await wayOf('sync_note', 2, { subject: 's' }), 'succeeded succeeded 0')
    assert.equal(await wayOf('publish_note', 3, { subject: 's' }), 'created succeeded 0')
    assert.equal(await wayOf('run_sql', 4, { sql: ALL }), 'created succeeded 1')
  })

  test('an unknown operation, a missing input and a misspelt field are refused where the tool is defined', () => {
    const connector = postgresConnector({ name: 'w', description: 'd', secret_ref: 'vault://x' })
    assert.throws(() => defineTool({ connector, operation: 'run_sqll' }), /has no operation run_sqll/)
    const server = { http: { url: 'https://notes.example', auth: { mode: 'none' as const } } }
    const notes = mcpConnector({ name: 'notes', description: 'd', server, tools: { write: {} } })
    assert.throws(() => defineTool({ connector: notes, operation: 'write' }), /needs its input/)
    assert.throws(() => defineTool({ connector, operation: 'run_sql', polcy: [] } as never), /did you mean policy/)
  })

  test('the calls violate no invariant', async () => {
    await room.settleWoken()
    assert.deepEqual(await findBrokenInvariants(room.db), [])
  })
})
