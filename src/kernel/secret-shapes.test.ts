/** Secrets are known by their shape, and ordinary words are left alone. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
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

/** All that each shape allows, as far as a text can be generated from it. */
const anySecrets = [
  /^ck_[a-z0-9]{4,16}_[A-Za-z0-9_-]{20,40}$/,
  /^[A-Za-z][A-Za-z0-9+.-]{0,9}:\/\/[a-z]{0,5}:[a-z0-9:/]{1,9}@$/,
  /^([Bb][Ee][Aa][Rr][Ee][Rr]|[Bb][Aa][Ss][Ii][Cc])[ \t\n]{1,3}[A-Za-z0-9._~+/=-]{8,40}$/,
  /^eyJ[A-Za-z0-9_]{5,20}\.[A-Za-z0-9_-]{5,20}\.[A-Za-z0-9_-]{0,9}$/,
  /^(sk|pk|rk)[-_](live|test|proj|ant)?[-_]?[A-Za-z0-9_-]{16,40}$/,
  /^gh[pousr]_[A-Za-z0-9]{20,40}$/,
  /^xox[abprs]-[A-Za-z0-9-]{10,40}$/,
  /^AKIA[0-9A-Z]{16}$/,
  /^-----BEGIN [A-Z ]{0,9}PRIVATE KEY-----[a-z\n]{0,9}-----END [A-Z ]{0,9}PRIVATE KEY-----$/,
]

describe('secrets by shape', () => {
  for (const text of secrets) {
    test(`${text.slice(0, 20)}… is one`, () => {
      assert.ok(hasSecretShape(text))
      assert.ok(hasSecretShape(`it says ${text}, twice`))
      assert.notEqual(redactText(text), text)
    })
  }
  for (const shape of anySecrets) {
    test(`any text like ${shape.source.slice(1, 40)} is redacted, whatever stands around it`, () => {
      const around = fc.string().map((text) => text.replaceAll(/["'@-]/g, ' '))
      fc.assert(
        fc.property(fc.stringMatching(shape), around, around, (secret, before, after) => {
          const text = `${before} ${secret} ${after}`
          assert.notEqual(redactText(text), text)
        }),
      )
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
