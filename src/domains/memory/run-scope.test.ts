import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { memoryTypes } from './memory-record.ts'
import { writeCertificate } from './forget-subject.ts'
import { decideDecay } from './review-stale-memory.ts'
import { decideChildScope, decideRead, narrowScope, type RunScope, runScope } from './search-memory.ts'

const parent: RunScope = {
  subject_type: 'customer',
  subject_id: '1',
  allowed_memory_types: ['preference', 'fact'],
  allow_semantic_retrieval: false,
  max_results: 10,
  read: ['customer.notes'],
  write: [],
}

const wider: readonly (readonly [string, Partial<RunScope>])[] = [
  ['subject_type', { subject_type: 'user' }],
  ['subject_id', { subject_id: '2' }],
  ['allowed_memory_types', { allowed_memory_types: ['preference', 'safety_rule'] }],
  ['allow_semantic_retrieval', { allow_semantic_retrieval: true }],
  ['max_results', { max_results: 11 }],
  ['read', { read: ['customer.notes', 'customer.cards'] }],
  ['write', { write: ['customer.notes'] }],
]
for (const [part, change] of wider) {
  test(`[MEM-14] a child whose ${part} reaches beyond its parent is refused`, () => {
    const decided = decideChildScope(parent, { ...parent, ...change })
    assert.ok(!decided.ok && decided.code === 'memory.scope.exceeded' && decided.path === `memory_scope.${part}`)
  })
}

test('[MEM-14] less is always within, and within is an order', () => {
  const scope: fc.Arbitrary<RunScope> = fc.record({
    subject_type: fc.constant('customer'),
    subject_id: fc.constantFrom('1', '2'),
    allowed_memory_types: fc.uniqueArray(fc.constantFrom(...memoryTypes)),
    allow_semantic_retrieval: fc.boolean(),
    max_results: fc.integer({ min: 0, max: 100 }),
    read: fc.uniqueArray(fc.constantFrom('a.a', 'b.b')),
    write: fc.uniqueArray(fc.constantFrom('a.a', 'b.b')),
  })
  const isScopeWithin = (one: RunScope, other: RunScope) => decideChildScope(one, other).ok
  fc.assert(
    fc.property(scope, scope, scope, (a, b, c) => {
      assert.ok(isScopeWithin(a, a))
      if (isScopeWithin(a, b) && isScopeWithin(b, c)) assert.ok(isScopeWithin(a, c))
      const less = { ...a, allowed_memory_types: a.allowed_memory_types.slice(1), max_results: 0, read: [], write: [] }
      assert.ok(isScopeWithin(a, { ...less, allow_semantic_retrieval: false }))
    }),
  )
})

test('[MEM-15] the shape of a run: five parts and the names of both lists; anything else is refused', () => {
  assert.ok(runScope.safeParse(parent).success)
  assert.equal(runScope.safeParse({ ...parent, scope: 'global' }).success, false)
  for (const part of [
    'subject_type',
    'subject_id',
    'allowed_memory_types',
    'allow_semantic_retrieval',
    'max_results',
  ]) {
    const { [part as 'subject_id']: _, ...rest } = parent
    assert.equal(runScope.safeParse(rest).success, false, part)
  }
  const narrowed = narrowScope({ read: ['a.a'], write: ['b.b'] }, { ...parent, read: ['a.a', 'c.c'], write: ['c.c'] })
  assert.deepEqual([narrowed.read, narrowed.write], [['a.a'], []])
})

test('[MEM-16] results are capped, text search needs leave, and nobody asks about a foreign subject', () => {
  const limit = (asked: number) => {
    const decided = decideRead(parent, { kind: 'subject', limit: asked })
    return decided.ok ? decided.value : -1
  }
  assert.deepEqual([limit(3), limit(10), limit(11)], [3, 10, 10])
  assert.equal(decideRead(parent, { kind: 'semantic', limit: 1 }).ok, false)
  assert.equal(decideRead({ ...parent, allow_semantic_retrieval: true }, { kind: 'semantic', limit: 1 }).ok, true)
  const other = { subject_type: 'customer', subject_id: '2' }
  assert.equal(decideRead(parent, { kind: 'subject', limit: 1, subject: other }).ok, false)
})

test('[MEM-18] what nobody confirms grows stale, rules do not, and more certainty lasts longer', () => {
  const at = new Date('2027-05-01T00:00:00Z')
  const aged = (days: number, confidence: number | null, memory_type: 'fact' | 'safety_rule' = 'fact') =>
    decideDecay({ memory_type, confidence, updated_at: new Date(at.getTime() - days * 86_400_000) }, at)
  assert.deepEqual(aged(0, 0.9), { confidence: 0.9, isStale: false })
  assert.equal(aged(180, 0.9).confidence, 0.45)
  assert.deepEqual([aged(360, 1).isStale, aged(361, 1).isStale], [false, true])
  assert.deepEqual([aged(180, null).isStale, aged(181, null).isStale], [false, true])
  assert.equal(aged(10_000, 0.1, 'safety_rule').isStale, false)
})

test('a certificate counts and names what was erased, and its hash detects a change', () => {
  const items = [
    { kind: 'memory', id: 'b' },
    { kind: 'embedding', id: 'x' },
    { kind: 'memory', id: 'a' },
  ]
  const write = (erased: typeof items) => writeCertificate('e', 'd', erased, new Date(0))
  const one = write(items)
  assert.deepEqual(one.document['counts'], { embedding: 1, memory: 2 })
  assert.deepEqual(one.document['erased'], { embedding: ['x'], memory: ['a', 'b'] })
  assert.equal(write(items.toReversed()).hash, one.hash)
  assert.notEqual(write(items.slice(1)).hash, one.hash)
})
