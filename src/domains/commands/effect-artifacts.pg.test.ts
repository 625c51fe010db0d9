/** Effects that write artifacts: the row comes with the outcome or not at all, an undo takes it back, and outside needs consent. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval, listApprovals } from '#domains/approvals'
import { findArtifact, unpublishArtifact } from '#domains/artifacts'
import { artifactDefinitions } from '#test/projects/connectors'
import { type ArtifactRoom, openArtifactRoom } from '#test/artifacts'
import { decider, openTestRoom, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { cancelCommand } from './cancel-command.ts'
import { anyHost, openCatalog } from './catalog/open-catalog.ts'
import { findCommand } from './command-table.ts'
import { compensateCommand, retryCommand } from './change-command.ts'
import { PUBLISH_ARTIFACT } from './publish-artifact.ts'
import { actingFor } from './deps.ts'
import { isFreed } from './standing.ts'
import { planUndo } from './undo-plan.ts'
import { byPerson } from '#kernel/actor'

type Result = { readonly artifact_id: string; readonly checksum: string }

describe('artifacts of effects', () => {
  let room: ArtifactRoom
  let commands: TestRoom
  let workspaceId: string
  before(async () => {
    room = await openArtifactRoom()
    commands = room.commands
    workspaceId = room.ours.workspace.id
  })
  after(() => room.close())

  const note = (payload: Record<string, unknown>) => commands.submit(payload, { taskName: 'Note' })
  const resultOf = async (commandId: string) => {
    const [row] = await commands.rows<{ result: Result }>('select result from concord.commands where command_id = $1', [
      commandId,
    ])
    return row?.result as Result
  }
  async function aNote(payload: Record<string, unknown> = {}): Promise<Result> {
    const id = await note({ text: 'a note', ...payload })
    assert.equal(await commands.settle(id), 'succeeded')
    return resultOf(id)
  }
  const statusOf = async (artifactId: string) => (await findArtifact(room.db, workspaceId, artifactId))?.status
  const publish = (artifact: Result, destination: string) =>
    commands.submit({ ...artifact, destination }, { taskName: PUBLISH_ARTIFACT })
  const errorOf = async (commandId: string) => {
    const [row] = await commands.rows<{ error: string }>('select error from concord.commands where command_id = $1', [
      commandId,
    ])
    return row?.error
  }
  const answer = async (commandId: string, decision: 'approved' | 'rejected') => {
    const who = { ...decider(commands), orgRoles: ['data_owner', 'data-owner'] }
    const { items } = await listApprovals(room.db, who, { workspaceId, commandId, limit: 10 })
    assert.deepEqual(
      items.map(({ approver }) => approver),
      ['role:data-owner'],
    )
    const [{ approval_id: approvalId } = { approval_id: '' }] = items
    accepted(
      await decideApproval(commands.approvals, byPerson(who, TRACE), {
        workspaceId,
        approvalId,
        decision,
        reason: 'so',
      }),
    )
    await commands.settle(commandId)
  }

  test('the part of row PER-04 about artifacts: the row is committed with the outcome of its effect, under the id that the result names', async () => {
    const id = await note({ text: 'hello' })
    assert.equal(await commands.settle(id), 'succeeded')
    const { artifact_id } = await resultOf(id)
    const rows = await commands.rows(
      `select a.artifact_id, e.status as effect
         from concord.artifacts a join concord.domain_effects e using (domain_effect_id) where a.command_id = $1`,
      [id],
    )
    assert.equal(rows.length, 1)
    assert.deepEqual([rows[0]?.['artifact_id'], rows[0]?.['effect']], [artifact_id, 'succeeded'])
    const [commit] = await commands.rows<{ count: string }>(
      `select count(distinct xid) as count from concord.domain_events where command_id = $1
         and (event_type in ('artifact_created', 'effect_executed') or payload->>'target_type' = 'artifact')`,
      [id],
    )
    assert.equal(commit?.count, '1', 'one transaction wrote the artifact, its move and the outcome')
  })

  test('an effect that fails after writing leaves no row', async () => {
    const before = await room.counts()
    const id = await note({ text: 'lost', fails: true })
    assert.equal(await commands.settle(id), 'failed')
    assert.equal(await room.counts(), before)
  })

  test('a draft that its type refuses fails the effect for good, and says why', async () => {
    const id = await note({ text: 'x', type: 'no_such_type' })
    assert.equal(await commands.settle(id), 'failed')
    assert.match((await errorOf(id)) ?? '', /no artifact type "no_such_type"/)
  })

  test('undoing takes artifacts back: what was ready is cancelled, what was published is unpublished', async () => {
    const published = await aNote({ text: 'published and taken back' })
    const id = await note({ text: 'to be undone', publishes: published, then_fails: true })
    assert.equal(await commands.settle(id), 'failed')
    const [made] = await commands.rows<{ artifact_id: string }>(
      'select artifact_id from concord.artifacts where command_id = $1',
      [id],
    )
    const artifactId = made?.artifact_id ?? ''
    assert.deepEqual([await statusOf(artifactId), await statusOf(published.artifact_id)], ['ready', 'published'])
    const admin = actingFor(room.ours.people.admin.principal, TRACE)
    accepted(await compensateCommand(commands.world, admin, { workspaceId, commandId: id, reason: 'wrong month' }))
    assert.equal(await commands.settle(id), 'compensated')
    assert.deepEqual([await statusOf(artifactId), await statusOf(published.artifact_id)], ['cancelled', 'unpublished'])
  })

  test('a new version of an artifact by another command', async () => {
    const first = await aNote({ text: 'first' })
    const second = await aNote({ text: 'second', supersedes: first.artifact_id })
    assert.deepEqual([await statusOf(first.artifact_id), await statusOf(second.artifact_id)], ['superseded', 'ready'])
    assert.equal((await findArtifact(room.db, workspaceId, second.artifact_id))?.version, 2)
  })

  test('[ART-06] inside the organisation it is published at once; outside only after the owner of the data has agreed', async () => {
    const inside = await aNote()
    const first = await publish(inside, 'internal')
    assert.equal(await commands.settle(first), 'succeeded')
    assert.equal(await statusOf(inside.artifact_id), 'published')
    assert.ok((await room.eventsOf(inside.artifact_id)).includes('artifact_published ready>published'))

    const outside = await aNote({ text: 'for finance' })
    const asked = await publish(outside, 'finance@example.com')
    assert.equal(await commands.settle(asked), 'waiting_for_approval')
    assert.equal(await statusOf(outside.artifact_id), 'ready', 'nothing leaves before the answer')
    await answer(asked, 'approved')
    assert.equal(await commands.statusOf(asked), 'succeeded')
    const row = await findArtifact(room.db, workspaceId, outside.artifact_id)
    assert.deepEqual([row?.status, row?.published_to], ['published', 'finance@example.com'])
  })

  test('[ART-06] one artifact goes to several places: each by its own consent, with its own event, taken back on its own', async () => {
    const { artifact_id, checksum } = await aNote({ text: 'for many' })
    const artifact = { artifact_id, checksum }
    const placesOf = async () =>
      (await findArtifact(room.db, workspaceId, artifact_id))?.publications.map(({ destination, command_id }) => [
        destination,
        command_id,
      ])
    const publishedEvents = () =>
      commands.rows<{ to: string; by: string }>(
        `select payload->>'published_to' as to, payload->>'by_command_id' as by from concord.domain_events
          where event_type = 'artifact_published' and payload->>'artifact_id' = $1 order by seq`,
        [artifact_id],
      )
    const inside = await publish(artifact, 'internal')
    await commands.settle(inside)
    const outside = await publish(artifact, 'finance@example.com')
    assert.equal(await commands.settle(outside), 'waiting_for_approval', 'consent for one place is none for another')
    assert.deepEqual(await placesOf(), [['internal', inside]])
    await answer(outside, 'approved')
    assert.equal(await commands.statusOf(outside), 'succeeded')
    assert.deepEqual(await placesOf(), [
      ['internal', inside],
      ['finance@example.com', outside],
    ])
    assert.deepEqual(await publishedEvents(), [
      { to: 'internal', by: inside },
      { to: 'finance@example.com', by: outside },
    ])
    assert.equal((await findArtifact(room.db, workspaceId, artifact_id))?.published_to, 'finance@example.com')

    const refused = await publish(artifact, 'external:partner')
    await commands.settle(refused)
    await answer(refused, 'rejected')
    assert.equal((await placesOf())?.length, 2, 'a no adds no place')

    const admin = actingFor(room.ours.people.admin.principal, TRACE)
    const passing = await note({ text: 'passing', publishes: artifact, then_fails: true })
    assert.equal(await commands.settle(passing), 'failed')
    assert.equal((await placesOf())?.length, 3)
    accepted(await compensateCommand(commands.world, admin, { workspaceId, commandId: passing, reason: 'wrong' }))
    assert.equal(await commands.settle(passing), 'compensated')
    assert.deepEqual(await placesOf(), [
      ['internal', inside],
      ['finance@example.com', outside],
    ])
    const row = await findArtifact(room.db, workspaceId, artifact_id)
    assert.deepEqual([row?.status, row?.published_to], ['published', 'finance@example.com'])
    assert.ok((await room.eventsOf(artifact_id)).some((event) => event.startsWith('artifact_withdrawn')))

    const reader = room.ours.people.admin.principal
    const asked = { workspaceId, artifactId: artifact_id, reader }
    accepted(await unpublishArtifact(room.world, { id: 'user:x', kind: 'operator', traceId: TRACE }, asked))
    assert.deepEqual([await statusOf(artifact_id), await placesOf()], ['unpublished', []])
  })

  test('[ART-06] a no is a no', async () => {
    const refused = await aNote({ text: 'not for partners' })
    const asked = await publish(refused, 'external:partner')
    await commands.settle(asked)
    await answer(asked, 'rejected')
    assert.deepEqual([await commands.statusOf(asked), await statusOf(refused.artifact_id)], ['failed', 'ready'])
  })

  test('[ART-06] what holds personal data never leaves; what is public and may go, goes without asking', async () => {
    const invoice = await room.written({ type: 'invoice', content: { json: { total: 1 } } })
    const open = await room.written({ type: 'open_data' })
    const packet = await room.written({ type: 'approval_packet' })
    const tried = async (artifact: Result, destination: string) => {
      const id = await publish({ artifact_id: artifact.artifact_id, checksum: artifact.checksum }, destination)
      return commands.settle(id)
    }
    assert.equal(await tried(invoice, 'finance@example.com'), 'failed')
    assert.equal(await statusOf(invoice.artifact_id), 'ready')
    assert.equal(await tried(packet, 'finance@example.com'), 'failed')
    assert.equal(await tried(invoice, 'internal'), 'succeeded')
    assert.equal(await tried(open, 'finance@example.com'), 'succeeded')
    assert.equal(await statusOf(open.artifact_id), 'published')
  })

  test('another checksum, another workspace, a private one of another person, a given-up one: denied', async () => {
    const good = await aNote({ text: 'good' })
    const foreign = await room.written({ workspaceId: room.theirs.workspace.id })
    const diary = await room.written({ type: 'diary', createdBy: 'user:eve' })
    const old = await aNote({ text: 'old' })
    await aNote({ text: 'new', supersedes: old.artifact_id })
    const cases: readonly (readonly [Result, RegExp])[] = [
      [{ ...good, checksum: `sha256:${'0'.repeat(64)}` }, /differs from the one in the request/],
      [foreign, /no such artifact/],
      [diary, /no such artifact/],
      [old, /superseded cannot be published/],
    ]
    for (const [{ artifact_id, checksum }, said] of cases) {
      const id = await publish({ artifact_id, checksum }, 'internal')
      assert.equal(await commands.settle(id), 'failed')
      assert.match((await errorOf(id)) ?? '', said)
    }
  })

  test('an artifact that moves between the approval and the act fails the act and publishes nothing', async () => {
    const artifact = await aNote({ text: 'raced' })
    const asked = await publish(artifact, 'finance@example.com')
    await commands.settle(asked)
    await aNote({ text: 'its successor', supersedes: artifact.artifact_id })
    await answer(asked, 'approved')
    assert.equal(await commands.statusOf(asked), 'failed')
    assert.equal(await statusOf(artifact.artifact_id), 'superseded')
  })

  test('a cancelled command with its note undone', async () => {
    const id = await note({ text: 'cancelled' })
    const writer = actingFor(room.ours.people.writer.principal, TRACE)
    accepted(await cancelCommand(commands.world, writer, { workspaceId, commandId: id, reason: 'no' }))
    await commands.settle(id)
    assert.deepEqual(await commands.rows('select 1 from concord.artifacts where command_id = $1', [id]), [])
  })

  for (const [what, effect] of Object.entries({
    'content above the limit': 'outside.large',
    'a result that cannot be stored': 'outside.result',
  }))
    test(`[M10] ${what} fails the effect and asks nobody, although the effect may have acted outside`, async () => {
      const id = await note({ text: 'x', after: effect })
      assert.equal(await commands.settle(id), 'failed')
      const [row] = await commands.rows<{ status: string; attempt: number }>(
        'select status, attempt from concord.domain_effects where command_id = $1 and effect_type = $2',
        [id, effect],
      )
      assert.deepEqual(row, { status: 'failed', attempt: 1 })
      const { items } = await listApprovals(room.db, decider(commands), { workspaceId, commandId: id, limit: 10 })
      assert.deepEqual(items, [])
      // What may have been done is neither repeated nor told as undone.
      const by = actingFor(room.ours.people.writer.principal, TRACE)
      const retried = await retryCommand(commands.world, by, { workspaceId, commandId: id })
      assert.equal(!retried.ok && retried.code, 'commands.retry.in_doubt')
      const found = await findCommand(room.db, workspaceId, id)
      assert.ok(found)
      const { command, effects } = found
      assert.equal(isFreed({ command, effects }), false)
      const { kept } = planUndo(effects, commands.world.catalog, commands.world.now())
      assert.ok(kept.some(({ effect: { effect_type }, why }) => effect_type === effect && why === 'in_doubt'))
    })
})

test('a process without a store of artifacts says so, and the effect fails', async () => {
  const bare = await openTestRoom((world) => ({
    ...world,
    facts: { artifact: async () => null },
    catalog: accepted(openCatalog(artifactDefinitions(), anyHost)),
  }))
  try {
    const id = await bare.submit({ text: 'x' }, { taskName: 'Note' })
    assert.equal(await bare.settle(id), 'failed')
    const [row] = await bare.rows<{ error: string }>('select error from concord.commands where command_id = $1', [id])
    assert.match(row?.error ?? '', /no artifact store/)
  } finally {
    await bare.close()
  }
})
