/** What an approver changed before saying yes: which field, from what to what, with values above the field's class left out. Pure. */
import type { ApprovalEdit } from '#domains/approvals'
import { type FieldClasses, redactPayload } from '#kernel/data-class'
import type { JsonObject } from '#kernel/json-value'

const CHARS_MAX = 200

/** `classes` undefined: nobody can say how sensitive a field is, so only its name is told. */
export function sayEdit({ fields, before, after }: ApprovalEdit, classes: FieldClasses | undefined): string {
  if (!classes) return `changed ${fields.join(', ')}`
  // As the command itself is shown: no card data and no secrets.
  const [from, to] = [redactPayload(before, classes, 'pii'), redactPayload(after, classes, 'pii')]
  const changes = fields.map((field) => `${field} from ${show(from, field)} to ${show(to, field)}`)
  return `changed ${changes.join(', ')}`
}

function show(values: JsonObject, field: string): string {
  if (!Object.hasOwn(values, field)) return 'nothing'
  const text = JSON.stringify(values[field])
  return text.length > CHARS_MAX ? `${text.slice(0, CHARS_MAX - 1)}…` : text
}
