import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { showText } from '#kernel/visible-text'
import { showValue } from './review-packet.ts'

test('what the eye misses is shown: zero width, direction, tags, fillers, control characters, strange spaces', () => {
  const cases = {
    'pay\u200bpal': 'pay\\u{200b}pal',
    'a\u202eb': 'a\\u{202e}b',
    'a\u{e0041}b': 'a\\u{e0041}b',
    'a\u3164b': 'a\\u{3164}b',
    'a\ufe0fb': 'a\\u{fe0f}b',
    'a\u0007b': 'a\\u{7}b',
    'a\rb': 'a\\u{d}b',
    'a\u00a0b': 'a\\u{a0}b',
    'a\u2028b': 'a\\u{2028}b',
    'two words\n\tand a line': 'two words\n\tand a line',
    'Zoë 東京 €80': 'Zoë 東京 €80',
  }
  for (const [hidden, shown] of Object.entries(cases)) assert.equal(showText(hidden), shown)
})

test('places are named, in keys too, and the shape stays', () => {
  const shown = showValue({ to: ['a', 'b\u200b'], 'k\u200b': 1, fine: null })
  assert.deepEqual(shown.value, { to: ['a', 'b\\u{200b}'], 'k\\u{200b}': 1, fine: null })
  assert.deepEqual(shown.places, ['to[1]', '["k\\u200b"]'])
})

test('no two texts become one, so nothing can hide behind its own code', () => {
  assert.equal(showText('\\u{200b}'), '\\u{5c}u{200b}')
  const tricky = fc.string({
    unit: fc.constantFrom('a', '\\', 'u', '{', '}', '2', '0', 'b', '5', 'c', '\u200b', '\u202e'),
    maxLength: 12,
  })
  fc.assert(
    fc.property(tricky, tricky, (left, right) => assert.equal(showText(left) === showText(right), left === right)),
  )
})
