/** Who sent no key is not told to use another one, but where the key comes from. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideIdempotencyKey, parseKeyTemplate } from '#kernel/idempotency-key'
import { refuse } from '#kernel/refusal'
import { explainLong, explainReused, templateOf } from './submit.ts'

const parsed = parseKeyTemplate('letter:{to}')
assert.ok(parsed.ok)
const contract = { required: true, template: parsed.value }
const reused = refuse('key_reused', 'this key was used before', {
  hint: 'use a new key',
  facts: { first: '01a1df1f-1436-7423-958f-4332475245db' },
})

test('a key of the contract is explained by its template, with the command that has it', () => {
  const told = explainReused(reused, templateOf(contract, undefined), true)
  assert.equal(told.code, 'key_reused')
  assert.match(told.reason, /^cmd_01a1df1f14367423958f4332475245db has the same key.*letter:\{to\}/)
  assert.match(told.hint ?? '', /your own idempotency_key/)
  assert.deepEqual(told.facts, { command_id: 'cmd_01a1df1f14367423958f4332475245db' })
})

test('a key that was sent keeps its words', () => {
  const told = explainReused(reused, templateOf(contract, 'mine'), true)
  assert.deepEqual([told.reason, told.hint], [reused.reason, reused.hint])
  assert.deepEqual(told.facts, { command_id: 'cmd_01a1df1f14367423958f4332475245db' })
})

test('an outside system is shown nothing of the command that has the key', () => {
  for (const sent of [undefined, 'mine']) {
    const told = explainReused(reused, templateOf(contract, sent), false)
    assert.deepEqual(
      [told.code, told.reason, told.hint, told.facts],
      ['key_reused', 'this key was used before', 'use a new key', undefined],
    )
  }
})

test('a payload that makes the key too long is told of the template, a long key that was sent is not', () => {
  const long = 'x'.repeat(300)
  const made = decideIdempotencyKey(contract, undefined, { to: long })
  assert.ok(!made.ok)
  assert.match(explainLong(made, templateOf(contract, undefined)).reason, /1 to 255 characters\. .*letter:\{to\}\.$/)
  const sent = decideIdempotencyKey(contract, long, { to: 'a' })
  assert.ok(!sent.ok)
  assert.equal(explainLong(sent, templateOf(contract, long)), sent)
})
