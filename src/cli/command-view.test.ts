/** What is printed of JSON: on one line, with ids as everywhere else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { shortJson } from './terminal.ts'

test('ids inside JSON are printed with the prefix of their kind', () => {
  const uuid = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170'
  assert.equal(shortJson({ artifact_id: uuid }), '{"artifact_id":"art_0197f3b2c4d57a8e9b0c1d2e3f405170"}')
})
