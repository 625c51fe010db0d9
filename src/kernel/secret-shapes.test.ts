/** Secrets are known by their shape, and ordinary words are left alone. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { secretCanaries } from '#test/secret-canaries'
import { hasSecretShape, redactText } from './secret-shapes.ts'
import { findSecret } from './secrets/find-secret.ts'
import { redactValue } from './secrets/redact-value.ts'

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

/** What people and programs write that only resembles a secret. */
const corpus = [
  'The password is required.',
  'Password: required',
  'Reset your password: follow the link in the mail.',
  'Enter a password: at least 12 characters',
  'Please do not send passwords, tokens or API keys by mail.',
  'The secret: never give up',
  "Secret: it's simple",
  'secret santa: Thursday 12:00',
  'Token: see below',
  'Two-factor tokens: hand them out on Monday.',
  'token_count=512, max_tokens: 4096',
  'next_page_token=abcdef123',
  'The key: 0197f3b2c4d57a8e9b0c1d2e3f405162',
  'sort_key=created_at',
  'primary key: customer_id',
  'idempotency_key: publish_report:art_0197f3b2c4d57a8e9b0c1d2e3f405170:finance@example.com',
  'We posted on LinkedIn, communications will follow.',
  'Confluence: the page about Q3 is at https://wiki.example/x?page=2',
  'Dropbox, Asana and Airtable: 3 tools, 17 seats.',
  'Bitbucket commit: 8f14e45fceea167a5a36dedd4bea25438f14e45f',
  'Heroku app 0197f3b2-c4d5-7a8e-9b0c-1d2e3f405162',
  'Authorization: required for all travellers',
  'The connection string is documented in the wiki.',
  'password=vault://team/db',
  'password: ********',
  'password=<your password>',
  'export PASSWORD=$DB_PASSWORD',
  'The keynote is at 10:30, the key takeaway is growth.',
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'art_0197f3b2c4d57a8e9b0c1d2e3f405170',
  'cmd_0197f3b2c4d57a8e9b0c1d2e3f405170',
  '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405162',
  'trace_4bf92f3577b34da6a3ce929d0e0e4736',
  'd41d8cd98f00b204e9800998ecf8427e',
  'da39a3ee5e6b4b0d3255bfef95601890afd80709',
  'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  'z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==',
  '01ARZ3NDEKTSV4RRFFQ69G5FAV',
  'https://example.com/reports/2026-05?sort=created_at&page=2#top',
  'DE89 3704 0044 0532 0130 00',
  '4111 1111 1111 1111',
  '+49 30 1234567',
  'Ada Lovelace <ada@example.com>',
  'Straße 5, 10115 Berlin – Tür 3 (Klingel „Müller“)',
  'SELECT id, name FROM tokens WHERE key = 5',
  '{"type":"order","id":"42","items":[{"sku":"A-1","count":2}]}',
  'Rate plan BER-2026-SUMMER, 3 nights, 910 USD, 50% off, refundable.',
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
  test('[M5] a secret in base64 or in hex of either case is one, alone and in a sentence', () => {
    const secret = `ghp_${'a1B2'.repeat(9)}`
    const hex = Buffer.from(secret).toString('hex')
    for (const encoded of [btoa(secret), hex, hex.toUpperCase()])
      for (const text of [encoded, `Use ${encoded} here.`]) assert.equal(hasSecretShape(text), true, text)
  })

  test('[M5] prose, ids, hashes, images and addresses are none', () => {
    for (const text of corpus) assert.equal(hasSecretShape(text), false, text)
    const ids = fc.oneof(fc.uuid(), fc.stringMatching(/^(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})$/))
    fc.assert(
      fc.property(ids, fc.constantFrom('', 'id: ', 'commit ', 'sha256:'), (id, before) => {
        assert.equal(hasSecretShape(before + id), false)
      }),
    )
  })
  test('[M5] a secret of every rule is one, in a sentence and in another field', () => {
    const canaries = secretCanaries(7)
    assert.ok(canaries.length >= 200)
    for (const { name, text } of canaries) {
      assert.ok(hasSecretShape(text), name)
      assert.ok(hasSecretShape(`See ${text}. Thanks!`), name)
      assert.ok(findSecret({ note: [text] }), name)
      assert.notEqual(redactText(text), text, name)
    }
  })
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
    for (const beginning of [
      '-eyJ',
      'eyJaaaaa-',
      '-----BEGIN ',
      'a://',
      'Bearer ',
      'key=',
      '--key=',
      'curl ',
      'pwd is ',
      'pin for a ',
    ])
      assert.equal(hasSecretShape(beginning.repeat(1_048_576 / beginning.length)), false, beginning)
    assert.ok(hasSecretShape(`${'-eyJ'.repeat(1_000)}hbGciOiJub25l.eyJzdWIiOiIxIn0.c2ln`))
    assert.ok(hasSecretShape('-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,E\n--a--\n-----END RSA PRIVATE KEY-----'))
  })
})
