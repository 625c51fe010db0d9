/** The form of an API key, `ck_<prefix>_<secret>`: 256 random bits that are shown once and kept only as a SHA-256 hash. */
import { createHash, timingSafeEqual } from 'node:crypto'

/** 48 bits: enough to find a row, and safe to show in lists and logs. */
const PREFIX_BYTES = 6
const SECRET_BYTES = 32
const KEY_FORM = /^ck_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/

export type RandomBytes = (count: number) => Uint8Array

export type MintedKey = { readonly key: string; readonly prefix: string; readonly hash: Buffer }

export function mintKey(randomBytes: RandomBytes): MintedKey {
  const prefix = Buffer.from(randomBytes(PREFIX_BYTES)).toString('hex')
  const key = `ck_${prefix}_${Buffer.from(randomBytes(SECRET_BYTES)).toString('base64url')}`
  return { key, prefix, hash: hashKey(key) }
}

/** The prefix of a well-formed key; everything else is no key of ours. */
export function prefixOf(key: string): string | undefined {
  return KEY_FORM.exec(key)?.[1]
}

/** A plain hash is enough for 256 random bits: there is no dictionary to slow down. */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key, 'utf8').digest()
}

/** Stands in where no row was found, so that an unknown prefix costs the same comparison as a wrong tail. */
const NO_HASH = Buffer.alloc(32)

export function isSameHash(key: string, stored: Uint8Array | undefined): boolean {
  const known = stored !== undefined && stored.length === NO_HASH.length
  const equal = timingSafeEqual(hashKey(key), known ? stored : NO_HASH)
  return known && equal
}
