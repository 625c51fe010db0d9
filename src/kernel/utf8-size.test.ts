import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { utf8Size } from './json-value.ts'

test('counts the bytes that encoding would make, lone surrogates included', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 0xffff })), fc.string({ unit: 'binary' }), (units, text) => {
      const any = String.fromCharCode(...units)
      assert.equal(utf8Size(any), Buffer.byteLength(any))
      assert.equal(utf8Size(text), Buffer.byteLength(text))
    }),
  )
  assert.equal(utf8Size('aé€😀\ud800'), 1 + 2 + 3 + 4 + 3)
})
