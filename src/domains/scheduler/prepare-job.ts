/** From what a caller sends to what a job row holds: the template's params under the caller's, checked by the template's rules. */
import { z } from 'zod'
import { parseGuardedObject } from '#kernel/json-guard'
import type { JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-value-guard'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Reader } from './database.ts'
import { parseInput } from './parse-input.ts'
import { requireJobType } from './job-types.ts'
import { applyParamsSchema } from './params-schema.ts'
import { commandParams } from './runner-settings.ts'
import type { StoredTemplate } from './stored-rows.ts'
import { requireTemplate } from './template-repository.ts'

export type WantedJob = {
  readonly job_type?: string | undefined
  readonly template_id?: string | undefined
  readonly params?: JsonObject | undefined
  readonly priority?: number | undefined
}

export type PreparedJob = {
  readonly job_type: string
  readonly template_id: string | null
  readonly params: string
  readonly priority: number
}

export function prepareJob(reader: Reader, wanted: WantedJob): Decision<PreparedJob> {
  if (wanted.template_id !== undefined) {
    const template = requireTemplate(reader, wanted.template_id)
    const prepared = template.ok ? prepareFromTemplate(template.value, wanted) : template
    return prepared.ok ? checkWork(reader, prepared.value) : prepared
  }
  if (wanted.job_type === undefined) {
    return refuse('api.field.missing', 'a job needs a `job_type` or a `template_id`', { path: 'job_type' })
  }
  const type = requireJobType(reader, wanted.job_type)
  if (!type.ok) return type
  const { job_type, params = {}, priority = 0 } = { ...wanted, job_type: wanted.job_type }
  return checkWork(reader, { job_type, template_id: null, params: JSON.stringify(params), priority })
}

/** A job that names its own command names one that can be run: better told at the door than by a failed run. */
export function checkWork<T extends Pick<PreparedJob, 'job_type' | 'params'>>(reader: Reader, job: T): Decision<T> {
  const type = requireJobType(reader, job.job_type)
  if (!type.ok) return type
  const runner = JSON.parse(type.value.runner ?? '{}') as { readonly from_params?: unknown }
  if (runner.from_params !== true) return accept(job)
  const checked = parseInput(z.object({ params: commandParams }), { params: JSON.parse(job.params) })
  return checked.ok ? accept(job) : checked
}

/** The caller's keys lie over the template's, one by one at the top level. */
export function prepareFromTemplate(template: StoredTemplate, wanted: WantedJob): Decision<PreparedJob> {
  if (wanted.job_type !== undefined && wanted.job_type !== template.job_type) {
    return refuse('api.field.value', `the template makes jobs of the type ${template.job_type}`, { path: 'job_type' })
  }
  const base = parseGuardedObject(template.params)
  if (!base.ok) return base
  const params = checkParams(template, { ...base.value, ...wanted.params })
  if (!params.ok) return params
  // Two objects that fit may be too large together.
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
