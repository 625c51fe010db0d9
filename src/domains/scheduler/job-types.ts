/**
 * Job types: registers them in `job_types`, checks the params schemas of templates, and decides on retries by the policy of a
 * type. A job of an unregistered type is refused by the services and by a foreign key.
 */
import { z } from 'zod'
import type { Random } from '#kernel/clock'
import type { FailureClass } from '#kernel/error-classes'
import { formatPath, isJsonObject, type JsonObject, type JsonStep, type JsonValue, utf8Size } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { attemptOfHops, decideRetry, type RetrySettings } from '#kernel/retry'
import { jobTypeBody, type RetryPolicyBody, retryPolicyBody } from './contract.ts'
import { type Database, pageOf, type PagedRow, type SqlReader, query, type WriteTx } from './database.ts'
import { checkNamePage, type NamePage, parseInput } from './parse-input.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import { defineView, objectView, readObject, type RetryVerdict, type StoredJobType } from './stored-rows.ts'

const BYTES_MAX = 65_536
const DEPTH_MAX = 8
const NODES_MAX = 500

const everywhere = ['type', 'title', 'description', 'default']
const numeric = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']
const keywordsOf: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength'],
  number: numeric,
  integer: numeric,
  boolean: [],
  null: [],
  array: ['items', 'minItems', 'maxItems'],
  object: ['properties', 'required', 'additionalProperties'],
}
const typeNames = Object.keys(keywordsOf)

/** Refuses unsupported keywords, rules without an effect, and schemas beyond the size limits. */
export function checkParamsSchema(schema: JsonObject): Decision<JsonObject> {
  if (utf8Size(JSON.stringify(schema)) > BYTES_MAX) return tooLarge(`${BYTES_MAX} bytes`)
  if (schema['type'] !== 'object') return wrong(['type'], 'the schema of params must have the type "object"')
  let nodes = 0
  const visit = (node: JsonValue | undefined, at: readonly JsonStep[]): Refusal | undefined => {
    nodes += 1
    if (nodes > NODES_MAX) return tooLarge(`${NODES_MAX} parts`)
    if (at.length > DEPTH_MAX * 2) return tooLarge(`${DEPTH_MAX} levels`)
    if (node === undefined || !isJsonObject(node)) return wrong(at, 'a schema must be an object')
    if ('enum' in node || 'const' in node) return visitChoice(node, at)
    const type = node['type']
    if (typeof type !== 'string' || !typeNames.includes(type))
      return wrong([...at, 'type'], `the type must be one of ${typeNames.join(', ')}`)
    return visitRules(node, type, at) ?? visitChildren(node, at, visit)
  }
  return visit(schema, []) ?? accept(schema)
}

/** `enum` and `const` define a value completely; any other rule would be ignored. */
function visitChoice(node: JsonObject, at: readonly JsonStep[]): Refusal | undefined {
  const unknown = unknownKeyword(node, [...everywhere.filter((word) => word !== 'type'), 'enum', 'const'], at)
  if (unknown) return unknown
  const values = 'const' in node ? [node['const']] : node['enum']
  const isList = Array.isArray(values) && values.length > 0
  return isList && values.every((value) => value === null || typeof value !== 'object')
    ? undefined
    : wrong(at, '`enum` must list strings, numbers, booleans or null, and `const` must be one of these')
}

function visitRules(node: JsonObject, type: string, at: readonly JsonStep[]): Refusal | undefined {
  const unknown = unknownKeyword(node, [...everywhere, ...(keywordsOf[type] ?? [])], at)
  if (unknown) return unknown
  for (const word of [...numeric, 'minLength', 'maxLength', 'minItems', 'maxItems']) {
    const value = node[word]
    const isCount = word.endsWith('Length') || word.endsWith('Items')
    const isFine = typeof value === 'number' && (!isCount || (Number.isInteger(value) && value >= 0))
    if (value !== undefined && !isFine)
      return wrong(
        [...at, word],
        isCount ? `\`${word}\` must be a whole number from 0` : `\`${word}\` must be a number`,
      )
  }
  if (node['multipleOf'] !== undefined && Number(node['multipleOf']) <= 0)
    return wrong([...at, 'multipleOf'], '`multipleOf` must be above 0')
  const additional = node['additionalProperties']
  if (additional !== undefined && typeof additional !== 'boolean')
    return wrong([...at, 'additionalProperties'], '`additionalProperties` must be true or false')
  const properties = node['properties'] ?? {}
  const required = node['required'] ?? []
  const names = Array.isArray(required) ? required : [null]
  const isNamed = (name: JsonValue) =>
    typeof name === 'string' && isJsonObject(properties) && Object.hasOwn(properties, name)
  return names.every(isNamed) ? undefined : wrong([...at, 'required'], '`required` must list names from `properties`')
}

function visitChildren(
  node: JsonObject,
  at: readonly JsonStep[],
  visit: (node: JsonValue | undefined, at: readonly JsonStep[]) => Refusal | undefined,
): Refusal | undefined {
  if (node['items'] !== undefined) return visit(node['items'], [...at, 'items'])
  const { properties } = node
  if (properties === undefined) return undefined
  if (!isJsonObject(properties)) return wrong([...at, 'properties'], '`properties` must be an object of schemas')
  for (const [name, child] of Object.entries(properties)) {
    const refusal = visit(child, [...at, 'properties', name])
    if (refusal) return refusal
  }
  return undefined
}

/** Checks params against a stored, already checked schema and fills in the defaults. */
export function applyParamsSchema(schema: JsonObject, params: JsonObject): Decision<JsonObject> {
  // For the part of JSON Schema that `checkParamsSchema` accepts, zod and JSON Schema agree.
  const result = z.fromJSONSchema(schema).safeParse(params)
  if (result.success) return accept(result.data as JsonObject)
  const [issue] = result.error.issues
  const path = formatPath([
    'params',
    ...(issue?.path ?? []).map((step) => (typeof step === 'number' ? step : String(step))),
  ])
  const reason = issue?.code === 'unrecognized_keys' ? `unknown ${issue.keys.map(quote).join(', ')}` : issue?.message
  return refuse('scheduler.params.invalid', `The params do not match the template: ${reason}.`, { path })
}

function unknownKeyword(node: JsonObject, known: readonly string[], at: readonly JsonStep[]): Refusal | undefined {
  const word = Object.keys(node).find((key) => !known.includes(key))
  if (word === undefined) return undefined
  return refuse('scheduler.schema.keyword', `The keyword ${quote(word)} is not supported here.`, {
    path: formatPath(['params_schema', ...at, word.slice(0, 64)]),
    ...didYouMean(word, known),
    facts: { supported: known },
  })
}

function wrong(at: readonly JsonStep[], rule: string): Refusal {
  return refuse('scheduler.schema.keyword', `The schema is not valid: ${rule}.`, {
    path: formatPath(['params_schema', ...at]),
  })
}

function tooLarge(limit: string): Refusal {
  return refuse('schema_limits', `The schema has more than ${limit}.`, { path: 'params_schema' })
}

/** The policy of a type without one of its own: three immediate retries. */
export const defaultRetryPolicy: RetryPolicyBody = retryPolicyBody.parse({})

/** An unreadable policy allows no retries: work is not repeated on a guess. */
export function readRetryPolicy(text: string): RetryPolicyBody {
  const parsed = retryPolicyBody.safeParse(safeJson(text))
  return parsed.success ? parsed.data : { ...defaultRetryPolicy, max_retries: 0 }
}

function retrySettingsOf(policy: RetryPolicyBody): RetrySettings {
  return {
    limit: { retries: policy.max_retries },
    backoff: { delay: policy.delay, jitter: policy.jitter },
    retryable: policy.error_classes,
  }
}

export type FailedRun = {
  readonly policy: RetryPolicyBody
  /** The number of hops from the failed job to its original, or why the chain cannot be walked. */
  readonly hops: Decision<number>
  readonly errorClass: FailureClass
  readonly exitCode: number | null
  /** A fact that rules out a retry before the policy applies. */
  readonly ruledOut?: 'stopped' | 'direct' | 'group_halted' | 'orphan_alive' | undefined
  readonly random: Random
}

export type RetryPlan = { readonly verdict: RetryVerdict; readonly delayMs: number }

export function decideRetryPlan(failed: FailedRun): RetryPlan {
  const { policy, hops, errorClass, exitCode, ruledOut, random } = failed
  if (ruledOut) return { verdict: ruledOut, delayMs: 0 }
  if (!hops.ok) return { verdict: 'chain_broken', delayMs: 0 }
  if (policy.exit_codes !== null && exitCode !== null && !policy.exit_codes.includes(exitCode)) {
    return { verdict: 'not_listed', delayMs: 0 }
  }
  const decision = decideRetry(retrySettingsOf(policy), { attempt: attemptOfHops(hops.value), errorClass, random })
  return decision.retry ? { verdict: 'retry', delayMs: decision.delayMs } : { verdict: decision.why, delayMs: 0 }
}

function safeJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export type JobTypeBody = z.input<typeof jobTypeBody>

/** The types of a scheduler that is opened without a list. */
export const defaultJobTypes: readonly JobTypeBody[] = [{ job_type: 'story' }, { job_type: 'research' }]

const COLUMNS = `job_type, retry_policy, concurrency_limit, runner, created_at, updated_at`

const upsertType = query<
  StoredJobType,
  { job_type: string; retry_policy: string; concurrency_limit: number | null; runner: string | null; now: number }
>(`
   insert into job_types (job_type, retry_policy, concurrency_limit, runner, created_at, updated_at)
   values ($job_type, $retry_policy, $concurrency_limit, $runner, $now, $now)
       on conflict (job_type) do update
      set retry_policy = excluded.retry_policy, concurrency_limit = excluded.concurrency_limit, runner = excluded.runner,
          updated_at = excluded.updated_at
   returning ${COLUMNS}`)
const selectType = query<StoredJobType, { job_type: string }>(
  `select ${COLUMNS} from job_types where job_type = $job_type`,
)
const selectTypes = query<StoredJobType>(`select ${COLUMNS} from job_types order by job_type`)
const selectPage = query<PagedRow<StoredJobType>, { limit: number; after: string }>(
  pageOf(
    `select ${COLUMNS} from job_types where job_type > $after order by job_type limit $limit`,
    'octet_length(retry_policy) + coalesce(octet_length(runner), 0)',
  ),
)
const countLimits = query<{ count: number }>(
  `select count(*) as count from job_types where concurrency_limit is not null`,
)

/** Registers a type or changes its rules; jobs that have already failed keep their verdict. */
export function registerJobType(scheduler: Scheduler, body: JobTypeBody): Decision<StoredJobType> {
  const now = nowMs(scheduler)
  return scheduler.db.write((tx) => saveJobType(scheduler.db, tx, body, now))
}

export function saveJobType(db: Database, tx: WriteTx, body: JobTypeBody, now: number): Decision<StoredJobType> {
  const parsed = parseInput(jobTypeBody, body)
  if (!parsed.ok) return parsed
  const { job_type, retry_policy, concurrency_limit, runner } = parsed.value
  const row = { job_type, retry_policy: JSON.stringify(retry_policy), concurrency_limit, now }
  const saved = tx.one(upsertType, { ...row, runner: runner === null ? null : JSON.stringify(runner) })
  // The queue is read by type only while a type has a limit; without the index every dispatch writes one page less.
  const hasLimits = (tx.one(countLimits)?.count ?? 0) > 0
  db.exec(hasLimits ? CREATE_TYPE_INDEX : 'drop index if exists jobs_type_queue_ix')
  return saved ? accept(saved) : refuse('row.conflict', 'The job type was not stored.')
}

const CREATE_TYPE_INDEX = `
  create index if not exists jobs_type_queue_ix on jobs (job_type, priority desc, position, created_at, job_id)
   where status = 'QUEUED' and hold is null`

export function allJobTypes(reader: SqlReader): StoredJobType[] {
  return reader.all(selectTypes)
}

export function listJobTypes(scheduler: Scheduler, page: NamePage = {}): Decision<readonly PagedRow<StoredJobType>[]> {
  const checked = checkNamePage(page)
  return checked.ok ? scheduler.db.read((reader) => accept(reader.all(selectPage, checked.value))) : checked
}

export function requireJobType(reader: SqlReader, jobType: string): Decision<StoredJobType> {
  const found = reader.one(selectType, { job_type: jobType })
  if (found) return accept(found)
  const known = allJobTypes(reader).map((type) => type.job_type)
  const { hint = '' } = didYouMean(jobType, known)
  return refuse('scheduler.job_type.unknown', `${quote(jobType)} is not a registered job type.`, {
    path: 'job_type',
    hint: `${hint} Registered types: ${known.join(', ') || 'none'}.`.trim(),
    facts: { registered: known },
  })
}

/** Reads the current policy of the type; a type that does not exist gets no retries. */
export function findRetryPolicy(reader: SqlReader, jobType: string): RetryPolicyBody {
  return readRetryPolicy(reader.one(selectType, { job_type: jobType })?.retry_policy ?? '')
}

/** Omits the runner's settings, which name folders and variables of the machine. */
const jobType = defineView<StoredJobType>()({
  job_type: [z.string(), (row) => row.job_type],
  retry_policy: [objectView, (row) => readObject(row.retry_policy)],
  concurrency_limit: [z.int().nullable(), (row) => row.concurrency_limit],
  has_command: [
    z.boolean().meta({ description: 'Whether the type runs a command, its own or one named by each job.' }),
    (row) => row.runner !== null,
  ],
})
export const jobTypeView = jobType.schema.meta({ id: 'SchedulerJobType', description: 'A registered kind of work.' })
export const toJobTypeView = jobType.show
