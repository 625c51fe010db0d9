/** The only reader and writer of `job_templates`. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Reader, Tx } from './database.ts'
import { statement } from './statement.ts'
import type { StoredTemplate } from './stored-rows.ts'

const COLUMNS = `template_id, name, job_type, params, params_schema, priority, created_at, updated_at, archived_at`

type TemplateRow = {
  readonly template_id: string
  readonly name: string
  readonly job_type: string
  readonly params: string
  readonly params_schema: string | null
  readonly priority: number
  readonly now: number
}

const insertRow = statement<StoredTemplate, TemplateRow>(
  'insert_template',
  `insert into job_templates (template_id, name, job_type, params, params_schema, priority, created_at, updated_at)
   values ($template_id, $name, $job_type, $params, $params_schema, $priority, $now, $now)
       on conflict (name) where archived_at is null do nothing
   returning ${COLUMNS}`,
)
const updateRow = statement<StoredTemplate, Omit<TemplateRow, 'job_type'>>(
  'update_template',
  `update or ignore job_templates
      set name = $name, params = $params, params_schema = $params_schema, priority = $priority, updated_at = $now
    where template_id = $template_id and archived_at is null returning ${COLUMNS}`,
)
const archiveRow = statement<StoredTemplate, { template_id: string; now: number }>(
  'archive_template',
  `update job_templates set archived_at = $now, updated_at = $now
    where template_id = $template_id and archived_at is null
      and not exists (select 1 from schedules where schedules.template_id = $template_id and deleted_at is null)
   returning ${COLUMNS}`,
)
const selectRow = statement<StoredTemplate, { template_id: string }>(
  'select_template',
  `select ${COLUMNS} from job_templates where template_id = $template_id`,
)
const selectRows = statement<StoredTemplate>(
  'select_templates',
  `select ${COLUMNS} from job_templates where archived_at is null order by name`,
)

/** Undefined when another template has the name. */
export function insertTemplate(tx: Tx, row: TemplateRow): StoredTemplate | undefined {
  return tx.one(insertRow, row)
}

export function saveTemplate(tx: Tx, row: Omit<TemplateRow, 'job_type'>): StoredTemplate | undefined {
  return tx.one(updateRow, row)
}

/** Undefined while a schedule uses it. */
export function saveArchived(tx: Tx, templateId: string, now: number): StoredTemplate | undefined {
  return tx.one(archiveRow, { template_id: templateId, now })
}

export function requireTemplate(reader: Reader, templateId: string): Decision<StoredTemplate> {
  const found = reader.one(selectRow, { template_id: templateId })
  if (found && found.archived_at === null) return accept(found)
  return refuse('scheduler.template.not_found', `there is no template ${quote(templateId)}`, { path: 'template_id' })
}

export function listTemplates(reader: Reader): StoredTemplate[] {
  return reader.all(selectRows)
}
