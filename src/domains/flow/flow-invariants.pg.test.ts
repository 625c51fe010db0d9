/** Each invariant of flow, broken once behind the back of the room. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { DIAMOND, type FlowRoom, openFlowRoom } from '#test/flow'
import { accepted } from '#test/tenant'
import { failFlowTask, retryFlowTask } from './end-task.ts'
import { flowInvariants } from './flow-invariants.ts'

describe('invariants of flow', () => {
  let room: FlowRoom
  before(async () => {
    room = await openFlowRoom()
    accepted(await room.deploy(DIAMOND))
  })
  after(() => room.close())

  const codes = async (ask: (sql: string) => Promise<readonly unknown[]>) => {
    const broken: string[] = []
    for (const { code, sql } of flowInvariants) if ((await ask(sql)).length > 0) broken.push(code)
    return broken
  }
  /** Breaks the rows, asks, and takes everything back. */
  async function whenBroken(text: string): Promise<readonly string[]> {
    let found: readonly string[] = []
    const undo = new Error('taken back')
    const broken = room.opened.db.transaction(async (tx) => {
      await tx.query('set local role none')
      await tx.query('alter table flow.tasks drop constraint tasks_lease_ck')
      await tx.query('set local role concord_engine')
      await tx.query(text)
      found = await codes((sql) => tx.query(sql))
      throw undo
    })
    await assert.rejects(broken, undo)
    return found
  }

  test('all hold after real work, also after attempts that people have asked for', async () => {
    await room.start('pull', 'event:1')
    const pulled = await room.claim('pull')
    assert.ok(pulled)
    accepted(await room.complete(pulled, [{ index: 0, partitions: ['a', 'b'] }]))
    await room.drain()
    for (const _ of ['first', 'second', 'third', 'by hand']) {
      const task = await room.claim('count_rows')
      assert.ok(task)
      const ended = { ...room.holder(task), message: 'no', errorClass: 'validation_error' } as const
      accepted(await failFlowTask(room.deps, ended))
      accepted(await retryFlowTask(room.deps, room.tenant.orgId, task.id))
    }
    const [held, done] = [await room.claim('count_rows'), await room.claim('count_rows')]
    assert.ok(held && done)
    accepted(await room.complete(done, [{ index: 0, partitions: done.partitions ?? [] }]))
    await room.drain()
    assert.deepEqual(await codes((sql) => room.opened.db.query(sql)), [])
  })

  for (const [code, title, text] of [
    ['F01', 'a lease without its end', `update flow.tasks set lease_expires_at = null where status = 'Running'`],
    [
      'F02',
      'a token that two tasks have',
      `update flow.tasks set lease_token = (select lease_token from flow.tasks where status = 'Running') where status = 'Completed'`,
    ],
    ['F03', 'an event that is missing', `update flow.outbox set kind = 'emit_lineage' where kind = 'route_event'`],
    [
      'F03',
      'an event that is there twice',
      `insert into flow.outbox (kind, payload, status, processed_at) select kind, payload, 'Done', now() from flow.outbox where kind = 'route_event'`,
    ],
    [
      'F03',
      'an event of a task that runs',
      `insert into flow.outbox (kind, payload, status, processed_at)
       select o.kind, o.payload || jsonb_build_object('task_id', t.id), 'Done', now() from flow.outbox o, flow.tasks t where o.kind = 'route_event' and t.status = 'Running'`,
    ],
    [
      'F04',
      'a queued task that nobody was told about',
      `update flow.outbox set payload = payload || '{"attempt": 99}' where kind = 'enqueue_task'`,
    ],
    [
      'F05',
      'a row that waits',
      `insert into flow.outbox (kind, payload, available_at) select 'enqueue_task', '{}', now() - interval '2 minutes'`,
    ],
    [
      'F05',
      'a row whose drainer died',
      `insert into flow.outbox (kind, payload, status, available_at) select 'emit_lineage', '{}', 'Processing', now() - interval '2 minutes'`,
    ],
    [
      'F06',
      'an attempt too many',
      `update flow.tasks set attempt = 4 where status = 'Completed' and dedupe_key = 'event:1'`,
    ],
  ] as const)
    test(`${code} finds ${title}`, async () => assert.deepEqual(await whenBroken(text), [code]))
})
