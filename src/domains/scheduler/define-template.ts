/** Templates: a named job type with params, rules for these params, and a priority. */
import type { z } from 'zod'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { changeTemplateBody, templateBody } from './contract.ts'
import { parseInput } from './parse-input.ts'
import { requireJobType } from './job-types.ts'
import { checkParamsSchema } from './params-schema.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredTemplate } from './stored-rows.ts'
import { insertTemplate, requireTemplate, saveArchived, saveTemplate } from './template-repository.ts'

export function createTemplate(scheduler: Scheduler, body: z.input<typeof templateBody>): Decision<StoredTemplate> {
  const parsed = parseInput(templateBody, body)
  if (!parsed.ok) return parsed
  const { name, job_type, params, params_schema, priority } = parsed.value
  const checked = params_schema === null ? accept(null) : checkParamsSchema(params_schema)
  if (!checked.ok) return checked
  return scheduler.db.write((tx) => {
    const type = requireJobType(tx, job_type)
    if (!type.ok) return type
    const saved = insertTemplate(tx, {
      template_id: scheduler.deps.newId(),
      name,
      job_type,
      params: JSON.stringify(params),
      params_schema: checked.value === null ? null : JSON.stringify(checked.value),
      priority,
      now: nowMs(scheduler),
    })
    return saved ? accept(saved) : nameTaken(name)
  })
}

/** Jobs that were made from it keep the params they got. */
export function changeTemplate(
  scheduler: Scheduler,
  templateId: string,
  body: z.input<typeof changeTemplateBody>,
): Decision<StoredTemplate> {
  const parsed = parseInput(changeTemplateBody, body)
  if (!parsed.ok) return parsed
  const { name, params, params_schema, priority } = parsed.value
  const checked = params_schema ? checkParamsSchema(params_schema) : accept(params_schema)
  if (!checked.ok) return checked
  return scheduler.db.write((tx) => {
    const old = requireTemplate(tx, templateId)
    if (!old.ok) return old
    const schema = checked.value
    const saved = saveTemplate(tx, {
      template_id: templateId,
      name: name ?? old.value.name,
      params: params === undefined ? old.value.params : JSON.stringify(params),
      params_schema: schema === undefined ? old.value.params_schema : schema === null ? null : JSON.stringify(schema),
      priority: priority ?? old.value.priority,
      now: nowMs(scheduler),
    })
    return saved ? accept(saved) : nameTaken(name ?? old.value.name)
  })
}

/** Its row stays for the jobs that point to it; its name is free again. */
export function archiveTemplate(scheduler: Scheduler, templateId: string): Decision<StoredTemplate> {
  return scheduler.db.write((tx) => {
    const old = requireTemplate(tx, templateId)
    if (!old.ok) return old
    const saved = saveArchived(tx, templateId, nowMs(scheduler))
    if (saved) return accept(saved)
    return refuse('scheduler.template.in_use', `the template ${quote(old.value.name)} is used by a schedule`, {
      hint: 'Delete the schedule, or give it another template.',
    })
  })
}

function nameTaken(name: string): Refusal {
  return refuse('scheduler.template.name_taken', `there is a template ${quote(name)} already`, { path: 'name' })
}
