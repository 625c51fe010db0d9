/** Pins the cost of a wake and its turn, statement by statement, so that a new engine version cannot change it unnoticed. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { after, before, describe, test } from 'node:test'
import { type Db, openDb, type Tx } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { ENGINE_VERSION } from './internals.ts'
import type { BookRuntime } from '#runtime/book'
import { createDbosRuntime } from '#test/dbos-runtime'

/** No periodic work of ours runs while the test counts. */
const still = { leaseMs: 600_000, reapMs: 600_000, sweepMs: 600_000 }
const dequeue = ['BEGIN', 'SELECT application_versions', 'SELECT workflow_status', 'UPDATE workflow_status', 'COMMIT']
const handOver = ['select enqueue_workflow', ...dequeue, 'SELECT workflow_status']
const completion = ['BEGIN', 'UPDATE workflow_status', 'INSERT INTO workflow_output', 'COMMIT']

/** Names a statement by its verb and its target. */
function shorten(text: string): string {
  const own = /runtime\.(\w+)\(/.exec(text)?.[1]
  if (own !== undefined) return own
  const [verb = ''] = text.trim().split(/\s/)
  const table = /"dbos"\."?(\w+)/.exec(text)?.[1]
  return table === undefined ? verb : `${verb === 'INSERT' ? 'INSERT INTO' : verb} ${table}`
}

/** A transaction with a commit hook. */
async function withWord<T>(db: Db, work: (tx: Tx) => Promise<T>): Promise<T> {
  const hooks: (() => void)[] = []
  const value = await db.transaction((tx) => {
    hooks.length = 0
    return work(Object.assign(tx, { afterCommit: (each: () => void) => void hooks.push(each) }))
  })
  for (const each of hooks) each()
  return value
}

describe('the cost of a turn', () => {
  let opened: TestDb
  let runtime: BookRuntime
  let owner: Db
  const sent: string[] = []
  let drives = 0

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    owner = openDb({ url: opened.url, poolMax: 1 })
    runtime = createDbosRuntime({
      db: opened.db,
      times: still,
      cleanMs: 600_000,
      onStatement: (text) => void sent.push(shorten(text)),
    })
    runtime.register('job', async () => {
      drives += 1
      return { t: 'done' }
    })
    const ready = await runtime.open()
    assert.ok(ready.ok, ready.ok ? '' : ready.reason)
  })
  after(async () => {
    await runtime.close()
    await owner.close()
    await opened.close()
  })

  async function isOver(id: string): Promise<boolean> {
    const [row] = await owner.query<{ is_over: boolean }>(
      `select not exists (select from runtime.processes where id = $1)
         and not exists (select from "dbos".workflow_status where status <> 'SUCCESS') as is_over`,
      [id],
    )
    return row?.is_over ?? false
  }

  /** The engine has timers of its own: the cheapest of many turns shows what belongs to a turn. */
  async function cheapest(wake: (id: string) => Promise<unknown>): Promise<string[]> {
    let best: string[] | undefined
    for (let count = 0; count < 12; count++) {
      const [from, id] = [drives, `${wake.name}-${count}`]
      sent.length = 0
      await wake(id)
      while (drives === from || !(await isOver(id))) await new Promise((resolve) => setTimeout(resolve, 2))
      if (best === undefined || sent.length < best.length) best = [...sent]
    }
    return best ?? []
  }

  test('a wake of its own: 2 round trips and 2 commits, the turn included', async () => {
    const alone = (id: string) => runtime.wake({ kind: 'job', id })
    assert.deepEqual(await cheapest(alone), ['wake', 'end_turn'])
  })

  test('a wake in a transaction with a commit hook: 1 round trip there, 1 here', async () => {
    let inside: string[] = []
    const hooked = (id: string) =>
      withWord(opened.db, async (tx) => {
        inside = []
        const run = tx.run.bind(tx)
        const counted = Object.assign(tx, {
          run: ((statement, values) => {
            inside.push(shorten(statement.text))
            return run(statement, values)
          }) satisfies Tx['run'],
        })
        await runtime.wake({ kind: 'job', id }, { tx: counted })
      })
    assert.deepEqual(await cheapest(hooked), ['end_turn'])
    assert.deepEqual(inside, ['wake'])
  })

  test('a wake through the engine: hand-over and dequeue once a batch, then begin, end and the engine’s own end', async () => {
    // A transaction without a commit hook, as another store may have.
    const mute = (tx: Tx) => Object.create(tx, { afterCommit: { value: undefined } }) as Tx
    const queued = (id: string) => opened.db.transaction((tx) => runtime.wake({ kind: 'job', id }, { tx: mute(tx) }))
    const list = await cheapest(queued)
    // Without the hook the waker looks for the commit a few times.
    const turn = list.filter((each) => each !== 'take_turns')
    assert.deepEqual(turn, [...handOver, 'begin_turn', 'end_turn', ...completion])
  })

  test('the internals are written for the installed version', async () => {
    const entry = createRequire(import.meta.url).resolve('@dbos-inc/dbos-sdk')
    const home = entry.slice(0, entry.lastIndexOf('dbos-sdk/') + 'dbos-sdk/'.length)
    const { version } = JSON.parse(await readFile(`${home}package.json`, 'utf8')) as { version: string }
    assert.equal(version, ENGINE_VERSION)
  })
})
