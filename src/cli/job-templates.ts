/** `concord job-templates`: a job type with params and a priority under a name, for jobs and schedules to come. */
import type { Command } from 'commander'
import type { Scheduler, StoredTemplate } from '#app/scheduler'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { fieldsOf } from './ask-server.ts'
import {
  answer,
  type FileFlag,
  fileOption,
  type Jobs,
  parseWhole,
  readId,
  withJobs,
  type WorkFlags,
  workOf,
} from './jobs-file.ts'
import { parseNamed } from './json-source.ts'
import { type Cli, formatTable } from './terminal.ts'

type AddFlags = FileFlag & WorkFlags & { name: string; schema?: string; priority?: number }
type ChangeFlags = FileFlag & { name?: string; params?: string; schema?: string; priority?: number }

export function addJobTemplates(program: Command, cli: Cli): void {
  const templates = program.command('job-templates').description('jobs that are described once, under a name')
  addAdd(templates, program, cli)
  addList(templates, program, cli)
  addShow(templates, program, cli)
  addChange(templates, program, cli)
  addRemove(templates, program, cli)
}

function addAdd(templates: Command, program: Command, cli: Cli): void {
  fileOption(templates.command('add [command...]'))
    .description('make a template from a command, or from a type with its params')
    .requiredOption('--name <name>', 'what it is called')
    .option('--type <type>', 'a registered job type (default: command, or story without a command)')
    .option('--params <json>', 'the params, as a JSON object')
    .option('--schema <json>', 'a JSON Schema that the params of its jobs must fit')
    .option('--priority <number>', 'priority of its jobs', parseWhole)
    .addHelpText('after', '\nExample:\n  $ concord job-templates add --name report -- node report.mjs\n')
    .action(
      cli.handle((words: string[], flags: AddFlags) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const work = workOf(cli.terminal, words, flags)
          if (!work.ok) return work
          const schema = readSchema(flags.schema)
          if (!schema.ok) return schema
          const { name, priority } = flags
          const body = { name, ...work.value, ...fieldsOf({ priority, params_schema: schema.value }) }
          return answer(cli, program, jobs.createTemplate(scheduler, body), jobs.toTemplateView, (made) => {
            const { template_id } = jobs.toTemplateView(made)
            cli.terminal.out(`${template_id}\n`)
            cli.terminal.err(`\`concord jobs add --template ${quote(flags.name)}\` makes a job from it\n`)
          })
        }),
      ),
    )
}

function addList(templates: Command, program: Command, cli: Cli): void {
  fileOption(templates.command('list'))
    .description('all templates, by name')
    .addHelpText('after', '\nExample:\n  $ concord job-templates list --json\n')
    .action(
      cli.handle((flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs) =>
          answer(
            cli,
            program,
            jobs.readPlans(scheduler),
            (plans) => ({ templates: plans.templates.map(jobs.toTemplateView) }),
            ({ templates: rows }) => cli.terminal.out(rows.length === 0 ? 'no templates\n' : tableOf(rows, jobs)),
          ),
        ),
      ),
    )
}

function addShow(templates: Command, program: Command, cli: Cli): void {
  fileOption(templates.command('show <template>'))
    .description('one template, by name or id')
    .addHelpText('after', '\nExample:\n  $ concord job-templates show report --json\n')
    .action(
      cli.handle((named: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs) =>
          answer(cli, program, findTemplate(scheduler, jobs, named), jobs.toTemplateView, (row) => {
            const { params, params_schema } = jobs.toTemplateView(row)
            cli.terminal.out(tableOf([row], jobs))
            cli.terminal.out(`params  ${showLine(JSON.stringify(params))}\n`)
            if (params_schema !== null) cli.terminal.out(`schema  ${showLine(JSON.stringify(params_schema))}\n`)
          }),
        ),
      ),
    )
}

function addChange(templates: Command, program: Command, cli: Cli): void {
  fileOption(templates.command('change <template>'))
    .description('change a template; jobs that were made from it keep what they got')
    .option('--name <name>', 'another name')
    .option('--params <json>', 'other params, as a JSON object')
    .option('--schema <json>', 'another JSON Schema, or null for none')
    .option('--priority <number>', 'another priority', parseWhole)
    .addHelpText('after', '\nExample:\n  $ concord job-templates change report --priority 5\n')
    .action(
      cli.handle((named: string, flags: ChangeFlags) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const found = findTemplate(scheduler, jobs, named)
          if (!found.ok) return found
          const params = flags.params === undefined ? accept(undefined) : parseNamed('--params', flags.params)
          if (!params.ok) return params
          const schema = readSchema(flags.schema)
          if (!schema.ok) return schema
          const { name, priority } = flags
          const body = {
            ...fieldsOf({ name, priority, params: params.value }),
            ...(schema.value === undefined ? {} : { params_schema: schema.value }),
          }
          const changed = jobs.changeTemplate(scheduler, found.value.template_id, body)
          return answer(cli, program, changed, jobs.toTemplateView, () => cli.terminal.out('changed\n'))
        }),
      ),
    )
}

function addRemove(templates: Command, program: Command, cli: Cli): void {
  fileOption(templates.command('remove <template>'))
    .description('put a template away that no schedule uses; its jobs stay')
    .addHelpText('after', '\nExample:\n  $ concord job-templates remove report\n')
    .action(
      cli.handle((named: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const found = findTemplate(scheduler, jobs, named)
          if (!found.ok) return found
          const gone = jobs.archiveTemplate(scheduler, found.value.template_id)
          return answer(cli, program, gone, jobs.toTemplateView, () => cli.terminal.out('removed\n'))
        }),
      ),
    )
}

function readSchema(text: string | undefined): Decision<JsonObject | null | undefined> {
  if (text === undefined) return accept(undefined)
  return text === 'null' ? accept(null) : parseNamed('--schema', text)
}

/** By its name, which people remember, or by its id. */
export function findTemplate(scheduler: Scheduler, jobs: Jobs, named: string): Decision<StoredTemplate> {
  const plans = jobs.readPlans(scheduler)
  if (!plans.ok) return plans
  const id = readId('job_template', named)
  const found = plans.value.templates.find(
    ({ name, template_id }) => name === named || (id.ok && template_id === id.value),
  )
  if (found) return accept(found)
  return refuse('scheduler.template.not_found', `there is no template ${quote(named)}`, {
    hint: '`concord job-templates list` shows the ids and names of templates.',
  })
}

function tableOf(rows: readonly StoredTemplate[], { toTemplateView }: Jobs): string {
  return formatTable(
    ['template', 'name', 'type', 'priority', 'updated'],
    rows
      .map(toTemplateView)
      .map((row) => [row.template_id, showLine(row.name), row.job_type, String(row.priority), row.updated_at]),
  )
}
