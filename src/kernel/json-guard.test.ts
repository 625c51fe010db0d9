import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseGuardedJson, parseGuardedObject } from './json-guard.ts'
import { checkSize } from './json-value.ts'

type Answer = { code: string; path?: string; reason: string; facts?: Readonly<Record<string, unknown>> }
function refused(text: string, parse: typeof parseGuardedJson | typeof parseGuardedObject = parseGuardedJson): Answer {
  const decision = parse(text)
  assert.ok(!decision.ok, `${text.slice(0, 60)} was accepted`)
  return decision
}
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
const wide = { bytesMax: 64_000_000, depthMax: 32, keysMax: 10_000 }

describe('JSON guard', () => {
  for (const text of ['', ' ', '\r\n\t ']) {
    test(`no body: ${JSON.stringify(text)}`, () => assert.equal(refused(text).code, 'body_missing'))
  }

  for (const [text, line, column, found] of [
    ['{"a":1,}', 1, 8, '"}"'],
    ['{\n  "a": 1\n  "b": 2\n}', 3, 3, '"""'],
    ['[1,]', 1, 4, '"]"'],
    ['{"a"}', 1, 5, '"}"'],
    ['"𝄞𝄞', 1, 4, 'the end'],
    ['{} x', 1, 4, '"x"'],
    ['\ufeff{}', 1, 1, '"\\ufeff"'],
    ['01', 1, 2, '"1"'],
    ['-', 1, 2, 'the end'],
    ['1.', 1, 3, 'the end'],
    ['1e+', 1, 4, 'the end'],
    ['.5', 1, 1, '"."'],
    ['nul', 1, 1, '"n"'],
    ['NaN', 1, 1, '"N"'],
    ["{'a':1}", 1, 2, '"\'"'],
    ['"a\tb"', 1, 3, '"\\u0009"'],
    ['"\\x41"', 1, 2, '"\\"'],
    ['"\\u12g4"', 1, 2, '"\\"'],
    ['"\\', 1, 2, '"\\"'],
    ['[1 2]', 1, 4, '"2"'],
    ['{"a":}', 1, 6, '"}"'],
    ['[}', 1, 2, '"}"'],
    ['[1}', 1, 3, '"}"'],
    ['{"a":1]', 1, 7, '"]"'],
    ['/* */ {}', 1, 1, '"/"'],
    [']', 1, 1, '"]"'],
  ] as const) {
    test(`syntax: ${JSON.stringify(text)} at ${line}:${column}`, () => {
      const answer = refused(text)
      assert.equal(answer.code, 'json_syntax')
      assert.deepEqual(answer.facts, { line, column })
      assert.ok(
        answer.reason.includes(`Line ${line}, column ${column}`) && answer.reason.includes(`found ${found}`),
        answer.reason,
      )
    })
  }

  for (const text of ['[]', '"a"', '1', 'null', 'true']) {
    test(`${text} is JSON, but not an object`, () => {
      assert.ok(parseGuardedJson(text).ok)
      assert.equal(refused(text, parseGuardedObject).code, 'json_not_object')
    })
  }

  test('32 levels are read, 33 are refused with the limit, in arrays and objects', () => {
    assert.ok(parseGuardedJson(nested(32)).ok)
    assert.equal(refused(nested(33)).code, 'json_too_deep')
    assert.ok(refused(nested(33)).reason.includes('32'))
    assert.equal(refused(`${'{"a":'.repeat(33)}1${'}'.repeat(33)}`).code, 'json_too_deep')
    assert.ok(parseGuardedJson(`[${nested(31)},${nested(31)}]`).ok)
  })

  test('five million brackets are refused by the scan, never parsed', () => {
    const parse = JSON.parse
    JSON.parse = () => assert.fail('parsed')
    try {
      assert.equal(refused('['.repeat(5_000_000)).code, 'body_too_large')
      const decision = parseGuardedJson(nested(2_500_000), wide)
      assert.equal(!decision.ok && decision.code, 'json_too_deep')
    } finally {
      JSON.parse = parse
    }
  })

  test('one MiB is read, one byte more is refused, counted in UTF-8', () => {
    const limit = 1_048_576
    assert.ok(parseGuardedJson(`"${'a'.repeat(limit - 2)}"`).ok)
    assert.equal(refused(`"${'a'.repeat(limit - 1)}"`).code, 'body_too_large')
    assert.ok(parseGuardedJson(`"${'€'.repeat((limit - 4) / 3)}"`).ok)
    assert.equal(refused(`"${'€'.repeat((limit - 1) / 3)}a"`).code, 'body_too_large')
    assert.ok(checkSize(limit).ok)
    const larger = checkSize(limit + 1)
    assert.deepEqual(!larger.ok && [larger.code, larger.facts], ['body_too_large', { limitBytes: limit }])
  })

  test('10,000 keys are read, one more is refused, over all objects together', () => {
    const keys = (count: number) => Array.from({ length: count }, (_, at) => `"k${at}":0`).join(',')
    assert.ok(parseGuardedJson(`[{${keys(5_000)}},{${keys(5_000)}}]`).ok)
    assert.equal(refused(`[{${keys(5_000)}},{${keys(5_001)}}]`).code, 'json_too_many_keys')
  })

  for (const [text, code, path] of [
    ['{"a":1,"a":2}', 'json_duplicate_key', 'a'],
    ['{"a":1,"\\u0061":2}', 'json_duplicate_key', 'a'],
    ['{"items":[{},{"b":{"c":1,"d":2,"c":3}}]}', 'json_duplicate_key', 'items[1].b.c'],
    ['{"":1,"":2}', 'json_duplicate_key', '[""]'],
    ['{"two words":{"x":1,"x":1}}', 'json_duplicate_key', '["two words"].x'],
    ['{"__proto__":1}', 'key_forbidden', '__proto__'],
    ['{"\\u005f_proto__":1}', 'key_forbidden', '__proto__'],
    ['{"a":[{"constructor":{}}]}', 'key_forbidden', 'a[0].constructor'],
    ['{"prototype":null}', 'key_forbidden', 'prototype'],
    ['{"a":["x","\\u0000"]}', 'nul_character', 'a[1]'],
    ['{"a":{"\\u0000":1}}', 'nul_character', 'a'],
    ['{"a":"\\ud800"}', 'invalid_unicode', 'a'],
    ['{"a":"\\udc00\\ud800"}', 'invalid_unicode', 'a'],
    ['{"a":"\\ud800x"}', 'invalid_unicode', 'a'],
    ['{"a":"\ud800\\n\udc00"}', 'invalid_unicode', 'a'],
    ['["\ud800\ud800\udc00"]', 'invalid_unicode', '[0]'],
    ['{"n":1e400}', 'number_out_of_range', 'n'],
    ['{"n":[0,-1E+309]}', 'number_out_of_range', 'n[1]'],
    ['{"n":9007199254740993}', 'number_out_of_range', 'n'],
  ] as const) {
    test(`${code} at ${path}: ${JSON.stringify(text)}`, () => {
      const answer = refused(text)
      assert.deepEqual([answer.code, answer.path], [code, path])
    })
  }

  test('the same key in two objects is not a repetition, and words that only look forbidden are allowed', () => {
    const text = '{"a":{"a":1},"b":[{"a":1},{"a":2}],"__proto":1,"Constructor":2}'
    assert.deepEqual(parseGuardedJson(text), { ok: true, value: JSON.parse(text) })
  })

  test('a pair may be half raw, half escaped: the value is whole', () => {
    assert.deepEqual(parseGuardedJson('"\ud83d\\ude00"'), { ok: true, value: '😀' })
    assert.deepEqual(parseGuardedJson('"\\ud83d\\uDE00"'), { ok: true, value: '😀' })
  })

  test('an answer never echoes more than 64 characters of the input', () => {
    const long = 'k'.repeat(5_000)
    const answer = refused(`{"${long}":1,"${long}":2}`)
    assert.equal(answer.code, 'json_duplicate_key')
    assert.ok(answer.reason.length < 120 && (answer.path ?? '').length < 80)
  })
})
