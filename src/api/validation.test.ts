import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from '@hono/zod-openapi'
import { idField } from '#contract'
import { explainIssues, namesAt } from './validation.ts'

const item = z.strictObject({ price: z.number().max(10), currency: z.enum(['EUR', 'USD']) })
const shape = z.strictObject({
  task_name: z.string().min(1),
  priority: z.int().min(1).optional(),
  items: z.array(item).optional(),
  owner_id: idField('user').optional(),
  payload: z.record(z.string(), z.unknown()).optional(),
})

function explain(input: unknown) {
  const { error } = shape.safeParse(input)
  return explainIssues(error?.issues ?? [], input, shape)
}
const first = (input: unknown) => {
  const { refusal } = explain(input)
  return [refusal.code, refusal.path, refusal.hint]
}

test('an unknown field is answered with the nearest known one, also deep inside', () => {
  assert.deepEqual(first({ task_name: 'x', task_nam: 1 }), ['unknown_field', 'task_nam', 'Did you mean `task_name`?'])
  assert.deepEqual(first({ task_name: 'x', items: [{ price: 1, currency: 'EUR', prize: 2 }] }), [
    'unknown_field',
    'items[0].prize',
    'Did you mean `price`?',
  ])
  assert.deepEqual(first({ task_name: 'x', zzz: 1 }), [
    'unknown_field',
    'zzz',
    'Known fields: task_name, priority, items, owner_id, payload.',
  ])
})

test('a wrong type is reported with its JSON name', () => {
  assert.equal(explain({ task_name: 'x', payload: 'y' }).refusal.reason, '`payload` must be of the type object.')
})

test('[API-07] the caller is never a field', () => {
  for (const field of ['requested_by', 'actor_id', 'org_id', 'workspace_id', 'created_by', 'run_as']) {
    assert.equal(first({ task_name: 'x', [field]: 'someone' })[0], 'field_not_allowed', field)
  }
})

test('missing, mistyped and out-of-range values have different codes', () => {
  assert.deepEqual(first({}).slice(0, 2), ['api.field.missing', 'task_name'])
  assert.deepEqual(first({ task_name: 1 }).slice(0, 2), ['api.field.type', 'task_name'])
  assert.deepEqual(first({ task_name: null }).slice(0, 2), ['api.field.type', 'task_name'])
  assert.deepEqual(first({ task_name: 'x', priority: 0 }).slice(0, 2), ['api.field.value', 'priority'])
  assert.deepEqual(first({ task_name: 'x', items: [{ price: 11, currency: 'EUR' }] }).slice(0, 2), [
    'api.field.value',
    'items[0].price',
  ])
  assert.deepEqual(first({ task_name: 'x', items: [{ price: 1, currency: 'GBP' }] }).slice(0, 2), [
    'api.field.value',
    'items[0].currency',
  ])
  assert.deepEqual(first({ task_name: 'x', items: [{ price: 1 }] }).slice(0, 2), [
    'api.field.missing',
    'items[0].currency',
  ])
})

test('each error has a hint', () => {
  assert.equal(first({})[2], 'Add it; it is of the type string.')
  assert.equal(first({ task_name: 'x', items: [{ price: 1 }] })[2], 'Add it; it is one of: EUR, USD.')
  assert.equal(first({ task_name: 'x', items: [{ price: 1, currency: 'EURO' }] })[2], 'Did you mean `EUR`?')
  assert.equal(first({ task_name: 'x', items: [{ price: 1, currency: 'GBP' }] })[2], 'Send one of them.')
  assert.equal(first({ task_name: 'x', priority: 0 })[2], 'Send at least 1.')
  assert.equal(first({ task_name: '' })[2], 'Send at least 1 character.')
  assert.equal(first({ task_name: 'x', items: [{ price: 11, currency: 'EUR' }] })[2], 'Send at most 10.')
  for (const error of explain({ priority: 0, zzz: 1 }).errors) assert.ok(error.hint, error.code)
})

test('a malformed value decides the status before an invalid one', () => {
  const { refusal, errors } = explain({ bogus: 1, owner_id: '{nonsense}' })
  assert.equal(refusal.code, 'id_format')
  assert.deepEqual(errors.map(({ code }) => code).sort(), ['api.field.missing', 'id_format', 'unknown_field'])
})

test('at most twenty findings and never more than 64 characters of input', () => {
  const noise = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`${'x'.repeat(200)}${at}`, 1]))
  const { refusal, errors } = explain({ task_name: 'x', ...noise })
  assert.equal(errors.length, 20)
  assert.equal(JSON.stringify([refusal, errors]).includes('x'.repeat(65)), false)
})

test('the names of a place are found through wrappers, lists, records and unions', () => {
  const deep = z.object({
    list: z.array(z.object({ a: z.string() }).optional()).default([]),
    map: z.record(z.string(), z.object({ b: z.string() })),
    either: z.union([z.object({ c: z.string() }), z.object({ d: z.string() })]).nullable(),
  })
  assert.deepEqual(namesAt(deep, []), ['list', 'map', 'either'])
  assert.deepEqual(namesAt(deep, ['list', 3]), ['a'])
  assert.deepEqual(namesAt(deep, ['map', 'any']), ['b'])
  assert.deepEqual(namesAt(deep, ['either']), ['c', 'd'])
  assert.deepEqual(namesAt(deep, ['nowhere', 'else']), [])
  assert.deepEqual(namesAt(undefined, []), [])
})

test('a rule of a field says what to send; a rule without a sentence has the usual hint', () => {
  const hintOf = (schema: z.ZodType) => {
    const rules = z.strictObject({ cost: schema })
    const { error } = rules.safeParse({ cost: 'NaN' })
    return explainIssues(error?.issues ?? [], { cost: 'NaN' }, rules).refusal.hint
  }
  assert.equal(
    hintOf(z.string().refine(() => false, 'Write an amount such as "4.50".')),
    'Write an amount such as "4.50".',
  )
  assert.equal(hintOf(z.string().refine(() => false)), undefined)
})
