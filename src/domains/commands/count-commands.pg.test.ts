/** Counts of a workspace: exact for the time that they name, and at most a fiftieth of the time goes into counting. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestRoom, type TestRoom } from '#test/commands'
import { openCounts } from './count-commands.ts'

const DAY_MS = 24 * 3_600_000

describe('counts of a workspace', () => {
  let room: TestRoom
  let workspaceId: string
  before(async () => {
    room = await openTestRoom()
    workspaceId = room.tenant.workspace.id
  })
  after(() => room.close())

  const echo = () => room.submit({ subject: 's' }, { taskName: 'Echo' })

  /** A clock on which each count takes this long: a count reads the time at its begin and at its end. */
  function openAt(tookMs: number) {
    let at = room.clock.now().getTime()
    const counts = openCounts({ db: room.db, now: () => new Date((at += tookMs)) })
    return { count: () => counts(workspaceId), wait: (ms: number) => void (at += ms) }
  }

  test('[M8] by status and by error class, with the effects that are open', async () => {
    await echo()
    for (const decide of ['deny', 'deny', 'require_approval'])
      await room.settle(await room.submit({ subject: 's', decide }))
    await room.submit({ subject: 's', steps: ['connector.hotel.book_a'] }).then((id) => room.settle(id))
    const before = await room.world.counts(workspaceId)
    assert.deepEqual(before.commands, { failed: 2, succeeded: 2, waiting_for_approval: 1 })
    assert.deepEqual(before.errors, { policy_denied: 2 })
    assert.equal(before.countedAt.getTime() - before.since.getTime(), 30 * DAY_MS)
    const [open] = await room.rows<{ count: number }>(
      `select count(*)::int as count from concord.domain_effects as e join concord.commands as c using (command_id)
       where e.completed_at is null and c.completed_at is null`,
    )
    assert.equal(before.effectsOpen, open?.count)
    const later = openCounts({ db: room.db, now: () => new Date(room.clock.now().getTime() + 31 * DAY_MS) })
    assert.deepEqual((await later(workspaceId)).commands, {})
  })

  test('[M8] where counting is quick, every answer contains what was committed before it', async () => {
    const { count } = openAt(1)
    const succeeded = (await count()).commands['succeeded'] ?? 0
    for (let n = 1; n <= 3; n++) {
      await echo()
      assert.equal((await count()).commands['succeeded'], succeeded + n)
    }
  })

  test('[M8] where counting is slow, a count is kept for fifty times as long, and then made again', async () => {
    const { count, wait } = openAt(100)
    const first = await count()
    await echo()
    const kept = await count()
    assert.deepEqual(kept, first)
    wait(50 * 100)
    // Of several requests at once one counts.
    const [next, shared] = await Promise.all([count(), count()])
    assert.equal(next, shared)
    assert.equal(next.commands['succeeded'], (first.commands['succeeded'] ?? 0) + 1)
    assert.ok(next.countedAt > first.countedAt)
  })

  test('[M8] a count that fails is not kept', async () => {
    let isDown = false
    const db = Object.assign(Object.create(room.db) as typeof room.db, {
      transaction: ((...given: Parameters<typeof room.db.transaction>) =>
        isDown ? Promise.reject(new Error('down')) : room.db.transaction(...given)) as typeof room.db.transaction,
    })
    let at = room.clock.now().getTime()
    const counts = openCounts({ db, now: () => new Date((at += 100)) })
    await counts(workspaceId)
    at += 50 * 100
    isDown = true
    await assert.rejects(counts(workspaceId), /down/)
    isDown = false
    assert.ok((await counts(workspaceId)).commands['succeeded'])
  })
})
