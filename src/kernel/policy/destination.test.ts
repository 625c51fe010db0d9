/** No spelling of an outside place is inside, and the usual spellings of a declared place are. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { findPlaces, isInside, readPlaces } from './destination.ts'

const DECLARED = ['example.com', '*.corp.example', 'ada@partner.org', 'slack:finance', 'teams:*', 'board', 'münchen.de']

function read(places: readonly string[]): readonly string[] {
  const decided = readPlaces(places)
  if (!decided.ok) throw new Error(decided.reason)
  return decided.value
}
const places = read(DECLARED)

/** Ways in which a caller may disguise the separators and letters of a place. */
const DISGUISES: Readonly<Record<string, readonly string[]>> = {
  '@': ['＠', '﹫', '%40', '@@', ' @ ', '\u200b@', '@\u2060', '\\@', '@[', '@%00'],
  '.': ['．', '。', '｡', '․', '%2e', '..', '.\u200d', ' .', '\u00ad.', '/.', '\\.', '#.', '?.', '@.', ':.'],
  ':': ['：', '︓', ' :', '%3a', '::', ':\u200b'],
  a: ['а', 'ａ', 'ä', 'a\u0301', 'A\u0300', '%61', 'ª', '𝐚', 'a\u200c'],
  e: ['е', 'ｅ', 'é', '%65', 'ℯ', '\u202ee'],
  o: ['о', '0', 'ο', 'ｏ', 'º'],
}
const OUTSIDE_HOSTS = [
  'evil.org',
  'evil-example.com',
  'example.com.evil.org',
  'example.comevil.org',
  'xexample.com',
  'sub.example.com',
  'corp.example',
  'evilcorp.example',
  'corp.example.evil.org',
  'partner.org',
  'example.co',
  'xn--exmple-cua.com',
  'xn--example-.com',
]
const SCHEMES = [
  'http',
  'https',
  'sftp',
  'ftp',
  'ssh',
  'mailto',
  'tel',
  'slack',
  'teams2',
  'external',
  'javascript',
  'data',
  'file',
]

const anyCase = (text: string) =>
  fc.infiniteStream(fc.boolean()).map((coins) => {
    let cased = ''
    for (const letter of text) cased += coins.next().value === true ? letter.toUpperCase() : letter
    return cased
  })
const disguised = (text: string) =>
  fc.infiniteStream(fc.nat({ max: 40 })).map((dice) => {
    let other = ''
    for (const letter of text) {
      const ways = DISGUISES[letter] ?? []
      other += ways[dice.next().value ?? 0] ?? letter
    }
    return other
  })

describe('[H4] destinations', () => {
  test('[H4] [POL-07] the usual spellings of a declared place are inside', () => {
    for (const destination of [
      'internal',
      'Internal',
      ' internal ',
      'finance@example.com',
      'Finance@EXAMPLE.com',
      'mailto:finance@example.com',
      'Finance Team <finance@example.com>',
      '"Team, Finance" <finance@example.com>',
      'finance@example.com.',
      'example.com',
      'example.com:8443',
      'https://example.com',
      'HTTPS://Example.COM:443/reports?month=5#top',
      'sftp://example.com./in',
      'a.corp.example',
      'ada@b.c.corp.example',
      'ada@partner.org',
      'slack:finance',
      'Slack:Finance',
      'teams:legal/contracts',
      'board',
      'eva@münchen.de',
      'eva@MÜNCHEN.de',
      'eva@xn--mnchen-3ya.de',
      'https://münchen.de/x',
    ])
      assert.ok(isInside(destination, places), destination)
  })

  test('[H4] [POL-07] [SEC-09] what only looks like a declared place is outside', () => {
    for (const destination of [
      '',
      ' ',
      'External:partner',
      'EXTERNAL:partner',
      'external:internal',
      'evil.example.com',
      'sftp:evil.example.com',
      'sftp:example.com',
      'https:example.com',
      'https:/example.com',
      'https:///example.com',
      '//example.com',
      'slack:general',
      'slack:finance2',
      'slack:*',
      '*.corp.example',
      'tel:+49301234567',
      'teams:eve@evil.org',
      'teams:../x',
      'teams:https://evil.org',
      'teams:a,external:b',
      'eve@partner.org',
      'partner.org',
      'ada@example.com@evil.org',
      'ada@evil.org@example.com',
      'ada%40evil.org@example.com',
      'evil.org!ada@example.com',
      '"ada@evil.org"@example.com',
      'ada@example.com,eve@evil.org',
      'ada@example.com;eve@evil.org',
      'ada@example.com eve@evil.org',
      'ada@example.com\neve@evil.org',
      'ada@example.com\u0000.evil.org',
      'mailto:ada@example.com?cc=eve@evil.org',
      'mailto:ada@example.com%2Ceve@evil.org',
      'eve@evil.org <ada@example.com>',
      'Ada <ada@example.com> <eve@evil.org>',
      'Ada <eve@evil.org>',
      'https://example.com@evil.org',
      'https://example.com:443@evil.org/',
      'https://example.com%2eevil.org',
      'https://example.com\\@evil.org',
      'https://evil.org\\@example.com',
      'https://evil.org#@example.com',
      'https://evil.org?example.com',
      'https://evil.org/example.com',
      'https://example.com／.evil.org',
      'https://evil.org／.example.com',
      'https://example.com。evil.org',
      'https://example.com/,https://evil.org',
      'javascript://example.com/%0aalert(1)',
      's3://example.com/bucket',
      'example.com/../evil.org',
      'internal\u200b',
      'internal\ufe0f',
      'ınternal',
      'ada@exаmple.com',
      'ada@examp1e.com',
    ])
      assert.equal(isInside(destination, places), false, JSON.stringify(destination))
    for (const destination of [null, 7, true, {}, ['internal'], { toString: () => 'internal' }])
      assert.equal(isInside(destination, places), false)
  })

  test('[H4] [POL-07] no spelling of an outside place is inside, in any case, scheme or script', () => {
    const host = fc.constantFrom(...OUTSIDE_HOSTS)
    const place = fc.oneof(
      host,
      host.map((each) => `eve@${each}`),
      host.map((each) => `Ada <eve@${each}>`),
      host.map((each) => `ada@example.com@${each}`),
      fc
        .tuple(fc.constantFrom(...SCHEMES), fc.constantFrom(':', '://', ':///', ':/'), host)
        .map((parts) => parts.join('')),
      fc.tuple(fc.constantFrom(...SCHEMES), host).map(([scheme, each]) => `${scheme}://example.com@${each}/x`),
      fc
        .tuple(fc.constantFrom('external:', 'slack:', 'sms:'), fc.constantFrom('partner', 'general'))
        .map((parts) => parts.join('')),
      fc.constantFrom('eve@partner.org', 'finance', 'board2', 'internal2'),
    )
    fc.assert(
      fc.property(
        place.chain((each) => fc.tuple(anyCase(each), disguised(each))),
        fc.constantFrom('', ' ', '\t', '\u00a0', '\u200b', '\ufeff'),
        (spellings, around) => {
          for (const spelling of spellings)
            assert.equal(isInside(`${around}${spelling}${around}`, places), false, JSON.stringify(spelling))
        },
      ),
      { numRuns: 2_000 },
    )
  })

  test('[H4] [POL-07] a disguised letter never turns another text into a declared place', () => {
    // Every code point of Unicode in place of one letter.
    for (let point = 0; point <= 0x10_ff_ff; point++) {
      const letter = String.fromCodePoint(point)
      if (letter.toLowerCase() === 'o') continue
      for (const spelling of [`b${letter}ard`, `ada@example.c${letter}m`])
        if (isInside(spelling, places)) assert.fail(`${spelling} with U+${point.toString(16)} is inside`)
    }
  })

  test('[H4] a place that would declare more than it says is refused, with its position', () => {
    for (const wrong of [
      '',
      '*',
      '*.com',
      'https://example.com/reports',
      'example.com:443',
      'mailto:ada@example.com',
      'Ada <ada@example.com>',
      'https:*',
      'mailto:*',
      'external:partner',
      'External:*',
      'a, b',
      'ｅxample.com',
      'board\u200b',
      7,
    ]) {
      const decided = readPlaces(['example.com', wrong])
      assert.ok(!decided.ok, String(wrong))
      assert.deepEqual([decided.code, decided.path], ['policy.place.invalid', 'inside[1]'])
      assert.match(decided.hint ?? '', /\*\.example\.com/)
    }
    assert.equal(readPlaces('example.com').ok, false)
    assert.deepEqual(read(['Example.COM', '*.Corp.Example', 'MÜNCHEN.de']), [
      'example.com',
      '*.corp.example',
      'xn--mnchen-3ya.de',
    ])
  })

  test('[H4] the places that are recorded with a decision are those that it rests on', () => {
    const found = (destination: unknown) => findPlaces({ destination }, places)
    assert.deepEqual(found('finance@example.com'), ['example.com'])
    assert.deepEqual(found(['ada@partner.org', 'teams:x', 'evil.org']), ['ada@partner.org', 'teams:*'])
    assert.deepEqual(found('internal'), [])
    assert.deepEqual(found('external:x'), [])
    assert.deepEqual(findPlaces({}, places), [])
  })
})
