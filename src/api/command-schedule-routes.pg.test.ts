import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openWorkOn } from '#test/schedules'
import type { Api } from './api.ts'

type Schedule = {
  schedule_id: string
  name: string
  origin: string
  enabled: boolean
  cron: string
  created_by: string
  payload: Record<string, unknown>
  next_occurrences: string[]
  last_firing: null | { due_at: string; command_id: string | null }
}

describe('/schedules', () => {
  let api: TestApi
  let app: Api
  let work: Awaited<ReturnType<typeof openWorkOn>>
  before(async () => {
    api = await openTestApi({}, { poolMax: 6 })
    work = await openWorkOn(api.world, api.ours.workspace.id)
    const { commands, approvals, schedules } = work
    app = api.with({ work: { commands, approvals, schedules, webhooks: [] }, defaultWorkspace: 'main' })
  })
  after(async () => {
    await work.close()
    await api.close()
  })

  const keyOf = (role: 'reader' | 'writer' | 'admin', of = api.ours) => of.people[role].key
  const send = (method: string, path: string, body?: unknown, key = keyOf('writer')) =>
    call(app, path, { method, key, ...(body === undefined ? {} : { body }) })
  // Not the fingerprint of all tables: the runtime's leases move by themselves.
  const written = () =>
    api.world.db.query(
      'select (select count(*) from schedules.command_schedules) as rows, (select count(*) from concord.domain_events) as events',
    )
  const nightly = { name: 'nightly', command_type: 'tick', cron: '30 2 * * *', time_zone: 'Europe/Berlin' }

  test('a page limits the due times of all its schedules together', async () => {
    const made: string[] = []
    for (let nr = 1; nr <= 10; nr++) {
      const created = await send('POST', '/schedules', { ...nightly, name: `crowd ${nr}`, payload: { note: 'x' } })
      made.push(((await created.json()) as Schedule).schedule_id)
    }
    const listed = await send('GET', '/schedules?occurrences=100', undefined, keyOf('reader'))
    const { items } = (await listed.json()) as { items: Schedule[] }
    const counts = items.map(({ next_occurrences }) => next_occurrences.length)
    assert.deepEqual(new Set(counts), new Set([Math.floor(500 / items.length)]))
    for (const id of made) assert.equal((await send('DELETE', `/schedules/${id}`)).status, 204)
  })

  test('creates, lists, shows, changes, disables and deletes a schedule', async () => {
    const created = await send('POST', '/schedules', { ...nightly, payload: { note: 'x' } })
    assert.equal(created.status, 201)
    const made = (await created.json()) as Schedule
    assert.match(made.schedule_id, /^csched_[0-9a-f]{32}$/)
    assert.deepEqual(
      [made.origin, made.enabled, made.payload, made.last_firing, made.next_occurrences.length],
      ['person', true, { note: 'x' }, null, 5],
    )
    assert.match(made.created_by, /^user_/)
    assert.equal((await send('POST', '/schedules', { ...nightly, payload: { note: 'x' } })).status, 200)
    // The name of its task means the same schedule.
    const byTask = { ...nightly, command_type: 'Tick', payload: { note: 'x' } }
    assert.equal((await send('POST', '/schedules', byTask)).status, 200)
    assert.equal(await outcomeOf(await send('POST', '/schedules', nightly)), '409 schedules.schedule.name_taken')

    const listed = (await (await send('GET', '/schedules?occurrences=2', undefined, keyOf('reader'))).json()) as {
      items: Schedule[]
    }
    assert.deepEqual(
      listed.items.map(({ name, origin, next_occurrences }) => [name, origin, next_occurrences.length]),
      [
        ['expire_pending_approvals', 'catalog', 2],
        ['memory_decay_review', 'catalog', 2],
        ['nightly', 'person', 2],
        ['repair_missions', 'catalog', 2],
      ],
    )
    const one = (await (await send('GET', `/schedules/${made.schedule_id}`)).json()) as Record<string, unknown>
    assert.deepEqual([one['fired_count'], one['missed_count'], one['open_count']], [0, 0, 0])

    const changed = (await (
      await send('PATCH', `/schedules/${made.schedule_id}`, { cron: '0 4 * * *' })
    ).json()) as Schedule
    assert.equal(changed.cron, '0 4 * * *')
    const off = (await (await send('PATCH', `/schedules/${made.schedule_id}`, { enabled: false })).json()) as Schedule
    assert.deepEqual([off.enabled, off.next_occurrences], [false, []])
    assert.equal((await send('DELETE', `/schedules/${made.schedule_id}`)).status, 204)
    assert.equal(
      await outcomeOf(await send('GET', `/schedules/${made.schedule_id}`)),
      '404 schedules.schedule.not_found',
    )
    assert.equal(
      await outcomeOf(await send('DELETE', `/schedules/${made.schedule_id}`)),
      '404 schedules.schedule.not_found',
    )
  })

  test('readers read, writers create, and administrators change schedules of the catalog', async () => {
    assert.equal(
      await outcomeOf(await send('POST', '/schedules', nightly, keyOf('reader'))),
      '403 identity.role.insufficient',
    )
    assert.equal((await call(app, '/schedules')).status, 401)
    const { items } = (await (await send('GET', '/schedules')).json()) as { items: Schedule[] }
    const shipped = items.find(({ origin }) => origin === 'catalog')?.schedule_id ?? ''
    const off = { enabled: false }
    assert.equal(await outcomeOf(await send('PATCH', `/schedules/${shipped}`, off)), '403 schedules.schedule.not_yours')
    assert.equal(
      await outcomeOf(await send('PATCH', `/schedules/${shipped}`, { cron: '0 0 * * *' }, keyOf('admin'))),
      '409 schedules.schedule.of_catalog',
    )
    assert.equal(
      await outcomeOf(await send('DELETE', `/schedules/${shipped}`, undefined, keyOf('admin'))),
      '409 schedules.schedule.of_catalog',
    )
    for (const enabled of [false, true])
      assert.equal((await send('PATCH', `/schedules/${shipped}`, { enabled }, keyOf('admin'))).status, 200)
  })

  test('another organisation sees and changes nothing', async () => {
    const { schedule_id } = (await (await send('POST', '/schedules', { ...nightly, name: 'ours' })).json()) as Schedule
    const theirs = keyOf('admin', api.theirs)
    const list = (await (await send('GET', '/schedules', undefined, theirs)).json()) as { items: Schedule[] }
    assert.deepEqual(list.items, [])
    for (const [method, body] of [
      ['GET', undefined],
      ['PATCH', { enabled: false }],
      ['DELETE', undefined],
    ] as const)
      assert.equal(
        await outcomeOf(await send(method, `/schedules/${schedule_id}`, body, theirs)),
        '404 schedules.schedule.not_found',
        method,
      )
  })

  for (const [what, body, outcome] of [
    ['no cron', { name: 'x', command_type: 'tick' }, '422 api.field.missing'],
    ['an unknown field', { ...nightly, timezone: 'UTC' }, '422 unknown_field'],
    ['a name of blanks', { ...nightly, name: '  ' }, '422 api.field.value'],
    ['an overlap that there is not', { ...nightly, overlap: 'wait' }, '422 api.field.value'],
    ['a jitter of two hours', { ...nightly, jitter_ms: 7_200_000 }, '422 api.field.value'],
    ['a bad cron', { ...nightly, cron: '61 * * * *' }, '422 cron_value'],
    ['a bad zone', { ...nightly, time_zone: 'Berlin' }, '422 timezone_unknown'],
    ['a bad queue', { ...nightly, queue: 'nowhere' }, '422 schedules.queue.unknown'],
    ['an unknown type', { ...nightly, command_type: 'tack' }, '422 schedules.command_type.unknown'],
  ] as const)
    test(`${what} is refused, and nothing is written`, async () => {
      const before = await written()
      assert.equal(await outcomeOf(await send('POST', '/schedules', { ...body })), outcome)
      assert.deepEqual(await written(), before)
    })

  test('pages and counts are bounded', async () => {
    assert.equal(await outcomeOf(await send('GET', '/schedules?occurrences=101')), '422 limit_range')
    const first = (await (await send('GET', '/schedules?limit=1')).json()) as { items: Schedule[]; next_cursor: string }
    const second = (await (await send('GET', `/schedules?limit=1&cursor=${first.next_cursor}`)).json()) as {
      items: Schedule[]
    }
    assert.notEqual(first.items[0]?.name, second.items[0]?.name)
    assert.equal(await outcomeOf(await send('GET', '/schedules/csched_zz')), '400 id_format')
  })
})
