/** kill -9 at every step of a run: no event is lost, none is both in the table and in a file with a row, and the next run finishes. */
import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openChance } from '#test/chance'
import { compareHistory, type HistoryRoom, openHistoryRoom } from '#test/history'
import { accepted } from '#test/tenant'
import { verifyHistory } from './history-archive.ts'

const points = [
  'history.lines_written',
  'history.lines_named',
  'history.file_named',
  'history.verified',
  'history.deleted',
  'history.committed',
] as const

/** Small, so that a few commands make many parts. */
const limits = { events: 12, page: 7 }

describe('a run that is killed', () => {
  let history: HistoryRoom
  before(async () => {
    history = await openHistoryRoom()
  })
  after(() => history.close())

  const submit = async (count: number) => {
    for (let at = 0; at < count; at++) {
      const id = await history.room.submit({ subject: `s${at}`, steps: ['connector.hotel.book_a'] })
      assert.equal(await history.room.settle(id), 'succeeded')
    }
    await history.visible()
  }
  const filesThere = async () => {
    const folder = join(history.folder, history.room.tenant.workspace.id)
    return readdir(folder).catch(() => [])
  }

  for (const name of points) {
    test(`[PER-09] at ${name}: nothing is lost, and the next run finishes`, async () => {
      await submit(8)
      const written = await history.inTable()
      const old = [...written.values()].filter((line) => !line.includes('"history_archived"')).length
      const before = (await history.inArchive()).size
      assert.equal(await history.archiveAside([{ point: name, hit: 2, act: 'kill' }], limits), 'SIGKILL')
      const moved = (await history.inArchive()).size - before
      assert.ok(moved > 0 && moved < old, 'one part was complete, and one was interrupted')
      assert.deepEqual(await compareHistory(history, written), { lost: [], twice: [] })

      const finished = accepted(await history.archive({ limits }))
      // A file that had its manifest when the process died is taken over; others are written again.
      const isWhole = ['history.file_named', 'history.verified', 'history.deleted'].includes(name)
      assert.equal(finished.finished, isWhole ? 1 : 0)
      assert.equal(moved + finished.events, old)
      assert.deepEqual(await compareHistory(history, written), { lost: [], twice: [] })
      assert.equal((await filesThere()).filter((file) => file.endsWith('.part')).length, 0)
      const states = new Set((await verifyHistory(history.world)).map(({ status }) => status))
      assert.deepEqual([...states], ['whole'])
    })
  }

  test('[PER-09] after any number of random kills, table and archive together hold every event', async (t) => {
    const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'history'
    t.diagnostic(`CONCORD_CHAOS_SEED=${seed}`)
    const chance = openChance(seed)
    const written = new Map([...(await history.inArchive()), ...(await history.inTable())])
    for (let round = 0; round < 8; round++) {
      await submit(1 + chance.whole(3))
      for (const [id, line] of await history.inTable()) written.set(id, line)
      const fault = { point: chance.pick(points), hit: 1 + chance.whole(3), act: 'kill' } as const
      await history.archiveAside([fault], { events: 5 + chance.whole(20), page: 3 + chance.whole(10) })
      assert.deepEqual(
        await compareHistory(history, written),
        { lost: [], twice: [] },
        JSON.stringify({ seed, round, fault }),
      )
    }
    for (const [id, line] of await history.inTable()) written.set(id, line)
    await history.visible()
    accepted(await history.archive())
    assert.deepEqual(await compareHistory(history, written), { lost: [], twice: [] })
    const left = [...(await history.inTable()).values()].filter((line) => !line.includes('"history_archived"'))
    assert.deepEqual(left, [], 'everything has ended, so everything moved')
    assert.equal((await verifyHistory(history.world)).filter(({ status }) => status !== 'whole').length, 0)
  })
})
