/** Schemas of others: what they say holds, and what they could do to us does not. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { closed, typeOfSchema } from './json-schema.ts'

const judge = (schema: JsonObject, value: JsonValue) => {
  const parsed = typeOfSchema(schema).safeParse(value)
  return parsed.success ? 'fits' : `${parsed.error.issues[0]?.path.join('.')}: ${parsed.error.issues[0]?.message}`
}
const payment = {
  type: 'object',
  properties: { by: { enum: ['card', 'bank'] }, number: { type: 'string' }, iban: { type: 'string' }, note: {} },
  required: ['by'],
}

// As text, because an object with a field `then` would look like a promise.
const branch = JSON.parse(
  `{ "if": { "properties": { "by": { "const": "card" } } }, "then": { "required": ["number"] }, "else": { "required": ["iban"] } }`,
) as JsonObject

describe('a schema of others', () => {
  for (const [title, schema, fits, misses, problem] of [
    [
      'if, then and else',
      {
        ...payment,
        ...branch,
      },
      { by: 'card', number: '1' },
      { by: 'bank', number: '1' },
      'iban: required',
    ],
    [
      'not',
      { ...payment, not: { required: ['number', 'iban'] } },
      { by: 'card', number: '1' },
      { by: 'card', number: '1', iban: '2' },
      ': not',
    ],
    [
      'dependentRequired',
      { ...payment, dependentRequired: { note: ['iban'] } },
      { by: 'bank' },
      { by: 'bank', note: 1 },
      'iban: dependentRequired',
    ],
    [
      'unevaluatedProperties',
      { allOf: [payment], properties: { id: { type: 'integer' } }, unevaluatedProperties: false },
      { by: 'bank', id: 1 },
      { by: 'bank', other: 1 },
      ': unevaluatedProperties',
    ],
    [
      'prefixItems',
      { prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false },
      ['a', 1],
      ['a', 'b'],
      '1: type',
    ],
    [
      'a pattern',
      { properties: { code: { pattern: '^[A-Z]{3}$' } } },
      { code: 'ABC' },
      { code: 'abc' },
      'code: pattern',
    ],
    ['a format', { properties: { at: { format: 'date' } } }, { at: '2026-01-31' }, { at: 'soon' }, 'at: format'],
    [
      'a schema that refers to itself',
      {
        $ref: '#/$defs/node',
        $defs: {
          node: {
            type: 'object',
            properties: { next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
            required: ['next'],
          },
        },
      },
      { next: { next: null } },
      { next: { next: 1 } },
      'next.next: type',
    ],
    [
      'a tuple of draft 7',
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        items: [{ type: 'string' }, { type: 'integer' }],
        additionalItems: false,
      },
      ['a', 1],
      ['a', 1, 2],
      ': additionalItems',
    ],
    [
      'a part of draft 7 that takes nothing else',
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        allOf: [payment],
        unevaluatedProperties: false,
      },
      { by: 'bank' },
      { by: 'bank', other: 1 },
      ': unevaluatedProperties',
    ],
    ['a field that every object inherits', { required: ['toString'] }, { toString: 1 }, {}, 'toString: required'],
  ] as const satisfies readonly (readonly [string, JsonObject, JsonValue, JsonValue, string])[])
    test(title, () => {
      assert.equal(judge(schema, fits), 'fits')
      assert.equal(judge(schema, misses), problem)
    })

  test('defaults are filled in, and the given value stays as it was', () => {
    const given = { by: 'card' }
    const schema = { properties: { by: {}, note: { default: 'none' } } }
    assert.deepEqual(typeOfSchema(schema).parse(given), { by: 'card', note: 'none' })
    assert.deepEqual(given, { by: 'card' })
  })

  test('people see it as it was written', () => {
    const { $schema: _dialect, ...shown } = z.toJSONSchema(typeOfSchema({ ...payment, not: { required: ['note'] } }), {
      io: 'input',
      unrepresentable: 'any',
    })
    assert.deepEqual(shown, { ...payment, not: { required: ['note'] } })
  })
})

describe('a schema that means harm', () => {
  for (const [title, schema] of [
    ['another document', { $ref: 'https://example.com/schema.json' }],
    ['a missing part', { $ref: '#/$defs/nothing' }],
    ['not a schema', { type: 'nonsense' }],
    ['a broken expression', { pattern: '(' }],
  ] as const)
    test(`${title} is refused when it is read`, () => {
      assert.throws(() => typeOfSchema(schema))
    })

  // With it, the judge of ajv answers with a promise, which is not a refusal.
  const later = { $async: true, $dynamicAnchor: 'later', type: 'object', properties: { a: { type: 'string' } } }
  for (const [title, schema] of [
    ['itself', later],
    ['a field', { properties: { a: later } }],
    ['a part', { $ref: '#/$defs/later', $defs: { later } }],
    ['a part of a part', { $async: true, allOf: [{ $ref: '#/$defs/later' }], $defs: { later } }],
    ['a part that is found when it is judged', { properties: { a: { $dynamicRef: '#later' } }, $defs: { later } }],
    ['another value than true', { ...later, $async: 1 }],
  ] as const satisfies readonly (readonly [string, JsonObject])[])
    test(`$async is refused in an input and in an output: ${title}`, () => {
      assert.throws(() => typeOfSchema(schema), /\$async/)
      assert.throws(() => typeOfSchema(closed(schema)), /\$async/)
    })

  test('what draft 4 wrote in another way is refused with its place', () => {
    const $schema = 'http://json-schema.org/draft-04/schema#'
    const count = { type: 'number', minimum: 0, exclusiveMinimum: true }
    assert.throws(
      () => typeOfSchema({ $schema, properties: { count } }),
      /not a JSON Schema of draft 6 or later: .*count\/exclusiveMinimum must be number/,
    )
    assert.equal(judge({ $schema, properties: { count: { minimum: 1 } } }, { count: 0 }), 'count: minimum')
  })

  const twice = { allOf: [{ $ref: '#' }, { $ref: '#' }] }
  const deep = (levels: number): JsonValue => (levels === 0 ? {} : { a: deep(levels - 1) })
  for (const [title, schema, value] of [
    ['an expression that backtracks', { pattern: '^(a+)+$' }, `${'a'.repeat(60)}!`],
    ['references that branch', { properties: { a: twice } }, deep(60)],
    ['a reference to itself', { allOf: [{ $ref: '#' }] }, {}],
    ['unique items of a long list', { uniqueItems: true }, Array.from({ length: 100_000 }, (_, n) => ({ n }))],
  ] as const satisfies readonly (readonly [string, JsonObject, JsonValue])[])
    test(`${title}: the value is refused and the program goes on`, () => {
      assert.equal(judge(schema, value), ': it takes too long to judge')
      assert.equal(judge({ type: 'string' }, 'a'), 'fits')
    })
})

describe('an input takes only the fields that it names', () => {
  for (const [title, schema, named] of [
    [
      'with all fields in one place',
      { ...payment, additionalProperties: true, patternProperties: { o: {} } },
      { by: 'card' },
    ],
    [
      'with fields in parts',
      { allOf: [{ ...payment, additionalProperties: true }], properties: { id: {} } },
      { by: 'card', id: 1 },
    ],
    [
      'with fields in a named part',
      { $ref: '#/$defs/p', $defs: { p: { ...payment, additionalProperties: {} } } },
      { by: 'card' },
    ],
    [
      'with a part that names no field',
      { ...payment, allOf: [{ anyOf: [{ required: ['by'] }, { required: ['note'] }] }] },
      { by: 'card' },
    ],
    [
      'with a part that is also a field',
      {
        allOf: [{ $ref: '#/properties/a~1b%20c' }],
        properties: { 'a/b c': { ...payment, additionalProperties: true } },
      },
      { by: 'card', 'a/b c': { by: 'bank', more: 1 } },
    ],
    [
      'with a part that takes fields by their form',
      { anyOf: [{ ...payment, patternProperties: { o: {} } }], properties: { id: {} } },
      { by: 'card', id: 1 },
    ],
    [
      'with a part that takes other fields if one is there',
      {
        ...payment,
        dependentSchemas: { note: { unevaluatedProperties: true, properties: { id: {} } } },
        dependencies: { note: { additionalProperties: true }, id: ['by'] },
      },
      { by: 'card', note: 1, id: 1 },
    ],
    [
      'with a rule for names',
      { allOf: [{ ...payment, additionalProperties: true }], propertyNames: { maxLength: 4 } },
      { by: 'card' },
    ],
  ] as const satisfies readonly (readonly [string, JsonObject, JsonObject])[])
    for (const [dialect, $schema] of [
      ['2020-12', 'https://json-schema.org/draft/2020-12/schema'],
      ['2019-09', 'https://json-schema.org/draft/2019-09/schema'],
      ['draft 7', 'http://json-schema.org/draft-07/schema#'],
    ] as const)
      test(`${title} (${dialect})`, () => {
        const type = closed({ $schema, ...schema })
        assert.equal(judge(type, named), 'fits')
        assert.match(judge(type, { ...named, other: 1 }), /additionalProperties|unevaluatedProperties|propertyNames/)
      })

  test('the rules of a part hold as they were written', () => {
    const labels = { type: 'object', additionalProperties: { type: 'string' } }
    const type = closed({ allOf: [{ properties: { labels: { $ref: '#/$defs/labels' } } }], $defs: { labels } })
    assert.equal(judge(type, { labels: { a: 'b' } }), 'fits')
    assert.equal(judge(type, { labels: { a: 1 } }), 'labels.a: type')
    const short = closed({ allOf: [{ properties: { number: {} } }], propertyNames: { maxLength: 4 } })
    assert.equal(judge(short, { number: 1 }), ': propertyNames')
  })

  test('a part that is the whole adds no field', () => {
    assert.deepEqual(closed({ allOf: [{ $ref: '#' }, { properties: { id: {} } }] })['propertyNames'], { enum: ['id'] })
  })

  test('fields in a part that is not found by its path are refused', () => {
    const part = { $anchor: 'part', ...payment }
    assert.throws(() => closed({ $ref: '#part', $defs: { part } }), /refers to #part, which is not a path/)
    assert.throws(() => closed({ allOf: [{ $dynamicRef: '#part' }], $defs: { part } }), /#part, which is not a path/)
  })

  test('the schema of a text is none of an input', () => {
    assert.throws(() => closed({ type: 'string' }), /not the schema of an object/)
  })
})
