/** Secrets whose name has more words, is in the plural, is short or is spelled with letters of other alphabets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../json-value.ts'
import { redactText } from '../secret-shapes.ts'
import { findSecret } from './find-secret.ts'
import { redactValue } from './redact-value.ts'

const assertTold = (texts: readonly string[]) => {
  for (const text of texts) {
    assert.ok(findSecret({ note: text }), text)
    assert.doesNotMatch(redactText(text), /swordfish|marlin|hunter[23]|4711/i, text)
  }
}
const assertKept = (texts: readonly string[]) => {
  for (const text of texts) assert.equal(findSecret({ note: text }), undefined, text)
}

test('[N10] [SEC-06] words about what a secret is for do not hide it', () => {
  assertTold([
    'password for prod: swordfish',
    'password for prod = swordfish',
    'password for prod:swordfish',
    'password for prod -> swordfish',
    'Password for the staging database: swordfish, thanks',
    'password for db.example.com: swordfish',
    'password for db.example.com is swordfish',
    'password of ada@example.com: hunter2',
    'password on prod: hunter2',
    'password (prod): hunter2',
    'password (for prod) is swordfish',
    'password [prod]: swordfish',
    'password [prod] = swordfish',
    'password {prod}: swordfish',
    'password(prod): swordfish',
    'password[prod]=swordfish',
    'password <prod>: swordfish',
    'password for "prod": swordfish',
    'password for prod (new): swordfish',
    'the password for prod has been set to swordfish',
    'password prod: swordfish',
    'password - prod: swordfish',
    'Passwort prod: swordfish',
    'db_password (staging): swordfish',
    'passcode for the door: 4711',
    'pin for the card: 4711',
    'api key for prod: swordfish99',
    'api key (prod): swordfish99',
    'the api key for prod is swordfish99',
    'client secret for prod = swordfish99',
    'token for prod: swordfish99',
    'token for the password: swordfish',
    'the key for the api, and the password for prod: swordfish',
    'password for the token service: swordfish',
    'swordfish is the password for prod',
    'hunter2 is the password for prod.',
    'reset the password for prod: hunter2',
    'I changed the password for prod: swordfish',
    'You need the password for prod: swordfish',
    'now the password for prod: swordfish',
  ])
  assertKept([
    'the password for prod is stored in Vault',
    'the password (prod) is stored in Vault',
    'password for prod: see Vault',
    'password for prod: ask Ada',
    'password for prod: Ada knows it',
    'password for prod: vault://team/prod',
    'password for prod = vault://team/prod',
    'password (optional): string',
    'password (min 8 characters): required',
    'password [prod]: [redacted]',
    'Reset password for user: ada',
    'Reset the password for user: ada@example.com',
    'Wrong password for user: ada',
    'Change the password for these accounts: ada, bob',
    'Unexpected token in app.js:120:15',
    'Unexpected token in JSON at position 14: unexpected',
    'boarding pass for Monday: K3JF9Q',
    'the key for the map: legend1',
    'What is the password for prod?',
    'This is the password for prod.',
    'Which system is the password for prod, staging?',
    'auth for prod: basic',
    'password test: passed',
    'checkPassword(user): Promise',
    'return ok ? authenticateToken(deps.db, verify) : unauthenticated1()',
    'select u.turn_token from unnest($2::uuid[]) as u(turn_token)',
    'It looks for secrets in 1 MiB of text, per rule: `node bench/find1.ts`',
    'signingKey = new Uint8Array(32)',
    'Please create a password for the new user: Ada',
    'set the password in Vault to rotate',
  ])
})

test('[N10] [SEC-06] a short name tells a secret, and is a result or a unit elsewhere', () => {
  assertTold([
    'pass: swordfish',
    'Pass: swordfish.',
    'user: ada, pass: swordfish',
    'the pass for prod is hunter2',
    'pw: swordfish',
    'the pw for prod is hunter2',
    'the pw is swordfish',
    'pw (prod): swordfish',
    'hunter2 is the pw',
    'swordfish is our prod pw.',
    'log in with pw hunter2',
    'set the pw to swordfish',
  ])
  assertKept([
    'pass: 3 of 4 tests',
    'pass: all tests',
    'pass: lint, types',
    'pass: smoke',
    'pass: docs',
    'first pass: cleanup',
    'ski pass: Monday',
    'The laser has 10 PW.',
    '10 PW is 10000000 GW',
    '450 pw is cheap1',
    'rent pw is 450',
    'the pw for prod is stored in Vault',
    'What is the pw?',
  ])
})

test('[N10] [SEC-06] each secret of a list is one', () => {
  assertTold([
    'my passwords are hunter2 and hunter3',
    'my passwords are swordfish and marlin',
    'The passwords for prod are swordfish1, hunter2 and hunter3.',
    'passwords: hunter2, hunter3',
    'our pins are 4711 and 4712',
    'the api keys are swordfish99 and hunter2hunter',
    'the pws are hunter2 and hunter3',
  ])
  assertKept([
    'Passwords are hashed, salted and peppered',
    'Passwords are SHA-256 hashed',
    'passwords are rubbish',
    'passwords are 128 bits long',
    'The pins are bent and broken',
    'the pins: 120 and 121',
    'tokens are 4096 and 8192',
    'the access codes are in the mail',
    'passwords and tokens are rotated',
  ])
})

test('[N10] [SEC-06] a key or a token next to its name is one', () => {
  assertTold([
    'api key swordfish99abc',
    'use api key swordfish99abc please',
    'use api key swordfish99abc to log in',
    'API-Key swordfish99abc',
    'access token swordfish99abc',
    'log in with token swordfish99abc.',
    'client secret "swordfish99"',
  ])
  assertKept([
    'revoke api key key_019de2fb19007661bca20c95b4534cc5',
    'api key rotation',
    'Use the private key id_ed25519.',
    'the private key certs/2026/server.pem',
    'api key PROD-1234567',
    'token 4096',
    'a token base64url, then a dot',
    'the token SHA-256.',
    'the api key owner2 has left',
    'the secret project2026',
    'the token access_token_v2 is missing',
  ])
})

test('[N10] [SEC-06] letters of other alphabets that look the same do not hide a name', () => {
  assertTold([
    'pаssword: hunter2',
    'раѕѕword: swordfish',
    'pαssword=swordfish',
    'passwοrd = swordfish',
    'PАSSWORD=swordfish',
    'ᴘᴀꜱꜱᴡᴏʀᴅ: swordfish',
    'passwørd: swordfish',
    'my pаssword is swordfish',
    'tоkеn=swordfish99',
    'p%D0%B0ssword=swordfish',
    'p\\u0430ssword=swordfish',
  ])
  assertKept(['рассказ: глава1', 'Πρόγραμμα: δοκιμή1', 'Smørrebrød: rugbrød2'])
})

const HELD: readonly JsonObject[] = [
  { label: 'Password', answer: 'x' },
  { name: 'do-password', Answer: 'x' },
  { question: 'Password', answer: 'x' },
  { question: 'What is your password?', answer: 'x' },
  { name: 'password', stringValue: 'x' },
  { name: 'password', field_value: 'x' },
  { text: '[{"label":"password","answer":"swordfish"}]' },
  { secretKey: 12345 },
  { private_key: 12345 },
  { clientSecret: 12345 },
  { accessToken: 12345 },
  { pаssword: 'x' },
  { РIN: 1234 },
  { columns: ['user', 'password'], rows: [['a', 'swordfish']] },
  {
    columns: ['user', 'pin'],
    rows: [
      ['a', 'b'],
      ['a', 1234],
    ],
  },
  { columns: [{ name: 'user' }, { name: 'password' }], rows: [['a', 'swordfish']] },
  { header: ['password', 'user'], data: [['swordfish', 'a']] },
  { '{"p\\u0061ssword":"swordfish"}': 1 },
  { 'p\\x61ssword=swordfish': 1 },
]

const NOT_HELD: readonly JsonObject[] = [
  { question: 'How do I reset my password?', answer: 'Follow the link.' },
  { label: 'Colour', answer: 'x' },
  { type: 'password', helpText: 'At least 8 letters' },
  { name: 'pin', min_value: 1000 },
  { api_keys: 3 },
  { tokens: 4096 },
  { token: 5 },
  { secret: 1 },
  { pw: 450 },
  { columns: ['user', 'role'], rows: [['a', 'b']] },
  { columns: ['user', 'password'], rows: [['a', 'vault://a/b']] },
  { columns: ['user', 'password'], rows: [['a']] },
  { columns: ['user', 'password'], rows: 3 },
  { columns: 2, rows: [['a', 'b']] },
]

test('[N10] [SEC-06] answers, keys in digits and columns of a table are secrets by their name', () => {
  for (const value of HELD) {
    assert.ok(findSecret(value), JSON.stringify(value))
    assert.match(JSON.stringify(redactValue(value)), /\[redacted\]/)
    assert.doesNotMatch(JSON.stringify(redactValue(value)), /swordfish|12345/)
  }
  for (const value of NOT_HELD) {
    assert.equal(findSecret(value), undefined, JSON.stringify(value))
    assert.equal(redactValue(value), value, JSON.stringify(value))
  }
})
