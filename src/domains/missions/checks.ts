/** The checks of the output of a task, as a plan names them: their shapes, the findings about them, and the verdicts of those that need no work. Pure. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { slugField, textField } from '#contract'
import { typeOfSchema } from '#domains/connectors'
import { canonicalJson } from '#kernel/canonical-json'
import { cutText } from '#kernel/cut-text'
import { formatPath, type JsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { quote } from '#kernel/refusal'
import { money, sayUnknown } from './config.ts'
import { PASSED, type OutputVerdict, verdicts } from './decide-verdict.ts'
import { fillReferences, lookUp, referencesIn } from './references.ts'

const CHECKS_MAX = 20
const FEEDBACK_MAX = 2_000

const json = z.unknown() as unknown as z.ZodType<JsonValue, JsonValue>
const jsonObject = z.record(z.string(), z.unknown()) as unknown as z.ZodType<JsonObject, JsonObject>
const taskName = textField(200, { charsMin: 1 })
const payload = jsonObject.optional().meta({
  description: 'A value `{"$from": "notes", "path": "/artifact_id"}` is taken from the result of the task itself.',
})

const max_cost = money('0.50')
  .optional()
  .meta({ description: 'What the verifier may cost. Default, under a hard limit: nothing.' })

const kinds = {
  schema: z.strictObject({ schema: jsonObject.meta({ description: 'A JSON Schema of the result.' }) }),
  sections: z.strictObject({
    sections: z
      .array(textField(200, { charsMin: 1 }))
      .min(1)
      .max(100),
  }),
  artifact: z.strictObject({
    artifact: z.strictObject({
      type: textField(100, { charsMin: 1 }).optional(),
      bytes_min: z.int().min(0).optional(),
      bytes_max: z.int().min(0).optional(),
    }),
  }),
  exit_code: z.strictObject({ exit_code: z.int() }),
  sql: z.strictObject({
    sql: taskName.meta({ description: 'A task of the catalog that queries.' }),
    payload,
    path: textField(1_000).optional().meta({ description: 'A JSON pointer into the result of the query.' }),
    equals: json,
    max_cost,
  }),
  task: z.strictObject({ task: taskName, payload, max_cost }),
  agent: z.strictObject({ agent: taskName, payload, max_cost }),
  worker: z.strictObject({ worker: z.literal(true) }),
  person: z.strictObject({ person: z.strictObject({ role: slugField('release-manager').optional() }) }),
} as const

export const checkList = z
  .array(
    z.union(
      [
        kinds.schema,
        kinds.sections,
        kinds.artifact,
        kinds.exit_code,
        kinds.sql,
        kinds.task,
        kinds.agent,
        kinds.worker,
        kinds.person,
      ],
      { error: `not a check: one of ${Object.keys(kinds).join(', ')}, with nothing but its own fields` },
    ),
  )
  .max(CHECKS_MAX)
  .meta({
    description: 'What must hold for the output before other tasks use it, in this order.',
    example: [{ sections: ['Risks'] }],
  })
export type Check = z.output<typeof checkList>[number]

/** The task of the catalog that judges the output. Undefined: no command is needed. */
export function verifierOf(check: Check) {
  const task = 'task' in check ? check.task : 'agent' in check ? check.agent : 'sql' in check ? check.sql : undefined
  if (task === undefined) return undefined
  const { payload = {}, max_cost: maxCost } = check as Extract<Check, { task: string }>
  return { task, payload, maxCost }
}

type Finding = { readonly code: string; readonly path: string; readonly message: string }

export function checkChecks(
  { temp_id, verify = [] }: { readonly temp_id: string; readonly verify?: readonly Check[] | undefined },
  { tasks, agents }: { readonly tasks: ReadonlySet<string>; readonly agents: ReadonlySet<string> },
  path: string,
): readonly Finding[] {
  return verify.flatMap((check, index): Finding[] => {
    const at = `${path}[${index}]`
    if ('schema' in check) {
      try {
        typeOfSchema(check.schema)
        return []
      } catch (error) {
        return [{ code: 'check', path: `${at}.schema`, message: error instanceof Error ? error.message : 'no schema' }]
      }
    }
    if ('person' in check && index < verify.length - 1)
      return [{ code: 'check', path: at, message: 'A person decides last: no check follows.' }]
    const verifier = verifierOf(check)
    if (!verifier) return []
    const [noun, known] =
      'agent' in check
        ? (['task of the catalog that an agent does', agents] as const)
        : (['task of the catalog', tasks] as const)
    const references = [
      ...referencesIn(verifier.payload, ['payload']),
      ...('sql' in check ? referencesIn(check.equals, ['equals']) : []),
    ]
    return [
      ...(known.has(verifier.task)
        ? []
        : [{ code: 'unknown_task', path: at, message: sayUnknown(noun, verifier.task, known) }]),
      ...references.flatMap(({ at: field, from, fault }) => {
        const wrong = fault ?? (from === temp_id ? undefined : `A check reads the result of ${quote(temp_id)} alone.`)
        return wrong === undefined ? [] : [{ code: 'reference', path: `${at}.${field}`, message: wrong }]
      }),
    ]
  })
}

/** What a check looks at. `text`: the content of the artifact, or else the result if it is a text. Null: there is none, or it is too long. */
export type Output = {
  readonly result: JsonValue
  readonly artifact: { readonly artifact_type: string; readonly size_bytes: number; readonly checksum: string } | null
  readonly text: string | null
}

export const digestOutput = ({ result, artifact }: Pick<Output, 'result'> & { readonly artifact: string | null }) =>
  createHash('sha256').update(canonicalJson({ result, artifact })).digest('hex')

const fail = (feedback: string, score = 0): OutputVerdict => ({ verdict: 'fail', score, feedback })

/** The verdict of a check that needs no work. Undefined: a command, a worker or a person gives it. */
export function judgeOutput(check: Check, { result, artifact, text }: Output): OutputVerdict | undefined {
  if ('schema' in check) return judgeSchema(check.schema, result)
  if ('sections' in check) return judgeSections(check.sections, text)
  if ('exit_code' in check) {
    const code =
      typeof result === 'object' && result !== null
        ? (result as Readonly<Record<string, JsonValue>>)['exit_code']
        : null
    return code === check.exit_code ? PASSED : fail(`The exit code is not ${check.exit_code}.`)
  }
  if (!('artifact' in check)) return undefined
  const { type, bytes_min = 0, bytes_max } = check.artifact
  if (!artifact) return fail('There is no artifact.')
  if (type !== undefined && artifact.artifact_type !== type)
    return fail(`The artifact is of the type ${quote(artifact.artifact_type)}, not ${quote(type)}.`)
  if (artifact.size_bytes < bytes_min) return fail(`The artifact has fewer than ${bytes_min} bytes.`)
  if (bytes_max !== undefined && artifact.size_bytes > bytes_max)
    return fail(`The artifact has more than ${bytes_max} bytes.`)
  return PASSED
}

/** The feedback names places and rules, never a value. */
function judgeSchema(schema: JsonObject, result: JsonValue): OutputVerdict {
  const parsed = typeOfSchema(schema).safeParse(result)
  if (parsed.success) return PASSED
  const said = parsed.error.issues.map(
    ({ path, message }) => `${formatPath(path as JsonStep[]) || 'the result'}: ${message}`,
  )
  return fail(`The result does not match the schema. ${said.join('; ')}`)
}

function judgeSections(sections: readonly string[], text: string | null): OutputVerdict {
  if (text === null) return fail('There is no text that has sections.')
  const found = headingsOf(text)
  const missing = sections.filter((section) => !found.has(plain(section)))
  if (missing.length === 0) return PASSED
  return fail(`Missing sections: ${missing.join(', ')}.`, 1 - missing.length / sections.length)
}

const plain = (heading: string) => heading.replace(/\s+/g, ' ').trim().toLowerCase()

/** Headings of Markdown (marked or underlined) and of HTML. Line by line, so that no text makes it slow. */
function headingsOf(text: string): ReadonlySet<string> {
  const lines = text.split(/\r?\n/)
  return new Set(
    lines.flatMap((line, index) => {
      const isUnderlined = /^(?:=+|-+) *$/.test(lines[index + 1] ?? '') && line.trim() !== ''
      const marked = /^ {0,3}#{1,6} (.*)$/.exec(line)?.[1] ?? /^ *<h[1-6][^>]*>([^<]*)</i.exec(line)?.[1]
      const heading = marked?.replace(/ #+ *$/, '') ?? (isUnderlined ? line : undefined)
      return heading === undefined ? [] : [plain(heading)]
    }),
  )
}

const given = z.object({
  verdict: z.enum(verdicts).default('pass'),
  score: z.number().min(0).max(1).nullish(),
  feedback: z.string().nullish(),
})

/** The verdict that the result of a verifier is: a `verdict`, a `score`, or both, with `feedback`. A query reconciles if it returns what is expected. */
export function readVerdict(check: Check, result: JsonValue, own: ReadonlyMap<string, JsonValue>): OutputVerdict {
  const unsure = (feedback: string): OutputVerdict => ({ verdict: 'unsure', score: null, feedback })
  if ('sql' in check) {
    const found = lookUp({ from: 'query', path: check.path ?? '' }, new Map([['query', result]]))
    const expected = fillReferences(check.equals, own)
    if (!found.ok) return fail(`The query has nothing at ${quote(check.path ?? '')}.`)
    if (!expected.ok) return unsure(expected.reason)
    return canonicalJson(found.value) === canonicalJson(expected.value)
      ? { ...PASSED, score: 1 }
      : fail('The query returned another value than expected.')
  }
  const parsed = given.safeParse(result)
  const isVerdict = typeof result === 'object' && result !== null && ('verdict' in result || 'score' in result)
  if (!parsed.success || !isVerdict) return unsure('The verifier returned no verdict.')
  const { verdict, score, feedback } = parsed.data
  return { verdict, score: score ?? null, feedback: feedback == null ? null : cutText(feedback, FEEDBACK_MAX) }
}
