import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { hashKey, isSameHash, mintKey, prefixOf } from './api-key.ts'

const real = (count: number) => randomBytes(count)

test('a key has a visible prefix and a secret of 256 random bits', () => {
  const asked: number[] = []
  const minted = mintKey((count) => {
    asked.push(count)
    return new Uint8Array(count).fill(255)
  })
  assert.deepEqual(asked, [6, 32])
  assert.match(minted.key, /^ck_ffffffffffff_[A-Za-z0-9_-]{43}$/)
  assert.equal(minted.prefix, 'ffffffffffff')
  assert.equal(Buffer.from(minted.key.slice(-43), 'base64url').length * 8, 256)
})

test('what is kept of a key is its SHA-256, and the key itself matches nothing else', () => {
  const one = mintKey(real)
  const other = mintKey(real)
  assert.deepEqual(one.hash, createHash('sha256').update(one.key).digest())
  assert.equal(isSameHash(one.key, one.hash), true)
  assert.equal(isSameHash(other.key, one.hash), false)
  assert.equal(isSameHash(one.key, undefined), false)
  assert.equal(isSameHash(one.key, Buffer.alloc(0)), false)
  assert.equal(isSameHash(one.key, one.hash.subarray(0, 31)), false)
})

test('every single changed character of a key changes its hash, also the last one with its two spare bits', () => {
  const { key, hash } = mintKey(real)
  for (let at = 0; at < key.length; at++) {
    for (const swap of ['A', 'B', 'a', '0', '-', '_']) {
      const altered = key.slice(0, at) + swap + key.slice(at + 1)
      assert.equal(isSameHash(altered, hash), altered === key)
    }
  }
  assert.equal(hashKey(key).equals(hash), true)
})

test('only the exact form of a key is looked up', () => {
  const { key, prefix } = mintKey(real)
  assert.equal(prefixOf(key), prefix)
  for (const bad of [
    '',
    'ck_',
    key.slice(0, -1),
    `${key}A`,
    ` ${key}`,
    `${key}\n`,
    key.toUpperCase(),
    key.replace('ck_', 'sk_'),
    `ck_${prefix}`,
  ]) {
    assert.equal(prefixOf(bad), undefined, JSON.stringify(bad))
  }
})
