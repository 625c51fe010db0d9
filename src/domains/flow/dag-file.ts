/** The YAML of a DAG: strict, with every finding at once, each with its place and what to do. Pure. */
import { z } from 'zod'
import { readYaml } from '#domains/commands'
import { parseCron, parseTimeZone } from '#kernel/cron'
import { type GraphNode, validateGraph } from '#kernel/dag/graph'
import { parseIdleTimeout } from '#kernel/duration'
import { formatPath, isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import type { Operators } from './operator.ts'

const NAME = /^[a-z][a-z0-9_-]{0,62}$/
const name = z.string().regex(NAME, 'is a name: small letters, digits, - and _, from a letter, at most 63 characters')
const ATTEMPTS_MAX = 100
const CONCURRENCY_MAX = 10_000
const SECONDS_MAX = 31_622_400
const LIST_MAX = 100
const JOBS_MAX = 1_000
const object = z.record(z.string(), z.json())
const seconds = z.int().min(1).max(SECONDS_MAX)

const common = {
  name,
  runtime: z.enum(['lambda', 'ecs_platform', 'ecs_udf', 'dispatcher']),
  operator: z.string().min(1).max(100),
  config: object.optional(),
  outputs: z.array(name).max(LIST_MAX).optional(),
  update_strategy: z.enum(['append', 'replace']),
  unique_key: z.array(z.string().min(1).max(63)).min(1).max(LIST_MAX).optional(),
  scaling: z.strictObject({ max_concurrency: z.int().min(1).max(CONCURRENCY_MAX) }).optional(),
  timeout_seconds: seconds.optional(),
  heartbeat_timeout_seconds: seconds.optional(),
  max_attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
  /** Output column → the input columns it comes from, as `dataset.column`. */
  columns: z.record(z.string(), z.array(z.string().regex(/^[^.]+\.[^.]+$/, 'is `dataset.column`'))).optional(),
}
const sourceJob = z.strictObject({
  ...common,
  activation: z.literal('source'),
  source: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('cron'), schedule: z.string(), time_zone: z.string().optional() }),
    z.strictObject({ kind: z.literal('continuous') }),
    z.strictObject({ kind: z.literal('event') }),
  ]),
  bootstrap: z.strictObject({ reset_outputs: z.boolean() }).optional(),
})
const reactiveJob = z.strictObject({
  ...common,
  activation: z.literal('reactive'),
  execution_strategy: z.enum(['PerUpdate', 'PerPartition']),
  inputs: z.array(name).min(1).max(LIST_MAX),
  when: z.enum(['any', 'all']).optional(),
  idle_timeout: z.string().optional(),
})
const storage = z.strictObject({ kind: z.enum(['table', 'files']), chain_id: z.string().optional() })
const head = z.strictObject({
  dag: name,
  jobs: z.array(z.json()).min(1).max(JOBS_MAX),
  datasets: z.record(name, z.strictObject({ storage })).optional(),
})

type SourceJob = z.output<typeof sourceJob>
type ReactiveJob = z.output<typeof reactiveJob>
export type JobSpec = SourceJob | ReactiveJob
export type DagSpec = Omit<z.output<typeof head>, 'jobs'> & { readonly jobs: readonly JobSpec[] }

type Steps = readonly (string | number)[]
type Found = { readonly steps: Steps; readonly code: string; readonly message: string; readonly hint?: string }
type DagFinding = {
  readonly code: string
  /** `jobs[1].operator`. */
  readonly path: string
  readonly line: number
  readonly column: number
  readonly message: string
  readonly hint: string
}

const FINDINGS_MAX = 100

/** What the jobs of a DAG may use. */
type Host = {
  readonly operators: Operators
  /** Present if calls of functions are signed. */
  readonly callFunction?: unknown
}

export function readDag(bytes: Uint8Array, host: Host): Decision<DagSpec> {
  const yaml = readYaml('dag.yaml', bytes)
  if (!yaml.ok) return yaml
  const found: Found[] = []
  const read = readHead(yaml.value.value, found)
  const jobs = read ? readJobs(read.jobs, found) : []
  if (read) {
    const given = jobs.flatMap((job, at) => (job ? [{ job, at }] : []))
    for (const { job, at } of given) found.push(...checkJob(job, ['jobs', at], host))
    found.push(...checkNames(given), ...checkDatasets(read.datasets ?? {}, given))
    // A wrong job would be reported again as a missing producer.
    if (given.length === jobs.length) found.push(...checkCycle(given))
  }
  if (found.length === 0 && read) return accept({ ...read, jobs: jobs.filter((job) => job !== undefined) })
  return refuseDag(found.map((one) => placed(one, yaml.value.placeOf(one.steps))))
}

function refuseDag(all: readonly DagFinding[]): Refusal {
  const findings = all.toSorted((a, b) => a.line - b.line || a.column - b.column)
  const [first] = findings
  const more = findings.length > 1 ? ` There are ${findings.length - 1} more findings.` : ''
  return refuse('flow.dag.invalid', `${first?.path ?? 'dag'}: ${first?.message ?? 'is wrong.'}${more}`, {
    ...(first && { path: `dag.yaml:${first.line}:${first.column}`, hint: first.hint }),
    facts: { findings: findings.slice(0, FINDINGS_MAX), count: findings.length },
  })
}

const placed = ({ steps, code, message, hint }: Found, place: { line: number; column: number }): DagFinding => ({
  code,
  path: formatPath(steps),
  ...place,
  message,
  hint: hint ?? 'Correct the field. docs/guides/flow.md lists the fields of a DAG.',
})

function readHead(value: JsonObject, found: Found[]): z.output<typeof head> | undefined {
  const read = head.safeParse(value)
  if (!read.success) found.push(...issuesOf(read.error, [], value, Object.keys(head.shape)))
  return read.success ? read.data : undefined
}

function readJobs(given: readonly JsonValue[], found: Found[]): readonly (JobSpec | undefined)[] {
  return given.map((value, at) => {
    const steps = ['jobs', at]
    const activation = isJsonObject(value) ? value['activation'] : undefined
    if (activation !== 'source' && activation !== 'reactive') {
      const message = isJsonObject(value) ? 'activation must be source or reactive.' : 'A job must be a mapping.'
      const hint = 'Use source for a job that brings data in, reactive for one that has inputs.'
      found.push({ steps: [...steps, 'activation'], code: 'field', message, hint })
      return undefined
    }
    const form = activation === 'source' ? sourceJob : reactiveJob
    const read = form.safeParse(value)
    if (read.success) return read.data
    found.push(...issuesOf(read.error, steps, value as JsonObject, Object.keys(form.shape)))
    return undefined
  })
}

/** Zod's issues as findings. `Bulk` has its own text: it is a strategy elsewhere. */
function issuesOf(error: z.ZodError, at: Steps, value: JsonObject, fields: readonly string[]): Found[] {
  return error.issues.flatMap((issue): Found[] => {
    const steps = [...at, ...issue.path.map((step) => (typeof step === 'number' ? step : String(step)))]
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({
        steps: [...steps, key],
        code: 'unknown_field',
        message: `There is no field ${quote(key)}.`,
        hint: didYouMean(key, issue.path.length === 0 ? fields : []).hint ?? `Fields here: ${fields.join(', ')}.`,
      }))
    }
    if (issue.path.at(-1) === 'execution_strategy' && value['execution_strategy'] === 'Bulk') {
      const hint = 'Use PerUpdate (one task per update) or PerPartition (one task per partition).'
      return [{ steps, code: 'bulk', message: 'The strategy Bulk is not supported.', hint }]
    }
    return [{ steps, code: 'field', message: `${formatPath(steps)} ${issue.message}.` }]
  })
}

function checkJob(job: JobSpec, at: Steps, { operators, callFunction }: Host): readonly Found[] {
  const found: Found[] = []
  const add = (field: Steps, code: string, message: string, hint?: string) =>
    found.push({ steps: [...at, ...field], code, message, ...(hint !== undefined && { hint }) })
  const operator = operators.get(job.operator)
  if (!operator) {
    const known = [...operators.keys()].toSorted()
    const hint = didYouMean(job.operator, known).hint ?? `Operators: ${known.join(', ')}.`
    add(['operator'], 'operator_unknown', `There is no operator ${quote(job.operator)}.`, hint)
  } else {
    const config = operator.config.safeParse(job.config ?? {})
    for (const { path, message } of config.success ? [] : config.error.issues)
      add(['config', ...path.map(String)], 'config', `config.${path.join('.')}: ${message}.`)
    if (job.runtime === 'dispatcher' && !operator.do)
      add(
        ['runtime'],
        'runtime',
        `The operator ${quote(job.operator)} runs in workers.`,
        'Use ecs_udf or ecs_platform.',
      )
    if (job.runtime === 'lambda' && !operator.url)
      add(['runtime'], 'runtime', `The operator ${quote(job.operator)} has no address.`, 'Give it a `url`.')
  }
  if (job.runtime === 'lambda' && callFunction === undefined) {
    const message = 'The calls of functions cannot be signed: there is no secret.'
    add(['runtime'], 'function_secret_missing', message, 'Set CONCORD_FUNCTION_SECRET, or use another runtime.')
  }
  if (job.update_strategy === 'append' && !job.unique_key) {
    const hint = 'Name the columns that identify a row, or use replace.'
    add(['update_strategy'], 'unique_key_missing', 'append needs unique_key: a task may run twice.', hint)
  }
  if (job.activation === 'source' && job.source.kind === 'cron') {
    for (const [field, read] of [
      ['schedule', parseCron(job.source.schedule)],
      ['time_zone', parseTimeZone(job.source.time_zone ?? 'UTC')],
    ] as const)
      if (!read.ok) add(['source', field], read.code, read.reason, read.hint)
  }
  if (job.activation === 'reactive' && job.idle_timeout !== undefined) {
    const read = parseIdleTimeout(job.idle_timeout)
    if (!read.ok) add(['idle_timeout'], read.code, read.reason, 'Write never, 0, or one number and one unit: 5m.')
  }
  const inputs = job.activation === 'reactive' ? job.inputs : []
  for (const [column, from] of Object.entries(job.columns ?? {})) {
    const strange = from.find((each) => !inputs.includes(each.split('.')[0] ?? ''))
    if (strange !== undefined) add(['columns', column], 'column_input', `${quote(strange)} is no column of an input.`)
  }
  return found
}

type Given = readonly { readonly job: JobSpec; readonly at: number }[]

/** A job name is used once, and a dataset has one producer and is named once among the inputs of a job. */
function checkNames(given: Given): readonly Found[] {
  const found: Found[] = []
  const jobs = new Map<string, string>()
  const producers = new Map<string, string>()
  for (const { job, at } of given) {
    const other = jobs.get(job.name)
    if (other !== undefined)
      found.push({
        steps: ['jobs', at, 'name'],
        code: 'name_twice',
        message: `Two jobs are called ${quote(job.name)}.`,
      })
    jobs.set(job.name, job.name)
    for (const [index, dataset] of (job.outputs ?? []).entries()) {
      const first = producers.get(dataset)
      if (first !== undefined) {
        const message = `The dataset ${quote(dataset)} has two producers: ${first} and ${job.name}.`
        const hint = 'A dataset has one producer. Rename one of the outputs.'
        found.push({ steps: ['jobs', at, 'outputs', index], code: 'two_producers', message, hint })
      }
      producers.set(dataset, job.name)
    }
    const inputs = job.activation === 'reactive' ? job.inputs : []
    for (const [index, dataset] of inputs.entries())
      if (inputs.indexOf(dataset) < index)
        found.push({
          steps: ['jobs', at, 'inputs', index],
          code: 'input_twice',
          message: `${quote(dataset)} is named twice.`,
        })
  }
  return found
}

function checkDatasets(datasets: Readonly<Record<string, unknown>>, given: Given): readonly Found[] {
  const outputs = new Set(given.flatMap(({ job }) => job.outputs ?? []))
  return Object.keys(datasets)
    .filter((dataset) => !outputs.has(dataset))
    .map((dataset) => ({
      steps: ['datasets', dataset],
      code: 'dataset_unknown',
      message: `No job of this DAG has the output ${quote(dataset)}.`,
      ...didYouMean(dataset, outputs),
    }))
}

/** The edges of jobs through datasets. An input that no job produces comes from another DAG. */
export function jobGraph(jobs: readonly { name: string; inputs: readonly string[]; outputs: readonly string[] }[]) {
  const producers = new Map(jobs.flatMap((job) => job.outputs.map((dataset) => [dataset, job.name] as const)))
  return jobs.map(
    (job, sequence): GraphNode => ({
      id: job.name,
      sequence,
      dependsOn: [...new Set(job.inputs.flatMap((dataset) => producers.get(dataset) ?? []))],
    }),
  )
}

const inputsOf = (job: JobSpec) => (job.activation === 'reactive' ? job.inputs : [])

function checkCycle(given: Given): readonly Found[] {
  if (new Set(given.map(({ job }) => job.name)).size < given.length) return []
  const nodes = jobGraph(
    given.map(({ job }) => ({ name: job.name, inputs: inputsOf(job), outputs: job.outputs ?? [] })),
  )
  const itself = nodes.findIndex(({ id, dependsOn }) => dependsOn.includes(id))
  if (itself >= 0) {
    const message = `The job ${nodes[itself]?.id} has its own output among its inputs.`
    return [{ steps: ['jobs', itself, 'inputs'], code: 'dag_cycle', message, hint: 'Remove that input.' }]
  }
  const graph = validateGraph(nodes)
  if (graph.ok) return []
  const [first] = (graph.facts?.['cycle'] as readonly string[] | undefined) ?? []
  const at = given.find(({ job }) => job.name === first)?.at ?? 0
  const hint = 'Each job waits for the one before it. Remove one of the inputs.'
  return [{ steps: ['jobs', at, 'inputs'], code: graph.code, message: graph.reason, hint }]
}
