/** Reads the header `Range`: one range of bytes or none; several are answered with the whole, as HTTP allows. Pure. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ByteRange } from './blob-store.ts'

/** Undefined: the whole content. */
export function parseRange(header: string | undefined, sizeBytes: number): Decision<ByteRange | undefined> {
  const [, from = '', to = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.replaceAll(' ', '') ?? '') ?? []
  if (from === '' && to === '') return accept(undefined)
  const isSuffix = from === ''
  const start = isSuffix ? Math.max(0, sizeBytes - Number(to)) : Number(from)
  const end = isSuffix || to === '' ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1)
  // "-0" asks for nothing at all, and nothing has no range.
  if (start <= end && start < sizeBytes) return accept({ start, end })
  // A range that ends before it starts is no range: the header is as if it had not been sent.
  if (!isSuffix && to !== '' && Number(to) < Number(from)) return accept(undefined)
  return refuse('artifacts.content.range', `the content has ${sizeBytes} bytes`, {
    path: 'Range',
    facts: { size_bytes: sizeBytes },
  })
}
