/** Paths inside a folder: plain names one below the other, and nothing that could lead elsewhere. Pure. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'

/** What unfinished writes are called; nobody else may use it. */
export const TEMPORARY = '.concord-'

const PARTS_MAX = 32
const PATH_CHARS_MAX = 1_024

export function parseFolderPath(path: string): Decision<readonly string[]> {
  const no = (why: string) =>
    refuse('connectors.path.not_allowed', `the path ${quote(path)} ${why}`, {
      path: 'path',
      hint: 'Write a relative path such as reports/2026-05.csv.',
    })
  if (path.length > PATH_CHARS_MAX) return no('is too long')
  // Backslashes and colons are separators and drives elsewhere; control characters are nothing for a name.
  if (/[\\:\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(path)) return no('has a character that no name here has')
  const parts = path.split('/')
  if (parts.length > PARTS_MAX) return no('is too deep')
  for (const part of parts) {
    if (part === '') return no('is absolute or has an empty part')
    if (/^\.{1,}$/.test(part.normalize('NFKC').trim())) return no('has dots for a part')
    if (part.trim() !== part) return no('has a part that begins or ends with a blank')
    if (part.startsWith(TEMPORARY)) return no('has a name that is kept for unfinished files')
  }
  return accept(parts)
}
