import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { dataClasses } from '#kernel/data-class'
import { memoryScopes, memoryTypes } from './memory-record.ts'
import { decideMemoryWrite, type MemoryWriteFacts } from './decide-memory-write.ts'
import { memorySchema, openMemorySchemas } from './memory-schema.ts'

const at = new Date('2026-05-01T10:00:00Z')
const later = new Date('2026-06-01T10:00:00Z')
const sure: MemoryWriteFacts = {
  memory_type: 'preference',
  scope: 'user',
  subject_type: 'customer',
  sensitivity: 'internal',
  confidence: 0.9,
  expires_at: null,
  by_agent: false,
  has_consent: true,
  conflict: null,
  supersedes: null,
  schema: null,
  at,
}
const M1 = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'
const M2 = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405162'
const rival = { memory_id: M1, is_same: false, confidence: 0.9 }
const travel = {
  name: 'customer.travel_preferences',
  subject_type: 'customer',
  memory_types: ['preference'],
  visibility: ['user'],
  consent: { required: true },
  expiration: { after_days: 365 },
  supersession: 'supersede',
  retrieval: ['subject'],
  write_policy: 'direct',
}
const schema = memorySchema.parse(travel)

const table: readonly (readonly [string, Partial<MemoryWriteFacts>, string])[] = [
  ['[MEM-04] a sure, harmless, consented preference', {}, 'write'],
  ['[MEM-04] the same without consent', { has_consent: false }, 'ask'],
  ['[MEM-04] just sure enough', { confidence: 0.8 }, 'write'],
  ['[MEM-04] not sure enough', { confidence: 0.79 }, 'ask'],
  ['[MEM-04] nobody said how sure', { confidence: null }, 'ask'],
  ['[MEM-05] personal data', { sensitivity: 'pii' }, 'ask'],
  ['[MEM-05] confidential', { sensitivity: 'confidential' }, 'ask'],
  ['[MEM-05] a team', { scope: 'team' }, 'ask'],
  ['[MEM-05] everybody', { scope: 'global' }, 'ask'],
  ['[MEM-05] a rule of business', { memory_type: 'business_rule' }, 'ask'],
  ['[MEM-05] a fact', { memory_type: 'fact' }, 'ask'],
  ['[MEM-13] proposed by an agent', { by_agent: true }, 'ask'],
  ['[MEM-06] contradicts a record', { conflict: rival }, 'ask'],
  ['[MEM-06] contradicts another than it names', { conflict: rival, supersedes: M2 }, 'ask'],
  ['[MEM-06] names what it replaces', { conflict: rival, supersedes: M1 }, 'write'],
  ['[MEM-06] names it, but is less sure', { conflict: { ...rival, confidence: 0.95 }, supersedes: M1 }, 'ask'],
  [
    '[MEM-06] names it, but its schema asks',
    { conflict: rival, supersedes: M1, schema: { ...schema, supersession: 'ask' } },
    'ask',
  ],
  ['[MEM-06] is known already', { conflict: { ...rival, is_same: true }, has_consent: false }, 'known'],
  ['[MEM-07] with an end', { expires_at: later }, 'write'],
  ['[MEM-07] over already', { expires_at: at }, 'reject'],
  ['[MEM-19] a secret', { sensitivity: 'secret' }, 'reject'],
  ['[MEM-21] fits its schema', { schema }, 'write'],
  ['[MEM-21] a schema that requires a consent, and none stands', { schema, has_consent: false }, 'reject'],
  [
    '[MEM-21] known already, under a schema that requires a consent which was taken back',
    { schema, has_consent: false, conflict: { ...rival, is_same: true } },
    'reject',
  ],
  [
    '[MEM-21] a schema that requires none: a person decides, as ever',
    { schema: { ...schema, consent: { required: false } }, has_consent: false },
    'ask',
  ],
  ['[MEM-21] another subject type', { schema, subject_type: 'team' }, 'reject'],
  ['[MEM-21] a scope outside its visibility', { schema, scope: 'project' }, 'reject'],
  ['[MEM-21] a schema that asks', { schema: { ...schema, write_policy: 'approval' } }, 'ask'],
  ['[MEM-21] a schema that takes nothing', { schema: { ...schema, write_policy: 'forbidden' } }, 'reject'],
  ['[MEM-21] a schema that wants more certainty', { schema: { ...schema, confidence: { direct_from: 0.95 } } }, 'ask'],
]
for (const [title, change, expected] of table) {
  test(`${title}: ${expected}`, () => assert.equal(decideMemoryWrite({ ...sure, ...change }).t, expected))
}

test('[MEM-06] a contradiction names the id of what it contradicts, without its content', () => {
  assert.deepEqual(decideMemoryWrite({ ...sure, conflict: rival }), {
    t: 'ask',
    reasons: ['It contradicts the memory mem_0197f3b2c4d57a8e9b0c1d2e3f405161.'],
  })
})

test('[MEM-06] what is written in place of another names it', () => {
  assert.deepEqual(decideMemoryWrite({ ...sure, conflict: rival, supersedes: M1 }), { t: 'write', supersedes: M1 })
  assert.deepEqual(decideMemoryWrite({ ...sure, supersedes: M1 }), { t: 'write', supersedes: null })
})

const anyFacts: fc.Arbitrary<MemoryWriteFacts> = fc.record({
  memory_type: fc.constantFrom(...memoryTypes),
  scope: fc.constantFrom(...memoryScopes),
  subject_type: fc.constantFrom('customer', 'user', 'team'),
  sensitivity: fc.constantFrom(...dataClasses),
  confidence: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
  expires_at: fc.option(fc.date({ noInvalidDate: true })),
  is_temporary: fc.boolean(),
  by_agent: fc.boolean(),
  has_consent: fc.boolean(),
  conflict: fc.option(
    fc.record({
      memory_id: fc.constantFrom(M1, M2),
      is_same: fc.boolean(),
      confidence: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
    }),
  ),
  supersedes: fc.option(fc.constantFrom(M1, M2)),
  schema: fc.option(fc.constant(schema)),
  at: fc.constant(at),
})

test('[MEM-04] [MEM-05] [MEM-06] whatever the facts: written at once only if every rule holds', () => {
  fc.assert(
    fc.property(anyFacts, (facts) => {
      const decision = decideMemoryWrite(facts)
      if (decision.t !== 'write') return
      assert.equal(facts.has_consent, true)
      assert.ok(facts.memory_type === 'preference' || facts.memory_type === 'workflow_preference')
      assert.ok(facts.scope === 'user' || facts.scope === 'project')
      assert.ok(facts.sensitivity === 'public' || facts.sensitivity === 'internal')
      assert.ok((facts.confidence ?? 0) >= 0.8)
      assert.equal(facts.by_agent, false)
      assert.ok(facts.conflict === null || facts.conflict.memory_id === decision.supersedes)
      assert.ok(facts.expires_at === null || facts.expires_at > at)
    }),
    { numRuns: 5_000 },
  )
})

test('[MEM-04] taking consent away never makes a write of what was none', () => {
  fc.assert(
    fc.property(anyFacts, (facts) => {
      const without = decideMemoryWrite({ ...facts, has_consent: false })
      assert.notEqual(without.t, 'write')
    }),
  )
})

test('[MEM-21] a schema says all of its contract or is refused, with every mistake', () => {
  const parts = ['subject_type', 'visibility', 'consent', 'expiration', 'supersession', 'retrieval', 'write_policy']
  for (const part of parts) {
    const { [part]: _, ...rest } = travel as Record<string, unknown>
    const opened = openMemorySchemas([rest])
    assert.ok(!opened.ok && opened.code === 'memory.schema.invalid' && opened.reason.includes(part), part)
  }
  const twice = openMemorySchemas([travel, travel])
  assert.ok(!twice.ok && twice.reason.includes('twice'))
  const opened = openMemorySchemas([travel])
  assert.ok(opened.ok && opened.value.find(travel.name)?.confidence.direct_from === 0.8)
})
