/** Validates input against a schema and explains the first issue as a refusal; checks the limit of a page. */
import { z } from 'zod'
import { nameOfType, refusalOfIssue } from '#contract'
import { formatPath } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from '#kernel/page-limit'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'

export function parseInput<T extends z.ZodType>(schema: T, input: unknown): Decision<z.output<T>> {
  const result = schema.safeParse(input)
  if (result.success) return accept(result.data)
  const [issue] = result.error.issues
  return issue ? explain(issue, knownFields(schema)) : refuse('api.field.value', 'The input is not allowed.')
}

function explain(issue: z.core.$ZodIssue, known: readonly string[]): Refusal {
  const path = formatPath(issue.path.map((step) => (typeof step === 'number' ? step : String(step))))
  const at = path === '' ? {} : { path }
  if (issue.code === 'custom') {
    const refusal = refusalOfIssue(issue)
    const inner = [path, refusal?.path].filter(Boolean).join('.')
    return refusal ? { ...refusal, ...(inner && { path: inner }) } : refuse('api.field.value', issue.message, at)
  }
  if (issue.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    return refuse('unknown_field', `There is no field ${quote(key)} here.`, {
      path: [path, quote(key).slice(1, -1)].filter(Boolean).join('.'),
      ...didYouMean(key, known),
    })
  }
  if (issue.code === 'invalid_type') {
    const isMissing = issue.message.endsWith('received undefined')
    return isMissing
      ? refuse('api.field.missing', `\`${path}\` is missing.`, at)
      : refuse('api.field.type', `\`${path}\` must be of the type ${nameOfType(issue.expected)}.`, at)
  }
  return refuse('api.field.value', `\`${path}\` is not allowed: ${issue.message}.`, at)
}

function knownFields(schema: z.ZodType): readonly string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
}

/** A page of a list in the order of its names; `after` is the last name of the previous page. */
export type NamePage = { readonly limit?: number; readonly after?: string }

export function checkNamePage({ limit, after = '' }: NamePage): Decision<{ limit: number; after: string }> {
  const checked = checkLimit(limit)
  return checked.ok ? accept({ limit: checked.value, after }) : checked
}

export function checkLimit(limit = PAGE_LIMIT_DEFAULT): Decision<number> {
  if (Number.isInteger(limit) && limit >= 1 && limit <= PAGE_LIMIT_MAX) return accept(limit)
  return refuse('limit_range', `The limit must be 1 to ${PAGE_LIMIT_MAX}.`, {
    path: 'limit',
    facts: { min: 1, max: PAGE_LIMIT_MAX },
  })
}
