/** Turns zod issues into refusals with stable codes: unknown fields with the nearest name, missing and invalid ones. */
import type { z } from '@hono/zod-openapi'
import { nameOfType, refusalOfIssue } from '#contract'
import { formatPath, type JsonStep } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { quote, type Refusal, refuse } from '#kernel/refusal'
import { hintOf, kindOf } from '#refusals'
import type { ProblemDetail } from './problem.ts'

type Issue = z.core.$ZodIssue

type Invalid = { readonly refusal: Refusal; readonly errors: readonly ProblemDetail[] }

/** Reports at most the first twenty issues. */
const FINDINGS_MAX = 20

const NO_SENTENCE = 'Invalid input'

/** Fields that the credential or the request determines; sending them in a body is an attempt to forge them, not a typo. */
const FROM_CREDENTIAL = new Set([
  'requested_by',
  'requester',
  'decided_by',
  'created_by',
  'actor',
  'actor_id',
  'actor_type',
  'run_as',
  'user_id',
  'org_id',
  'tenant_id',
  'workspace_id',
])

/** `input` distinguishes missing from invalid fields; `schema` supplies the known field names. */
export function explainIssues(issues: readonly Issue[], input: unknown, schema: unknown): Invalid {
  const findings = issues.flatMap((issue) => explain(issue, input, schema)).slice(0, FINDINGS_MAX)
  // Malformed values come first, so that the status does not depend on the order of fields.
  const first = findings.find((finding) => kindOf(finding.code) === 'malformed') ?? findings[0]
  return {
    refusal: first ?? refuse('api.field.value', 'The request does not match the schema of this route.'),
    errors: findings.map((finding) => ({
      code: finding.code,
      detail: finding.reason,
      ...(finding.path === undefined ? {} : { path: finding.path }),
      hint: hintOf(finding),
    })),
  }
}

function explain(issue: Issue, input: unknown, schema: unknown): Refusal[] {
  const steps = issue.path.map((step) => (typeof step === 'number' ? step : String(step)))
  const path = formatPath(steps)
  const parsed = refusalOfIssue(issue)
  if (parsed) return [{ ...parsed, path }]
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => explainUnknown(key, steps, namesAt(schema, steps)))
    case 'invalid_type': {
      const expected = nameOfType(issue.expected)
      if (valueAt(input, steps) === undefined) return [refuseMissing(path, `of the type ${expected}`)]
      return [refuse('api.field.type', `\`${path}\` must be of the type ${expected}.`, { path, facts: { expected } })]
    }
    case 'invalid_value':
      if (valueAt(input, steps) === undefined) return [refuseMissing(path, `one of: ${issue.values.join(', ')}`)]
      return [refuseValue(path, valueAt(input, steps), issue.values.map(String))]
    case 'too_small': {
      const hint = `Send at least ${issue.minimum}${unitOf(issue.origin, issue.minimum)}.`
      const facts = { minimum: Number(issue.minimum) }
      return [refuse('api.field.value', `\`${path}\` is too small or too short.`, { path, hint, facts })]
    }
    case 'too_big': {
      const hint = `Send at most ${issue.maximum}${unitOf(issue.origin, issue.maximum)}.`
      const facts = { maximum: Number(issue.maximum) }
      return [refuse('api.field.value', `\`${path}\` is too large or too long.`, { path, hint, facts })]
    }
    case 'invalid_format': {
      const facts = { format: issue.format }
      return [refuse('api.field.value', `\`${path}\` does not have the right format.`, { path, facts })]
    }
    default: {
      // A rule of a field says in a sentence what to send. Without one, zod has only its own words.
      const hint = issue.code === 'custom' && issue.message !== NO_SENTENCE ? { hint: issue.message } : {}
      return [refuse('api.field.value', `\`${path}\` is not allowed here.`, { path, ...hint })]
    }
  }
}

function explainUnknown(key: string, steps: readonly JsonStep[], known: readonly string[]): Refusal {
  const path = formatPath([...steps, key])
  if (FROM_CREDENTIAL.has(key)) {
    return refuse('field_not_allowed', `\`${key}\` comes from your credential and the request, never from a field.`, {
      path,
      hint: 'Omit the field.',
    })
  }
  const guess = didYouMean(key, known)
  return refuse('unknown_field', `There is no field ${quote(key)} here.`, {
    path,
    ...(guess.hint === undefined ? { hint: `Known fields: ${known.join(', ') || 'none'}.` } : guess),
  })
}

function refuseMissing(path: string, what: string): Refusal {
  return refuse('api.field.missing', `\`${path}\` is missing.`, { path, hint: `Add it; it is ${what}.` })
}

/** The unit that zod counts. */
function unitOf(origin: string, count: number | bigint): string {
  const unit = origin === 'string' ? 'character' : origin === 'array' || origin === 'set' ? 'item' : undefined
  return unit === undefined ? '' : ` ${unit}${Number(count) === 1 ? '' : 's'}`
}

function refuseValue(path: string, value: unknown, allowed: readonly string[]): Refusal {
  return refuse('api.field.value', `\`${path}\` must be one of: ${allowed.join(', ')}.`, {
    path,
    hint: 'Send one of them.',
    ...(typeof value === 'string' ? didYouMean(value, allowed) : {}),
    facts: { allowed },
  })
}

function valueAt(input: unknown, steps: readonly JsonStep[]): unknown {
  let value = input
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Record<JsonStep, unknown>)[step]
  }
  return value
}

/** The part of zod's definition that is used here. */
type ZodPart = {
  readonly type: string
  readonly shape?: Readonly<Record<string, unknown>>
  readonly innerType?: unknown
  readonly element?: unknown
  readonly valueType?: unknown
  readonly in?: unknown
  readonly options?: readonly unknown[]
}

function definitionOf(schema: unknown): ZodPart | undefined {
  return (schema as { _zod?: { def?: ZodPart } } | undefined)?._zod?.def
}

/** Unwraps optional, nullable, default and pipe, and expands a union to all its options. */
function unwrap(schema: unknown): ZodPart[] {
  const definition = definitionOf(schema)
  if (!definition) return []
  if (definition.options) return definition.options.flatMap(unwrap)
  const inner = definition.innerType ?? definition.in
  return inner === undefined ? [definition] : unwrap(inner)
}

/** Lists the field names of a zod schema at a path; used only for suggestions, so the list may be incomplete. */
export function namesAt(schema: unknown, steps: readonly JsonStep[]): readonly string[] {
  let here = unwrap(schema)
  for (const step of steps) {
    here = here.flatMap((definition) => unwrap(definition.shape?.[step] ?? definition.element ?? definition.valueType))
  }
  return [...new Set(here.flatMap((definition) => Object.keys(definition.shape ?? {})))]
}
