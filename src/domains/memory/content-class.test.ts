import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { dataClasses } from '#kernel/data-class'
import { checkProposal } from './candidate.ts'
import { classifyContent, parseFactKey, parseSubject, showSubject } from './memory-content.ts'
import { memoryTypes } from './memory-record.ts'
import { openMemorySchemas } from './memory-schema.ts'

const cases: readonly (readonly [object, string, string | undefined])[] = [
  [{ seat: 'aisle' }, 'internal', undefined],
  [{ note: 'The password is hunter2' }, 'secret', 'note'],
  [{ login: { password: 'hunter2' } }, 'secret', 'login.password'],
  [{ keys: ['sk_live_4eC39HqLyjWDarjtT1zdp7dc'] }, 'secret', 'keys[0]'],
  [{ pem: '-----BEGIN RSA PRIVATE KEY-----\nabc' }, 'secret', 'pem'],
  [{ api_key: 'vault://team/stripe' }, 'internal', undefined],
  [{ card: '4111 1111 1111 1111' }, 'payment', 'card'],
  [{ card: 4111111111111111 }, 'payment', 'card'],
  [{ order: '4111 1111 1111 1112' }, 'internal', undefined],
  [{ account: 'DE89 3704 0044 0532 0130 00' }, 'payment', 'account'],
  [{ contact: 'write to ada@example.com' }, 'pii', 'contact'],
  [{ 'ada@example.com': true }, 'pii', '["ada@example.com"]'],
  [{ phone: '+49 30 1234567' }, 'pii', 'phone'],
  [{ text: 'nothing, 12345' }, 'internal', undefined],
]
for (const [content, expected, path] of cases) {
  test(`[MEM-19] ${JSON.stringify(content)} is ${expected}`, () => {
    const found = classifyContent(content as never)
    assert.equal(found.class, expected)
    assert.equal(found.findings[0]?.path, path)
  })
}

test('[MEM-19] what an author declares is never lowered, and more content never lowers it', () => {
  const text = fc.constantFrom('aisle', 'ada@example.com', '4111111111111111', 'password: x')
  fc.assert(
    fc.property(
      text,
      text,
      fc.constantFrom('public', 'internal', 'confidential', 'pii', 'payment'),
      (one, other, declared) => {
        const rank = (content: Record<string, string>) => dataClasses.indexOf(classifyContent(content, declared).class)
        assert.ok(rank({ one }) >= dataClasses.indexOf(declared))
        assert.ok(rank({ one, other }) >= Math.max(rank({ one }), rank({ other })))
      },
    ),
  )
})

const at = new Date('2026-05-01T10:00:00Z')
const none = openMemorySchemas([])
assert.ok(none.ok)
const schemas = none.value
const base = {
  subject_type: 'customer',
  subject_id: '1',
  scope: 'user',
  memory_type: 'preference',
  content: { a: 'b' },
} as const

test('[MEM-03] a proposal of every type is taken as it is', () => {
  for (const memory_type of memoryTypes) {
    const checked = checkProposal(schemas, { ...base, memory_type }, at)
    assert.ok(checked.ok && checked.value.memory_type === memory_type)
  }
})

test('[MEM-07] [MEM-19] a proposal is refused before it is stored, with the place and the way out', () => {
  const refused: readonly (readonly [object, string, string])[] = [
    [{ content: {} }, 'memory.content.empty', 'content'],
    [{ content: { pin: '1234' } }, 'memory.content.secret', 'content.pin'],
    [{ temporary: true }, 'memory.expiry.missing', 'expires_at'],
    [{ expires_at: at }, 'memory.expiry.past', 'expires_at'],
    [{ schema_name: 'no.such' }, 'memory.schema.unknown', 'schema_name'],
  ]
  for (const [change, code, path] of refused) {
    const checked = checkProposal(schemas, { ...base, ...change }, at)
    assert.ok(!checked.ok && checked.code === code && checked.path === path, code)
    assert.ok(!JSON.stringify(checked).includes('1234'))
  }
})

test('[MEM-21] a schema bounds the end of what follows it', () => {
  const opened = openMemorySchemas([
    {
      name: 'customer.notes',
      subject_type: 'customer',
      memory_types: ['preference'],
      visibility: ['user'],
      consent: { required: true },
      expiration: { after_days: 10 },
      supersession: 'ask',
      retrieval: ['subject'],
      write_policy: 'direct',
      sensitivity: 'confidential',
    },
  ])
  assert.ok(opened.ok)
  const end = (expires_at?: Date) => {
    const checked = checkProposal(opened.value, { ...base, schema_name: 'customer.notes', expires_at }, at)
    assert.ok(checked.ok)
    assert.equal(checked.value.sensitivity, 'confidential')
    return checked.value.expires_at?.toISOString()
  }
  assert.equal(end(), '2026-05-11T10:00:00.000Z')
  assert.equal(end(new Date('2026-05-03T00:00:00Z')), '2026-05-03T00:00:00.000Z')
  assert.equal(end(new Date('2030-05-03T00:00:00Z')), '2026-05-11T10:00:00.000Z')
})

test('a subject is a kind and an id; one user is one subject however it is written', () => {
  const uuid = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405163'
  for (const text of [`user:${uuid}`, `user:user_${uuid.replaceAll('-', '')}`]) {
    const parsed = parseSubject(text)
    assert.ok(parsed.ok)
    assert.deepEqual(parsed.value, { subject_type: 'user', subject_id: uuid })
    assert.equal(showSubject(parsed.value), `user:user_${uuid.replaceAll('-', '')}`)
  }
  for (const text of [
    '',
    'alice',
    ':x',
    'user:',
    'User:x',
    'user: x',
    'user:erased:1',
    `user:${'x'.repeat(201)}`,
    'user:a\u200bb',
  ])
    assert.equal(parseSubject(text).ok, false, JSON.stringify(text))
  const odd = parseSubject('customer:a:b')
  assert.ok(odd.ok && odd.value.subject_id === 'a:b')
})

test('the key of a fact is plain, and cannot pretend to be a content', () => {
  assert.ok(parseFactKey('travel.seat').ok)
  for (const text of ['', 'Travel', 'says:abc', '.a', 'a b', 'x'.repeat(201)])
    assert.equal(parseFactKey(text).ok, false, text)
})

test('a megabyte of one word is classed without being read from each of its characters', () => {
  // 40,000 characters took four seconds, and four times as many take sixteen times as long.
  for (const word of ['a', 'a@', '1 ', '+1 ', 'AB12 ', 'password ', '-----BEGIN '])
    assert.notEqual(classifyContent({ word: word.repeat(1_048_576 / word.length) }).class, 'secret', word)
  assert.equal(classifyContent({ text: `${'a'.repeat(100_000)}@example.com` }).class, 'pii')
})
