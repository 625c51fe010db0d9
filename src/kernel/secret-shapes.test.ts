/** Secrets are known by their shape, and ordinary words are left alone. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { hasSecretShape, redactText, redactValue } from './secret-shapes.ts'

const secrets = [
  'ck_9f3b2c4d57a8_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
  'postgres://app:hunter2@db:5432/x',
  'Bearer abcdefgh12345678',
  'Authorization: Basic dXNlcjpwYXNzd29yZDE=',
  'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
  'sk_live_51Habcdefghijklmnop',
  'sk-proj-abcdefghijklmnopqrst',
  'ghp_abcdefghijklmnopqrstuvwxyz0123456789',
  'xoxb-1234567890-abcdef',
  'AKIAIOSFODNN7EXAMPLE',
  '-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----',
]
const words = [
  'Basic information about the order',
  'bearer instruments and notes',
  'https://host:443/users/@me',
  'sk-monthly-revenue-report-for-may',
  'rk_customer_record_identifier',
  'vault://team/stripe',
  'ada@example.com',
  'pk_test_51Habcdefghijklmnop',
  '2026-05-01T10:00:00Z',
]

describe('secrets by shape', () => {
  for (const text of secrets) {
    test(`${text.slice(0, 20)}… is one`, () => {
      assert.ok(hasSecretShape(text))
      assert.ok(hasSecretShape(`it says ${text}, twice`))
      assert.notEqual(redactText(text), text)
    })
  }
  for (const text of words) test(`${text} is none`, () => assert.equal(hasSecretShape(text), false))

  test('values are redacted wherever the text stands, and left as they are otherwise', () => {
    const clean = { a: [1, null, 'Basic information', { b: true }] }
    assert.equal(redactValue(clean), clean)
    const [secret = ''] = secrets
    const dirty = { a: ['x', { [secret]: secret }], b: secret }
    assert.equal(JSON.stringify(redactValue(dirty)).includes(secret), false)
    assert.deepEqual(redactValue({ a: 1, b: 'Bearer abcdefgh12345678' }), { a: 1, b: 'Bearer [redacted]' })
  })

  test('a megabyte of beginnings is read once, not from each of them', () => {
    // Read from each beginning these take minutes, and nothing else runs meanwhile: the test would not come to its end.
    for (const beginning of ['-eyJ', 'eyJaaaaa-', '-----BEGIN PRIVATE KEY-----', '-----BEGIN ', 'a://', 'Bearer '])
      assert.equal(hasSecretShape(beginning.repeat(1_048_576 / beginning.length)), false, beginning)
    assert.ok(hasSecretShape(`${'-eyJ'.repeat(1_000)}hbGciOiJub25l.eyJzdWIiOiIxIn0.c2ln`))
    assert.ok(hasSecretShape('-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,E\n--a--\n-----END RSA PRIVATE KEY-----'))
  })
})
