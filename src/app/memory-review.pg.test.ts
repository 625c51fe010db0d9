/** The daily review of memory as a server runs it: registered at the start, fired by its clock, and done. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aCommand } from '#test/concord-rows'
import { openScheduleBench, type ScheduleBench } from '#test/schedules'
import { insertRow } from '#test/store-rows'
import { until } from '#test/until'

const DAY_MS = 86_400_000

describe('memory_decay_review', () => {
  let bench: ScheduleBench
  before(async () => {
    bench = await openScheduleBench()
  })
  after(() => bench.close())

  test('[SCD-04] [MEM-18] a server registers it and fires it at three: what is over ends, what is stale gets an end, rules stay', async () => {
    const { db } = bench.opened
    const workspaceId = bench.tenant.workspace.id
    const [schedule] = await db.query(
      `select command_type, cron, queue, enabled from schedules.command_schedules where name = 'memory_decay_review' and removed_at is null`,
    )
    const spec = { command_type: 'review_stale_memory', cron: '0 3 * * *', queue: 'scheduled_maintenance' }
    assert.deepEqual(schedule, { ...spec, enabled: true })

    const old = new Date(bench.now().getTime() - 400 * DAY_MS)
    const { command_id } = await aCommand(db, workspaceId)
    const about = { workspace_id: workspaceId, command_id, subject_type: 'customer', scope: 'user', status: 'active' }
    const said = { memory_type: 'preference', content: { seat: 'aisle' }, fact_key: 'seat', created_by: 'user:ada' }
    const put = async (subject_id: string, more: object = {}) => {
      const row = { ...about, ...said, memory_id: bench.identity.newId(), subject_id, ...more }
      return (await insertRow(db, 'concord.memory_records', row)).memory_id
    }
    const ids = {
      stale: await put('stale', { updated_at: old }),
      fresh: await put('fresh'),
      rule: await put('rule', { updated_at: old, memory_type: 'business_rule' }),
      over: await put('over', { expires_at: new Date(bench.now().getTime() - DAY_MS) }),
    }
    await bench.pass(DAY_MS)
    await until(async () => (await bench.shipped('review_stale_memory'))[0]?.status === 'succeeded', 'the review')
    const [review, ...others] = await bench.shipped('review_stale_memory')
    assert.deepEqual(others, [])
    assert.match(review?.idempotency_key ?? '', /^schedule:memory_decay_review:\d{4}-\d\d-\d\dT03:00:00\.000Z$/)
    assert.equal(review?.requested_by, 'schedule:memory_decay_review')

    const rows = await db.query<{ memory_id: string; status: string; has_end: boolean }>(
      `select memory_id, status, expires_at is not null as has_end from concord.memory_records where workspace_id = $1`,
      [workspaceId],
    )
    const found = Object.fromEntries(rows.map(({ memory_id, status, has_end }) => [memory_id, [status, has_end]]))
    assert.deepEqual(found, {
      [ids.stale]: ['active', true],
      [ids.fresh]: ['active', false],
      [ids.rule]: ['active', false],
      [ids.over]: ['expired', true],
    })
    const told = await db.query<{ payload: { expired: number; stale: number } }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'memory_reviewed'`,
      [review?.command_id],
    )
    assert.deepEqual(
      told.map(({ payload: { expired, stale } }) => [expired, stale]),
      [[1, 1]],
    )
  })
})
