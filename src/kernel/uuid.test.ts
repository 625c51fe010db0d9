import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isUuid, uuidV4, uuidV7, uuidV7Generator } from './ids.ts'

const zeros = (count: number) => new Uint8Array(count)
const bytes = (count: number) => fc.uint8Array({ minLength: count, maxLength: count })

describe('uuid', () => {
  test('lays out the version 7 example of RFC 9562, appendix A.6', () => {
    const random = Uint8Array.from([0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f])
    assert.equal(uuidV7(0x017f22e279b0, 0xcc3, random), '017f22e2-79b0-7cc3-98c4-dc0c0c07398f')
  })

  test('lays out the version 4 example of RFC 9562, appendix A.3', () => {
    const random = Uint8Array.from('919108f752d133205bacf847db4148a8'.match(/../g) ?? [], (pair) =>
      Number.parseInt(pair, 16),
    )
    assert.equal(uuidV4(random), '919108f7-52d1-4320-9bac-f847db4148a8')
  })

  test('always has the version, the variant and the canonical form', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 ** 48 - 1 }),
        fc.integer({ min: 0, max: 4095 }),
        bytes(8),
        bytes(16),
        (ms, n, eight, sixteen) => {
          assert.match(uuidV7(ms, n, eight), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
          assert.match(uuidV4(sixteen), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        },
      ),
    )
  })

  test('the hex digits are those of the time, the counter and the random bytes', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 ** 48 - 1 }),
        fc.integer({ min: 0, max: 4095 }),
        bytes(8),
        (ms, n, random) => {
          const tail = BigInt(`0x${Buffer.from(random).toString('hex')}`) & (2n ** 62n - 1n)
          const bits = (BigInt(ms) << 80n) | (7n << 76n) | (BigInt(n) << 64n) | (2n << 62n) | tail
          assert.equal(uuidV7(ms, n, random).replaceAll('-', ''), bits.toString(16).padStart(32, '0'))
        },
      ),
    )
  })

  test('ids of one generator only rise, whatever the clock and the dice do', () => {
    const steps = fc.array(fc.tuple(fc.integer({ min: -50, max: 3 }), bytes(10)), { minLength: 2, maxLength: 60 })
    fc.assert(
      fc.property(steps, (story) => {
        let nowMs = 1_777_000_000_000
        let dice: Uint8Array = zeros(10)
        const newId = uuidV7Generator(
          () => new Date(nowMs),
          () => dice,
        )
        let last = ''
        for (const [jump, random] of story) {
          nowMs += jump
          dice = random
          const id = newId()
          assert.ok(id > last, `${id} after ${last}`)
          last = id
        }
      }),
    )
  })

  test('more ids than a millisecond can count borrow the next one', () => {
    const full = Uint8Array.from([255, 255, 0, 0, 0, 0, 0, 0, 0, 0])
    const newId = uuidV7Generator(
      () => new Date(1_000),
      () => full,
    )
    const ids = Array.from({ length: 5_000 }, newId)
    assert.deepEqual(ids, ids.toSorted())
    assert.equal(new Set(ids).size, 5_000)
    assert.ok(ids.at(-1)?.startsWith('00000000-03ea'), ids.at(-1))
  })

  test('invalid input of the environment is a fault, not an id', () => {
    for (const ms of [-1, 0.5, Number.NaN, 2 ** 48]) assert.throws(() => uuidV7(ms, 0, zeros(8)), { code: 'uuid.time' })
    for (const n of [-1, 4096, 0.5]) assert.throws(() => uuidV7(0, n, zeros(8)), { code: 'uuid.counter' })
    assert.throws(() => uuidV7(0, 0, zeros(7)), { code: 'uuid.random' })
    assert.throws(
      uuidV7Generator(
        () => new Date(0),
        () => zeros(9),
      ),
      { code: 'uuid.random' },
    )
    assert.throws(
      uuidV7Generator(() => new Date(Number.NaN), zeros),
      { code: 'uuid.time' },
    )
    assert.throws(() => uuidV4(zeros(15)), { code: 'uuid.random' })
  })

  test('only the canonical form is a UUID', () => {
    const id = '017f22e2-79b0-7cc3-98c4-dc0c0c07398f'
    assert.ok(isUuid(id))
    for (const text of [
      '',
      id.toUpperCase(),
      `{${id}}`,
      `urn:uuid:${id}`,
      id.replaceAll('-', ''),
      `${id}\n`,
      ` ${id}`,
    ]) {
      assert.ok(!isUuid(text), text)
    }
  })
})
