/** Field names that make their value a secret, and names that only contain the same words. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { findSecret } from './find-secret.ts'
import { isSecretName } from './secret-name.ts'

const SECRET =
  'password passwd pwd passphrase passcode secret token apikey api_key access_key secret_key private_key client_secret access_token refresh_token aws_secret_access_key credentials authorization cookie cvv cvc pin otp jwt connection_string db_pass passwort pass auth signing_secret recovery_codes backup_code otp_code mfa_code seed_phrase hmac_key passw0rd basic_auth'.split(
    ' ',
  )
const OTHER =
  'token_count page_token next_page_token secret_santa password_policy password_hint token_type tokenizer key sort_key idempotency_key primary_key public_key shopping opinion pincode passport boarding_pass cookie_banner travel_authorization secretary author tokens_used keyword pinned compass spin keyboard authority authentication pass_rate oauth country_code status_code bypass'.split(
    ' ',
  )

/** The spellings that programs use for one name. */
const spellings = (name: string) => {
  const words = name.split('_')
  const big = (word: string) => word.charAt(0).toUpperCase() + word.slice(1)
  return [
    name,
    name.toUpperCase(),
    words.join('-'),
    words.join('.'),
    words.join(' '),
    words.map(big).join(''),
    words.map((word, at) => (at === 0 ? word : big(word))).join(''),
    words.map(big).join('-'),
  ]
}

test('[M5] a name is a secret in every spelling, and after other words', () => {
  for (const name of SECRET)
    for (const spelling of spellings(name)) {
      assert.ok(isSecretName(spelling), spelling)
      if (!['authorization', 'cookie', 'pass', 'auth'].includes(name))
        assert.ok(isSecretName(`my_${spelling}`), `my_${spelling}`)
      for (const more of ['1', '_2', '_v1', '_confirmation', '_value', '_prod', '_for_db'])
        assert.ok(isSecretName(spelling + more), spelling + more)
    }
})

test('[M5] the last word decides', () => {
  for (const name of OTHER)
    for (const spelling of spellings(name)) assert.equal(isSecretName(spelling), false, spelling)
  fc.assert(
    fc.property(fc.constantFrom(...SECRET), fc.constantFrom('count', 'policy', 'type', 'expires_at'), (name, last) =>
      assert.equal(isSecretName(`${name}_${last}`), false),
    ),
  )
})

test('[M5] a number is a secret only where people write numbers', () => {
  for (const name of ['cvv', 'pin', 'password', 'otp_2', 'api_key', 'clientSecret'])
    assert.ok(isSecretName(name, 'number'), name)
  for (const name of ['token', 'tokens', 'secret', 'api_keys']) assert.equal(isSecretName(name, 'number'), false, name)
})

test('[M5] the answer does not depend on which names were asked about before, as text or as number', () => {
  const answers = () =>
    ['password', 'apiKey', 'token_count', 'seat'].map((name) => [isSecretName(name), isSecretName(name, 'number')])
  const first = answers()
  assert.deepEqual(first, [
    [true, true],
    [true, true],
    [false, false],
    [false, false],
  ])
  for (let n = 0; n < 2_500; n++) assert.equal(isSecretName(`seat_${n}_row`), false)
  assert.deepEqual(answers(), first)
})

test('[M5] a finding says where the secret is, in lists and objects too, and never shows it', () => {
  const pathOf = (value: Parameters<typeof findSecret>[0], isDeclared?: (path: string) => boolean) =>
    findSecret(value, isDeclared)?.path
  assert.equal(pathOf({ a: [{ password: 'x' }] }), 'a[0].password')
  assert.equal(pathOf({ credentials: { user: 'ada', list: ['x'] } }), 'credentials.user')
  assert.equal(pathOf({ cvv: 123 }), 'cvv')
  assert.equal(pathOf({ adafruit_key: '0123456789abcdef0123456789abcdef' }), 'adafruit_key')
  assert.equal(pathOf({ 'Bearer abcdefgh12345678': 1 }), '')
  for (const value of [
    { password: '' },
    { password: null },
    { secret: true },
    { api_key: 'vault://team/x' },
    { token: 5 },
  ])
    assert.equal(pathOf(value), undefined, JSON.stringify(value))
  const isDeclared = (path: string) => path === 'pay.token'
  assert.equal(pathOf({ pay: [{ token: 'tok_1' }] }, isDeclared), undefined)
  assert.equal(pathOf({ pay: { token: 'password=hunter22' } }, isDeclared), 'pay.token')
  assert.equal(pathOf({ token: 'tok_1' }, isDeclared), 'token')
})
