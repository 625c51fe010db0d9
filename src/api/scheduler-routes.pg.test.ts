/** The scheduler over HTTP, with its loop running: every operation, the required roles, and the answers while it is off. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openTestSchedulerApi, type TestSchedulerApi } from '#test/scheduler-face'
import { aPerson, TRACE } from '#test/tenant'
import { until } from '#test/until'
import type { Api } from './api.ts'

type Job = { job_id: string; status: string; priority: number; position: number; hold: string | null; params: object }
type Report = { job: Job; run: { status: string; error: string | null } | null; chain: Report[] }
type Page<T> = { items: T[]; next_cursor: string | null }

let api: TestApi
let jobs: TestSchedulerApi
let app: Api
const as = (role: 'reader' | 'writer' | 'admin') => api.ours.people[role].key

async function ask<T>(method: string, path: string, body?: unknown, key = as('writer')): Promise<T> {
  const response = await call(app, `/scheduler${path}`, {
    method,
    key,
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return JSON.parse(text) as T
}
const get = <T>(path: string) => ask<T>('GET', path)
const post = <T>(path: string, body?: unknown) => ask<T>('POST', path, body)
const show = (id: string) => get<Report>(`/jobs/${id}`)
const ended = (id: string) => until(async () => (await show(id)).job.status === 'finished')

/** Stops the queue, so that its order can be read. */
async function whileReserved(work: () => Promise<void>): Promise<void> {
  const { reservation_id } = await post<{ reservation_id: string }>('/reservations', {
    reserved_by: 'a test',
    wait: '60s',
  })
  try {
    await work()
  } finally {
    await post(`/reservations/${reservation_id}/release`)
  }
}

describe('the scheduler over HTTP', () => {
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
    jobs = openTestSchedulerApi(api.ours.orgId)
    app = api.with({ scheduler: jobs.face })
    jobs.begin()
  })
  after(async () => {
    await jobs.close()
    await api.close()
  })

  describe('jobs', () => {
    test('a job is added, run and shown, and its output is read', async () => {
      const { job_id } = await post<Job>('/jobs', { job_type: 'shell', params: { month: 5 } })
      await ended(job_id)
      const { run, chain } = await show(job_id)
      assert.equal(run?.status, 'COMPLETED')
      assert.equal(chain.length, 1)
      const log = await call(app, `/scheduler/jobs/${job_id}/logs`, { key: as('writer') })
      assert.equal(await log.text(), 'got {"month":5}\n')
      assert.match(log.headers.get('content-type') ?? '', /^text\/plain/)
      const page = await get<Page<Job>>('/jobs?status=finished&job_type=shell&limit=1')
      assert.equal(page.items[0]?.job_id, job_id)
      const next = await get<Page<Job>>(`/jobs?status=finished&job_type=shell&limit=1&cursor=${page.next_cursor}`)
      assert.ok(next.items.every((job) => job.job_id !== job_id))
    })

    test('[L12] the same key is the same job, in the body or in the header, also ten times at once', async () => {
      const send = async (body: object, headers: Record<string, string> = {}) => {
        const answer = await call(app, '/scheduler/jobs', { method: 'POST', key: as('writer'), body, headers })
        const { job_id, code } = (await answer.json()) as { job_id?: string; code?: string }
        return job_id ?? `${answer.status} ${code}`
      }
      const body = { job_type: 'shell', params: { month: 6 } }
      const all = await Promise.all(
        Array.from({ length: 10 }, (_, n) =>
          n % 2 === 0 ? send({ ...body, idempotency_key: 'june' }) : send(body, { 'idempotency-key': 'june' }),
        ),
      )
      assert.deepEqual([new Set(all).size, all[0]?.startsWith('job_')], [1, true])
      await ended(String(all[0]))
      assert.equal(await send({ params: { month: 6 }, job_type: 'shell' }, { 'idempotency-key': 'june' }), all[0])
      const other = { ...body, params: { month: 7 } }
      assert.equal(await send(other, { 'idempotency-key': 'june' }), '422 key_reused')
      assert.equal(
        await send({ ...other, idempotency_key: 'july' }, { 'idempotency-key': 'june' }),
        '422 api.idempotency_key.differs',
      )
      assert.equal(await send(other, { 'idempotency-key': 'k'.repeat(256) }), '422 key_too_long')
      const secret = `ghp_${'aB3'.repeat(12)}`
      assert.equal(await send(other, { 'idempotency-key': secret }), '422 api.field.secret')
      assert.notEqual(await send(body), all[0])
    })

    test('[SCH-024] [SCH-025] the queue is reordered, changed and cancelled while it waits', async () => {
      await whileReserved(async () => {
        const [a = '', b = '', c = ''] = await Promise.all(
          [1, 2, 3].map(async () => (await post<Job>('/jobs', { job_type: 'shell', priority: 7 })).job_id),
        )
        const inOrder = async () =>
          (await get<Page<Job>>('/queue')).items.map((job) => job.job_id).filter((id) => [a, b, c].includes(id))
        assert.equal((await post<Job>(`/jobs/${c}/move`, { to: 'front' })).priority, 7)
        assert.equal((await inOrder())[0], c)
        await post(`/jobs/${c}/move`, { after: a })
        const order = await inOrder()
        assert.equal(order.indexOf(c), order.indexOf(a) + 1)
        assert.equal((await ask<Job>('PATCH', `/jobs/${b}`, { priority: 9, params: { x: 1 } })).priority, 9)
        assert.deepEqual((await show(b)).job.params, { x: 1 })
        assert.equal((await inOrder())[0], b)
        for (const id of [a, b, c]) {
          assert.deepEqual((await post<{ ending: boolean; job: Job }>(`/jobs/${id}/cancel`)).job.status, 'cancelled')
        }
        const again = await post<Job>(`/jobs/${a}/retry`)
        assert.notEqual(again.job_id, a)
        await post(`/jobs/${again.job_id}/cancel`)
      })
    })

    test('[SCH-066] a running job is followed and ended', async () => {
      const added = await ask<Job>(
        'POST',
        '/jobs',
        { job_type: 'command', params: { command: 'sh', args: ['-c', 'echo begun; exec sleep 600'] } },
        as('admin'),
      )
      const response = await call(app, `/scheduler/jobs/${added.job_id}/logs?follow=true`, { key: as('writer') })
      const reader = response.body?.getReader()
      const first = await reader?.read()
      assert.equal(new TextDecoder().decode(first?.value), 'begun\n')
      assert.equal((await post<{ ending: boolean }>(`/jobs/${added.job_id}/cancel`)).ending, true)
      for (;;) if ((await reader?.read())?.done !== false) break
      assert.equal((await show(added.job_id)).run?.error, 'cancelled')
    })

    test('a follower that leaves, and one whose key is revoked, end their streams', async () => {
      const added = await ask<Job>(
        'POST',
        '/jobs',
        { job_type: 'command', params: { command: 'sleep', args: ['600'] } },
        as('admin'),
      )
      const path = `/scheduler/jobs/${added.job_id}/logs?follow=true`
      const limited = api.with({
        scheduler: jobs.face,
        limits: { heartbeatMs: 1, streamsPerKeyMax: 1, ratePerMinute: 6_000_000 },
      })
      const leaving = await call(limited, path, { key: as('writer') })
      const reading = leaving.body?.getReader()
      assert.equal(await outcomeOf(await call(limited, path, { key: as('writer') })), '429 api.streams.exceeded')
      await reading?.cancel()
      await until(async () => {
        const again = await call(limited, path, { key: as('writer') })
        const isOpen = again.ok
        await again.body?.cancel()
        return isOpen
      }, 'the place of the one that left')
      const person = await aPerson(api.world, { orgId: api.ours.orgId, slug: api.ours.slug }, 'writer')
      const watched = await call(limited, path, { key: person.key })
      await ask('POST', `/jobs/${added.job_id}/cancel`)
      assert.equal(await watched.text(), '')
      const revoked = await call(app, `/keys/${person.keyId}`, { method: 'DELETE', key: as('admin') })
      assert.equal(revoked.status, 200)
      assert.equal(await outcomeOf(await call(limited, path, { key: person.key })), '401 unauthenticated')
    })
  })

  describe('plans', () => {
    test('[SCH-074] templates and schedules are created, changed, disabled, queried and deleted', async () => {
      const { template_id } = await post<{ template_id: string }>('/templates', {
        name: 'report',
        job_type: 'shell',
        params: { month: 1 },
      })
      assert.equal((await get<{ name: string }>(`/templates/${template_id}`)).name, 'report')
      assert.equal((await ask<{ priority: number }>('PATCH', `/templates/${template_id}`, { priority: 3 })).priority, 3)
      const made = await post<{ schedule_id: string; next_trigger_at: string }>('/schedules', {
        template_id,
        name: 'nightly',
        cron_expression: '30 2 * * *',
        timezone: 'Europe/Berlin',
        param_overrides: { month: 2 },
      })
      const path = `/schedules/${made.schedule_id}`
      const { times, timezone } = await get<{ times: string[]; timezone: string }>(`${path}/next?count=3`)
      assert.deepEqual([times.length, times[0], timezone], [3, made.next_trigger_at, 'Europe/Berlin'])
      assert.equal((await post<{ enabled: boolean }>(`${path}/disable`)).enabled, false)
      assert.equal(
        (await post<{ next_trigger_at: string | null }>(`${path}/enable`)).next_trigger_at,
        made.next_trigger_at,
      )
      const changed = await ask<{ timezone: string }>('PATCH', path, { timezone: 'UTC' })
      assert.equal(changed.timezone, 'UTC')
      assert.deepEqual((await get<{ firings: unknown[] }>(path)).firings, [])
      assert.equal((await get<Page<unknown>>('/schedules')).items.length, 1)
      const taken = await call(app, `/scheduler/templates/${template_id}`, { method: 'DELETE', key: as('writer') })
      assert.equal(await outcomeOf(taken), '409 scheduler.template.in_use')
      await ask('DELETE', path)
      await ask('DELETE', `/templates/${template_id}`)
      assert.deepEqual((await get<Page<unknown>>('/templates')).items, [])
      assert.equal(
        await outcomeOf(await call(app, `/scheduler${path}`, { key: as('writer') })),
        '404 scheduler.schedule.not_found',
      )
    })

    test('[SCH-127] a group is queued whole, and its status follows from its members', async () => {
      const made = await post<{ group_id: string; jobs: Job[] }>('/groups', {
        name: 'pair',
        mode: 'sequential',
        jobs: [{ job_type: 'shell' }, { job_type: 'shell' }],
      })
      await until(async () => (await get<{ status: string }>(`/groups/${made.group_id}`)).status === 'completed')
      const { items } = await get<Page<{ group_id: string }>>('/groups')
      assert.equal(items[0]?.group_id, made.group_id)
      const members = await get<Page<Job>>(`/jobs?group_id=${made.group_id}`)
      assert.equal(members.items.length, 2)
    })

    test('job types are listed without details of the machine', async () => {
      const { items } = await get<Page<Record<string, unknown>>>('/job_types')
      assert.deepEqual(items.map((type) => String(type['job_type'])).toSorted(), [
        'command',
        'research',
        'shell',
        'story',
      ])
      assert.deepEqual(Object.keys(items[0] ?? {}).toSorted(), [
        'concurrency_limit',
        'has_command',
        'job_type',
        'retry_policy',
      ])
    })
  })

  describe('the slot for direct runs', () => {
    test('[SCH-102] a taken slot is refused immediately, or waited for', async () => {
      const { reservation_id } = await post<{ reservation_id: string }>('/reservations', {
        reserved_by: 'first',
        expires_in: '1m',
      })
      const at_once = await call(app, '/scheduler/reservations', {
        method: 'POST',
        key: as('writer'),
        body: { reserved_by: 'x' },
      })
      assert.equal(await outcomeOf(at_once), '409 scheduler.reservation.busy')
      const waiting = post<{ reservation_id: string }>('/reservations', { reserved_by: 'second', wait: '60s' })
      assert.ok(
        (await post<{ expires_at: string }>(`/reservations/${reservation_id}/renew`, { expires_in: '5m' })).expires_at,
      )
      await post(`/reservations/${reservation_id}/release`)
      const second = await waiting
      await post(`/reservations/${second.reservation_id}/release`)
      const { items } = await get<Page<{ status: string; reserved_by: string }>>('/reservations?limit=2')
      assert.deepEqual(
        items.map((row) => [row.reserved_by, row.status]),
        [
          ['second', 'RELEASED'],
          ['first', 'RELEASED'],
        ],
      )
    })

    test('[SCH-101] a direct execution is accepted, done before the queue, and recorded; the slot is free again', async () => {
      const { job_id, hold } = await post<Job>('/direct_runs', {
        job_type: 'shell',
        params: { now: true },
        wait: '60s',
      })
      assert.equal(hold, 'direct')
      await ended(job_id)
      assert.equal((await show(job_id)).run?.status, 'COMPLETED')
      await until(async () => (await get<{ reservation: unknown }>('')).reservation === null)
    })

    test('how it is, and whether its file is sound', async () => {
      const status = await get<{ running: boolean; workers: number; in_flight: number }>('')
      assert.deepEqual([status.running, status.workers], [true, 1])
      const check = await ask<{ checked: string[]; violations: unknown[] }>('GET', '/check', undefined, as('admin'))
      assert.deepEqual(check.violations, [])
      assert.ok(check.checked.includes('S12'))
    })
  })

  describe('who may', () => {
    const command = { job_type: 'command', params: { command: 'true' } }
    const refusedTo = async (role: 'reader' | 'writer', path: string, method = 'GET', body?: unknown) =>
      outcomeOf(
        await call(app, `/scheduler${path}`, {
          method,
          key: as(role),
          ...(body === undefined ? {} : { body }),
        }),
      )

    test('readers read, writers act, and a job with its own command needs an administrator', async () => {
      const forbidden = '403 identity.role.insufficient'
      assert.equal(await refusedTo('reader', '/jobs'), '200 ok')
      assert.equal(await refusedTo('reader', '/jobs', 'POST', { job_type: 'shell' }), forbidden)
      assert.equal(await refusedTo('writer', '/check'), forbidden)
      assert.equal(await refusedTo('writer', '/jobs', 'POST', command), forbidden)
      assert.equal(await refusedTo('writer', '/direct_runs', 'POST', command), forbidden)
      assert.equal(
        await refusedTo('writer', '/groups', 'POST', { mode: 'parallel', jobs: [{ job_type: 'shell' }, command] }),
        forbidden,
      )
      assert.equal(await refusedTo('writer', '/templates', 'POST', { name: 'c', ...command }), forbidden)
      const { template_id } = await ask<{ template_id: string }>(
        'POST',
        '/templates',
        { name: 'c', ...command },
        as('admin'),
      )
      assert.equal(await refusedTo('writer', '/jobs', 'POST', { template_id, params: { command: 'id' } }), forbidden)
      assert.equal(
        await refusedTo('writer', `/templates/${template_id}`, 'PATCH', { params: { command: 'id' } }),
        forbidden,
      )
      assert.equal(await refusedTo('writer', '/jobs', 'POST', { template_id }), '201 ok', 'as it was made')
      const times = { name: 'c', cron_expression: '0 0 1 1 *' }
      assert.equal(
        await refusedTo('writer', '/schedules', 'POST', { ...times, template_id, param_overrides: { command: 'id' } }),
        forbidden,
      )
      const { schedule_id } = await ask<{ schedule_id: string }>(
        'POST',
        '/schedules',
        { ...times, template_id },
        as('admin'),
      )
      const overrides = { param_overrides: { command: 'id' } }
      assert.equal(await refusedTo('writer', `/schedules/${schedule_id}`, 'PATCH', overrides), forbidden)
      const later = { ...command, not_before: '2200-01-01T00:00:00Z' }
      const { job_id } = await ask<Job>('POST', '/jobs', later, as('admin'))
      assert.equal(await refusedTo('writer', `/jobs/${job_id}`, 'PATCH', { params: { command: 'id' } }), forbidden)
      await post(`/jobs/${job_id}/cancel`)
    })

    test('another organisation, a key of one workspace and a caller without a key are refused', async () => {
      const off = '404 scheduler.not_enabled'
      for (const path of ['', '/jobs', '/queue', '/templates', '/schedules', '/groups', '/reservations', '/check']) {
        const theirs = await call(app, `/scheduler${path}`, { key: api.theirs.people.admin.key })
        const none = await call(api.app, `/scheduler${path}`, { key: as('admin') })
        const [one, other] = [await theirs.json(), await none.json()] as Record<string, unknown>[]
        assert.deepEqual(
          [one?.['code'], one?.['detail'], one?.['hint']],
          [other?.['code'], other?.['detail'], other?.['hint']],
        )
        assert.equal(`${none.status} ${String(other?.['code'])}`, off)
        assert.match(String(other?.['hint']), /CONCORD_SCHEDULER_FILE/)
        assert.equal(await outcomeOf(await call(app, `/scheduler${path}`)), '401 unauthenticated')
      }
      const bound = await call(app, '/keys', {
        method: 'POST',
        key: as('admin'),
        body: { name: 'bound', role: 'admin', workspace_id: `ws_${api.ours.workspace.id.replaceAll('-', '')}` },
        headers: { traceparent: `00-${TRACE.slice(6)}-0000000000000001-01` },
      })
      const { key } = (await bound.json()) as { key: string }
      assert.equal(await outcomeOf(await call(app, '/scheduler/jobs', { key })), '403 identity.key.workspace_bound')
    })
  })
})
