/** Job templates, a named job type with params, a schema for them and a priority: reads and writes `job_templates`. */
import { z } from 'zod'
import { orNull, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { changeTemplateBody, templateBody } from './contract.ts'
import { pageOf, type PagedRow, type SqlReader, query } from './database.ts'
import { checkNamePage, type NamePage, parseInput } from './parse-input.ts'
import { checkParamsSchema, requireJobType } from './job-types.ts'
import { type CommandLine, digestLines, type Requested, requireRecorded } from './requested.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import { defineView, objectView, readObject, showTime, type StoredTemplate } from './stored-rows.ts'

const COLUMNS = `template_id, name, job_type, params, params_schema, priority, created_at, updated_at, archived_at`

type TemplateRow = Pick<StoredTemplate, 'template_id' | 'name' | 'params' | 'params_schema' | 'priority'> & {
  readonly now: number
}

const insertRow = query<StoredTemplate, TemplateRow & { job_type: string }>(`
   insert into job_templates (template_id, name, job_type, params, params_schema, priority, created_at, updated_at)
   values ($template_id, $name, $job_type, $params, $params_schema, $priority, $now, $now)
       on conflict (name) where archived_at is null do nothing
   returning ${COLUMNS}`)
const updateRow = query<StoredTemplate, TemplateRow>(`
   update or ignore job_templates
      set name = $name, params = $params, params_schema = $params_schema, priority = $priority, updated_at = $now
    where template_id = $template_id and archived_at is null returning ${COLUMNS}`)
const archiveRow = query<StoredTemplate, { template_id: string; now: number }>(`
   update job_templates set archived_at = $now, updated_at = $now
    where template_id = $template_id and archived_at is null
      and not exists (select 1 from schedules where schedules.template_id = $template_id and deleted_at is null)
   returning ${COLUMNS}`)
const selectRow = query<StoredTemplate, { template_id: string }>(
  `select ${COLUMNS} from job_templates where template_id = $template_id`,
)
const rows = (rest: string) => `select ${COLUMNS} from job_templates where archived_at is null ${rest} order by name`
const selectRows = query<StoredTemplate>(rows(''))
const selectPage = query<PagedRow<StoredTemplate>, { limit: number; after: string }>(
  pageOf(
    `${rows('and name > $after')} limit $limit`,
    `octet_length(params) + coalesce(octet_length(params_schema), 0)`,
  ),
)

export function requireTemplate(reader: SqlReader, templateId: string): Decision<StoredTemplate> {
  const found = reader.one(selectRow, { template_id: templateId })
  if (found && found.archived_at === null) return accept(found)
  return refuse('scheduler.template.not_found', `There is no template ${quote(templateId)}.`, { path: 'template_id' })
}

export function allTemplates(reader: SqlReader): StoredTemplate[] {
  return reader.all(selectRows)
}

export function listTemplates(
  scheduler: Scheduler,
  page: NamePage = {},
): Decision<readonly PagedRow<StoredTemplate>[]> {
  const checked = checkNamePage(page)
  return checked.ok ? scheduler.db.read((reader) => accept(reader.all(selectPage, checked.value))) : checked
}

export function readTemplate(scheduler: Scheduler, templateId: string): Decision<StoredTemplate> {
  return scheduler.db.read((reader) => requireTemplate(reader, templateId))
}

export function createTemplate(
  scheduler: Scheduler,
  body: z.input<typeof templateBody>,
  requested: Requested = {},
): Decision<StoredTemplate> {
  const parsed = parseInput(templateBody, body)
  if (!parsed.ok) return parsed
  const { name, job_type, params, params_schema, priority } = parsed.value
  const checked = params_schema === null ? accept(null) : checkParamsSchema(params_schema)
  if (!checked.ok) return checked
  return scheduler.db.write((tx) => {
    const type = requireJobType(tx, job_type)
    if (!type.ok) return type
    const line = { job_type, params: JSON.stringify(params) }
    const recorded = requireRecorded(tx, requested, [line])
    if (!recorded.ok) return recorded
    const saved = tx.one(insertRow, {
      template_id: scheduler.deps.newId(),
      name,
      ...line,
      params_schema: orNull(checked.value, (schema) => JSON.stringify(schema)),
      priority,
      now: nowMs(scheduler),
    })
    return saved ? accept(saved) : nameTaken(name)
  })
}

/** Existing jobs keep the params that they were created with. */
export function changeTemplate(
  scheduler: Scheduler,
  templateId: string,
  body: z.input<typeof changeTemplateBody>,
  requested: Requested = {},
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
    const line = changedLine(old.value, params)
    const recorded = requireRecorded(tx, requested, [line])
    if (!recorded.ok) return recorded
    const saved = tx.one(updateRow, {
      template_id: templateId,
      name: name ?? old.value.name,
      params: line.params,
      params_schema: schema === undefined ? old.value.params_schema : schema === null ? null : JSON.stringify(schema),
      priority: priority ?? old.value.priority,
      now: nowMs(scheduler),
    })
    return saved ? accept(saved) : nameTaken(name ?? old.value.name)
  })
}

function changedLine({ job_type, params: old }: StoredTemplate, params: JsonObject | undefined): CommandLine {
  return { job_type, params: params === undefined ? old : JSON.stringify(params) }
}

/** The digest of what a template runs without overrides: a new one of this type, or a stored one with these params. */
export function digestTemplate(
  scheduler: Scheduler,
  of: { readonly job_type: string } | { readonly template_id: string },
  params: JsonObject | undefined,
): Decision<string> {
  return scheduler.db.read((reader) => {
    if ('job_type' in of) return digestLines(reader, [{ ...of, params: JSON.stringify(params ?? {}) }])
    const old = requireTemplate(reader, of.template_id)
    return old.ok ? digestLines(reader, [changedLine(old.value, params)]) : old
  })
}

/** Keeps the row for the jobs that reference it and frees the name. */
export function archiveTemplate(scheduler: Scheduler, templateId: string): Decision<StoredTemplate> {
  return scheduler.db.write((tx) => {
    const old = requireTemplate(tx, templateId)
    if (!old.ok) return old
    const saved = tx.one(archiveRow, { template_id: templateId, now: nowMs(scheduler) })
    if (saved) return accept(saved)
    return refuse('scheduler.template.in_use', `The template ${quote(old.value.name)} is used by a schedule.`, {
      hint: 'Delete the schedule, or give it another template.',
    })
  })
}

function nameTaken(name: string): Refusal {
  return refuse('scheduler.template.name_taken', `A template ${quote(name)} already exists.`, { path: 'name' })
}

const template = defineView<StoredTemplate>()({
  template_id: [z.string(), (row) => encodeId('job_template', row.template_id)],
  name: [z.string(), (row) => row.name],
  job_type: [z.string(), (row) => row.job_type],
  params: [objectView, (row) => readObject(row.params)],
  params_schema: [objectView.nullable(), (row) => orNull(row.params_schema, readObject)],
  priority: [z.int(), (row) => row.priority],
  created_at: [timeView(), (row) => showTime(row.created_at)],
  updated_at: [timeView(), (row) => showTime(row.updated_at)],
})
export const templateView = template.schema.meta({ id: 'SchedulerJobTemplate' })
export const toTemplateView = template.show
