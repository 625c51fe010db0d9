/** How many rows a list may return: decimal digits only, since `Number` would also take 1e3, 0x10 and spaces. */
import { accept, type Decision, quote, refuse } from './refusal.ts'

export const PAGE_LIMIT_MAX = 500
export const PAGE_LIMIT_DEFAULT = 50

export function parsePageLimit(text: string | undefined): Decision<number> {
  if (text === undefined) return accept(PAGE_LIMIT_DEFAULT)
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= PAGE_LIMIT_MAX) return accept(limit)
  return refuse('limit_range', `the limit ${quote(text)} is not 1 to ${PAGE_LIMIT_MAX}`, {
    path: 'limit',
    facts: { min: 1, max: PAGE_LIMIT_MAX },
  })
}
