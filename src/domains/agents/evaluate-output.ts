/**
 * Evaluations of an output: seven checks that need no agent, and four kinds in which an agent judges. All give the same structured result, and the same one
 * for the same input. Pure.
 */
import { z } from 'zod'
import { typeOfSchema } from '#domains/connectors'
import type { JsonObject, JsonValue } from '#kernel/json-value'

/** What an agent judges itself, one kind for each role that judges. The result has the same shape as that of a check. */
const agenticKinds = ['reviewer_critique', 'evaluator_ranking', 'safety_review', 'domain_validation'] as const

export const evaluationInput = z.discriminatedUnion('evaluation_type', [
  z.strictObject({ evaluation_type: z.literal('sql_valid'), sql: z.string() }),
  z.strictObject({
    evaluation_type: z.literal('row_counts_reconcile'),
    expected: z.int().min(0),
    actual: z.int().min(0),
    tolerance: z.number().min(0).max(1).default(0),
  }),
  z.strictObject({
    evaluation_type: z.literal('json_schema_valid'),
    schema: z.record(z.string(), z.json()),
    value: z.json(),
  }),
  z.strictObject({ evaluation_type: z.literal('artifact_exists'), artifact_id: z.string() }),
  z.strictObject({
    evaluation_type: z.literal('confidence_over_threshold'),
    confidence: z.number().min(0).max(1),
    threshold: z.number().min(0).max(1),
  }),
  z.strictObject({ evaluation_type: z.literal('pii_check'), text: z.string() }),
  z.strictObject({
    evaluation_type: z.literal('cost_under_budget'),
    cost_units: z.number().min(0),
    budget_units: z.number().min(0),
  }),
  z.strictObject({
    evaluation_type: z.enum(agenticKinds),
    artifact_id: z.string(),
    decision: z.enum(['passed', 'failed']),
    confidence: z.number().min(0).max(1),
    issues: z.array(z.string().min(1)).max(100).default([]),
    recommendation: z.string().min(1),
  }),
])
export type EvaluationInput = z.output<typeof evaluationInput>

export type Evaluation = {
  readonly evaluation_type: string
  readonly decision: 'passed' | 'failed'
  /** 1: the check is exact. Less where it can only find what it knows. */
  readonly confidence: number
  readonly issues: readonly string[]
  readonly recommendation: string
}

type Checked = { readonly issues: readonly string[]; readonly confidence?: number; readonly fix: string }

const noArtifact: Checked = { issues: ['There is no such artifact.'], fix: 'Write the artifact first.' }

/** `exists` says whether the named artifact is there for the requester. */
export function evaluateOutput(input: EvaluationInput, exists: boolean): Evaluation {
  if ('decision' in input && exists) {
    const { evaluation_type, decision, confidence, issues, recommendation } = input
    return { evaluation_type, decision, confidence, issues, recommendation }
  }
  const { issues, confidence = 1, fix } = 'decision' in input ? noArtifact : check(input, exists)
  const isPassed = issues.length === 0
  return {
    evaluation_type: input.evaluation_type,
    decision: isPassed ? 'passed' : 'failed',
    confidence,
    issues,
    recommendation: isPassed ? 'Use it.' : fix,
  }
}

function check(input: Exclude<EvaluationInput, { decision: string }>, exists: boolean): Checked {
  switch (input.evaluation_type) {
    case 'sql_valid':
      return { issues: sqlIssues(input.sql), confidence: 0.8, fix: 'Write one statement that only reads.' }
    case 'row_counts_reconcile': {
      const { expected, actual, tolerance } = input
      const isOff = Math.abs(expected - actual) > expected * tolerance
      const issues = isOff ? [`Expected ${expected} rows, found ${actual}.`] : []
      return { issues, fix: 'Find the rows that are missing or repeated.' }
    }
    case 'json_schema_valid':
      return { issues: schemaIssues(input.schema, input.value), fix: 'Make the value fit its schema.' }
    case 'artifact_exists':
      return { ...noArtifact, ...(exists && { issues: [] }) }
    case 'confidence_over_threshold': {
      const { confidence, threshold } = input
      const issues = confidence < threshold ? [`The confidence ${confidence} is below ${threshold}.`] : []
      return { issues, fix: 'Gather more evidence.' }
    }
    case 'pii_check':
      return { issues: piiIssues(input.text), confidence: 0.7, fix: 'Remove the personal data.' }
    case 'cost_under_budget': {
      const { cost_units: cost, budget_units: budget } = input
      return {
        issues: cost > budget ? [`The cost ${cost} is above ${budget}.`] : [],
        fix: 'Use less, or ask for more.',
      }
    }
  }
}

/** The database decides whether a statement is valid. This finds what no reading statement has. */
function sqlIssues(sql: string): readonly string[] {
  const bare = sql
    .replaceAll(/'(?:[^']|'')*'|"[^"]*"|--[^\n]*|\/\*[\s\S]*?\*\//g, ' ')
    .trim()
    .replace(/;$/, '')
  const issues: string[] = []
  if (!/^(select|with|values|table|explain)\b/i.test(bare)) issues.push('It does not begin with a reading statement.')
  if (bare.includes(';')) issues.push('It has more than one statement.')
  const writes = /\b(insert|update|delete|merge|truncate|drop|alter|create|grant|copy|call|do)\b/i.exec(bare)?.[1]
  if (writes !== undefined) issues.push(`It contains ${writes.toLowerCase()}.`)
  if (bare.split('(').length !== bare.split(')').length) issues.push('Its parentheses do not match.')
  return issues
}

function schemaIssues(schema: JsonObject, value: JsonValue): readonly string[] {
  try {
    const parsed = typeOfSchema(schema).safeParse(value)
    return parsed.success
      ? []
      : parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'value'}: ${message}`)
  } catch (error) {
    return [`The schema is not a JSON Schema: ${error instanceof Error ? error.message : ''}`]
  }
}

const personal: readonly (readonly [string, RegExp])[] = [
  ['an e-mail address', /[\w.+-]+@[\w-]+\.[\w.]+/],
  ['a telephone number', /\+\d[\d ()-]{7,}\d/],
  ['a card number', /\b(?:\d[ -]?){13,19}\b/],
  ['a social security number', /\b\d{3}-\d{2}-\d{4}\b/],
]

function piiIssues(text: string): readonly string[] {
  return personal.filter(([, form]) => form.test(text)).map(([what]) => `It contains ${what}.`)
}
