/** A database of runtime version 3 is taken over with everything that was open in it. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { type Db, openDb } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { until } from '#test/until'
import { createDbosRuntime } from '#test/dbos-runtime'

const times = { leaseMs: 400, reapMs: 40, sweepMs: 40 }

describe('from version 3', () => {
  let opened: TestDb
  let owner: Db

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    owner = openDb({ url: opened.url, poolMax: 1 })
    const engine = createDbosRuntime({ db: opened.db, times })
    assert.equal((await engine.open()).ok, true)
    await engine.close()
    await owner.query('drop schema runtime cascade')
    await owner.query(await readFile(new URL('../../../test/support/runtime-v3.sql', import.meta.url), 'utf8'))
  })
  after(async () => {
    await owner.close()
    await opened.close()
  })

  /** Wakes as version 3 did; with an executor it also starts the turn in the engine. */
  const wakeAsBefore = (id: string, delayMs: number, executor: string | null) =>
    owner.query(`select * from runtime.wake('job', $1, $2, 'concord_default', 0, null, false, null, $3, $3)`, [
      id,
      delayMs,
      executor,
    ])

  test('waiting, delayed and orphaned turns continue; a living worker keeps its turns', async (t) => {
    await owner.query(
      `insert into runtime.executors (executor_id, lease_until) values ('alive', now() + interval '1 hour')`,
    )
    await owner.query(`select pg_advisory_lock(hashtextextended('concord.executor:alive', 0))`)
    await wakeAsBefore('waits', 0, null)
    await wakeAsBefore('later', 800, null)
    await wakeAsBefore('left', 0, 'dead')
    await wakeAsBefore('kept', 0, 'alive')
    const driven: string[] = []
    const runtime = createDbosRuntime({ db: opened.db, times, retainMs: 1, cleanMs: 50 })
    t.after(() => runtime.close())
    runtime.register('job', async (id) => {
      driven.push(id)
      return { t: 'done' }
    })
    const ready = await runtime.open()
    assert.ok(ready.ok, ready.ok ? '' : ready.reason)
    await until(async () => driven.length === 3, 'three turns')
    assert.deepEqual(driven.toSorted(), ['later', 'left', 'waits'])
    assert.equal((await runtime.describe({ kind: 'job', id: 'kept' }))?.state, 'running')
    // The older program ends its turn, and still wakes.
    const fence = `(select fence from runtime.processes where id = 'kept')`
    const ended = `select outcome from runtime.end_turn('job', 'kept', ${fence}, 'again', null, 'alive', 'an owner')`
    assert.deepEqual(await owner.query(ended), [{ outcome: 'opened' }])
    await wakeAsBefore('woken', 0, 'alive')
    await until(async () => driven.includes('kept') && driven.includes('woken'), 'what the older program asked for')
    await until(async () => {
      const rows = await owner.query(
        `select from "dbos".workflow_status where name = 'concord.turn.v1' and executor_id <> 'alive'`,
      )
      return rows.length === 0
    }, 'the end of the old turns in the engine')
  })
})
