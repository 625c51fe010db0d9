/** Notices: one connection for all listeners, announcements that are counted once, and a listener that survives its connection. */
import assert from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTestDb, type TestDb } from '#test/database'
import { until } from '#test/until'
import { openNotices } from './notices.ts'

describe('notices', () => {
  let opened: TestDb

  before(async () => {
    opened = await openTestDb({ migrated: false })
  })
  after(() => opened.close())

  function open(t: TestContext, options = {}) {
    const notices = openNotices(opened.db, options)
    t.after(() => notices.close())
    return notices
  }

  test('a notice wakes the listeners of its channel in another process, and no others', async (t) => {
    const [one, other] = [open(t), open(t)]
    const heard: string[] = []
    one.listen('approvals', (payload) => heard.push(`approvals:${payload}`))
    one.listen('commands', (payload) => heard.push(`commands:${payload}`))
    // A new listener is woken once, since it may have missed earlier notices.
    await until(() => heard.length === 2)
    heard.length = 0
    other.announce('approvals', 'a1')
    await until(() => heard.length > 0)
    assert.deepEqual(heard, ['approvals:a1'])
  })

  test('the listeners of the announcing process are woken at once, and once', async (t) => {
    const notices = open(t)
    const heard: string[] = []
    notices.listen('here', (payload) => heard.push(payload))
    await until(() => heard.length === 1)
    heard.length = 0
    notices.announce('here', 'x')
    assert.deepEqual(heard, ['x'])
    await sleep(100)
    assert.deepEqual(heard, ['x'])
  })

  test('a thousand announcements in one moment are few notifications, and none is forgotten', async (t) => {
    const [one, other] = [open(t), open(t, { announceMs: 20 })]
    let heard = 0
    one.listen('busy', () => {
      heard += 1
    })
    await until(() => heard === 1)
    heard = 0
    for (let n = 0; n < 1_000; n++) other.announce('busy')
    await until(() => heard > 0)
    await sleep(50)
    assert.equal(heard, 1)
    other.announce('busy')
    await until(() => heard === 2)
  })

  test('the first announcement is sent at once, those in the pause after it together', async (t) => {
    const [one, other] = [open(t), open(t, { announceMs: 3_600_000 })]
    const heard: string[] = []
    one.listen('pause', (payload) => heard.push(payload))
    await until(() => heard.length === 1)
    heard.length = 0
    other.announce('pause', 'first')
    await until(() => heard.length > 0)
    other.announce('pause', 'second')
    // It comes after the pause: another process on the same channel is heard before it.
    open(t).announce('pause', 'third')
    await until(() => heard.length === 2)
    assert.deepEqual(heard, ['first', 'third'])
  })

  test('after a lost connection it listens again and wakes every listener, since notices may have been missed', async (t) => {
    const [one, other] = [open(t), open(t)]
    const heard: string[] = []
    one.listen('lost', (payload) => heard.push(payload))
    await until(() => heard.length === 1)
    heard.length = 0
    await opened.db.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'concord-notices'`,
    )
    await until(() => heard.length > 0)
    assert.deepEqual(heard, [''])
    other.announce('lost', 'again')
    await until(() => heard.includes('again'))
  })

  test('a stopped listener is not woken', async (t) => {
    const notices = open(t)
    let heard = 0
    const stop = notices.listen('stopped', () => {
      heard += 1
    })
    await until(() => heard === 1)
    stop()
    heard = 0
    notices.announce('stopped')
    assert.equal(heard, 0)
  })
})
