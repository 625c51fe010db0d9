/** Submits jobs and groups: validates the work, and adds each job at the end of its priority in one transaction. */
import { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import { guardValue, parseGuardedObject } from '#kernel/json-guard'
import { type JsonObject, utf8Size } from '#kernel/json-value'
import { PAGE_BYTES_MAX } from '#kernel/page-limit'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { submitGroupBody, submitJobBody } from './contract.ts'
import type { SqlReader, WriteTx } from './database.ts'
import { parseInput } from './parse-input.ts'
import {
  groupOf,
  insertGroup,
  nextGroupOrder,
  placeInGroup,
  requireOpenGroup,
  type SubmittedGroup,
} from './job-group.ts'
import { findKeyed, readKey, saveKey } from './job-keys.ts'
import { insertJob, type NewJobRow } from './job-repository.ts'
import { requireTemplate } from './job-template.ts'
import { applyParamsSchema, requireJobType } from './job-types.ts'
import { digestLines, type Requested, requireRecorded } from './requested.ts'
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

/** The digest of what these requests would run now; refuses work that cannot run. */
export function digestWork(scheduler: Scheduler, works: readonly WantedJob[]): Decision<string> {
  return scheduler.db.read((reader) => {
    const [only] = works.length === 1 ? works : []
    const prepared = only ? prepareJob(reader, only) : prepareMembers(reader, works)
    return prepared.ok ? digestLines(reader, [prepared.value].flat()) : prepared
  })
}

/** The params of a template are copied into every member, so they are limited together. */
function prepareMembers(reader: SqlReader, works: readonly WantedJob[]): Decision<readonly PreparedJob[]> {
  const members: PreparedJob[] = []
  let bytes = 0
  for (const [index, work] of works.entries()) {
    const prepared = prepareJob(reader, work)
    if (!prepared.ok) return atMember(prepared, index)
    bytes += utf8Size(prepared.value.params)
    if (bytes > PAGE_BYTES_MAX) {
      return refuse('scheduler.group.too_large', `The params of a group have at most ${PAGE_BYTES_MAX} bytes in all.`, {
        path: `jobs[${index}]`,
        facts: { limit_bytes: PAGE_BYTES_MAX },
      })
    }
    members.push(prepared.value)
  }
  return accept(members)
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

/** The first requests with a key have no operation in their fingerprint, and their keys must stay valid. */
export function keyOfJob({ idempotency_key, group_id, not_before, ...wanted }: z.output<typeof submitJobBody>) {
  return readKey(idempotency_key, { group_id: group_id ?? null, not_before: not_before?.getTime() ?? null, ...wanted })
}

/** With a key, the same request again returns its job as it is now. */
export function submitJob(scheduler: Scheduler, body: SubmitJob, requested: Requested = {}): Decision<StoredJob> {
  const parsed = parseInput(submitJobBody, body)
  if (!parsed.ok) return parsed
  const key = keyOfJob(parsed.value)
  if (!key.ok) return key
  const { group_id, not_before } = parsed.value
  const submitted = scheduler.db.write((tx): Decision<StoredJob> => {
    const first = findKeyed(tx, key.value)
    if (!first.ok) return first
    if (first.value) return accept(first.value)
    const prepared = prepareJob(tx, parsed.value)
    if (!prepared.ok) return prepared
    const recorded = requireRecorded(tx, requested, [prepared.value])
    if (!recorded.ok) return recorded
    const placing = placeNew(tx, group_id)
    if (!placing.ok) return placing
    const job = addJob(scheduler, tx, prepared.value, { ...requested, notBefore: not_before, ...placing.value })
    saveKey(tx, key.value, job.job_id)
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

export function keyOfGroup({ idempotency_key, ...group }: z.output<typeof submitGroupBody>) {
  const jobs = group.jobs.map(({ not_before, ...job }) => ({ ...job, not_before: not_before?.getTime() ?? null }))
  return readKey(idempotency_key, { operation: 'submit_group', ...group, jobs })
}

/** In a sequential group the first member enters the queue, and each other one when its predecessor has ended. */
export function submitGroup(
  scheduler: Scheduler,
  body: z.input<typeof submitGroupBody>,
  {
    groupId = scheduler.deps.newId(),
    requestedBy = null,
    ...requested
  }: Requested & { readonly groupId?: string } = {},
): Decision<SubmittedGroup> {
  const parsed = parseInput(submitGroupBody, body)
  if (!parsed.ok) return parsed
  const key = keyOfGroup(parsed.value)
  if (!key.ok) return key
  const { name = null, mode, on_failure, jobs: wantedJobs } = parsed.value
  return scheduler.db.write((tx): Decision<SubmittedGroup> => {
    const first = findKeyed(tx, key.value)
    if (!first.ok) return first
    if (first.value) return groupOf(tx, first.value)
    const members = prepareMembers(tx, wantedJobs)
    if (!members.ok) return members
    const recorded = requireRecorded(tx, requested, members.value)
    if (!recorded.ok) return recorded
    const group = insertGroup(tx, { group_id: groupId, name, mode, on_failure, now: nowMs(scheduler) })
    const jobs = members.value.map((member, index) => {
      const notBefore = wantedJobs[index]?.not_before
      return addJob(scheduler, tx, member, { requestedBy, notBefore, group, order: index + 1 })
    })
    saveKey(tx, key.value, jobs[0]?.job_id ?? '')
    return accept({ group, jobs })
  })
}
