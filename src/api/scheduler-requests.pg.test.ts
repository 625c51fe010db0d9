/** Lists of the scheduler end at a size, a key makes a job once on every route, and nothing runs but what was recorded. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openTestSchedulerApi, type TestSchedulerApi } from '#test/scheduler-face'
import { accepted } from '#test/tenant'
import {
  archiveTemplate,
  changeTemplate,
  createSchedule,
  createTemplate,
  listJobs,
  registerJobType,
  type SubmitJob,
  submitJob,
} from '#domains/scheduler'
import { encodeId } from '#kernel/ids'
import { accept } from '#kernel/refusal'
import type { Api } from './api.ts'

type Named = { name: string; job_type: string }
type Page = { items: Named[]; next_cursor: string | null }
type Recorded = { event_type: string; payload: Record<string, unknown> }

const FOUR_MIB = 4 * 1024 * 1024

describe('requests to the scheduler', () => {
  let api: TestApi
  let jobs: TestSchedulerApi
  let app: Api
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
    jobs = openTestSchedulerApi(api.ours.orgId)
    app = api.with({ scheduler: jobs.face })
  })
  after(async () => {
    await jobs.close()
    await api.close()
  })

  type Sent = { readonly body?: unknown; readonly key?: string; readonly to?: Api }
  const send = (method: string, path: string, { body, key, to = app }: Sent = {}) =>
    call(to, `/scheduler${path}`, {
      method,
      key: api.ours.people.writer.key,
      ...(body === undefined ? {} : { body }),
      ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
    })
  const read = async <T>(path: string) => (await (await send('GET', path)).json()) as T
  async function records(): Promise<Recorded[]> {
    const page = await call(app, '/org/audit?limit=500', { key: api.ours.people.admin.key })
    const { items } = (await page.json()) as { items: Recorded[] }
    return items.filter(({ event_type }) => event_type.startsWith('scheduler_')).toReversed()
  }

  async function allPages(path: string, limit: number): Promise<string[][]> {
    const pages: string[][] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const response = await send('GET', `${path}?limit=${limit}${cursor && `&cursor=${cursor}`}`)
      const text = await response.text()
      assert.ok(text.length <= FOUR_MIB + 65_536, `${path}: ${text.length} bytes`)
      const page = JSON.parse(text) as Page
      pages.push(page.items.map(({ name, job_type }) => name ?? job_type))
      cursor = page.next_cursor
    }
    return pages
  }

  test('[H2] lists of templates, schedules and job types have pages, which end at 4 MiB too', async () => {
    // Three bytes for each character.
    const params = { text: '\u20ac'.repeat(300_000) }
    const names = Array.from({ length: 7 }, (_, index) => `large ${index}`)
    const ids = names.map(
      (name) => accepted(createTemplate(jobs.scheduler, { name, job_type: 'shell', params })).template_id,
    )
    for (const [index, template_id] of ids.entries()) {
      const schedule = { name: names[index] ?? '', template_id, cron_expression: '0 0 1 1 *', param_overrides: params }
      accepted(createSchedule(jobs.scheduler, schedule))
    }
    for (const path of ['/templates', '/schedules']) {
      const pages = await allPages(path, 500)
      assert.ok(pages.length >= 2, path)
      assert.deepEqual(pages.flat(), names)
      assert.deepEqual((await allPages(path, 2)).slice(0, 3), [names.slice(0, 2), names.slice(2, 4), names.slice(4, 6)])
    }
    const types = (await allPages('/job_types', 500)).flat()
    assert.deepEqual((await allPages('/job_types', 1)).flat(), types)
    assert.deepEqual(types, types.toSorted())
    const first = await read<Page>('/templates?limit=1')
    assert.equal(await outcomeOf(await send('GET', `/schedules?cursor=${first.next_cursor}`)), '400 cursor_invalid')
    // A group copies the params of a template into each member, so these are limited together.
    const template_id = encodeId('job_template', ids[0] ?? '')
    const members = { mode: 'parallel', jobs: Array.from({ length: 5 }, () => ({ template_id })) }
    assert.equal(await outcomeOf(await send('POST', '/groups', { body: members })), '422 scheduler.group.too_large')
  })

  test('[L12] a repeat answers 200 with the first job on every route that makes one, and leaves no record', async () => {
    const template = accepted(createTemplate(jobs.scheduler, { name: 'keyed', job_type: 'shell' }))
    const template_id = encodeId('job_template', template.template_id)
    const failed = accepted(submitJob(jobs.scheduler, { job_type: 'shell' })).job_id
    const retried = encodeId('job', failed)
    assert.equal((await send('POST', `/jobs/${retried}/cancel`)).status, 200)
    const cases: readonly [path: string, body: object | undefined, first: number][] = [
      ['/jobs', { template_id }, 201],
      ['/groups', { mode: 'sequential', jobs: [{ template_id }, { job_type: 'shell' }] }, 201],
      ['/direct_runs', { template_id }, 202],
      [`/jobs/${retried}/retry`, undefined, 201],
    ]
    const idOf = (answer: { group_id?: string | null; job_id?: string }) => answer.job_id ?? answer.group_id
    const made: unknown[] = []
    for (const [index, [path, body, status]] of cases.entries()) {
      const before = (await records()).length
      const key = `key-${index}`
      const answers = await Promise.all(Array.from({ length: 6 }, () => send('POST', path, { body, key })))
      const bodies = await Promise.all(answers.map(async (answer) => (await answer.json()) as Record<string, string>))
      assert.deepEqual(
        answers.map((answer) => String(answer.status)).toSorted(),
        [...Array<string>(5).fill('200'), String(status)],
        path,
      )
      assert.equal(new Set(bodies.map(idOf)).size, 1, path)
      const [record, ...more] = (await records()).slice(before)
      assert.deepEqual(more, [], path)
      assert.deepEqual(
        [record?.payload['job_id'] ?? record?.payload['group_id'], record?.payload['idempotency_key']],
        [idOf(bodies[0] ?? {}), key],
      )
      made.push(bodies[0])
    }
    // The template is no longer there; the jobs are.
    accepted(archiveTemplate(jobs.scheduler, template.template_id))
    for (const [index, [path, body]] of cases.entries()) {
      const again = await send('POST', path, { body, key: `key-${index}` })
      assert.equal(again.status, 200, path)
      assert.equal(idOf((await again.json()) as object), idOf(made[index] as object), path)
      // A key belongs to one request, on one route.
      const [otherPath, otherBody] = cases[(index + 1) % cases.length] ?? cases[0] ?? []
      const reused = await send('POST', otherPath ?? '', { body: otherBody, key: `key-${index}` })
      assert.equal(await outcomeOf(reused), '422 key_reused', path)
    }
    const secret = `ghp_${'aB3'.repeat(12)}`
    const refused = await send('POST', `/jobs/${retried}/retry`, { key: secret })
    assert.equal(await outcomeOf(refused), '422 api.field.secret')
    // Everything that the record names exists.
    for (const { payload } of await records()) {
      const id = payload['job_id']
      if (payload['code'] === undefined && typeof id === 'string')
        assert.equal((await send('GET', `/jobs/${id}`)).status, 200, id)
    }
  })

  /** The API with a record that is followed by a change, before the request acts. */
  function afterRecord(meanwhile: () => void): Api {
    const { db } = api.deps
    const transaction: typeof db.transaction = async (work) => {
      const done = await db.transaction(work)
      meanwhile()
      return done
    }
    return api.with({ scheduler: jobs.face, db: Object.assign(Object.create(db) as typeof db, { transaction }) })
  }

  test('[H5] the record of a template and of a schedule has the digest of what runs', async () => {
    const digestOf = async (method: string, path: string, body?: object) => {
      const response = await send(method, path, { body })
      assert.ok(response.ok, `${method} ${path} ${response.status}`)
      return {
        made: (await response.json()) as Record<string, string>,
        digest: (await records()).at(-1)?.payload['command_digest'],
      }
    }
    const created = await digestOf('POST', '/templates', { name: 'digest', job_type: 'shell', params: { n: 1 } })
    const { template_id } = created.made
    const job = await digestOf('POST', '/jobs', { job_type: 'shell', params: { n: 1 } })
    assert.match(String(created.digest), /^sha256:[0-9a-f]{64}$/)
    assert.equal(created.digest, job.digest)
    const changed = await digestOf('PATCH', `/templates/${template_id}`, { params: { n: 2 } })
    assert.notEqual(changed.digest, created.digest)
    assert.equal((await digestOf('PATCH', `/templates/${template_id}`, { priority: 3 })).digest, changed.digest)
    const at = { name: 'digest', template_id, cron_expression: '0 0 1 1 *' }
    const schedule = await digestOf('POST', '/schedules', at)
    const path = `/schedules/${schedule.made['schedule_id']}`
    assert.equal(schedule.digest, changed.digest)
    assert.equal((await digestOf('PATCH', path, { param_overrides: { n: 1 } })).digest, created.digest)
    assert.equal((await digestOf('PATCH', path, { priority: 2 })).digest, created.digest)
    assert.equal((await digestOf('POST', `${path}/disable`)).digest, undefined)
    assert.equal((await digestOf('POST', `${path}/enable`)).digest, created.digest)
    assert.equal((await digestOf('PATCH', path, { param_overrides: null })).digest, changed.digest)
  })

  test('[H5] what changed after the record is not run: every route decides again when it acts', async () => {
    const { scheduler } = jobs
    const type = { job_type: 'changing', retry_policy: { max_retries: 0 } }
    const runner = { command: 'true' }
    accepted(registerJobType(scheduler, { ...type, runner }))
    const template = accepted(createTemplate(scheduler, { name: 'race', job_type: 'changing' }))
    const template_id = encodeId('job_template', template.template_id)
    const at = { template_id, cron_expression: '0 0 1 1 *' }
    const schedule = accepted(createSchedule(scheduler, { name: 'race', ...at, enabled: false })).schedule_id
    const own = accepted(submitJob(scheduler, { template_id, not_before: '2099-01-01T00:00:00Z' })).job_id
    const ended = accepted(submitJob(scheduler, { template_id })).job_id
    assert.equal((await send('POST', `/jobs/${encodeId('job', ended)}/cancel`)).status, 200)
    let count = 0
    const changes = [
      () => accepted(changeTemplate(scheduler, template.template_id, { params: { n: (count += 1) } })),
      () => accepted(registerJobType(scheduler, { ...type, runner: { ...runner, args: [String((count += 1))] } })),
    ]
    const schedulePath = `/schedules/${encodeId('schedule', schedule)}`
    const cases: readonly [method: string, path: string, body: object | undefined, changed: readonly (0 | 1)[]][] = [
      ['POST', '/jobs', { template_id }, [0, 1]],
      ['POST', '/jobs', { job_type: 'changing' }, [1]],
      ['POST', '/groups', { mode: 'parallel', jobs: [{ job_type: 'shell' }, { template_id }] }, [0, 1]],
      ['POST', '/direct_runs', { template_id }, [0, 1]],
      ['PATCH', `/jobs/${encodeId('job', own)}`, { params: { x: 1 } }, [1]],
      ['POST', `/jobs/${encodeId('job', ended)}/retry`, undefined, [1]],
      ['POST', '/templates', { name: 'later', job_type: 'changing' }, [1]],
      ['PATCH', `/templates/${template_id}`, { priority: 1 }, [0, 1]],
      ['POST', '/schedules', { name: 'later', ...at }, [0, 1]],
      ['PATCH', schedulePath, { priority: 1 }, [0, 1]],
      ['POST', `${schedulePath}/enable`, undefined, [0, 1]],
    ]
    const release = async () => {
      const { items } = await read<{ items: { reservation_id: string; status: string }[] }>('/reservations')
      for (const { reservation_id, status } of items)
        if (status === 'ACTIVE') await send('POST', `/reservations/${reservation_id}/release`)
    }
    for (const [method, path, body, changed] of cases) {
      for (const index of changed) {
        await release()
        const jobsBefore = accepted(listJobs(scheduler, { limit: 500 })).map(({ job_id, params }) => [job_id, params])
        let hasChanged = false
        const to = afterRecord(() => {
          if (!hasChanged) changes[index]?.()
          hasChanged = true
        })
        const label = `${method} ${path} ${index}`
        assert.equal(await outcomeOf(await send(method, path, { body, to })), '409 scheduler.work.changed', label)
        assert.ok(hasChanged, label)
        assert.equal((await records()).at(-1)?.payload['code'], 'scheduler.work.changed', label)
        const jobsAfter = accepted(listJobs(scheduler, { limit: 500 })).map(({ job_id, params }) => [job_id, params])
        assert.deepEqual(jobsAfter, jobsBefore, label)
      }
    }
    await release()
    const later = await read<Page>('/schedules?limit=500')
    assert.ok(later.items.every(({ name }) => name !== 'later'))
  })

  test('[H5] only work that its template makes is repeated without the right to name a command', async () => {
    const params = { command: 'true' }
    const template = accepted(createTemplate(jobs.scheduler, { name: 'own', job_type: 'command', params }))
    const retry = async (body: SubmitJob) => {
      const job = encodeId('job', accepted(submitJob(jobs.scheduler, body)).job_id)
      assert.equal((await send('POST', `/jobs/${job}/cancel`)).status, 200)
      return outcomeOf(await send('POST', `/jobs/${job}/retry`))
    }
    const { template_id } = template
    assert.equal(await retry({ template_id }), '201 ok')
    assert.equal(await retry({ template_id, params: {} }), '201 ok')
    assert.equal(await retry({ template_id, params: { args: ['x'] } }), '403 identity.role.insufficient')
    assert.equal(await retry({ template_id, params: { command: 'id' } }), '403 identity.role.insufficient')
    assert.equal(await retry({ job_type: 'command', params }), '403 identity.role.insufficient')
    const job = accepted(submitJob(jobs.scheduler, { template_id })).job_id
    assert.equal((await send('POST', `/jobs/${encodeId('job', job)}/cancel`)).status, 200)
    accepted(changeTemplate(jobs.scheduler, template_id, { params: { command: 'false' } }))
    const changed = await send('POST', `/jobs/${encodeId('job', job)}/retry`)
    assert.equal(await outcomeOf(changed), '403 identity.role.insufficient')
  })

  test('[M7] a stream of a log ends with its token, without a heartbeat', async () => {
    const { principal, key } = api.ours.people.writer
    const person = { ...principal, credential: 'jwt', keyId: null } as const
    const untilMs = Date.now() + 1_500
    const { job_id } = accepted(submitJob(jobs.scheduler, { job_type: 'shell' }))
    const to = api.with({
      scheduler: jobs.face,
      authenticate: () => Promise.resolve(accept(person)),
      callers: {
        ...api.deps.callers,
        look: async (asked) => {
          const looked = await api.deps.callers.look({ ...asked, bearer: key })
          const tokenLeftMs = untilMs - Date.now()
          return looked.ok ? accept({ ...looked.value, principal: person, access: undefined, tokenLeftMs }) : looked
        },
      },
      limits: { heartbeatMs: 86_400_000 },
    })
    const path = `/scheduler/jobs/${encodeId('job', job_id)}/logs?follow=true`
    const response = await call(to, path, { key })
    assert.equal(await response.text(), '')
    assert.ok(Date.now() >= untilMs, 'not before')
    // It has expired: a new stream ends at once.
    assert.equal(await (await call(to, path, { key })).text(), '')
  })

  test('[M7] a log that cannot be read keeps no place', async () => {
    const { job_id } = accepted(submitJob(jobs.scheduler, { job_type: 'shell' }))
    let isBroken = true
    const { db } = jobs.scheduler
    const read: typeof db.read = (work) => {
      if (isBroken) throw new Error('the file is gone')
      return db.read(work)
    }
    const scheduler = { ...jobs.scheduler, db: Object.assign(Object.create(db) as typeof db, { read }) }
    const to = api.with({ scheduler: { ...jobs.face, scheduler }, limits: { streamsPerKeyMax: 1 } })
    const ask = () => call(to, `/scheduler/jobs/${encodeId('job', job_id)}/logs`, { key: api.ours.people.writer.key })
    for (const _ of [1, 2]) assert.equal((await ask()).status, 500)
    isBroken = false
    assert.equal(await outcomeOf(await ask()), '404 scheduler.log.not_found')
  })
})
