/** The worst case of a call is really its worst case, and figures that cannot be true save nothing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { utf8Size } from '#kernel/json-value'
import type { AgentMessage, ModelRequest } from '../agent-runtime.ts'
import { openNames, toGenerateInput } from './model-messages.ts'
import { findTermFlaws, type ModelTerms, readUsage, worstUsage } from './model-terms.ts'

const terms: ModelTerms = {
  name: 'small',
  provider: 'fake',
  model: 'fake-small',
  prices: { input: '0.15', output: '0.6' },
  contextTokens: 100_000,
  overheadTokens: 100,
  outputTokensMax: 500,
}
const worst = { inputTokens: 900, outputTokens: 500, cachedTokens: 0, reasoningTokens: 0 }
const said = { inputTokens: 10, outputTokens: 5, cachedTokens: 0, reasoningTokens: 0 }

test('usage that is missing or cannot be true counts as the worst case', () => {
  const none = { inputTokens: undefined, outputTokens: undefined, cachedTokens: undefined, reasoningTokens: undefined }
  for (const wrong of [
    none,
    { ...said, inputTokens: 0 },
    { ...said, inputTokens: -10 },
    { ...said, inputTokens: 1.5 },
    { ...said, inputTokens: Number.NaN },
    { ...said, inputTokens: Number.POSITIVE_INFINITY },
    { ...said, outputTokens: 0 },
    { ...said, cachedTokens: 11 },
    { ...said, reasoningTokens: 6 },
  ])
    assert.deepEqual(readUsage(wrong, false, worst), worst, JSON.stringify(wrong))
  assert.deepEqual(readUsage(said, false, worst), said)
  assert.equal(readUsage({ ...said, outputTokens: 0 }, true, worst).outputTokens, 0)
})

test('figures above the worst case are kept, so that the budget sees them', () => {
  const above = { ...said, inputTokens: 5_000 }
  assert.deepEqual(readUsage(above, false, worst), above)
})

test('a request has at least as many bytes as its contents have in the prompt', () => {
  const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 40 }), fc.constant('"\\\n'))
  const message = fc.oneof<fc.Arbitrary<AgentMessage>[]>(
    text.map((content) => ({ role: 'user', content })),
    fc.record({ name: text, value: text }).map((content) => ({ role: 'agent', content })),
    text.map((said) => ({ role: 'assistant', text: said, calls: [] })),
    fc.jsonValue().map((content) => ({
      role: 'tool',
      observation: { callId: 'a', decision: 'done', content: JSON.parse(JSON.stringify(content)) },
    })),
  )
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 8 }), fc.nat(2_000), (messages, outputTokensMax) => {
      const request: ModelRequest = { model: 'small', messages, tools: [], outputTokensMax }
      const input = toGenerateInput(request)
      const bytes = utf8Size(JSON.stringify(input))
      const contents = input.messages.reduce((sum, each) => sum + utf8Size(each.text ?? ''), 0)
      assert.ok(bytes >= contents)
      const most = worstUsage(terms, bytes, outputTokensMax)
      assert.equal(most.inputTokens, Math.min(bytes + terms.overheadTokens, terms.contextTokens))
      assert.equal(most.outputTokens, Math.min(outputTokensMax, terms.outputTokensMax))
    }),
  )
})

test('every name of a tool has one name on the wire, which the providers accept, and comes back', () => {
  const name = fc.oneof(fc.string({ minLength: 1 }), fc.constantFrom('Read Document', 'Read_Document', 'read.sql'))
  fc.assert(
    fc.property(fc.uniqueArray(name, { maxLength: 20 }), (names) => {
      const { wire, own } = openNames(names)
      assert.equal(new Set(names.map(wire)).size, names.length)
      for (const each of names) {
        assert.match(wire(each), /^[\w-]{1,64}$/)
        assert.equal(own(wire(each)), each)
      }
    }),
  )
})

test('terms without a name or a price are refused, each with its field', () => {
  assert.deepEqual(findTermFlaws(terms), [])
  const broken = {
    ...terms,
    model: ' ',
    prices: { input: 0.15, output: '1e3', cachedInput: '-1' },
    contextTokens: Number.NaN,
    overheadTokens: -1,
    outputTokensMax: 0,
  } as unknown as ModelTerms
  assert.deepEqual(
    findTermFlaws(broken).map((flaw) => flaw.split(' ')[0]),
    [
      'model',
      'prices.input',
      'prices.output',
      'prices.cachedInput',
      'contextTokens',
      'overheadTokens',
      'outputTokensMax',
    ],
  )
  const { prices: _prices, ...without } = terms
  assert.equal(findTermFlaws(without as ModelTerms).length, 2)
  assert.match(findTermFlaws({ ...terms, outputTokensMax: 200_000 })[0] ?? '', /must not exceed contextTokens/)
})
