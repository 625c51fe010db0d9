/** Bad inputs for the scheduler's routes: each gets its code, and none of them writes anything. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openTestSchedulerApi, type TestSchedulerApi } from '#test/scheduler-face'
import { createTemplate, submitJob } from '#domains/scheduler'
import type { Api } from './api.ts'

const aUuid = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'
const absent = aUuid.replaceAll('-', '')
describe('bad inputs of the scheduler', () => {
  let api: TestApi
  let jobs: TestSchedulerApi
  let app: Api
  let template_id: string
  let job_id: string
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
    jobs = openTestSchedulerApi(api.ours.orgId)
    app = api.with({ scheduler: jobs.face })
    const template = createTemplate(jobs.scheduler, { name: 'known', job_type: 'shell' })
    template_id = template.ok ? template.value.template_id : ''
    const job = submitJob(jobs.scheduler, { job_type: 'shell' })
    job_id = job.ok ? job.value.job_id : ''
  })
  after(async () => {
    await jobs.close()
    await api.close()
  })

  const send = (method: string, path: string, body?: unknown) =>
    call(app, `/scheduler${path}`, { method, key: api.ours.people.admin.key, ...(body === undefined ? {} : { body }) })
  const at = (more: object) => ({ template_id, name: 'n', cron_expression: '0 3 * * *', ...more })
  const cron = (cron_expression: string) => () => send('POST', '/schedules', at({ cron_expression }))
  const zone = (timezone: string) => () => send('POST', '/schedules', at({ timezone }))
  const job = (body: unknown) => () => send('POST', '/jobs', body)

  const cases: readonly (readonly [title: string, ask: () => Promise<Response>, answer: string, detail?: RegExp])[] = [
    ['75 four fields', cron('0 3 * *'), '422 cron_fields', /five/i],
    ['75 six fields', cron('0 0 3 * * *'), '422 cron_fields', /five/i],
    ['75 seven fields', cron('0 0 3 * * * 2026'), '422 cron_fields', /five/i],
    ['76 minute 61', cron('61 * * * *'), '422 cron_value', /minute/i],
    ['76 a step of zero', cron('*/0 * * * *'), '422 cron_value'],
    ['76 a range backwards', cron('5-1 * * * *'), '422 cron_value'],
    ['76 an empty item', cron('1,,2 * * * *'), '422 cron_value'],
    ['76 the sixth Monday', cron('0 0 * * MON#6'), '422 cron_value'],
    ['77 30 February', cron('0 0 30 2 *'), '422 cron_never'],
    ['78 a zone of another planet', zone('Mars/Base'), '422 timezone_unknown'],
    ['78 a zone with a sign too many', zone('EST5EDT+'), '422 timezone_unknown'],
    ['1 empty body', job(''), '400 body_missing'],
    ['3 list at the top', job('[]'), '400 json_not_object'],
    ['4 params too deep', job(`{"params":${'{"a":'.repeat(40)}1${'}'.repeat(40)}}`), '400 json_too_deep'],
    ['12 params with __proto__', job('{"job_type":"shell","params":{"__proto__":{}}}'), '400 key_forbidden'],
    ['13 params with NUL', job('{"job_type":"shell","params":{"a":"\\u0000"}}'), '400 nul_character'],
    [
      '15 a number that would change',
      job('{"job_type":"shell","params":{"a":9007199254740993}}'),
      '400 number_out_of_range',
    ],
    ['16 unknown field', job({ job_type: 'shell', priorty: 1 }), '422 unknown_field', /Did you mean `priority`/],
    ['24 an invalid id', () => send('GET', '/jobs/nonsense'), '400 id_format'],
    ['24 an id of another kind', () => send('GET', `/jobs/run_${absent}`), '400 id_format'],
    ['25 a job that is not there', () => send('GET', `/jobs/job_${absent}`), '404 scheduler.job.not_found'],
    ['36 limit=0', () => send('GET', '/jobs?limit=0'), '422 limit_range'],
    ['36 limit=1e3', () => send('GET', '/queue?limit=1e3'), '422 limit_range'],
    ['36 count=-1', () => send('GET', `/schedules/sched_${absent}/next?count=-1`), '422 limit_range'],
    ['37 a cursor of another list', () => send('GET', '/groups?cursor=abcd'), '400 cursor_invalid'],
    ['38 30 February as a time', job({ job_type: 'shell', not_before: '2026-02-30T00:00:00Z' }), '422 date_invalid'],
    [
      '69 a duration in words',
      () => send('POST', '/reservations', { reserved_by: 'x', expires_in: '5 minutes' }),
      '422 duration',
    ],
    [
      '69 a wait of an hour',
      () => send('POST', '/direct_runs', { job_type: 'shell', wait: '1h' }),
      '422 duration',
      /60s/,
    ],
    ['an unknown type', job({ job_type: 'poem' }), '422 scheduler.job_type.unknown', /Registered types: .*shell/],
    [
      'a command that is a number',
      job({ job_type: 'command', params: { command: 5 } }),
      '422 api.field.type',
      /params\.command/,
    ],
    ['a command that is not named', job({ job_type: 'command' }), '422 api.field.missing', /params\.command/],
    ['a type in upper case', job({ job_type: 'Shell' }), '422 api.field.value'],
    ['neither type nor template', job({}), '422 api.field.missing'],
    ['a priority out of range', job({ job_type: 'shell', priority: 1_000_001 }), '422 api.field.value'],
    ['a fractional priority', job({ job_type: 'shell', priority: 0.5 }), '422 api.field.type'],
    ['params that are a list', job({ job_type: 'shell', params: [] }), '400 json_not_object'],
    ['a template that is not there', job({ template_id: `tmpl_${absent}` }), '404 scheduler.template.not_found'],
    [
      'a group that is not there',
      job({ job_type: 'shell', group_id: `jgrp_${absent}` }),
      '404 scheduler.group.not_found',
    ],
    [
      'a name with a hidden mark',
      () => send('POST', '/templates', { name: 'a\u202eb', job_type: 'shell' }),
      '422 api.field.value',
    ],
    [
      'a name that is taken',
      () => send('POST', '/templates', { name: 'known', job_type: 'shell' }),
      '409 scheduler.template.name_taken',
    ],
    ['an empty group', () => send('POST', '/groups', { mode: 'parallel', jobs: [] }), '422 api.field.value'],
    [
      'a group with one wrong member',
      () => send('POST', '/groups', { mode: 'parallel', jobs: [{ job_type: 'shell' }, { job_type: 'poem' }] }),
      '422 scheduler.job_type.unknown',
      /jobs\[1\]/,
    ],
    [
      'an unknown mode',
      () => send('POST', '/groups', { mode: 'random', jobs: [{ job_type: 'shell' }] }),
      '422 api.field.value',
    ],
    [
      'a move in two ways',
      () => send('POST', `/jobs/${job_id}/move`, { to: 'front', priority: 1 }),
      '422 api.field.value',
    ],
    ['a move in no way', () => send('POST', `/jobs/${job_id}/move`, {}), '422 api.field.value'],
    ['a retry of a job that waits', () => send('POST', `/jobs/${job_id}/retry`), '409 scheduler.job.not_failed'],
    ['the log of a job that waits', () => send('GET', `/jobs/${job_id}/logs`), '404 scheduler.log.not_found'],
    ['follow=maybe', () => send('GET', `/jobs/${job_id}/logs?follow=maybe`), '422 api.field.value'],
    ['a body where none is taken', () => send('POST', `/jobs/${job_id}/cancel`, { now: true }), '422 unknown_field'],
    [
      'an unknown type for a direct run',
      () => send('POST', '/direct_runs', { job_type: 'poem' }),
      '422 scheduler.job_type.unknown',
    ],
    [
      'a reservation that is not there',
      () => send('POST', `/reservations/resv_${absent}/release`),
      '404 scheduler.reservation.not_found',
    ],
    ['40 PUT', () => send('PUT', '/jobs', {}), '405 api.method.not_allowed'],
  ]

  for (const [title, ask, answer, detail] of cases) {
    test(title, async () => {
      const before = jobs.fingerprint()
      const response = await ask()
      const copy = response.clone()
      assert.equal(await outcomeOf(response), answer)
      if (detail) assert.match(await copy.text(), detail)
      // A reservation for invalid work is released and stays on record.
      if (!title.endsWith('a direct run')) assert.equal(jobs.fingerprint(), before)
    })
  }

  test('79 half past two on both change nights is accepted, and comes once on each', async () => {
    const made = await send(
      'POST',
      '/schedules',
      at({ name: 'dst', cron_expression: '30 2 * * *', timezone: 'Europe/Berlin' }),
    )
    assert.equal(made.status, 201)
    const { schedule_id } = (await made.json()) as { schedule_id: string }
    const next = await send('GET', `/schedules/${schedule_id}/next?count=400`)
    const { times } = (await next.json()) as { times: string[] }
    const night = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Europe/Berlin', dateStyle: 'short' })
    assert.equal(new Set(times.map((time) => night.format(new Date(time)))).size, 400)
  })

  test('mutated requests get an answer that is never an internal error', async () => {
    const odd = fc.oneof(
      fc.constantFrom<unknown>(
        null,
        true,
        -1,
        1e308,
        '',
        '\u0000',
        '\ud800',
        [],
        {},
        'NaN',
        '{{7*7}}',
        "'; drop table jobs; --",
      ),
      fc.jsonValue(),
    )
    const id = fc.oneof(
      fc.constantFrom(`job_${absent}`, aUuid, '..', '%00', 'x'.repeat(200)),
      fc.string({ maxLength: 20 }),
    )
    const places = [
      '',
      '/jobs',
      '/queue',
      '/templates',
      '/schedules',
      '/groups',
      '/reservations',
      '/direct_runs',
      '/job_types',
      '/check',
    ]
    const verbs = ['', '/move', '/cancel', '/retry', '/logs', '/next', '/enable', '/renew', '/release']
    const path = fc
      .tuple(fc.constantFrom(...places), fc.option(id, { nil: '' }), fc.constantFrom(...verbs))
      .map(([place, one, verb]) => `${place}${one === '' ? '' : `/${encodeURIComponent(one.toWellFormed())}${verb}`}`)
    const fields = fc.constantFrom(
      'job_type',
      'template_id',
      'params',
      'priority',
      'not_before',
      'group_id',
      'jobs',
      'mode',
      'name',
      'cron_expression',
      'timezone',
      'enabled',
      'param_overrides',
      'reserved_by',
      'expires_in',
      'params_schema',
      'to',
      'before',
      'after',
    )
    const known = { job_type: 'shell', name: 'm', cron_expression: '* * * * *', reserved_by: 'm', mode: 'parallel' }
    const body = fc
      .tuple(fc.subarray(Object.entries(known)), fc.dictionary(fields, odd, { maxKeys: 3 }))
      .map(([right, wrong]) => ({ ...Object.fromEntries(right), ...wrong }))
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE'), path, body, async (method, address, sent) => {
        const response = await send(method, address, method === 'GET' ? undefined : sent)
        await response.body?.cancel()
        assert.ok(response.status < 500, `${method} ${address} ${response.status}`)
      }),
      { numRuns: 600 },
    )
  })
})
