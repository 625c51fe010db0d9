/** Parses the row limit of a list: plain decimal only, since `Number` would also accept 1e3, 0x10, 007 and spaces. */
import { accept, type Decision, refuse } from './refusal.ts'

export const PAGE_LIMIT_MAX = 500
export const PAGE_LIMIT_DEFAULT = 50
/** A page ends before the row with which it would exceed this size. */
export const PAGE_BYTES_MAX = 4 * 1024 * 1024

export function parsePageLimit(text: string | undefined): Decision<number> {
  if (text === undefined) return accept(PAGE_LIMIT_DEFAULT)
  const limit = /^[1-9]\d{0,2}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= PAGE_LIMIT_MAX) return accept(limit)
  return refuse('limit_range', `The limit is a number from 1 to ${PAGE_LIMIT_MAX}.`, {
    path: 'limit',
    facts: { minimum: 1, maximum: PAGE_LIMIT_MAX },
  })
}
