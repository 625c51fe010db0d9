/** The shipped operators in this process, published data in Postgres and files, and the due times of sources. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { accept } from '#kernel/refusal'
import type { RuntimeSchedule } from '#runtime'
import { openDb } from '#store'
import { answer, nextFence } from '#test/commands'
import { openFlowRoom } from '#test/flow'
import { openFlowApi } from '#test/flow-api'
import { accepted } from '#test/tenant'
import { openPostgresData } from './postgres-data.ts'
import { openTaskDrive } from './run-task.ts'
import { arrangeSources, openSourceDrive } from './sources.ts'

describe('http_poll', () => {
  test('[FLOW-075] appends what is new by key and partition, remembers its cursor, and loses no row', async () => {
    const asked: string[] = []
    let body: unknown = []
    const server = createServer((request, response) => {
      asked.push(request.url ?? '')
      response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/orders`
    const folder = await mkdtemp(join(tmpdir(), 'concord-data-'))
    const room = await openFlowRoom()
    const dataDb = openDb({ url: room.opened.url, poolMax: 2 })
    const deps = { ...room.deps, data: openPostgresData(dataDb, folder) }
    accepted(
      await room.deploy(
        `dag: polled\njobs:\n  - { name: poll, activation: source, runtime: dispatcher, operator: http_poll, config: { url: "${url}", rows: orders, cursor: id, partition_by: at }, source: { kind: event }, update_strategy: append, unique_key: [id], outputs: [orders] }\n`,
      ),
    )
    const drive = openTaskDrive(deps)
    const run = async (answered: unknown) => {
      body = answered
      const id = (await room.start('poll')) ?? ''
      await drive(id, nextFence())
      const task = (await room.tasks('poll')).find((each) => each.id === id)
      return [task?.status, task?.error_message ?? task?.outputs]
    }
    const place = async () => {
      const [version] = await room.opened.db.query<{ storage_location: string }>(
        'select storage_location from flow.dataset_versions',
      )
      return { kind: 'table', location: version?.storage_location ?? '' }
    }
    assert.deepEqual(await deps.data.readRows(await place(), null, 10), [])
    const first = { id: 1, at: '2026-05-01T10:00:00Z', n: 1 }
    const second = { id: 2, at: '2026-05-02T10:00:00Z', n: 1 }
    assert.deepEqual(await run({ orders: [first, second] }), [
      'Completed',
      [{ index: 0, partitions: ['2026-05-01', '2026-05-02'], rows: 2 }],
    ])
    // The same row again, changed: it is replaced, not doubled.
    assert.equal((await run({ orders: [{ ...second, n: 2 }] }))[0], 'Completed')
    assert.deepEqual(await deps.data.readRows(await place(), '2026-05-01', 10), [first])
    assert.deepEqual(await deps.data.readRows(await place(), null, 10), [first, { ...second, n: 2 }])
    assert.deepEqual(await run({ orders: [] }), ['Completed', []])
    for (const [answered, text] of [
      [{}, /did not answer with a list/],
      [{ orders: [first, 7] }, /a row that is no object/],
      [{ orders: Array.from({ length: 10_001 }, (_, id) => ({ id })) }, /more than 10000 rows/],
    ] as const) {
      const [status, message] = await run(answered)
      assert.equal(status, 'Failed')
      assert.match(JSON.stringify(message), text)
    }
    assert.deepEqual(asked, ['/orders', ...Array.from({ length: 5 }, () => '/orders?id=2')])
    await dataDb.close()
    await room.close()
    server.close()
    await rm(folder, { recursive: true, force: true })
  })
})

describe('published data', () => {
  test('a replaced partition has the new rows alone; files stay below their prefix', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'concord-data-'))
    const room = await openFlowRoom()
    const dataDb = openDb({ url: room.opened.url, poolMax: 4 })
    const data = openPostgresData(dataDb, folder)
    const table = { kind: 'table', location: `flow_data.v_${'a'.repeat(32)}` }
    const write = (partition: string, ...ns: readonly number[]) =>
      data.writeRows(table, { partition, rows: ns.map((n) => ({ n })), uniqueKey: [], strategy: 'replace' })
    // Both make the table.
    await Promise.all([write('p', 1, 2, 3), write('q', 9)])
    await write('p', 4)
    assert.deepEqual(await data.readRows(table, null, 10), [{ n: 4 }, { n: 9 }])
    await assert.rejects(data.readRows({ kind: 'table', location: 'flow.tasks' }, null, 1), /not a table of datasets/)
    const files = { kind: 'files', location: 'datasets/d/v/' }
    await data.putFile(files, 'day/a.csv', Buffer.from('a'))
    await data.putFile(files, 'day/a.csv', Buffer.from('b'))
    assert.equal(String(await data.getFile(files, 'day/a.csv')), 'b')
    assert.deepEqual(await data.listFiles(files), ['day/a.csv'])
    assert.equal(await data.getFile(files, 'none'), undefined)
    for (const path of ['../x', '/etc/passwd', 'day/../../x', '', 'a\0b'])
      await assert.rejects(data.putFile(files, path, Buffer.from('x')), /not a file of this dataset/, path)
    await dataDb.close()
    await room.close()
    await rm(folder, { recursive: true, force: true })
  })
})

describe('a governed command as a step', () => {
  test('the task waits with its command for a person, and ends as the command ends', async () => {
    const flow = await openFlowApi()
    const yaml = (more: string) =>
      `dag: ask\njobs:\n  - { name: ask, activation: source, runtime: dispatcher, operator: command, config: { task: ${more} }, source: { kind: event }, update_strategy: replace, outputs: [asked] }\n`
    const gated = 'Work, payload: { subject: s, decide: require_approval }'
    assert.equal((await flow.command('Deploy DAG', { dag: 'ask', yaml: yaml(gated) })).status, 'succeeded')
    const drive = openTaskDrive(flow.deps)
    const find = async (event: string) => {
      const [task] = await flow.room.rows<{ id: string; status: string; command_id: string; error_message: string }>(
        'select * from flow.tasks where dedupe_key = $1',
        [`event:${event}`],
      )
      assert.ok(task)
      return task
    }
    const start = async (event: string) => {
      await flow.post('/v1/event', { dataset: 'asked', event_id: event })
      await flow.drain()
      return find(event)
    }
    for (const [decision, status] of [
      ['approved', 'Completed'],
      ['rejected', 'Failed'],
    ] as const) {
      const { id } = await start(decision)
      assert.ok(flow.room.others.some((process) => process.kind === 'flow_task' && process.id === id))
      assert.deepEqual(await drive(id, nextFence()), { t: 'wait', until: null })
      const { command_id } = await find(decision)
      assert.equal(await flow.room.settle(command_id), 'waiting_for_approval')
      // Another turn submits nothing again.
      assert.deepEqual(await drive(id, nextFence()), { t: 'wait', until: null })
      const why = await flow.get(`/flow/tasks/ftask_${id.replaceAll('-', '')}/why`)
      assert.match(String(why.body['standing']), /^Attempt 1 of 3 follows the command cmd_/)
      flow.room.others.length = 0
      await answer(flow.room, command_id, decision)
      await flow.room.settle(command_id)
      // The end of the command has woken its task.
      assert.ok(flow.room.others.some((process) => process.kind === 'flow_task' && process.id === id))
      assert.deepEqual(await drive(id, nextFence()), { t: 'done' })
      assert.equal((await find(decision)).status, status)
    }
    const commands = await flow.room.rows(`select from concord.commands where task_name = 'Work'`)
    assert.equal(commands.length, 2)
    // A task that does not exist fails the step for good.
    assert.equal((await flow.command('Deploy DAG', { dag: 'ask', yaml: yaml('Nothing') })).status, 'succeeded')
    const { id } = await start('unknown')
    assert.deepEqual(await drive(id, nextFence()), { t: 'done' })
    const failed = await find('unknown')
    assert.deepEqual([failed.status, failed.command_id], ['Failed', null])
    await flow.close()
  })
})

describe('due times', () => {
  const yaml = (cron: string, more = '') =>
    `dag: clock\njobs:\n  - { name: tick, activation: source, runtime: ecs_udf, operator: pull, source: { kind: cron, schedule: "${cron}", time_zone: Europe/Berlin }, update_strategy: replace, outputs: [ticks] ${more} }\n`

  test('[FLOW-107] two processes arrange one schedule, and each of its due times makes one task, over versions of the job too', async () => {
    const kept = new Map<string, RuntimeSchedule>()
    const removed: string[] = []
    const room = await openFlowRoom({
      runtime: {
        wake: async () => {},
        schedule: async (spec) => {
          kept.set(spec.name, spec)
          return accept(undefined as never)
        },
        unschedule: async (name) => removed.push(name) > 0,
      },
    })
    const [one, two] = [new Map<string, string>(), new Map<string, string>()]
    const arrange = async () => {
      for (const arranged of [one, two]) assert.deepEqual(await arrangeSources(room.deps, arranged), [])
    }
    accepted(await room.deploy(yaml('0 * * * *')))
    await arrange()
    const [spec] = kept.values()
    assert.deepEqual([kept.size, spec?.cron, spec?.zone], [1, '0 * * * *', 'Europe/Berlin'])
    const name = spec?.name ?? ''
    const drives = [openSourceDrive(room.deps), openSourceDrive(room.deps)]
    const fire = (due: string) => Promise.all(drives.map((drive) => drive(`schedule:${name}:${due}`, nextFence())))
    await fire('2026-05-01T10:00:00.000Z')
    await fire('2026-05-01T10:00:00.000Z')
    // The schedule and its name outlive the version; a due time that was decided stays decided.
    accepted(await room.deploy(yaml('0,30 * * * *', ', timeout_seconds: 60')))
    await arrange()
    assert.deepEqual([kept.size, kept.get(name)?.cron], [1, '0,30 * * * *'])
    await fire('2026-05-01T10:00:00.000Z')
    await fire('2026-05-01T10:30:00.000Z')
    const keys = (await room.tasks('tick')).map(({ dedupe_key }) => dedupe_key)
    assert.deepEqual(keys, ['cron:tick:2026-05-01T10:00:00.000Z', 'cron:tick:2026-05-01T10:30:00.000Z'])
    // A source that is gone makes no task, and its schedule is removed.
    accepted(await room.deploy(yaml('0 * * * *').replace('name: tick,', 'name: tock,')))
    await arrange()
    assert.ok(removed.includes(name))
    await fire('2026-05-01T11:00:00.000Z')
    assert.equal((await room.tasks('tick')).length, 2)
    await room.close()
  })
})
