/** Reading: complete pages, workspace and visibility limits, and the lineage in both directions. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { type ArtifactRoom, openArtifactRoom } from '#test/artifacts'
import { aCommand } from '#test/concord-rows'
import { accepted } from '#test/tenant'
import type { StoredArtifact } from './artifact.ts'
import { getArtifact, listArtifacts, listSwarmArtifacts, readLineage } from './read-artifacts.ts'

describe('reading artifacts', () => {
  let room: ArtifactRoom
  let workspaceId: string
  before(async () => {
    room = await openArtifactRoom()
    workspaceId = room.ours.workspace.id
  })
  after(() => room.close())

  const idOf = ({ artifact_id }: StoredArtifact) => encodeId('artifact', artifact_id)
  const from = (...sources: readonly StoredArtifact[]) => ({
    sources: sources.map(({ artifact_id: id }) => ({ kind: 'artifact' as const, id })),
  })

  test('pages list everything once, newest first, filtered by type, status and command', async () => {
    const reader = room.ours.people.reader.principal
    const { command_id: commandId } = await aCommand(room.db, workspaceId)
    const made: StoredArtifact[] = []
    for (let n = 0; n < 7; n++) {
      // Three have the same time, so the id decides.
      if (n % 3 === 0) room.clock.travel(1_000)
      made.push(await room.written({ commandId, type: n % 2 === 0 ? 'analysis' : 'review' }))
    }
    const seen: StoredArtifact[] = []
    for (let after: readonly string[] | undefined = []; after; ) {
      const page = await listArtifacts(room.db, reader, {
        workspaceId,
        commandId,
        limit: 2,
        ...(after.length > 0 ? { after } : {}),
      })
      seen.push(...page.items)
      after = page.next
    }
    assert.deepEqual(seen.map(idOf).toSorted(), made.map(idOf).toSorted())
    const times = seen.map(({ created_at }) => created_at.getTime())
    assert.deepEqual(
      times,
      times.toSorted((a, b) => b - a),
    )
    const some = await listArtifacts(room.db, reader, {
      workspaceId,
      artifactType: 'review',
      status: 'ready',
      limit: 50,
    })
    assert.equal(some.items.length, 3)
  })

  test('artifacts of another workspace and private ones of others are reported as missing', async () => {
    const foreign = await room.written({ workspaceId: room.theirs.workspace.id })
    const diary = await room.written({ type: 'diary' })
    const { reader, writer, admin } = room.ours.people
    const get = async (who: typeof reader, { artifact_id }: StoredArtifact) =>
      (await getArtifact(room.db, who.principal, workspaceId, artifact_id)).ok
    assert.equal(await get(admin, foreign), false)
    assert.deepEqual([await get(reader, diary), await get(writer, diary), await get(admin, diary)], [false, true, true])
    const listed = async (who: typeof reader) => {
      const { items } = await listArtifacts(room.db, who.principal, { workspaceId, artifactType: 'diary', limit: 50 })
      return items.length
    }
    assert.deepEqual([await listed(reader), await listed(writer), await listed(admin)], [0, 1, 1])
    const picture = await readLineage(room.db, reader.principal, workspaceId, diary.artifact_id)
    assert.equal(picture.ok ? 'drawn' : picture.code, 'row.not_found')
  })

  test('[ART-09] the lineage shows what it was made from and what was made from it, over generations and versions', async () => {
    const dataset = randomUUID()
    const query = await room.written({ type: 'analysis', sources: [{ kind: 'dataset', id: dataset }] })
    const notes = await room.written({ type: 'research_notes' })
    const draft = await room.written({ type: 'draft_report', ...from(query, notes) })
    const second = await room.written({ type: 'draft_report', supersedes: draft.artifact_id, ...from(draft) })
    const final = await room.written({ type: 'final_report', title: 'The report', ...from(second) })
    const unrelated = await room.written()
    const reader = room.ours.people.reader.principal
    const { nodes, edges, is_complete, root } = accepted(
      await readLineage(room.db, reader, workspaceId, draft.artifact_id),
    )
    assert.deepEqual([root, is_complete], [idOf(draft), true])
    const artifacts = nodes.filter(({ kind }) => kind === 'artifact').map(({ id }) => id)
    assert.deepEqual(artifacts.toSorted(), [query, notes, draft, second, final].map(idOf).toSorted())
    assert.ok(!artifacts.includes(idOf(unrelated)))
    const has = (a: string, b: string) => edges.some((edge) => edge.from === a && edge.to === b)
    assert.ok(has(encodeId('dataset', dataset), idOf(query)))
    assert.ok(has(idOf(query), idOf(draft)) && has(idOf(notes), idOf(draft)))
    assert.ok(has(idOf(draft), idOf(second)) && has(idOf(second), idOf(final)))
    for (const each of [query, notes, draft, second, final])
      assert.ok(has(encodeId('command', each.command_id), idOf(each)), 'the command is named')
    assert.equal(nodes.find(({ id }) => id === idOf(final))?.label, 'The report')
    // The graph is the same from the other end.
    const below = accepted(await readLineage(room.db, reader, workspaceId, final.artifact_id))
    assert.ok(below.nodes.some(({ id }) => id === encodeId('dataset', dataset)))
  })

  test('the graph shows a private artifact without its name, its command or its sources', async () => {
    const { writer, reader } = room.ours.people
    const source = await room.written()
    const diary = await room.written({ type: 'diary', title: 'My secret', ...from(source) })
    const open = await room.written(from(diary))
    const seen = accepted(await readLineage(room.db, reader.principal, workspaceId, open.artifact_id))
    const node = seen.nodes.find(({ id }) => id === idOf(diary))
    assert.deepEqual([node?.label, node?.status], ['private', null])
    assert.ok(!seen.nodes.some(({ id }) => id === encodeId('command', diary.command_id)))
    assert.doesNotMatch(JSON.stringify(seen), /My secret/)
    const own = accepted(await readLineage(room.db, writer.principal, workspaceId, open.artifact_id))
    assert.equal(own.nodes.find(({ id }) => id === idOf(diary))?.label, 'My secret')
  })

  test('a lineage beyond the limit is marked as incomplete', async () => {
    let last = await room.written()
    const first = last
    for (let n = 0; n < 25; n++) last = await room.written(from(last))
    const drawn = accepted(
      await readLineage(room.db, room.ours.people.reader.principal, workspaceId, first.artifact_id),
    )
    assert.equal(drawn.is_complete, false)
    assert.ok(drawn.nodes.length > 20)
  })

  test('a join reads the artifact rows of its swarm, typed and in order, without cancelled ones', async () => {
    const { command_id: commandId } = await aCommand(room.db, workspaceId)
    const swarmRunId = randomUUID()
    await room.db.query(
      `insert into concord.swarm_runs (swarm_run_id, workspace_id, command_id, status, objective, execution_mode, join_strategy)
       values ($1, $2, $3, 'created', 'find out', 'parallel', 'all_success')`,
      [swarmRunId, workspaceId, commandId],
    )
    for (const type of ['research_notes', 'analysis', 'review'] as const) {
      room.clock.travel(1_000)
      await room.written({ commandId, swarmRunId, type })
    }
    const gone = await room.written({ commandId, swarmRunId, type: 'analysis', is_draft: true })
    await room.written({ commandId, type: 'analysis' })
    const joined = await listSwarmArtifacts(room.db, { workspaceId, swarmRunId })
    assert.deepEqual(
      joined.map(({ artifact_type }) => artifact_type),
      ['research_notes', 'analysis', 'review'],
    )
    assert.ok(!joined.some(({ artifact_id }) => artifact_id === gone.artifact_id))
    const untyped = await room.write({ commandId, swarmRunId, type: 'chat' })
    assert.equal(untyped.ok ? 'written' : untyped.code, 'artifacts.type.unknown')
    assert.deepEqual(await listSwarmArtifacts(room.db, { workspaceId: room.theirs.workspace.id, swarmRunId }), [])
  })
})
