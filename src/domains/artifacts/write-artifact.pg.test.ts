/** Artifacts are written whole and once, with their lineage; a refused draft leaves nothing behind. */
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { type ArtifactRoom, byWorker, openArtifactRoom } from '#test/artifacts'
import { aCommand } from '#test/concord-rows'
import { accepted } from '#test/tenant'
import type { StoredArtifact } from './artifact.ts'
import { openContent, readArtifactText } from './blob-store.ts'
import { writeArtifact, type WriteArtifact } from './artifact-writer.ts'

describe('writing artifacts', () => {
  let room: ArtifactRoom
  before(async () => {
    room = await openArtifactRoom()
  })
  after(() => room.close())

  const codeOf = async (draft: Partial<WriteArtifact>) => {
    const before = await room.counts()
    const blobs = (await Array.fromAsync(room.store.list())).length
    const written = await room.write(draft)
    assert.equal(await room.counts(), before, 'a refusal writes nothing')
    assert.equal((await Array.fromAsync(room.store.list())).length, blobs, 'nor any content')
    return written.ok ? 'written' : written.code
  }

  test('[ART-05] [EVT-11] the row, artifact_created with its artifact_id, and ready: one commit, and repetitions change nothing', async () => {
    const { command_id: commandId } = await aCommand(room.db, room.ours.workspace.id)
    const write = () => room.write({ commandId, step: 'one', content: { text: 'the same' } })
    const all = await Promise.all(Array.from({ length: 8 }, write))
    const rows = [...all, await write()].map(accepted)
    assert.equal(new Set(rows.map(({ artifact_id }) => artifact_id)).size, 1)
    const [row] = rows as [StoredArtifact]
    assert.deepEqual(await room.eventsOf(row.artifact_id), ['artifact_created', 'status_changed draft>ready'])
    const [event] = await room.db.query<{ payload: Record<string, unknown>; command_id: string; n: string }>(
      `select payload, command_id, count(*) over () as n from concord.domain_events where event_type = 'artifact_created' and command_id = $1`,
      [commandId],
    )
    assert.deepEqual([event?.payload['artifact_id'], event?.command_id, event?.n], [row.artifact_id, commandId, '1'])
  })

  test('[ART-05] a failed event rolls the row back', async () => {
    const before = await room.counts()
    const { command_id } = await aCommand(room.db, room.ours.workspace.id)
    const write = writeArtifact(
      room.world,
      { ...byWorker, traceId: '' },
      {
        workspaceId: room.ours.workspace.id,
        commandId: command_id,
        type: 'report',
        content: { text: 'x' },
        createdBy: 'user:ada',
        step: 's',
      },
    )
    await assert.rejects(write, /trace/)
    assert.equal(await room.counts(), before)
  })

  test('[ART-04] [OQ-14] five megabytes are stored outside, the row holds a location and a checksum; a short text is stored in the row', async () => {
    const bytes = randomBytes(5 * 1_048_576)
    const large = await room.written({
      type: 'sync_snapshot',
      content: { bytes, content_type: 'application/octet-stream' },
    })
    const [size] = await room.db.query<{ bytes: number }>(
      'select pg_column_size(t.*) as bytes from concord.artifacts t where artifact_id = $1',
      [large.artifact_id],
    )
    assert.ok((size?.bytes ?? 0) < 2_000, `the row has ${size?.bytes} bytes`)
    assert.match(large.location, /^disk:[0-9a-f]{64}$/)
    const opened = accepted(await openContent(room.world, large))
    assert.ok(Buffer.from(await new Response(opened.stream()).arrayBuffer()).equals(bytes))

    const small = await room.written({ content: { text: 'Grüße, 5 € – \u0000' } })
    assert.match(small.location, /^data:text\/plain;charset=utf-8;base64,/)
    assert.equal(accepted(await readArtifactText(room.world, small)), 'Grüße, 5 € – \u0000')
    const edge = await room.written({ content: { text: 'x'.repeat(4_097) } })
    assert.match(edge.location, /^disk:/)
  })

  test('[ART-01] [ART-09] it tracks location, type, version, status, creator, command and time, and its lineage names command, run and sources', async () => {
    const workspaceId = room.ours.workspace.id
    const { command_id: commandId } = await aCommand(room.db, workspaceId)
    const agentRunId = randomUUID()
    await room.db.query(
      `insert into concord.agent_runs (agent_run_id, workspace_id, command_id, agent_name, agent_role, status, goal)
       values ($1, $2, $3, 'Ada', 'analyst', 'created', 'find out')`,
      [agentRunId, workspaceId, commandId],
    )
    const source = await room.written()
    const memory = randomUUID()
    const row = await room.written({
      commandId,
      agentRunId,
      type: 'final_report',
      title: 'May',
      content: { text: '# May', content_type: 'text/markdown' },
      metadata: { pages: 1 },
      sources: [
        { kind: 'artifact', id: source.artifact_id },
        { kind: 'artifact', id: source.artifact_id },
        { kind: 'memory', id: memory },
      ],
    })
    const { artifact_type, version, status, command_id, agent_run_id, created_by, content_type, metadata } = row
    assert.deepEqual(
      { artifact_type, version, status, command_id, agent_run_id, content_type },
      {
        artifact_type: 'final_report',
        version: 1,
        status: 'ready',
        command_id: commandId,
        agent_run_id: agentRunId,
        content_type: 'text/markdown',
      },
    )
    assert.equal(created_by, `user:${room.ours.people.writer.principal.userId}`)
    assert.deepEqual(row.created_at, room.clock.now())
    assert.deepEqual(metadata, { pages: 1, title: 'May', type_version: '1', data_class: 'internal' })
    assert.deepEqual(row.lineage, {
      command_id: commandId,
      agent_run_id: agentRunId,
      sources: [
        { kind: 'artifact', id: source.artifact_id },
        { kind: 'memory', id: memory },
      ],
    })
  })

  test('[ART-10] content with a wrong schema, media type or lineage is refused, and nothing is written', async () => {
    assert.equal(await codeOf({ type: 'invoice', content: { json: { total: 'much' } } }), 'artifacts.content.invalid')
    assert.equal(
      await codeOf({ type: 'invoice', content: { json: { total: 1, more: 1 } } }),
      'artifacts.content.invalid',
    )
    assert.equal(await codeOf({ type: 'invoice', content: { text: '{"total":1}' } }), 'artifacts.content.invalid')
    assert.equal(await codeOf({ type: 'evaluation_result', content: { json: {} } }), 'artifacts.content.invalid')
    const html = { text: '<p>', content_type: 'text/html' }
    assert.equal(await codeOf({ type: 'csv_export', content: html }), 'artifacts.content.invalid')
    const smuggled = { text: 'x', content_type: 'text/plain\r\nset-cookie: a=b' }
    assert.equal(await codeOf({ content: smuggled }), 'artifacts.content.invalid')
    assert.equal(await codeOf({ type: 'final_report' }), 'artifacts.lineage.missing')
    assert.equal(await codeOf({ type: 'reprot' }), 'artifacts.type.unknown')
    assert.equal(await codeOf({ file_name: '../../etc/passwd' }), 'artifacts.draft.invalid')
    const good = await room.written({ type: 'invoice', content: { json: { total: 1 } } })
    assert.equal(good.retain_until?.toISOString(), '2026-05-31T10:00:00.000Z')
    assert.equal(good.metadata.data_class, 'pii')
  })

  test('[ART-10] a version replaces only versions that its type allows', async () => {
    const old = await room.written({ type: 'invoice', content: { json: { total: 1 } } })
    const report = await room.written()
    await room.db.query(
      `update concord.artifacts set metadata = metadata || '{"type_version":"0"}' where artifact_id = $1`,
      [old.artifact_id],
    )
    const invoice = { type: 'invoice', content: { json: { total: 2 } } }
    assert.equal(await codeOf({ ...invoice, supersedes: old.artifact_id }), 'artifacts.type.incompatible')
    assert.equal(await codeOf({ ...invoice, supersedes: report.artifact_id }), 'artifacts.type.incompatible')
    await room.db.query(
      `update concord.artifacts set metadata = metadata || '{"type_version":"1"}' where artifact_id = $1`,
      [old.artifact_id],
    )
    const next = await room.written({ ...invoice, supersedes: old.artifact_id })
    assert.equal(next.version, 2)
    assert.deepEqual(await room.eventsOf(old.artifact_id), [
      'artifact_created',
      'status_changed draft>ready',
      'status_changed ready>superseded',
    ])
    assert.equal(await codeOf({ ...invoice, supersedes: old.artifact_id }), 'machine.move.illegal')
  })

  test('one of several concurrent successors replaces it, the others leave nothing', async () => {
    const old = await room.written()
    const before = await room.counts()
    const settled = await Promise.allSettled(
      [1, 2, 3, 4].map((n) => room.write({ supersedes: old.artifact_id, content: { text: `successor ${n}` } })),
    )
    const won = settled.flatMap((each) => (each.status === 'fulfilled' && each.value.ok ? [each.value.value] : []))
    assert.equal(won.length, 1)
    const [row] = await room.db.query<{ superseded_by: string; status: string }>(
      'select superseded_by, status from concord.artifacts where artifact_id = $1',
      [old.artifact_id],
    )
    assert.deepEqual(row, { superseded_by: won[0]?.artifact_id, status: 'superseded' })
    const [rows, events] = before.match(/\d+/g)?.map(Number) ?? []
    assert.equal(await room.counts(), `${(rows ?? 0) + 1} rows, ${(events ?? 0) + 3} events`)
  })

  test('a source of another workspace, or private to another user, is reported as missing', async () => {
    const workspaceId = room.theirs.workspace.id
    const foreign = await room.written({ workspaceId, createdBy: 'user:eve' })
    const diary = await room.written({ type: 'diary', createdBy: 'user:eve' })
    for (const id of [foreign.artifact_id, diary.artifact_id, randomUUID()]) {
      const sources = [{ kind: 'artifact' as const, id }]
      assert.equal(await codeOf({ sources }), 'artifacts.lineage.source_unknown')
      assert.equal(await codeOf({ supersedes: id }), 'row.not_found')
    }
    assert.equal(await codeOf({ sources: [{ kind: 'memory', id: 'x' }] }), 'artifacts.draft.invalid')
  })

  test('a blob that was swept before its row is written prevents the row', async () => {
    const before = await room.counts()
    const sweptAway = {
      ...room.store,
      put: async (content: Parameters<typeof room.store.put>[0]) => {
        const stored = await room.store.put(content)
        if (stored.ok) await room.store.remove(stored.value.sha256)
        return stored
      },
    }
    const { command_id: commandId } = await aCommand(room.db, room.ours.workspace.id)
    const write = writeArtifact({ ...room.world, stores: [sweptAway] }, byWorker, {
      workspaceId: room.ours.workspace.id,
      commandId,
      type: 'report',
      content: { bytes: randomBytes(100), content_type: 'application/pdf' },
      createdBy: 'user:ada',
      step: 's',
    })
    await assert.rejects(write, { code: 'artifacts.blob.swept' })
    assert.equal(await room.counts(), before)
  })
})
