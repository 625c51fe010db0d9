/** What a command stands for right now: its arguments, the effects they lead to, and the versions that judge them. One hash over all. */
import { hash } from 'node:crypto'
import { type ApprovedContent, approvalHash } from '#domains/approvals'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { EffectDraft } from './catalog/definitions.ts'
import type { CompiledTask } from './catalog/open-catalog.ts'

/** What a person would say yes to; change any part of it and it is another question. */
export function contentOf(
  task: Pick<CompiledTask, 'policy' | 'type'>,
  payload: JsonObject,
  drafts: readonly EffectDraft[],
): ApprovedContent {
  return {
    arguments: payload,
    effects: drafts.map(({ effect_type, payload: of }) => ({ effect_type, payload: of })),
    policy_version: task.policy.version,
    command_version: task.type.version,
  }
}

export function contentHash(content: ApprovedContent): string {
  return approvalHash(content)
}

/** Before anything is planned: the arguments alone. */
export function payloadHash(payload: JsonObject): string {
  return hash('sha256', canonicalJson(payload))
}

export function requestFingerprint(request: {
  readonly task_name: string
  readonly payload: JsonObject
  readonly more: JsonValue
}): string {
  return hash('sha256', canonicalJson([request.task_name, request.payload, request.more]))
}
