/** Binds a decision to what it was made about: one hash over the arguments, the effects and both versions. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject, JsonValue } from '#kernel/json-value'

/** Everything that a person says yes to. Change any part of it and it is another question. */
export type ApprovedContent = {
  /** As validated, not as sent. */
  readonly arguments: JsonObject
  /** What the plan will do, in the order of its declaration. */
  readonly effects: readonly JsonValue[]
  readonly policy_version: string
  readonly command_version: string
}

/** SHA-256 of the canonical JSON, in hex: the same content has the same hash, whoever wrote it and in whatever order. */
export function approvalHash({ arguments: args, effects, policy_version, command_version }: ApprovedContent): string {
  return hash('sha256', canonicalJson({ arguments: args, effects, policy_version, command_version }))
}
