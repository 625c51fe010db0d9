/** Removes secrets by their shape from any text that leaves for a log, a terminal, a row or another system. Pure. */
const SHAPES: readonly (readonly [RegExp, string])[] = [
  // Concord's own keys: the prefix stays, so that a person can see which key it was.
  [/\bck_([a-z0-9]{4,16})_[A-Za-z0-9_-]{20,}/g, 'ck_$1_[redacted]'],
  // Passwords inside connection addresses.
  [/\b([a-z][a-z0-9+.-]{0,20}:\/\/[^\s:/@"']{0,256}):[^\s@"']{1,1024}@/gi, '$1:[redacted]@'],
  // Bearer and basic credentials.
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, '$1 [redacted]'],
  // Signed tokens (three base64url parts that start like a JSON header).
  [/\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*/g, '[redacted token]'],
  // Keys of well-known providers.
  [/\b(sk|pk|rk)[-_](live|test|proj|ant)?[-_]?[A-Za-z0-9_-]{16,}/g, '[redacted key]'],
  [/\bgh[pousr]_[A-Za-z0-9]{20,}/g, '[redacted key]'],
  [/\bxox[abprs]-[A-Za-z0-9-]{10,}/g, '[redacted key]'],
  [/\bAKIA[0-9A-Z]{16}\b/g, '[redacted key]'],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/g, '[redacted private key]'],
]

export function redactText(text: string): string {
  return SHAPES.reduce((line, [shape, instead]) => line.replace(shape, instead), text)
}
