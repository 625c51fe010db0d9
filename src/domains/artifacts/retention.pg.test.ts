/** Retention: expired content is removed, held content stays, and shared content stays until no row needs it. */
import type { Actor } from '#kernel/actor'
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ArtifactState } from '#kernel/machines/artifact'
import { type ArtifactRoom, openArtifactRoom } from '#test/artifacts'
import { accepted, TRACE } from '#test/tenant'
import {
  archiveArtifacts,
  cancelArtifact,
  holdArtifact,
  releaseArtifact,
  unpublishArtifact,
} from './change-artifact.ts'
import { findArtifact, type StoredArtifact } from './artifact.ts'
import { openContent, readArtifactText, sweepBlobs } from './blob-store.ts'
import { listArtifacts } from './read-artifacts.ts'

describe('retention of artifacts', () => {
  let room: ArtifactRoom
  before(async () => {
    room = await openArtifactRoom()
  })
  after(() => room.close())

  const operator: Actor = { id: 'user:boss', kind: 'operator', traceId: TRACE }
  const asked = ({ workspace_id, artifact_id }: StoredArtifact, reason?: string) => ({
    workspaceId: workspace_id,
    artifactId: artifact_id,
    reader: room.ours.people.admin.principal,
    reason,
  })
  const put = (artifact: StoredArtifact, columns: string) =>
    room.db.query(`update concord.artifacts set ${columns} where artifact_id = $1`, [artifact.artifact_id])
  const over = (artifact: StoredArtifact) => put(artifact, `retain_until = now() - interval '1 second'`)
  const fresh = async ({ workspace_id, artifact_id }: StoredArtifact) => {
    const row = await findArtifact(room.db, workspace_id, artifact_id)
    assert.ok(row)
    return row
  }
  const archive = () => archiveArtifacts(room.world, { traceId: TRACE })
  const sweepLater = () => sweepBlobs({ ...room.world, now: () => new Date('2999-01-01T00:00:00Z') })
  const large = (letter: string) => ({ text: letter.repeat(5_000) })

  test('an expired artifact is archived with its event; its content is removed, its row and checksum stay', async () => {
    const artifact = await room.written({ content: large('a') })
    const inline = await room.written({ content: { text: 'short' } })
    assert.equal(await archive(), 0, 'nothing is over yet')
    for (const each of [artifact, inline]) await over(each)
    assert.equal(await archive(), 2)
    assert.equal(await archive(), 0)
    for (const each of [artifact, inline]) {
      const row = await fresh(each)
      assert.deepEqual(
        [row.status, row.location, row.checksum],
        ['archived', `removed:${each.checksum.slice(7)}`, each.checksum],
      )
      const opened = await openContent(room.world, row)
      assert.equal(opened.ok ? 'opened' : opened.code, 'artifacts.content.removed')
      assert.equal((await room.eventsOf(each.artifact_id)).at(-1), 'status_changed ready>archived')
    }
    const listed = async (status?: 'archived') => {
      const asked = { workspaceId: artifact.workspace_id, commandId: artifact.command_id, limit: 9 }
      return (await listArtifacts(room.db, room.ours.people.reader.principal, { ...asked, status })).items.length
    }
    assert.deepEqual([await listed(), await listed('archived')], [0, 1], 'the archive is listed when it is asked for')
    assert.equal((await sweepLater()).removed, 1)
    assert.equal(await room.store.has(artifact.checksum.slice(7)), false)
  })

  test('content that two rows share stays until both are archived, also across workspaces', async () => {
    const one = await room.written({ content: large('b') })
    const other = await room.written({ content: large('b'), workspaceId: room.theirs.workspace.id })
    assert.equal(one.location, other.location)
    await over(one)
    assert.equal(await archive(), 1)
    assert.equal((await sweepLater()).removed, 0)
    assert.equal(accepted(await readArtifactText(room.world, await fresh(other))), large('b').text)
    await over(other)
    await archive()
    assert.equal((await sweepLater()).removed, 1)
  })

  test('a hold stops retention until it is released; both are recorded with their reason', async () => {
    const artifact = await room.written({ content: large('c') })
    await over(artifact)
    const held = accepted(await holdArtifact(room.world, operator, asked(artifact, 'an audit')))
    assert.equal(held.hold_reason, 'an audit')
    accepted(await holdArtifact(room.world, operator, asked(artifact, 'an audit')))
    assert.equal(await archive(), 0)
    accepted(await releaseArtifact(room.world, operator, asked(artifact)))
    assert.equal(await archive(), 1)
    const said = await room.eventsOf(artifact.artifact_id)
    assert.deepEqual(said.slice(2), ['artifact_held', 'artifact_released', 'status_changed ready>archived'])
    const late = await holdArtifact(room.world, operator, asked(artifact, 'too late'))
    assert.equal(late.ok ? 'held' : late.code, 'artifacts.artifact.held')
    const user = await holdArtifact(room.world, { ...operator, kind: 'user' }, asked(await room.written(), 'x'))
    assert.equal(user.ok ? 'held' : user.code, 'machine.actor.not_allowed')
  })

  test('drafts and published artifacts stay; withdrawn, superseded and cancelled ones are archived', async () => {
    const stays: ArtifactState[] = ['draft', 'published']
    const goes: ArtifactState[] = ['unpublished', 'superseded', 'cancelled']
    const next = await room.written()
    const rows = new Map<ArtifactState, StoredArtifact>()
    for (const status of [...stays, ...goes]) {
      const artifact = await room.written({ content: large(status) })
      const more = status === 'superseded' ? `, superseded_by = '${next.artifact_id}'` : ''
      await put(artifact, `status = '${status}', published_to = 'internal'${more}`)
      await over(artifact)
      rows.set(status, artifact)
    }
    assert.equal(await archive(), goes.length)
    for (const [status, artifact] of rows) {
      assert.equal((await fresh(artifact)).status, stays.includes(status) ? status : 'archived')
    }
  })

  test('[ART-03] users move it along its machine only, and one of many concurrent calls writes the event', async () => {
    const artifact = await room.written()
    const wrong = await unpublishArtifact(room.world, operator, asked(artifact))
    assert.equal(wrong.ok ? 'moved' : wrong.code, 'machine.move.illegal')
    await put(artifact, `status = 'published', published_to = 'internal'`)
    const all = await Promise.all(
      Array.from({ length: 6 }, () => unpublishArtifact(room.world, operator, asked(artifact))),
    )
    assert.ok(all.some(({ ok }) => ok))
    const events = (await room.eventsOf(artifact.artifact_id)).filter((each) => each.endsWith('published>unpublished'))
    assert.equal(events.length, 1)
  })

  test('only its creator or an administrator may cancel it', async () => {
    const artifact = await room.written()
    const user = (principal: typeof room.ours.people.writer.principal): Actor => ({
      id: `user:${principal.userId}`,
      kind: 'user',
      traceId: TRACE,
    })
    const { reader, writer } = room.ours.people
    const no = await cancelArtifact(room.world, user(reader.principal), {
      ...asked(artifact),
      reader: reader.principal,
    })
    assert.equal(no.ok ? 'cancelled' : no.code, 'machine.actor.not_allowed')
    const yes = accepted(
      await cancelArtifact(room.world, user(writer.principal), { ...asked(artifact), reader: writer.principal }),
    )
    assert.equal(yes.status, 'cancelled')
  })
})
