/** Which events move and which stay, the record of a move, and reading, verifying and following the history afterwards. */
import assert from 'node:assert/strict'
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, beforeEach, describe, test } from 'node:test'
import { openDb, readArchive, readFeed, verifyArchive, writeArchive } from '#store'
import { compareHistory, type HistoryRoom, openHistoryRoom } from '#test/history'
import { accepted, TRACE } from '#test/tenant'
import { findBrokenInvariants } from '../invariants/find-broken-invariants.ts'
import { listCommandEvents } from '../read-commands.ts'
import { retryCommand } from '../change-command.ts'
import { actingFor } from '../deps.ts'
import { archiveHistory } from './archive-history.ts'
import { listArchivesOf, readHistory, verifyHistory } from './history-archive.ts'

describe('archiving the history', () => {
  let history: HistoryRoom
  beforeEach(async () => {
    await history?.close()
    history = await openHistoryRoom()
  })
  after(() => history.close())

  const done = async (payload: object = {}) => {
    const id = await history.room.submit({ subject: 'done', steps: ['connector.hotel.book_a'], ...payload })
    assert.equal(await history.room.settle(id), 'succeeded')
    return id
  }
  const move = async (more?: Parameters<HistoryRoom['archive']>[0]) => {
    await history.visible()
    return accepted(await history.archive(more))
  }
  const workspaceId = () => history.room.tenant.workspace.id
  const eventsOf = (id: string) => listCommandEvents(history.room.db, workspaceId(), id, { afterSeq: null, limit: 500 })
  const countsOf = () =>
    history.owner.query(`select (select count(*)::integer from concord.commands) as commands,
  (select count(*)::integer from concord.domain_effects) as effects, (select count(*)::integer from concord.approvals) as approvals`)
  const codeOf = async (decision: Promise<{ ok: boolean; code?: string }>) => {
    const { ok, code } = await decision
    return ok ? 'accepted' : code
  }

  test('[PER-09] events of ended commands move with every column, other events and all rows stay, and one audit event names the file', async () => {
    const ended = await done()
    history.room.provider.modes.push('fail_after')
    const blocked = await history.room.submit({ subject: 'blocked', steps: ['connector.mail.send'] })
    assert.equal(await history.room.settle(blocked), 'blocked')
    const written = await history.inTable()
    const rows = await countsOf()
    const blockedEvents = (await eventsOf(blocked)).length

    const counted = await move({ isDryRun: true })
    assert.deepEqual([await history.inTable(), counted.files], [written, []], 'a dry run changes nothing')
    const moved = await move()
    assert.equal(moved.events, counted.events)
    assert.equal(moved.bytes, counted.bytes)
    assert.deepEqual(await compareHistory(history, written), { lost: [], twice: [] })
    assert.deepEqual(await countsOf(), rows)
    assert.deepEqual([(await eventsOf(ended)).length, (await eventsOf(blocked)).length], [0, blockedEvents])

    const said = await history.owner.query<{ purpose: string; payload: Record<string, unknown> }>(
      `select purpose, payload from concord.domain_events where event_type = 'history_archived' and workspace_id = $1`,
      [workspaceId()],
    )
    // The organisation has its own chain, and so its own file.
    const ours = moved.files.filter((each) => each.workspaceId === workspaceId())
    assert.deepEqual([ours.length, moved.files.length], [1, 2])
    const { file, events } = ours[0] ?? assert.fail()
    const manifest = JSON.parse(
      await readFile(join(history.folder, file.replace('.jsonl.gz', '.manifest.json')), 'utf8'),
    ) as Record<string, unknown>
    assert.equal(said.length, 1)
    assert.deepEqual(
      [said[0]?.purpose, said[0]?.payload['file'], said[0]?.payload['sha256'], said[0]?.payload['event_count']],
      ['audit', file, manifest['sha256'], events],
    )
    assert.equal((await move()).events, 0, 'nothing is left to move, and history_archived stays')
  })

  test('[PER-09] the history of a command is read from files and table, even if it ran again after it was archived', async () => {
    history.room.provider.modes.push('refuse')
    const id = await history.room.submit({ subject: 'again', steps: ['connector.hotel.book_a'] })
    assert.equal(await history.room.settle(id), 'failed')
    const first = await eventsOf(id)
    await move()
    const by = actingFor(history.room.tenant.people.admin.principal, TRACE)
    accepted(await retryCommand(history.room.world, by, { workspaceId: workspaceId(), commandId: id }))
    assert.equal(await history.room.settle(id), 'succeeded')
    const second = await eventsOf(id)
    const read = accepted(await readHistory(history.world, id))
    const all = [...first, ...second].map(({ event_id }) => event_id)
    assert.deepEqual(
      read.events.map(({ event_id }) => event_id),
      all,
    )
    assert.deepEqual(
      read.events.map(({ file }) => file === null),
      [...first.map(() => false), ...second.map(() => true)],
    )
    // Rebuilt from the file and the table together, then from two files.
    const broken = () => findBrokenInvariants(history.room.db, history.folder)
    assert.deepEqual(await broken(), [])
    await move()
    assert.equal((await listArchivesOf(history.room.db, workspaceId(), id)).length, 2)
    assert.equal(accepted(await readHistory(history.world, id)).events.length, all.length)
    assert.deepEqual(await broken(), [])
    assert.equal(await codeOf(readHistory(history.world, history.room.clock.newId())), 'commands.command.not_found')
  })

  test('[PER-09] a command that is retried while its file is written keeps its events', async () => {
    await move()
    history.room.provider.modes.push('refuse')
    const id = await history.room.submit({ subject: 'again', steps: ['connector.hotel.book_a'] })
    assert.equal(await history.room.settle(id), 'failed')
    await history.visible()
    assert.equal(
      await history.archiveAside([{ point: 'history.verified', hit: 1, act: 'kill' }]),
      'SIGKILL',
      'the file is complete and nothing is deleted',
    )
    const by = actingFor(history.room.tenant.people.admin.principal, TRACE)
    accepted(await retryCommand(history.room.world, by, { workspaceId: workspaceId(), commandId: id }))
    const written = await history.inTable()
    assert.equal((await move()).events, 0)
    assert.deepEqual(await history.inTable(), written)
    const states = (await verifyHistory(history.world)).map(({ status }) => status).filter((state) => state !== 'whole')
    assert.deepEqual(states, ['surplus'], 'the file that no longer matches is reported and kept')
  })

  test('[PER-09] no event is deleted for a file that was changed together with its manifest', async () => {
    await move()
    const id = await done()
    const count = (await eventsOf(id)).length
    await history.visible()
    assert.equal(await history.archiveAside([{ point: 'history.verified', hit: 1, act: 'kill' }]), 'SIGKILL')
    const written = await history.inTable()
    const surplus = async () => (await verifyHistory(history.world)).filter(({ status }) => status === 'surplus')
    const { file } = (await surplus())[0] ?? assert.fail()
    const { manifest } = accepted(await verifyArchive(history.folder, file))
    const lines = (await Array.fromAsync(readArchive(history.folder, file))).map((event) => JSON.stringify(event))
    await writeArchive(history.folder, manifest, lines)
    assert.ok((await verifyArchive(history.folder, file)).ok, 'file and manifest match each other')
    const moved = await move()
    assert.deepEqual([moved.finished, moved.events], [0, count], 'its events are written again from the table')
    assert.deepEqual(await compareHistory(history, written), { lost: [], twice: [] })
    assert.deepEqual(
      (await surplus()).map((each) => each.file),
      [file],
    )
  })

  test('[PER-09] events on hold, unsealed events and events that the feed does not show yet stay', async () => {
    const held = await done()
    await history.owner.query(
      `insert into concord.artifacts (artifact_id, command_id, workspace_id, artifact_type, location, status, created_by, checksum, content_type, size_bytes, hold_reason)
values (gen_random_uuid(), $1, $2, 'report', $3, 'ready', 'user:ada', $4, 'text/plain', 7, 'an audit')`,
      [held, workspaceId(), `disk:${'a'.repeat(64)}`, `sha256:${'a'.repeat(64)}`],
    )
    const remembered = await done()
    await history.owner.query(
      `insert into concord.memory_records (memory_id, workspace_id, subject_type, subject_id, scope, memory_type, content, status, command_id, created_by, fact_key)
values (gen_random_uuid(), $1, 'user', 'ada', 'user', 'preference', '{"seat":"aisle"}', 'active', $2, 'user:ada', 'seat')`,
      [workspaceId(), remembered],
    )
    await history.owner.query(
      `insert into concord.memory_holds (memory_hold_id, workspace_id, subject_type, subject_id, reason, placed_by)
values (gen_random_uuid(), $1, 'user', 'ada', 'case 7', 'user:bob')`,
      [workspaceId()],
    )
    const counts = async () => [(await eventsOf(held)).length, (await eventsOf(remembered)).length]
    const before = await counts()
    const free = await done()
    const moved = await move()
    assert.equal(
      moved.held,
      before.reduce((sum, count) => sum + count, 0),
    )
    assert.deepEqual([await counts(), (await eventsOf(free)).length], [before, 0])
    await history.owner.query('update concord.artifacts set hold_reason = null')
    await history.owner.query(`update concord.memory_holds set released_at = now(), released_by = 'user:bob'`)

    // An earlier transaction is still open, so the feed does not show them yet.
    await history.visible()
    const late = await history.owner.connect('late')
    await late.query('begin')
    await late.query('select pg_current_xact_id()')
    const unseen = await done()
    accepted(await history.archive())
    assert.deepEqual(await counts(), [0, 0])
    assert.ok((await eventsOf(unseen)).length > 0)
    await late.query('rollback')
    await late.end()

    // In a workspace with seals, only sealed events may move.
    await history.owner.query(
      `insert into concord.domain_event_seals (workspace_id, seal_no, xid_from, xid_to, first_seq, last_seq, row_count, root_hash, previous_hash, seal_hash)
select $1, 1, '1', min(xid), 1, 2, 2, decode(repeat('01', 32), 'hex'), decode(repeat('00', 32), 'hex'), decode(repeat('02', 32), 'hex')
from concord.domain_events where command_id = $2`,
      [workspaceId(), unseen],
    )
    assert.equal((await move()).events, 0)
  })

  test('[PER-09] a hold that is placed after the file was written keeps the events in the table, even after a killed run', async () => {
    // The events of the organisation have moved: the next file is that of the workspace.
    await move()
    const held = await done()
    const before = (await eventsOf(held)).length
    await history.visible()
    assert.equal(await history.archiveAside([{ point: 'history.verified', hit: 1, act: 'kill' }]), 'SIGKILL')
    await history.owner.query(
      `insert into concord.artifacts (artifact_id, command_id, workspace_id, artifact_type, location, status, created_by, checksum, content_type, size_bytes, hold_reason)
values (gen_random_uuid(), $1, $2, 'report', $3, 'ready', 'user:ada', $4, 'text/plain', 7, 'an audit')`,
      [held, workspaceId(), `disk:${'a'.repeat(64)}`, `sha256:${'a'.repeat(64)}`],
    )
    const moved = await move()
    assert.deepEqual([moved.finished, moved.events, moved.held], [0, 0, before])
    assert.equal((await eventsOf(held)).length, before)
  })

  test('[PER-09] a reader whose cursor is behind archived events is refused, and may continue if it accepts the gap', async () => {
    await done()
    await history.visible()
    const start = accepted(await readFeed(history.room.db, { workspaceId: workspaceId() }))
    await move()
    const read = (request: object) => readFeed(history.room.db, { workspaceId: workspaceId(), ...request })
    assert.equal(await codeOf(read({})), 'cursor_archived')
    assert.equal(await codeOf(read({ after: start.events[0]?.cursor })), 'cursor_archived')
    await history.visible()
    const rest = accepted(await read({ skipArchived: true }))
    assert.deepEqual(
      rest.events.map(({ event_type }) => event_type),
      ['history_archived'],
    )
    assert.equal(
      accepted(await read({ after: start.cursor })).events.length,
      1,
      'a reader that has seen them all continues',
    )
    const elsewhere = { workspaceId: history.room.clock.newId() }
    assert.deepEqual(accepted(await read(elsewhere)).events, [])
  })

  test('[PER-09] verify and the deep check report files that were changed, exchanged or lost', async () => {
    const id = await done()
    await done()
    const moved = await move({ limits: { events: 1, page: 9 } })
    assert.ok(moved.files.length >= 2)
    assert.deepEqual(new Set((await verifyHistory(history.world)).map(({ status }) => status)), new Set(['whole']))
    const [one, other] = moved.files.map(({ file }) => join(history.folder, file)) as [string, string]
    const bytes = await readFile(one)
    const state = async () => (await verifyHistory(history.world)).map((found) => found.status)
    await writeFile(one, bytes.subarray(0, bytes.length - 20))
    assert.equal((await state())[0], 'damaged')
    await writeFile(one, await readFile(other))
    assert.equal((await state())[0], 'damaged')
    await writeFile(one, bytes)
    const manifest = one.replace('.jsonl.gz', '.manifest.json')
    const text = await readFile(manifest, 'utf8')
    await writeFile(manifest, text.replace(/"event_count": \d+/, '"event_count": 9999'))
    assert.equal((await state())[0], 'damaged')
    await writeFile(manifest, '{')
    assert.equal((await state())[0], 'damaged')
    await writeFile(manifest, text)
    assert.equal((await state())[0], 'whole')

    const lost = { ...history.world, folder: `${history.folder}-gone` }
    assert.deepEqual(new Set((await verifyHistory(lost)).map((found) => found.status)), new Set(['missing']))
    assert.equal(await codeOf(readHistory(lost, id)), 'history.file.missing')
    const codes = async (folder: string) =>
      (await findBrokenInvariants(history.room.db, folder)).map(({ code }) => code)
    assert.deepEqual([await codes(history.folder), await codes(lost.folder)], [[], ['R02']])
    await history.owner.query(`update concord.commands set attempt = attempt + 1 where command_id = $1`, [id])
    assert.deepEqual(await codes(history.folder), ['R01'], 'a changed row of an archived command is found')
  })

  test('[PER-09] one run at a time, only the owner of the tables, and a folder that cannot be written changes nothing', async () => {
    await done()
    await history.visible()
    const written = await history.inTable()
    const engine = openDb({ url: history.room.db.config.url, role: 'concord_engine', poolMax: 1 })
    const asEngine = archiveHistory(
      { ...history.world, db: engine },
      { endedBefore: history.world.now(), traceId: TRACE },
    )
    assert.equal(await codeOf(asEngine), 'history.owner.needed')
    await engine.close()
    await writeFile(join(history.folder, 'taken'), '')
    const nowhere = archiveHistory(
      { ...history.world, folder: join(history.folder, 'taken') },
      { endedBefore: history.world.now(), traceId: TRACE },
    )
    assert.equal(await codeOf(nowhere), 'history.file.unwritable')
    // A symbolic link to itself cannot even be listed.
    const circle = join(history.folder, 'circle')
    await symlink(circle, circle)
    const lost = { ...history.world, folder: circle }
    assert.equal(
      await codeOf(archiveHistory(lost, { endedBefore: history.world.now(), traceId: TRACE })),
      'history.file.unwritable',
    )
    assert.deepEqual(await history.inTable(), written)
    const holder = await history.owner.connect('holder')
    await holder.query('select pg_advisory_lock(29389342173524601)')
    assert.equal(await codeOf(history.archive({ waitMs: 50 })), 'history.busy')
    await holder.end()
    await history.visible()
    const both = await Promise.all([
      history.archive({ limits: { events: 3 }, waitMs: 30_000 }),
      history.archive({ waitMs: 30_000 }),
    ])
    const events = both.map((each) => accepted(each).events)
    assert.equal(
      events.reduce((sum, count) => sum + count, 0),
      written.size,
      JSON.stringify(events),
    )
    assert.deepEqual(await compareHistory(history, written), { lost: [], twice: [] })
  })
})
