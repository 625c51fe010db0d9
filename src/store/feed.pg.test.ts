/** The feed: complete under late commits (and the bare sequence is not), resumable, scoped, woken, and patient. */
import assert from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { aCommand, aWorkspace, by, type CommandRow, events, newId } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { proofSize } from '#test/proof-size'
import { until } from '#test/until'
import { openDb } from './db.ts'
import { appendEvents } from './events.ts'
import { findFeedEnd, readFeed, readPage } from './feed.ts'
import { followFeed, type FollowOptions } from './feed-follow.ts'
import { openFeedHub } from './feed-hub.ts'
import { openNotices } from './notices.ts'
import type { Sql } from './statement.ts'

const EVENTS = proofSize(8_000, 50_000)
const WRITERS = 8
const PER_STATEMENT = 5

describe('the feed', () => {
  let opened: TestDb
  let command: CommandRow

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: WRITERS + 4 })
    command = await aCommand(opened.db, await aWorkspace(opened.db))
  })
  after(() => opened.close())

  const append = (sql: Sql, ids: readonly string[], of: CommandRow = command) =>
    appendEvents(
      sql,
      events,
      ids.map((eventId) => ({
        ...by('system'),
        eventId,
        type: 'plan_created',
        payload: {},
        links: { workspace_id: of.workspace_id, command_id: of.command_id },
      })),
    )
  const ids = (count: number) => Array.from({ length: count }, () => newId())

  /** Each writer commits small groups; one group in five stays open for some milliseconds after its rows have their numbers. */
  async function writeAll(): Promise<Set<string>> {
    const written = new Set<string>()
    await Promise.all(
      Array.from({ length: WRITERS }, async () => {
        for (let n = 0; n < EVENTS / WRITERS / PER_STATEMENT; n++) {
          const group = ids(PER_STATEMENT)
          if (n % 5 === 0) {
            await opened.db.transaction(async (tx) => {
              await append(tx, group)
              await sleep(3)
            })
          } else await append(opened.db, group)
          for (const id of group) written.add(id)
        }
      }),
    )
    return written
  }

  async function followBySequence(signal: AbortSignal): Promise<string[]> {
    const seen: string[] = []
    let last = '0'
    while (!signal.aborted) {
      const rows = await opened.db.query<{ event_id: string; seq: string }>(
        'select event_id, seq::text from concord.domain_events where seq > $1 order by seq limit 500',
        [last],
      )
      seen.push(...rows.map(({ event_id }) => event_id))
      last = rows.at(-1)?.seq ?? last
      if (rows.length === 0) await sleep(1)
    }
    return seen
  }

  test(`a follower misses 0 and repeats 0 of ${EVENTS} events of ${WRITERS} writers, over resumes; the sequence misses some`, async () => {
    const start = await findFeedEnd(opened.db)
    const stop = new AbortController()
    const control = followBySequence(stop.signal)
    const seen: string[] = []
    let resumes = 0
    const writing = writeAll()
    const following = (async () => {
      let after = start
      // Leaves and comes back with its cursor every thousand events, as a client with a bad line would.
      while (seen.length < EVENTS) {
        for await (const event of followFeed(opened.db, {
          after,
          workspaceId: command.workspace_id,
          pollMs: 5,
          limit: 500,
          signal: AbortSignal.timeout(120_000),
        })) {
          seen.push(event.event_id)
          after = event.cursor
          if (seen.length === EVENTS || seen.length % 1_001 === 0) break
        }
        resumes += 1
      }
    })()
    const written = await writing
    await following
    stop.abort()
    const bySequence = new Set(await control)
    assert.equal(written.size, EVENTS)
    assert.equal(seen.length, EVENTS)
    assert.deepEqual(new Set(seen), written)
    assert.ok(resumes > 1)
    const missed = [...written].filter((id) => !bySequence.has(id)).length
    assert.ok(missed > 0, 'the control missed nothing: the writers were not slow enough to prove anything')
  })

  test('what an older transaction holds back comes when it ends, in the order of transactions', async () => {
    const start = await findFeedEnd(opened.db)
    const [slow, fast] = [ids(2), ids(2)]
    await opened.db.transaction(async (tx) => {
      await append(tx, slow)
      await append(opened.db, fast)
      const held = await readFeed(opened.db, { after: start, workspaceId: command.workspace_id })
      assert.deepEqual(held.ok && held.value.events, [])
    })
    const page = await pageAfter(start, 4)
    assert.deepEqual(
      page.map(({ event_id }) => event_id),
      [...slow, ...fast],
    )
  })

  /** Other tests share the server, and one of their transactions may hold the horizon back for a moment. */
  async function pageAfter(after: string, count: number, workspaceId = command.workspace_id) {
    const read = async () => {
      const page = await readFeed(opened.db, { after, workspaceId, limit: 100 })
      assert.ok(page.ok)
      return page.value.events
    }
    await until(async () => (await read()).length >= count, `the page of ${count} events`)
    return await read()
  }

  test('pages join without gap or repeat, and a short page moves past what others wrote', async () => {
    const start = await findFeedEnd(opened.db)
    const mine = ids(10)
    for (const id of mine) await append(opened.db, [id])
    await pageAfter(start, 10)
    const seen: string[] = []
    let after = start
    for (;;) {
      const page = await readFeed(opened.db, { after, workspaceId: command.workspace_id, limit: 3 })
      assert.ok(page.ok)
      seen.push(...page.value.events.map(({ event_id }) => event_id))
      after = page.value.cursor
      if (!page.value.isFull) break
    }
    assert.deepEqual(seen, mine)
    const nobody = await readFeed(opened.db, { after: start, workspaceId: newId() })
    assert.ok(nobody.ok)
    assert.deepEqual(nobody.value.events, [])
    assert.ok(BigInt(nobody.value.cursor.split('.')[0] ?? 0) > BigInt(start.split('.')[0] ?? 0))
  })

  test('rows with several events, also with numbers from before the journal, are paged event by event', async () => {
    const workspaceId = await aWorkspace(opened.db)
    const owner = openDb({ url: opened.url, poolMax: 1 })
    // Each commit: rows of so many events. The numbers of a copied row follow those of the one before it without a gap.
    const commits = [[1], [3, 1, 4], [2, 2, 2, 2, 2, 2], [9], [1, 1, 1, 5]]
    let copied = 0
    for (const rows of commits)
      await owner.transaction(async (tx) => {
        for (const [n, count] of rows.entries()) {
          const events = Array.from({ length: count }, (_, place) => ({
            type: `t${n}_${place}`,
            actor: 'a',
            payload: {},
          }))
          await tx.query(
            `insert into concord.journal (entry_id, workspace_id, trace_id, seq, events) overriding system value values ($1, $2, 't', $3, $4)`,
            [newId(), workspaceId, 1_000_000_000 + copied, JSON.stringify(events)],
          )
          copied += count
        }
      })
    await owner.close()
    const all = await opened.db.query<{ event_id: string }>(
      'select event_id from concord.domain_events where workspace_id = $1 order by xid, seq',
      [workspaceId],
    )
    assert.equal(all.length, copied)
    assert.equal(new Set(all.map(({ event_id }) => event_id)).size, copied)
    await until(async () => {
      const page = await readFeed(opened.db, { after: '0.0', workspaceId, limit: 100 })
      return page.ok && page.value.events.length === copied
    }, 'all of it below the horizon')
    for (let limit = 1; limit <= copied + 1; limit++) {
      const seen: string[] = []
      for (let after = '0.0'; ; ) {
        const page = await readFeed(opened.db, { after, workspaceId, limit })
        assert.ok(page.ok)
        seen.push(...page.value.events.map(({ event_id }) => event_id))
        after = page.value.cursor
        if (!page.value.isFull) break
      }
      assert.deepEqual(
        seen,
        all.map(({ event_id }) => event_id),
        `pages of ${limit}`,
      )
    }
  })

  test('a workspace sees its own events only, with everything a stream needs', async () => {
    const other = await aCommand(opened.db, await aWorkspace(opened.db))
    const start = await findFeedEnd(opened.db)
    const [mine, theirs] = [ids(3), ids(3)]
    for (const [index, id] of mine.entries()) {
      await append(opened.db, [theirs[index] ?? ''])
      await append(opened.db, [id], other)
    }
    const page = await pageAfter(start, 3, other.workspace_id)
    assert.deepEqual(
      page.map(({ event_id }) => event_id),
      mine,
    )
    assert.deepEqual(Object.keys(page[0] ?? {}).toSorted(), [
      'actor',
      'agent_run_id',
      'command_id',
      'created_at',
      'cursor',
      'event_id',
      'event_type',
      'payload',
      'purpose',
      'swarm_run_id',
      'trace_id',
      'workspace_id',
    ])
  })

  test('a cursor that we did not make is refused', async () => {
    const answer = await readFeed(opened.db, { after: 'seq:12', workspaceId: command.workspace_id })
    assert.equal(answer.ok ? 'read' : answer.code, 'cursor_invalid')
    await assert.rejects(followFeed(opened.db, { after: 'seq:12', workspaceId: command.workspace_id }).next(), {
      code: 'cursor_invalid',
    })
  })

  test('the read is a walk along the index of the feed', async () => {
    const owner = openDb({ url: opened.url, poolMax: 1 })
    await owner.query('analyze concord.journal')
    await owner.close()
    const rows = await opened.db.query<Record<string, string>>(`explain ${readPage.text}`, [
      '1',
      '1',
      10,
      command.workspace_id,
    ])
    assert.match(rows.map((row) => row['QUERY PLAN']).join('\n'), /Index Scan using journal_workspace_ix/)
  })

  describe('following', () => {
    /** A follower that has seen its first event: from here on it waits for the next, on a clock that is too slow to help. */
    async function follow(t: TestContext, more: Partial<FollowOptions> = {}) {
      const stop = new AbortController()
      const seen: string[] = []
      const after = await findFeedEnd(opened.db)
      await append(opened.db, ids(1))
      const done = (async () => {
        const options = { after, workspaceId: command.workspace_id, signal: stop.signal, pollMs: 3_600_000, ...more }
        for await (const event of followFeed(opened.db, options)) seen.push(event.event_id)
      })()
      t.after(async () => {
        stop.abort()
        await done
      })
      await until(() => seen.length === 1, 'its first event')
      seen.length = 0
      return { seen, stop, done }
    }

    test('a notice of another process wakes the follower long before its slow clock', async (t) => {
      const [here, there] = [openNotices(opened.db), openNotices(opened.db)]
      t.after(() => Promise.all([here.close(), there.close()]))
      const { seen } = await follow(t, { notices: here, channel: 'domain_events' })
      const group = ids(4)
      await append(opened.db, group)
      there.announce('domain_events')
      await until(() => seen.length >= 4)
      assert.deepEqual(seen, group)
    })

    test('without any notice the slow clock finds everything', async (t) => {
      const { seen } = await follow(t, { pollMs: 20 })
      const group = ids(4)
      await append(opened.db, group)
      await until(() => seen.length >= 4)
      assert.deepEqual(seen, group)
    })

    test('events that were announced while an older transaction ran come when it ends, not at the next slow look', async (t) => {
      const notices = openNotices(opened.db)
      t.after(() => notices.close())
      const { seen } = await follow(t, { notices, channel: 'domain_events' })
      const [slow, fast] = [ids(1), ids(1)]
      await opened.db.transaction(async (tx) => {
        await append(tx, slow)
        await append(opened.db, fast)
        notices.announce('domain_events')
        await sleep(100)
        assert.deepEqual(seen, [])
      })
      await until(() => seen.length === 2)
      assert.deepEqual(seen, [...slow, ...fast])
    })

    test('it survives the loss of every connection', async (t) => {
      const errors: unknown[] = []
      const { seen } = await follow(t, { pollMs: 10, onError: (error) => errors.push(error) })
      const written: string[] = []
      for (let round = 0; round < 5; round++) {
        await opened.db
          .query(
            `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
          )
          .catch(() => {})
        const group = ids(3)
        // Any number of the connections in the pool may not know yet that they are gone.
        const write = () => append(opened.db, group)
        await until(() =>
          write().then(
            () => true,
            () => false,
          ),
        )
        written.push(...group)
      }
      await until(() => seen.length >= written.length)
      assert.deepEqual(seen, written)
    })

    test('an aborted follower ends, in the middle of its wait', async (t) => {
      const { stop, done } = await follow(t)
      stop.abort()
      await done
    })
  })

  test('a reader of a hub that fails ends its followers with the error, and the next follower gets a new reader', async () => {
    let isBroken = true
    const hub = openFeedHub(opened.db, { pollMs: 5 }, (event) => {
      if (isBroken) throw new Error('no message')
      return { cursor: event.cursor, bytes: 1, id: event.event_id }
    })
    const stop = new AbortController()
    const follow = async () =>
      hub.follow({ workspaceId: command.workspace_id, after: await findFeedEnd(opened.db), signal: stop.signal })
    const [first, second] = [await follow(), await follow()]
    const failed = [assert.rejects(first.next(), /no message/), assert.rejects(second.next(), /no message/)]
    await append(opened.db, ids(1))
    await Promise.all(failed)
    isBroken = false
    const third = await follow()
    const next = third.next()
    const [id = ''] = ids(1)
    await append(opened.db, [id])
    assert.equal((await next).value?.id, id)
    stop.abort()
    await third.return(undefined)
  })
})
