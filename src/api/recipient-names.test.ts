/** The names under which a person receives messages. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recipientNames } from './notification-routes.ts'

const ANA = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405171'
const BOB = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405172'
const HEX = (uuid: string) => uuid.replaceAll('-', '')

test('a person is reached by id, name and address', () => {
  assert.deepEqual(recipientNames({ userId: ANA, externalId: 'local:ana', email: 'ana@example.com' }), [
    `user:${ANA}`,
    `user_${HEX(ANA)}`,
    'local:ana',
    'ana@example.com',
  ])
})

test('a person named like the id of another person does not read their messages', () => {
  for (const externalId of [`user:${BOB}`, `user_${HEX(BOB)}`, BOB])
    assert.deepEqual(recipientNames({ userId: ANA, externalId, email: null }), [`user:${ANA}`, `user_${HEX(ANA)}`])
  // As some identity providers call their subjects.
  assert.ok(recipientNames({ userId: ANA, externalId: 'user_2abc', email: null }).includes('user_2abc'))
})
