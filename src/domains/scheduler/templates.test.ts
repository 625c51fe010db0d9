/** Templates: default params that callers override, checked by a closed subset of JSON Schema. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { JsonObject } from '#kernel/json-value'
import { aScheduler, codeOf, countOf, must } from '#test/scheduler/fixture'
import { changeJob } from './change-job.ts'
import { archiveTemplate, changeTemplate, createTemplate, allTemplates } from './job-template.ts'
import { applyParamsSchema, checkParamsSchema } from './job-types.ts'
import { createSchedule } from './schedule.ts'
import { submitJob } from './submit-job.ts'

const schema = {
  type: 'object',
  properties: {
    topic: { type: 'string', minLength: 1, maxLength: 20 },
    pages: { type: 'integer', minimum: 1, maximum: 50, default: 3 },
    style: { enum: ['plain', 'epic'] },
    tags: { type: 'array', items: { type: 'string' }, maxItems: 2 },
  },
  required: ['topic'],
  additionalProperties: false,
} as const

describe('jobs from a template', () => {
  const scheduler = aScheduler()
  const { template_id } = must(
    createTemplate(scheduler, {
      name: 'tale',
      job_type: 'story',
      params: { style: 'plain' },
      params_schema: schema,
      priority: 5,
    }),
  )

  test('[SCH-056] type, params and priority come from the template unless the caller overrides them', () => {
    const job = must(submitJob(scheduler, { template_id, params: { topic: 'sea' } }))
    assert.deepEqual([job.job_type, job.priority, job.template_id], ['story', 5, template_id])
    assert.deepEqual(JSON.parse(job.params), { style: 'plain', topic: 'sea', pages: 3 })
    const other = must(
      submitJob(scheduler, { template_id, params: { topic: 'sea', style: 'epic', pages: 9 }, priority: -1 }),
    )
    assert.deepEqual([JSON.parse(other.params), other.priority], [{ style: 'epic', topic: 'sea', pages: 9 }, -1])
  })

  for (const [title, params, path] of [
    ['a missing field', {}, 'params.topic'],
    ['a wrong type', { topic: 5 }, 'params.topic'],
    ['a number out of range', { topic: 'a', pages: 51 }, 'params.pages'],
    ['a fraction for a whole number', { topic: 'a', pages: 1.5 }, 'params.pages'],
    ['a word that is not in the list', { topic: 'a', style: 'loud' }, 'params.style'],
    ['a wrong part of a list', { topic: 'a', tags: ['x', 1] }, 'params.tags[1]'],
    ['too long a list', { topic: 'a', tags: ['x', 'y', 'z'] }, 'params.tags'],
    ['a field that does not exist', { topic: 'a', colour: 'red' }, 'params'],
  ] as const) {
    test(`${title} is refused, and no job is made`, () => {
      const before = countOf(scheduler, 'jobs')
      const refused = submitJob(scheduler, { template_id, params })
      assert.deepEqual([codeOf(refused), refused.ok ? '' : refused.path], ['scheduler.params.invalid', path])
      assert.equal(countOf(scheduler, 'jobs'), before)
    })
  }

  test('a change of a queued job is checked by the same rules', () => {
    const job = must(submitJob(scheduler, { template_id, params: { topic: 'sea' } }))
    assert.equal(codeOf(changeJob(scheduler, job.job_id, { params: { topic: 7 } })), 'scheduler.params.invalid')
    assert.deepEqual(JSON.parse(must(changeJob(scheduler, job.job_id, { params: { topic: 'air' } })).params), {
      topic: 'air',
      pages: 3,
    })
  })

  test('a type other than that of the template is refused', () => {
    assert.equal(
      codeOf(submitJob(scheduler, { template_id, job_type: 'research', params: { topic: 'x' } })),
      'api.field.value',
    )
  })

  test('template and caller can exceed the size limit together', () => {
    const big = must(createTemplate(scheduler, { name: 'big', job_type: 'story', params: { a: 'x'.repeat(600_000) } }))
    assert.equal(
      codeOf(submitJob(scheduler, { template_id: big.template_id, params: { b: 'y'.repeat(600_000) } })),
      'body_too_large',
    )
  })
})

describe('the life of a template', () => {
  test('[SCH-056] names of live templates are unique, changes apply to new jobs, and a template in use stays', () => {
    const scheduler = aScheduler()
    const { template_id } = must(createTemplate(scheduler, { name: 'a', job_type: 'story' }))
    must(createTemplate(scheduler, { name: 'b', job_type: 'story' }))
    assert.equal(codeOf(createTemplate(scheduler, { name: 'a', job_type: 'story' })), 'scheduler.template.name_taken')
    assert.equal(codeOf(changeTemplate(scheduler, template_id, { name: 'b' })), 'scheduler.template.name_taken')
    scheduler.clock.by(5)
    const changed = must(changeTemplate(scheduler, template_id, { params: { x: 1 }, priority: 2 }))
    assert.deepEqual(
      [changed.name, changed.params, changed.priority, changed.updated_at - changed.created_at],
      ['a', '{"x":1}', 2, 5],
    )
    const schedule = must(createSchedule(scheduler, { template_id, name: 'daily', cron_expression: '0 3 * * *' }))
    assert.equal(codeOf(archiveTemplate(scheduler, template_id)), 'scheduler.template.in_use')
    assert.ok(schedule)
    const other = must(createTemplate(scheduler, { name: 'c', job_type: 'story' }))
    must(archiveTemplate(scheduler, other.template_id))
    assert.equal(codeOf(submitJob(scheduler, { template_id: other.template_id })), 'scheduler.template.not_found')
    assert.deepEqual(
      allTemplates(scheduler.db).map((template) => template.name),
      ['a', 'b'],
    )
  })

  test('what does not fit is refused', () => {
    const scheduler = aScheduler()
    for (const [body, code] of [
      [{ name: '', job_type: 'story' }, 'api.field.value'],
      [{ name: 'a\u200b', job_type: 'story' }, 'api.field.value'],
      [{ name: 'a', job_type: 'poem' }, 'scheduler.job_type.unknown'],
      [{ name: 'a', job_type: 'story', params_schema: { type: 'array' } }, 'scheduler.schema.keyword'],
      [{ name: 'a', job_type: 'story', colour: 1 }, 'unknown_field'],
    ] as const) {
      assert.equal(codeOf(createTemplate(scheduler, body as never)), code)
    }
  })
})

describe('schemas', () => {
  const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
    type: 'object',
    properties,
    ...more,
  })
  for (const [title, wrong] of [
    ['an unknown keyword', object({ a: { type: 'string', pattern: '^(a+)+$' } })],
    ['a reference', object({ a: { $ref: '#/x' } })],
    ['a choice of schemas', object({ a: { anyOf: [{ type: 'string' }] } })],
    ['a keyword of another type', object({ a: { type: 'string', minimum: 1 } })],
    ['two types at once', object({ a: { type: ['string', 'null'] } })],
    ['no type', object({ a: {} })],
    ['a rule next to `enum`, which would be ignored', object({ a: { enum: ['x'], minLength: 2 } })],
    ['an empty list', object({ a: { enum: [] } })],
    ['a required field that does not exist', object({ a: { type: 'string' } }, { required: ['b'] })],
    ['a schema for all other fields', object({}, { additionalProperties: { type: 'string' } })],
    ['a negative length', object({ a: { type: 'string', minLength: -1 } })],
    ['a limit that is text', object({ a: { type: 'number', maximum: '9' } })],
    ['a step of zero', object({ a: { type: 'number', multipleOf: 0 } })],
    ['fields that are a list', { type: 'object', properties: [] as never }],
  ] as const) {
    test(`${title} is refused when the template is made`, () =>
      assert.equal(codeOf(checkParamsSchema(wrong)), 'scheduler.schema.keyword'))
  }

  test('a schema that is too deep, too wide or too long is refused', () => {
    let deep: JsonObject = { type: 'string' }
    for (let level = 0; level < 9; level++) deep = object({ a: deep })
    const wide = object(
      Object.fromEntries(Array.from({ length: 501 }, (_, index) => [`f${index}`, { type: 'string' }])),
    )
    const long = object({ a: { type: 'string', description: 'x'.repeat(70_000) } })
    for (const schemaOf of [deep, wide, long]) assert.equal(codeOf(checkParamsSchema(schemaOf)), 'schema_limits')
  })

  for (const [title, property, good, bad] of [
    ['text', { type: 'string', minLength: 2, maxLength: 3 }, ['ab', 'abc'], ['a', 'abcd', 1, null]],
    ['number', { type: 'number', exclusiveMinimum: 0, maximum: 2 }, [0.5, 2], [0, 2.1, '1']],
    ['least and below', { type: 'number', minimum: 1, exclusiveMaximum: 2 }, [1, 1.9], [0.9, 2]],
    ['whole number', { type: 'integer', multipleOf: 5 }, [5, -10], [6, 5.5]],
    ['boolean', { type: 'boolean' }, [true], ['true', 0]],
    ['nothing', { type: 'null' }, [null], [0]],
    [
      'list',
      { type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 2 },
      [[1], [1, 2]],
      [[], [1, 2, 3], ['1']],
    ],
    ['choice', { enum: ['a', 1, null] }, ['a', 1, null], ['b', 2]],
    ['one value', { const: 7 }, [7], [8, '7']],
    [
      'object',
      { type: 'object', properties: { k: { type: 'string' } }, required: ['k'], additionalProperties: false },
      [{ k: 'v' }],
      [{}, { k: 1 }, { k: 'v', z: 1 }],
    ],
  ] as const) {
    test(`${title}: accepts valid params and refuses invalid ones`, () => {
      const whole = must(checkParamsSchema(object({ a: property }, { required: ['a'] })))
      for (const value of good) assert.deepEqual(must(applyParamsSchema(whole, { a: value })), { a: value })
      for (const value of bad) assert.equal(codeOf(applyParamsSchema(whole, { a: value })), 'scheduler.params.invalid')
      assert.equal(codeOf(applyParamsSchema(whole, {})), 'scheduler.params.invalid')
    })
  }
})
