/** `concord history` counts, archives, shows and verifies with a real database and a real folder, and explains every mistake. */
import assert from 'node:assert/strict'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { untilVisible } from '#test/history'
import { openOperatedRoom } from '#test/operated-room'
import { until } from '#test/until'

type OperatedRoom = Awaited<ReturnType<typeof openOperatedRoom>>

/** A command that ended long ago. The clock of the room is in the past; `completed_at` is a time of the database. */
async function anOldCommand({ room, owner }: OperatedRoom): Promise<string> {
  const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a'] })
  assert.equal(await room.settle(id), 'succeeded')
  await owner.query(`update concord.commands set completed_at = '2026-05-02Z'`)
  await untilVisible(owner)
  return id
}

test('[PER-09] [MIS-391] without an age every event is kept; the command line counts, archives, shows and verifies old history, and doctor reads it from the files', async (t) => {
  const operated = await openOperatedRoom(t)
  const { home, concordWith } = operated
  const id = await anOldCommand(operated)
  const concord = (args: readonly string[], more: Record<string, string> = {}) => concordWith(more, ...args)
  const json = async (args: readonly string[], more?: Record<string, string>) => {
    const { out, code } = await concord(['--json', ...args], more)
    return { code, said: JSON.parse(out.split('\n')[0] ?? '') as Record<string, unknown> }
  }
  const shown = encodeId('command', id)

  const never = await concord(['history', 'archive'])
  assert.equal(never.code, 78)
  assert.match(never.err, /CONCORD_HISTORY_DAYS[\s\S]*history\.age\.missing/)
  assert.equal((await concord(['history', 'archive', '--before', '0'])).code, 64)
  assert.equal((await concord(['history', 'archive'], { CONCORD_HISTORY_DAYS: '1.5' })).code, 78)

  const counted = await json(['history', 'archive', '--dry-run'], { CONCORD_HISTORY_DAYS: '1' })
  assert.deepEqual(await readdir(home), [])
  const before = await json(['history', 'show', shown])
  const events = before.said['events'] as { event_id: string; file: string | null }[]
  assert.ok(events.length > 0 && events.every(({ file }) => file === null))

  const moved = await json(['history', 'archive', '--before', '1'])
  assert.equal(moved.code, 0)
  assert.equal(moved.said['events'], counted.said['events'])
  const after = await json(['history', 'show', shown])
  const told = after.said['events'] as typeof events
  assert.deepEqual(
    told.map(({ event_id }) => event_id),
    events.map(({ event_id }) => event_id),
  )
  assert.ok(told.every(({ file }) => file !== null))
  assert.match((await concord(['history', 'show', shown])).out, /command_created[\s\S]*archive[\s\S]*archived .* in /)
  assert.equal((await concord(['history', 'show', 'cmd_1'])).code, 65)
  const unknown = await concord(['history', 'show', `cmd_${'0'.repeat(32)}`])
  assert.equal(unknown.code, 65)
  assert.match(unknown.err, /no such command[\s\S]*concord commands list/)

  assert.equal((await concord(['history', 'verify'])).code, 0)
  const doctor = await concord(['doctor', '--deep'])
  assert.match(doctor.out, /records: \d+ invariants hold; \d+ events were read from 2 files of the archive/)

  const [{ file }] = moved.said['files'] as [{ file: string }]
  await writeFile(join(home, 'history', file), 'changed')
  const bad = await json(['history', 'verify'])
  assert.equal(bad.code, 75)
  assert.equal((bad.said['files'] as { status: string }[]).filter(({ status }) => status === 'damaged').length, 1)
  const ill = await concord(['doctor', '--deep'])
  assert.match(ill.out, /broken {2}R02 the archive is readable: .*next: `concord history verify`/s)
  const elsewhere = await concord(['history', 'show', shown], { CONCORD_HISTORY_FOLDER: join(home, 'nowhere') })
  assert.equal(elsewhere.code, 65)
  assert.match(elsewhere.err, /history\.file\.missing/)
})

test('[PER-09] a server with CONCORD_HISTORY_DAYS archives by itself, as its login', async (t) => {
  const operated = await openOperatedRoom(t)
  const { owner } = operated
  const id = await anOldCommand(operated)
  await operated.serve({ CONCORD_HISTORY_DAYS: '1' })
  await until(async () => {
    const archives = await owner.query('select 1 from concord.history_archives where $1 = any(command_ids)', [id])
    return archives.length === 1
  })
  assert.deepEqual(await owner.query('select 1 from concord.domain_events where command_id = $1', [id]), [])
})
