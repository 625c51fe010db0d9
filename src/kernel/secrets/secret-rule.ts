/** One shape of a secret. */
export type SecretRule = {
  /** In lower case. A text without one of them cannot match. */
  readonly keywords: readonly string[]
  /** Global. The group `secret`, the first group, or the whole match is the secret. */
  readonly shape: RegExp
  /** For logs and errors, where a false positive does no harm. */
  readonly inLogs?: RegExp
  /** Sticky: the secret follows the match of the shape. It is read only if `names` holds, so that a long value is not read from each of its names. */
  readonly value?: RegExp
  readonly names?: (match: RegExpExecArray) => boolean
  /** Returns whether a match is a secret. `value` is the match that has it. */
  readonly holds?: (match: RegExpExecArray, value: RegExpExecArray) => boolean
}
