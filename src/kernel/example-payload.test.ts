/** Examples from schemas: what is required is there, and what the schema says about a value is followed. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { examplePayload } from './example-payload.ts'

describe('an example payload', () => {
  test('has what is required, by type, format, choice and bound', () => {
    const properties = {
      subject: { type: 'string' },
      at: { type: 'string', format: 'date-time' },
      kind: { enum: ['monthly', 'daily'] },
      fixed: { const: 7 },
      count: { type: 'integer', minimum: 3, maximum: 9007199254740991 },
      any: { type: 'integer', minimum: -9007199254740991, maximum: 9007199254740991 },
      above: { type: 'number', exclusiveMinimum: 10 },
      below: { type: 'number', maximum: -2 },
      flag: { type: 'boolean' },
      maybe: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      lines: { type: 'array', minItems: 1, items: { type: 'object', required: ['sku'], properties: { sku: {} } } },
      tags: { type: 'array', items: { type: 'string' } },
      given: { type: 'string', examples: ['like this'] },
      both: {
        allOf: [
          { type: 'object', required: ['a'] },
          { type: 'object', required: ['b'] },
        ],
      },
      optional: { type: 'string' },
    }
    const required = Object.keys(properties).filter((name) => name !== 'optional')
    assert.deepEqual(examplePayload({ type: 'object', properties, required }), {
      subject: '<subject>',
      at: '2026-05-01T10:00:00Z',
      kind: 'monthly',
      fixed: 7,
      count: 3,
      any: 1,
      above: 11,
      below: -2,
      flag: true,
      maybe: '<maybe>',
      lines: [{ sku: '<sku>' }],
      tags: [],
      given: 'like this',
      both: { a: '<a>', b: '<b>' },
    })
  })

  test('has the inputs that are asked for, also deep ones', () => {
    const guest = {
      type: 'object',
      properties: { name: { type: 'string' }, nights: { type: 'integer' } },
      required: ['name'],
    }
    const schema = { type: 'object', properties: { guest, note: { type: 'string' } }, required: ['guest'] }
    assert.deepEqual(examplePayload(schema, ['note', 'guest.nights', 'guest.name']), {
      guest: { name: '<name>', nights: 1 },
      note: '<note>',
    })
  })

  test('follows references inside the document and ends in a circle', () => {
    const schema = {
      $ref: '#/$defs/node',
      $defs: { node: { type: 'object', required: ['next'], properties: { next: { $ref: '#/$defs/node' } } } },
    }
    assert.match(JSON.stringify(examplePayload(schema)), /^(\{"next":)+null\}+$/)
    assert.deepEqual(examplePayload({ type: 'object', required: ['a'], properties: { a: { $ref: 'http://x' } } }), {
      a: '<a>',
    })
  })

  test('any schema at all gives an object', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.string()), (schema, inputs) => {
        const example = examplePayload(schema, inputs)
        assert.ok(typeof example === 'object' && example !== null)
      }),
    )
  })
})
