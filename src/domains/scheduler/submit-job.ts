/** Submits jobs and groups: validates the work, and adds each job at the end of its priority in one transaction. */
import { hash } from 'node:crypto'
import { z } from 'zod'
import { canonicalJson } from '#kernel/canonical-json'
import { KernelFault } from '#kernel/errors'
import { parseIdempotencyKey } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import { guardValue, parseGuardedObject } from '#kernel/json-guard'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { submitGroupBody, submitJobBody } from './contract.ts'
import { query, type SqlReader, type WriteTx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { insertGroup, nextGroupOrder, placeInGroup, requireOpenGroup, type SubmittedGroup } from './job-group.ts'
import { insertJob, type NewJobRow, requireJob } from './job-repository.ts'
import { requireTemplate } from './job-template.ts'
import { applyParamsSchema, requireJobType } from './job-types.ts'
import { commandParams } from './runner-settings.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredGroup, StoredJob, StoredJobType, StoredTemplate } from './stored-rows.ts'

/** The work of a job: a type with params, or a template with params that override its own. */
type WantedJob = Pick<z.output<typeof submitJobBody>, 'job_type' | 'template_id' | 'params' | 'priority'>

export type PreparedJob = Pick<StoredJob, 'job_type' | 'template_id' | 'params' | 'priority'>

export function prepareJob(reader: SqlReader, wanted: WantedJob): Decision<PreparedJob> {
  if (wanted.template_id !== undefined) {
    const template = requireTemplate(reader, wanted.template_id)
    const prepared = template.ok ? prepareFromTemplate(template.value, wanted) : template
    return prepared.ok ? checkWork(reader, prepared.value) : prepared
  }
  if (wanted.job_type === undefined) {
    return refuse('api.field.missing', 'A job needs a `job_type` or a `template_id`.', { path: 'job_type' })
  }
  const type = requireJobType(reader, wanted.job_type)
  if (!type.ok) return type
  const { job_type, params = {}, priority = 0 } = { ...wanted, job_type: wanted.job_type }
  return checkWork(reader, { job_type, template_id: null, params: JSON.stringify(params), priority })
}

/** Refuses a job with an invalid command of its own at submission, instead of letting its run fail. */
export function checkWork<T extends Pick<PreparedJob, 'job_type' | 'params'>>(reader: SqlReader, job: T): Decision<T> {
  const type = requireJobType(reader, job.job_type)
  if (!type.ok) return type
  if (!takesCommand(type.value)) return accept(job)
  const checked = parseInput(z.object({ params: commandParams }), { params: JSON.parse(job.params) })
  return checked.ok ? accept(job) : checked
}

/** Returns whether the jobs of this type name their command in their params. */
function takesCommand({ runner }: StoredJobType): boolean {
  return (JSON.parse(runner ?? '{}') as { readonly from_params?: unknown }).from_params === true
}

/** Returns whether the params of this work name the command to run, which amounts to shell access to this machine. */
export function namesOwnCommand(
  scheduler: Scheduler,
  work: Pick<WantedJob, 'job_type' | 'template_id'>,
): Decision<boolean> {
  return scheduler.db.read((reader) => {
    const template = work.template_id === undefined ? undefined : requireTemplate(reader, work.template_id)
    const named = template?.ok ? template.value.job_type : work.job_type
    // An unknown template or type runs nothing; the service that submits refuses it with the reason.
    const type = named === undefined ? undefined : requireJobType(reader, named)
    return accept(type?.ok === true && takesCommand(type.value))
  })
}

/** The digest of the command line and params with which this work would run now; refuses work that cannot run. */
export function digestWork(scheduler: Scheduler, works: readonly WantedJob[]): Decision<string> {
  return scheduler.db.read((reader) => {
    const lines: JsonValue[] = []
    for (const [index, work] of works.entries()) {
      const prepared = prepareJob(reader, work)
      if (!prepared.ok) return works.length === 1 ? prepared : atMember(prepared, index)
      const type = requireJobType(reader, prepared.value.job_type)
      if (!type.ok) return type
      lines.push([JSON.parse(type.value.runner ?? 'null'), JSON.parse(prepared.value.params)])
    }
    return accept(`sha256:${hash('sha256', canonicalJson(lines))}`)
  })
}

/** The caller's params override the template's, key by key at the top level. */
export function prepareFromTemplate(template: StoredTemplate, wanted: WantedJob): Decision<PreparedJob> {
  if (wanted.job_type !== undefined && wanted.job_type !== template.job_type) {
    return refuse('api.field.value', `The template creates jobs of the type ${template.job_type}.`, {
      path: 'job_type',
    })
  }
  const base = parseGuardedObject(template.params)
  if (!base.ok) return base
  const params = checkParams(template, { ...base.value, ...wanted.params })
  if (!params.ok) return params
  // Two objects within the limits may exceed them together.
  const guarded = guardValue(params.value)
  if (!guarded.ok) return guarded
  return accept({
    job_type: template.job_type,
    template_id: template.template_id,
    params: JSON.stringify(params.value),
    priority: wanted.priority ?? template.priority,
  })
}

export function checkParams(template: StoredTemplate, params: JsonObject): Decision<JsonObject> {
  if (template.params_schema === null) return accept(params)
  const schema = parseGuardedObject(template.params_schema)
  return schema.ok ? applyParamsSchema(schema.value, params) : schema
}

export type SubmitJob = z.input<typeof submitJobBody>

/** What a request over HTTP adds: the id that its record names, and the requester, such as `user_0197…`. */
export type Requested = { readonly jobId?: string; readonly requestedBy?: string | null }

const selectKey = query<{ job_id: string; fingerprint: string }, { key: string }>(
  'select job_id, fingerprint from job_keys where idempotency_key = $key',
)
const insertKey = query<never, { key: string; fingerprint: string; job_id: string }>(
  'insert into job_keys (idempotency_key, fingerprint, job_id) values ($key, $fingerprint, $job_id)',
)

/** With a key, the same request again returns its job as it is now. */
export function submitJob(scheduler: Scheduler, body: SubmitJob, requested: Requested = {}): Decision<StoredJob> {
  const parsed = parseInput(submitJobBody, body)
  if (!parsed.ok) return parsed
  const { group_id, not_before, idempotency_key, ...wanted } = parsed.value
  const key = idempotency_key === undefined ? accept(undefined) : parseIdempotencyKey(idempotency_key)
  if (!key.ok) return { ...key, path: 'idempotency_key' }
  const asked = { group_id: group_id ?? null, not_before: not_before?.getTime() ?? null, ...wanted }
  const fingerprint = hash('sha256', canonicalJson(asked as JsonObject))
  const submitted = scheduler.db.write((tx): Decision<StoredJob> => {
    const first = key.value === undefined ? undefined : tx.one(selectKey, { key: key.value })
    if (first) return first.fingerprint === fingerprint ? requireJob(tx, first.job_id) : refuseReused(first.job_id)
    const prepared = prepareJob(tx, wanted)
    if (!prepared.ok) return prepared
    const placing = placeNew(tx, group_id)
    if (!placing.ok) return placing
    const job = addJob(scheduler, tx, prepared.value, { ...requested, notBefore: not_before, ...placing.value })
    if (key.value !== undefined) tx.run(insertKey, { key: key.value, fingerprint, job_id: job.job_id })
    return accept(job)
  })
  if (submitted.ok) scheduler.pass('submit.committed')
  return submitted
}

function placeNew(tx: WriteTx, groupId: string | undefined): Decision<Placing> {
  if (groupId === undefined) return accept({})
  const group = requireOpenGroup(tx, groupId)
  return group.ok ? accept({ group: group.value, order: nextGroupOrder(tx, groupId) }) : group
}

function refuseReused(jobId: string): Refusal {
  return refuse('key_reused', 'This key was used before for another request.', {
    path: 'idempotency_key',
    hint: 'Use a new key for a new request, and the same key only to repeat the same request.',
    facts: { job_id: encodeId('job', jobId) },
  })
}

type Placing = Requested & {
  readonly notBefore?: Date | undefined
  readonly group?: StoredGroup
  readonly order?: number
  readonly scheduleId?: string
}

/** Inserts every queued job except retries. */
export function addJob(scheduler: Scheduler, tx: WriteTx, prepared: PreparedJob, placing: Placing = {}): StoredJob {
  const now = nowMs(scheduler)
  const { group, order = 1, scheduleId, jobId = scheduler.deps.newId(), requestedBy = null } = placing
  const notBefore = placing.notBefore?.getTime() ?? null
  const place = group && placeInGroup(tx, group, order)
  const isEarly = notBefore !== null && notBefore > now
  const job = insertNewJob(tx, {
    job_id: jobId,
    requested_by: requestedBy,
    ...prepared,
    schedule_id: scheduleId ?? null,
    group_id: group?.group_id ?? null,
    now,
    group_order: place?.group_order ?? null,
    reservation_id: null,
    hold: place?.isHeld ? 'group' : isEarly ? 'delay' : null,
    not_before: notBefore,
  })
  scheduler.pass('submit.inserted')
  return job
}

export function insertNewJob(tx: WriteTx, row: NewJobRow): StoredJob {
  const job = tx.one(insertJob, row)
  if (!job) throw new KernelFault('scheduler.insert', 'An insert without conditions returned no row.')
  return job
}

function atMember(refusal: Refusal, index: number): Refusal {
  return { ...refusal, path: [`jobs[${index}]`, refusal.path].filter(Boolean).join('.') }
}

/** In a sequential group the first member enters the queue, and each other one when its predecessor has ended. */
export function submitGroup(
  scheduler: Scheduler,
  body: z.input<typeof submitGroupBody>,
  { groupId = scheduler.deps.newId(), requestedBy = null }: Requested & { readonly groupId?: string } = {},
): Decision<SubmittedGroup> {
  const parsed = parseInput(submitGroupBody, body)
  if (!parsed.ok) return parsed
  const { name = null, mode, on_failure, jobs: wantedJobs } = parsed.value
  return scheduler.db.write((tx) => {
    const group = insertGroup(tx, { group_id: groupId, name, mode, on_failure, now: nowMs(scheduler) })
    const jobs: StoredJob[] = []
    for (const [index, { not_before, ...wanted }] of wantedJobs.entries()) {
      const prepared = prepareJob(tx, wanted)
      if (!prepared.ok) return atMember(prepared, index)
      jobs.push(addJob(scheduler, tx, prepared.value, { requestedBy, notBefore: not_before, group, order: index + 1 }))
    }
    return accept({ group, jobs })
  })
}
