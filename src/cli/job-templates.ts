/** `concord job-templates`: a job type with params and a priority under a name, for jobs and schedules. */
import type { Scheduler, StoredTemplate } from '#app/scheduler'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { fieldsOf } from './client.ts'
import { fileVerb, type Jobs, readId, type WorkFlags, workOf, workOptions, type OnFile } from './jobs-file.ts'
import { parseNamed } from './json-source.ts'
import { mapAnswer, noun, parseWhole, table, type When } from './noun.ts'

type TemplateView = ReturnType<Jobs['toTemplateView']>
type AddFlags = WorkFlags & { name: string; schema?: string; priority?: number }
type ChangeFlags = { name?: string; params?: string; schema?: string; priority?: number }

export const jobTemplates = noun('named descriptions of local jobs', (cli) => ({
  'add [command...]': fileVerb({
    description: 'create a template from a command, or from a type with its params',
    required: [['--name <name>', 'the name of the template']],
    options: [
      ...workOptions,
      ['--schema <json>', 'a JSON Schema for the params of its jobs'],
      ['--priority <number>', 'priority of its jobs', parseWhole],
    ],
    examples: ['concord job-templates add --name report -- node report.mjs'],
    ask({ scheduler, jobs }: OnFile, words: string[], flags: AddFlags) {
      const work = workOf(cli.terminal, words, flags)
      if (!work.ok) return work
      const schema = readSchema(flags.schema)
      if (!schema.ok) return schema
      const { name, priority } = flags
      const body = { name, ...work.value, ...fieldsOf({ priority, params_schema: schema.value }) }
      return mapAnswer(jobs.createTemplate(scheduler, body), jobs.toTemplateView)
    },
    say: ({ template_id, name }) => [
      `${template_id}\n`,
      `\`concord jobs add --template ${quote(name)}\` creates a job from it\n`,
    ],
  }),
  list: fileVerb({
    description: 'list templates by name',
    examples: ['concord job-templates list --json'],
    ask: ({ scheduler, jobs }: OnFile) =>
      mapAnswer(jobs.readPlans(scheduler), (plans) => ({ templates: plans.templates.map(jobs.toTemplateView) })),
    say: ({ templates }) => (templates.length === 0 ? 'no templates\n' : table(cli.terminal, columns, templates)),
  }),
  'show <template>': fileVerb({
    description: 'show one template, by name or id',
    examples: ['concord job-templates show report --json'],
    ask: ({ scheduler, jobs }: OnFile, named: string) =>
      mapAnswer(findTemplate(scheduler, jobs, named), jobs.toTemplateView),
    say(template) {
      const schema = template.params_schema && `schema  ${showLine(JSON.stringify(template.params_schema))}\n`
      return `${table(cli.terminal, columns, [template])}params  ${showLine(JSON.stringify(template.params))}\n${schema ?? ''}`
    },
  }),
  'change <template>': fileVerb({
    description: 'change a template; its existing jobs stay as they are',
    options: [
      ['--name <name>', 'new name'],
      ['--params <json>', 'new params, as a JSON object'],
      ['--schema <json>', 'new JSON Schema, or null for none'],
      ['--priority <number>', 'new priority', parseWhole],
    ],
    examples: ['concord job-templates change report --priority 5'],
    ask({ scheduler, jobs }: OnFile, named: string, flags: ChangeFlags) {
      const found = findTemplate(scheduler, jobs, named)
      if (!found.ok) return found
      const params = flags.params === undefined ? accept(undefined) : parseNamed('--params', flags.params)
      if (!params.ok) return params
      const schema = readSchema(flags.schema)
      if (!schema.ok) return schema
      const { name, priority } = flags
      const body = fieldsOf({ name, priority, params: params.value, params_schema: schema.value })
      return mapAnswer(jobs.changeTemplate(scheduler, found.value.template_id, body), jobs.toTemplateView)
    },
    say: () => 'changed\n',
  }),
  'remove <template>': fileVerb({
    description: 'archive a template that no schedule uses; its jobs stay',
    examples: ['concord job-templates remove report'],
    ask({ scheduler, jobs }: OnFile, named: string) {
      const found = findTemplate(scheduler, jobs, named)
      if (!found.ok) return found
      return mapAnswer(jobs.archiveTemplate(scheduler, found.value.template_id), jobs.toTemplateView)
    },
    say: () => 'removed\n',
  }),
}))

const columns = {
  template: ({ template_id }: TemplateView) => template_id,
  name: ({ name }: TemplateView) => name,
  type: ({ job_type }: TemplateView) => job_type,
  priority: ({ priority }: TemplateView) => String(priority),
  updated: ({ updated_at }: TemplateView, when: When) => when(updated_at),
}

function readSchema(text: string | undefined): Decision<JsonObject | null | undefined> {
  if (text === undefined) return accept(undefined)
  return text === 'null' ? accept(null) : parseNamed('--schema', text)
}

/** Finds a template by name or id. */
export function findTemplate(scheduler: Scheduler, jobs: Jobs, named: string): Decision<StoredTemplate> {
  const plans = jobs.readPlans(scheduler)
  if (!plans.ok) return plans
  const id = readId('job_template', named)
  const found = plans.value.templates.find(
    ({ name, template_id }) => name === named || (id.ok && template_id === id.value),
  )
  if (found) return accept(found)
  return refuse('scheduler.template.not_found', `There is no template ${quote(named)}.`, {
    hint: '`concord job-templates list` shows the ids and names of templates.',
  })
}
