/** Counts the UTF-8 size of a text without encoding it; a lone surrogate counts as the three bytes of its replacement. */
export function utf8Size(text: string): number {
  let size = text.length
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit < 0x80) continue
    size += 1
    if (unit < 0x800) continue
    size += 1
    // Both halves of a pair together take four bytes: two units plus the two just added.
    const isPair = unit >= 0xd800 && unit <= 0xdbff && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00
    if (isPair) at += 1
  }
  return size
}
