/** Every change of the scheduler over HTTP is on record before it happens, and only registered work comes in by default. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openTestSchedulerApi, type TestSchedulerApi } from '#test/scheduler-face'
import { until } from '#test/until'
import { createTemplate } from '#domains/scheduler'
import { accepted } from '#test/tenant'
import { encodeId } from '#kernel/ids'
import type { Api } from './api.ts'

type Recorded = { event_type: string; actor: string; payload: Record<string, unknown> }

describe('[H5] the record of the scheduler', () => {
  let api: TestApi
  let jobs: TestSchedulerApi
  let app: Api
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

  const send = (method: string, path: string, body?: unknown, key = api.ours.people.writer.key, to = app) =>
    call(to, `/scheduler${path}`, { method, key, ...(body === undefined ? {} : { body }) })
  async function done<T>(...asked: Parameters<typeof send>): Promise<T> {
    const response = await send(...asked)
    const text = await response.text()
    assert.ok(response.ok, `${asked[0]} ${asked[1]}: ${response.status} ${text}`)
    return JSON.parse(text) as T
  }
  async function records(): Promise<Recorded[]> {
    const page = await call(app, '/org/audit?limit=500', { key: api.ours.people.admin.key })
    const { items } = (await page.json()) as { items: Recorded[] }
    return items.filter(({ event_type }) => event_type.startsWith('scheduler_')).toReversed()
  }

  test('[H5] a job names its requester, and its record has actor, key, command line and job before the job runs', async () => {
    const { writer } = api.ours.people
    const hold = await done<{ reservation_id: string }>('POST', '/reservations', { reserved_by: 'a test', wait: '60s' })
    const job = await done<{ job_id: string; requested_by: string }>('POST', '/jobs', {
      job_type: 'shell',
      params: { n: 1 },
    })
    const before = (await records()).at(-1)
    const { job: queued } = await done<{ job: { status: string; requested_by: string } }>('GET', `/jobs/${job.job_id}`)
    assert.deepEqual([queued.status, queued.requested_by], ['queued', encodeId('user', writer.principal.userId)])
    assert.equal(before?.event_type, 'scheduler_requested')
    assert.equal(before.actor, queued.requested_by)
    const { by_key_id, command_digest, ...payload } = before.payload
    const target = { target_type: 'job', target_id: job.job_id }
    assert.deepEqual(payload, { operation: 'submit_job', job_type: 'shell', job_id: job.job_id, ...target })
    assert.match(String(command_digest), /^sha256:[0-9a-f]{64}$/)
    assert.ok(by_key_id)
    // The same work has the same digest; other params have another.
    await done('PATCH', `/jobs/${job.job_id}`, { params: { n: 2 } })
    await done('PATCH', `/jobs/${job.job_id}`, { params: { n: 1 } })
    const digests = (await records()).slice(-2).map(({ payload }) => payload['command_digest'])
    assert.notEqual(digests[0], command_digest)
    assert.equal(digests[1], command_digest)
    await done('POST', `/reservations/${hold.reservation_id}/release`)
    await until(
      async () => (await done<{ job: { status: string } }>('GET', `/jobs/${job.job_id}`)).job.status === 'finished',
    )
  })

  test('[H5] every route that changes the scheduler leaves a record with its operation', async () => {
    const seen = new Set((await records()).map(({ payload }) => payload['operation']))
    const template = await done<{ template_id: string }>('POST', '/templates', { name: 't', job_type: 'shell' })
    await done('PATCH', `/templates/${template.template_id}`, { priority: 1 })
    const wanted = { name: 's', template_id: template.template_id, cron_expression: '0 0 1 1 *' }
    const { schedule_id, requested_by } = await done<Record<string, string>>('POST', '/schedules', wanted)
    assert.equal(requested_by, encodeId('user', api.ours.people.writer.principal.userId))
    await done('PATCH', `/schedules/${schedule_id}`, { cron_expression: '0 0 2 1 *' })
    await done('POST', `/schedules/${schedule_id}/disable`)
    await done('POST', `/schedules/${schedule_id}/enable`)
    await done('DELETE', `/schedules/${schedule_id}`)
    await done('DELETE', `/templates/${template.template_id}`)
    const group = { mode: 'parallel', jobs: [{ job_type: 'shell' }, { job_type: 'shell' }] }
    const made = await done<{ jobs: { requested_by: string }[] }>('POST', '/groups', group)
    assert.deepEqual(new Set(made.jobs.map((job) => job.requested_by)), new Set([requested_by]))
    const direct = await done<{ job_id: string; requested_by: string }>('POST', '/direct_runs', {
      job_type: 'shell',
      wait: '60s',
    })
    assert.equal(direct.requested_by, requested_by)
    await until(
      async () => (await done<{ job: { status: string } }>('GET', `/jobs/${direct.job_id}`)).job.status === 'finished',
    )
    const { reservation_id } = await done<Record<string, string>>('POST', '/reservations', {
      reserved_by: 'x',
      wait: '60s',
    })
    await done('POST', `/reservations/${reservation_id}/renew`, { expires_in: '5m' })
    const { job_id } = await done<{ job_id: string }>('POST', '/jobs', { job_type: 'shell' })
    await done('POST', `/jobs/${job_id}/move`, { to: 'front' })
    await done('POST', `/jobs/${job_id}/cancel`)
    await done('POST', `/jobs/${job_id}/retry`)
    await done('POST', `/reservations/${reservation_id}/release`)
    for (const { payload } of await records()) seen.add(payload['operation'])
    // One operation per route that is not a read.
    const document = JSON.parse(readFileSync('openapi.json', 'utf8')) as { paths: Record<string, object> }
    const changing = Object.entries(document.paths)
      .filter(([path]) => path.startsWith('/scheduler'))
      .flatMap(([, methods]) =>
        Object.keys(methods).filter((method) => ['post', 'patch', 'delete', 'put'].includes(method)),
      )
    assert.equal(seen.size, changing.length, [...seen].join(', '))
  })

  test('[H5] a refused request has its refusal on record', async () => {
    const nobody = encodeId('job', '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405162')
    assert.equal(await outcomeOf(await send('POST', `/jobs/${nobody}/cancel`)), '404 scheduler.job.not_found')
    const last = (await records()).slice(-2)
    assert.deepEqual(
      last.map(({ event_type }) => event_type),
      ['scheduler_requested', 'scheduler_refused'],
    )
    assert.deepEqual(
      last.map(({ payload }) => [payload['operation'], payload['job_id'], payload['code'] ?? null]),
      [
        ['cancel_job', nobody, null],
        ['cancel_job', nobody, 'scheduler.job.not_found'],
      ],
    )
  })

  test('[H5] without the record nothing is done', async () => {
    const before = jobs.fingerprint()
    const db = { ...api.deps.db, transaction: () => Promise.reject(new Error('the database is gone')) }
    const deaf = api.with({
      scheduler: jobs.face,
      db: Object.assign(Object.create(api.deps.db) as typeof api.deps.db, db),
    })
    const answer = await send('POST', '/jobs', { job_type: 'shell' }, undefined, deaf)
    assert.ok(answer.status >= 500, String(answer.status))
    assert.equal(jobs.fingerprint(), before)
  })

  test('[H5] by default no request names its own command, by any way; a template of the machine runs as it is', async () => {
    const strict = api.with({ scheduler: { ...jobs.face, admits: 'registered' } })
    const key = api.ours.people.admin.key
    const params = { command: 'id' }
    const local = accepted(createTemplate(jobs.scheduler, { name: 'local', job_type: 'command', params }))
    const template_id = encodeId('job_template', local.template_id)
    const { job_id } = await done<{ job_id: string }>('POST', '/jobs', { template_id }, key, strict)
    const cron_expression = '0 0 1 1 *'
    for (const [method, path, body] of [
      ['POST', '/jobs', { job_type: 'command', params }],
      ['POST', '/jobs', { template_id, params }],
      ['POST', '/jobs', { template_id, params: {} }],
      ['POST', '/direct_runs', { job_type: 'command', params }],
      ['POST', '/groups', { mode: 'parallel', jobs: [{ job_type: 'shell' }, { job_type: 'command', params }] }],
      ['POST', '/templates', { name: 'mine', job_type: 'command', params }],
      ['PATCH', `/templates/${template_id}`, { params }],
      ['POST', '/schedules', { name: 'mine', template_id, cron_expression, param_overrides: params }],
      ['PATCH', `/jobs/${job_id}`, { params }],
    ] as const)
      assert.equal(
        await outcomeOf(await send(method, path, body, key, strict)),
        '403 scheduler.command.not_registered',
        `${method} ${path}`,
      )
    const own = await done<{ job_id: string }>(
      'POST',
      '/jobs',
      { job_type: 'command', params: { command: 'false' } },
      key,
    )
    await until(
      async () => (await done<{ job: { status: string } }>('GET', `/jobs/${own.job_id}`)).job.status === 'finished',
    )
    for (const [by, to, code] of [
      [key, strict, 'scheduler.command.not_registered'],
      [api.ours.people.writer.key, app, 'identity.role.insufficient'],
    ] as const)
      assert.match(
        await outcomeOf(await send('POST', `/jobs/${own.job_id}/retry`, undefined, by, to)),
        new RegExp(`^403 .*${code}`),
      )
  })
})
