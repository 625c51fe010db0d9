/** Forgetting as a server does it: what was made from a memory goes with it, out of the database and out of the blob folder. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { decideApproval, findPending } from '#domains/approvals'
import {
  type ArtifactDeps,
  holdArtifact,
  openContent,
  openDiskStore,
  releaseArtifact,
  type Source,
  type StoredArtifact,
  writeArtifact,
} from '#domains/artifacts'
import { proposeMemory, requestForget } from '#domains/commands'
import { eraseSubject, getErasure, grantConsent, previewForget, type ProposedMemory } from '#domains/memory'
import { openDb } from '#store'
import { testArtifactTypes } from '#test/projects/connectors'
import { aBlobFolder, byWorker, CONTENT_BYTES_MAX } from '#test/artifacts'
import { openTestDb, type TestDb } from '#test/database'
import { ada, aPreference, dumpDatabase } from '#test/memory'
import { accepted, aTenant, aWorld, type Tenant, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { openLog } from './log.ts'
import { type OpenedWork, openWork } from './open-work.ts'
import { byPerson } from '#kernel/actor'

describe('forgetting reaches artifacts', () => {
  let opened: TestDb
  let folder: string
  let tenant: Tenant
  let artifacts: ArtifactDeps
  let work: OpenedWork
  let workspaceId: string
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 8 })
    folder = await aBlobFolder()
    const { db } = opened
    const world = { ...aWorld(db), now: () => new Date(), random: Math.random, randomBytes }
    tenant = await aTenant(world)
    workspaceId = tenant.workspace.id
    const store = openDiskStore({ folder, newId: world.newId, contentBytesMax: CONTENT_BYTES_MAX })
    artifacts = { db, now: world.now, newId: world.newId, types: testArtifactTypes, stores: [store] }
    const options = { artifacts, defaultWorkspace: workspaceId }
    work = accepted(await openWork(db, world, { catalog: [] }, openLog('silent'), options))
  })
  after(async () => {
    await work?.close()
    await opened?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** As the owner of the database, who may look into the tables of the runtime too. */
  async function dump(): Promise<string> {
    const owner = openDb({ url: opened.url })
    try {
      return await dumpDatabase(owner)
    } finally {
      await owner.close()
    }
  }
  const writer = () => {
    const principal = tenant.people.writer.principal
    return { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
  }
  const statusOf = async (commandId: string) => {
    const [row] = await opened.db.query<{ status: string }>(
      'select status from concord.commands where command_id = $1',
      [commandId],
    )
    return row?.status
  }
  const reach = (commandId: string, status: string) =>
    until(async () => (await statusOf(commandId)) === status, `${status} of ${commandId}`)
  /** A memory about a person, and the command that wrote it. */
  async function remember(preference: ProposedMemory) {
    accepted(await grantConsent(work.memory, ada, { workspaceId, ...preference }))
    const { candidate, command } = accepted(
      await proposeMemory(work.commands, work.memory, writer(), { workspaceId, memory: preference, requestId: 'r' }),
    )
    await reach(command.command_id, 'succeeded')
    return { memoryId: candidate.memory_id ?? '', commandId: command.command_id }
  }
  let steps = 0
  const make = async (commandId: string, text: string, sources: readonly Source[], more: object = {}) =>
    accepted(
      await writeArtifact(artifacts, byWorker, {
        workspaceId,
        commandId,
        type: 'report',
        content: { text },
        sources,
        createdBy: writer().id,
        step: `s${++steps}`,
        ...more,
      }),
    )
  const blobsWith = async (word: string) => {
    const files = await readdir(folder, { recursive: true, withFileTypes: true })
    const texts = files
      .filter((each) => each.isFile())
      .map((each) => readFile(join(each.parentPath, each.name), 'utf8'))
    return (await Promise.all(texts)).filter((text) => text.includes(word)).length
  }
  const ask = async (subject: ProposedMemory) =>
    accepted(await requestForget(work.commands, work.memory, writer(), { workspaceId, subject, requestId: 'r' }))
  async function approve(commandId: string): Promise<void> {
    await reach(commandId, 'waiting_for_approval')
    const [gate] = await findPending(opened.db, { workspaceId, commandId })
    const decider = { ...tenant.people.admin.principal, orgRoles: ['data_owner'] }
    const answer = { approvalId: gate?.approval_id ?? '', decision: 'approved', reason: 'so', traceId: TRACE }
    accepted(await decideApproval(work.approvals, byPerson(decider, TRACE), { workspaceId, ...answer }))
  }
  const rowOf = async ({ artifact_id }: StoredArtifact) => {
    const [row] = await opened.db.query<StoredArtifact>('select * from concord.artifacts where artifact_id = $1', [
      artifact_id,
    ])
    return row ?? assert.fail('the row is gone')
  }
  const long = (word: string) => `${word} `.repeat(1_000)
  const hold = (artifact: StoredArtifact, reason?: string) => ({
    workspaceId,
    artifactId: artifact.artifact_id,
    reader: tenant.people.admin.principal,
    reason,
  })
  const operator = { id: 'user:boss', kind: 'operator', traceId: TRACE } as const

  test('everything made from the memory, and from that, is in no row and no file afterwards; the certificate counts it', async () => {
    const preference = aPreference({ content: { note: 'zzmemoryzz' } })
    const { memoryId, commandId } = await remember(preference)
    const { commandId: other } = await remember(aPreference())
    const from = (kind: Source['kind'], id: string) => [{ kind, id }]
    const title = { title: 'About zztitlezz', file_name: 'zzfilezz.txt', metadata: { for: 'zzmetazz' } }
    const inline = await make(other, 'zzinlinezz', from('memory', memoryId), title)
    const blob = await make(other, long('zzblobzz'), from('memory', memoryId))
    const derived = await make(other, long('zzderivedzz'), from('artifact', blob.artifact_id), { is_draft: true })
    const own = await make(commandId, long('zzownzz'), [])
    const published = await make(other, 'zzpublishedzz', from('memory', memoryId))
    await opened.db.query(
      `update concord.artifacts set status = 'published', published_to = 'internal' where artifact_id = $1`,
      [published.artifact_id],
    )
    const bystander = await make(other, long('zzbystanderzz'), [])
    const shared = await make(other, long('zzsharedzz'), from('memory', memoryId))
    const twin = await make(other, long('zzsharedzz'), [])
    assert.equal(shared.location, twin.location)

    const preview = await previewForget(work.memory, workspaceId, preference)
    const gone = [inline, blob, derived, own, published, shared]
    assert.deepEqual(
      preview.items.filter(({ kind }) => kind === 'artifact').map(({ id }) => id),
      gone.map(({ artifact_id }) => artifact_id).toSorted(),
    )
    assert.equal(preview.hold_count, 0)
    const { erasure, command } = await ask(preference)
    assert.match(await dump(), /zztitlezz/)
    await approve(command.command_id)
    await reach(command.command_id, 'succeeded')

    const rows = await dump()
    const words = 'memory title file meta inline blob derived own published'.split(' ')
    for (const word of words) {
      assert.ok(!rows.includes(`zz${word}zz`), `zz${word}zz is still in the database`)
      // Short texts are stored in their row, encoded.
      const encoded = Buffer.from(`zz${word}zz`).toString('base64').slice(0, 12)
      assert.ok(!rows.includes(encoded), `zz${word}zz is still in the database, encoded`)
      assert.equal(await blobsWith(`zz${word}zz`), 0, `zz${word}zz is still in a file`)
    }
    assert.equal(await blobsWith('zzbystanderzz'), 1)
    assert.equal(await blobsWith('zzsharedzz'), 1, 'the other row still needs it')
    for (const artifact of gone) {
      const { status, location, metadata, checksum } = await rowOf(artifact)
      assert.deepEqual([status, location], ['archived', `removed:${checksum.slice(7)}`])
      assert.deepEqual(Object.keys(metadata).toSorted(), ['data_class', 'type_version'])
      const read = await openContent(artifacts, { location, checksum })
      assert.equal(read.ok ? '' : read.code, 'artifacts.content.removed')
    }
    for (const artifact of [bystander, twin]) assert.equal((await rowOf(artifact)).status, 'ready')
    const { memory_erasure_id: erasureId } = erasure
    const { certificate } = accepted(await getErasure(opened.db, { workspaceId, erasureId }))
    const { counts, erased } = certificate as { counts: Record<string, number>; erased: Record<string, string[]> }
    assert.equal(counts['artifact'], gone.length)
    assert.deepEqual(erased['artifact'], gone.map(({ artifact_id }) => artifact_id).toSorted())
    const moves = await opened.db.query<{ to: string }>(
      `select payload->>'to' as to from concord.domain_events where payload->>'erasure_id' = $1 and payload->>'target_id' = $2 order by seq`,
      [erasureId, derived.artifact_id],
    )
    assert.deepEqual(
      moves.map(({ to }) => to),
      ['cancelled', 'archived'],
    )
  })

  test('a held artifact stops all of it with its reason: at the request, and when the hold comes after the yes was asked for', async () => {
    const preference = aPreference({ content: { note: 'zzheldzz' } })
    const { memoryId, commandId } = await remember(preference)
    const free = await make(commandId, long('zzfreezz'), [{ kind: 'memory', id: memoryId }])
    const kept = await make(commandId, long('zzkeptzz'), [{ kind: 'memory', id: memoryId }])
    const first = await ask(preference)
    await reach(first.command.command_id, 'waiting_for_approval')

    accepted(await holdArtifact(artifacts, operator, hold(kept, 'an audit')))
    const preview = await previewForget(work.memory, workspaceId, preference)
    assert.notEqual(preview.hold_count, 0)
    assert.deepEqual(
      preview.items.filter(({ isHeld }) => isHeld).map(({ id }) => id),
      [kept.artifact_id],
    )
    const second = await ask(preference)
    await reach(second.command.command_id, 'failed')
    const errorOf = async (commandId: string) => {
      const [row] = await opened.db.query<{ error: string; error_class: string }>(
        'select error, error_class from concord.commands where command_id = $1',
        [commandId],
      )
      return row
    }
    assert.match((await errorOf(second.command.command_id))?.error ?? '', /something derived from it, is on hold/)

    // Straight into the act, past every rule: the rows themselves say no.
    const ref = { workspaceId, erasureId: first.erasure.memory_erasure_id, commandId: first.command.command_id }
    const stopped = await eraseSubject(work.memory, ada, ref)
    assert.deepEqual([stopped.ok, stopped.ok ? '' : stopped.code], [false, 'artifacts.artifact.held'])
    await approve(first.command.command_id)
    await reach(first.command.command_id, 'failed')
    const failed = await errorOf(first.command.command_id)
    assert.equal(failed?.error_class, 'policy_denied')
    for (const artifact of [free, kept]) assert.deepEqual((await rowOf(artifact)).location, artifact.location)
    for (const word of ['zzfreezz', 'zzkeptzz']) assert.equal(await blobsWith(word), 1)
    assert.match(await dump(), /zzheldzz/)

    accepted(await releaseArtifact(artifacts, operator, hold(kept)))
    const third = await ask(preference)
    await approve(third.command.command_id)
    await reach(third.command.command_id, 'succeeded')
    for (const word of ['zzfreezz', 'zzkeptzz']) assert.equal(await blobsWith(word), 0)
    assert.doesNotMatch(await dump(), /zzheldzz/)
  })

  test('a process that ends between the commit and the files: the same erasure again takes them', async () => {
    const preference = aPreference()
    const { memoryId, commandId } = await remember(preference)
    await make(commandId, long('zzleftzz'), [{ kind: 'memory', id: memoryId }])
    const { erasure, command } = await ask(preference)
    const ref = { workspaceId, erasureId: erasure.memory_erasure_id, commandId: command.command_id }
    const dying = work.memory.forgettables.map((room) => ({
      ...room,
      settle: () => Promise.reject(new Error('the process ends')),
    }))
    await assert.rejects(eraseSubject({ ...work.memory, forgettables: dying }, ada, ref), /the process ends/)
    assert.equal(await blobsWith('zzleftzz'), 1)
    const again = accepted(await eraseSubject(work.memory, ada, ref))
    assert.equal(again.outcome, 'erased')
    assert.equal(await blobsWith('zzleftzz'), 0)
  })
})
