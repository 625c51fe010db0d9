/** `concord schedules`: work that comes back at its times, in its zone; `concord scheduler run` fires it. */
import type { Command } from 'commander'
import type { Scheduler, StoredSchedule, StoredTemplate } from '#app/scheduler'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { fieldsOf } from './ask-server.ts'
import { findTemplate } from './job-templates.ts'
import {
  answer,
  type FileFlag,
  fileOption,
  type Jobs,
  parseTime,
  parseWhole,
  readId,
  withJobs,
  type WorkFlags,
  workOf,
} from './jobs-file.ts'
import { type Cli, formatTable } from './terminal.ts'

type AddFlags = FileFlag &
  WorkFlags & {
    name: string
    cron: string
    zone: string
    template?: string
    priority?: number
    misfire?: 'skip' | 'last' | 'all'
    overlap?: 'skip' | 'queue'
  }

export function addSchedules(program: Command, cli: Cli): void {
  const schedules = program
    .command('schedules')
    .description('jobs that come back at their times (commands of a server: command-schedules)')
  addAdd(schedules, program, cli)
  addList(schedules, program, cli)
  addNext(schedules, program, cli)
  addSwitch(schedules, program, cli, 'enable')
  addSwitch(schedules, program, cli, 'disable')
  addRemove(schedules, program, cli)
}

function addAdd(schedules: Command, program: Command, cli: Cli): void {
  fileOption(schedules.command('add [command...]'))
    .description('make a schedule: when, in which zone, and what')
    .requiredOption('--name <name>', 'what it is called')
    .requiredOption('--cron <expression>', 'minute, hour, day of month, month, day of week: "30 2 * * *"')
    .option('--zone <zone>', 'the time zone of the expression, like Europe/Berlin', 'UTC')
    .option('--type <type>', 'a registered job type (default: command, or story without a command)')
    .option('--params <json>', 'the params, as a JSON object')
    .option('--template <template>', 'the name or id of a template that is there already')
    .option('--priority <number>', 'priority of its jobs', parseWhole)
    .option('--timeout <duration>', 'end the command after this, like 30s or 2h', parseTime)
    .option('--misfire <policy>', 'what becomes of times while nothing ran: skip, last or all (default: last)')
    .option('--overlap <policy>', 'while its last job is not over: skip or queue (default: queue)')
    .addHelpText(
      'after',
      '\nExample:\n  $ concord schedules add --name nightly --cron "30 2 * * *" --zone Europe/Berlin -- node report.mjs\n',
    )
    .action(
      cli.handle((words: string[], flags: AddFlags) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const made = make(cli, scheduler, jobs, words, flags)
          return answer(cli, program, made, jobs.toScheduleView, (schedule) => {
            const { schedule_id, next_trigger_at } = jobs.toScheduleView(schedule)
            cli.terminal.out(`${schedule_id}\n`)
            cli.terminal.err(
              `next at ${next_trigger_at ?? 'no time'}; \`concord schedules next ${quote(flags.name)}\` shows more\n`,
            )
          })
        }),
      ),
    )
}

function make(
  cli: Cli,
  scheduler: Scheduler,
  jobs: Jobs,
  words: readonly string[],
  flags: AddFlags,
): Decision<StoredSchedule> {
  // The times first: a mistake there must not leave a template behind.
  const times = jobs.nextOccurrences(flags.cron, flags.zone, scheduler.deps.now(), 1)
  if (!times.ok) return times
  const template =
    flags.template === undefined
      ? makeTemplate(cli, scheduler, jobs, words, flags)
      : idOf(findTemplate(scheduler, jobs, flags.template))
  if (!template.ok) return template
  const {
    name,
    cron: cron_expression,
    zone: timezone,
    priority,
    misfire: misfire_policy,
    overlap: overlap_policy,
  } = flags
  const rest = fieldsOf({ priority, misfire_policy, overlap_policy })
  const made = jobs.createSchedule(scheduler, { template_id: template.value, name, cron_expression, timezone, ...rest })
  if (!made.ok && flags.template === undefined) archiveOwn(scheduler, jobs, name)
  return made
}

function idOf(found: Decision<StoredTemplate>): Decision<string> {
  return found.ok ? accept(found.value.template_id) : found
}

function makeTemplate(
  cli: Cli,
  scheduler: Scheduler,
  jobs: Jobs,
  words: readonly string[],
  flags: AddFlags,
): Decision<string> {
  const work = workOf(cli.terminal, words, flags)
  if (!work.ok) return work
  const made = jobs.createTemplate(scheduler, { name: flags.name, ...work.value })
  if (made.ok) return accept(jobs.toTemplateView(made.value).template_id)
  return made.code === 'scheduler.template.name_taken'
    ? refuse('scheduler.schedule.name_taken', `there is a schedule or a template called ${quote(flags.name)}`, {
        path: '--name',
      })
    : made
}

/** The template that was made with the schedule goes with it; one that something else uses stays. */
function archiveOwn(scheduler: Scheduler, jobs: Jobs, name: string): void {
  const plans = jobs.readPlans(scheduler)
  const own = plans.ok ? plans.value.templates.find((each: StoredTemplate) => each.name === name) : undefined
  if (own) jobs.archiveTemplate(scheduler, own.template_id)
}

function addList(schedules: Command, program: Command, cli: Cli): void {
  fileOption(schedules.command('list'))
    .description('all schedules and when they come next')
    .addHelpText('after', '\nExample:\n  $ concord schedules list --json\n')
    .action(
      cli.handle((flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, { readPlans, toScheduleView }) =>
          answer(
            cli,
            program,
            readPlans(scheduler),
            (plans) => ({ schedules: plans.schedules.map(toScheduleView) }),
            ({ schedules: rows }) =>
              cli.terminal.out(
                rows.length === 0
                  ? 'no schedules\n'
                  : formatTable(
                      ['schedule', 'name', 'cron', 'zone', 'next'],
                      rows
                        .map(toScheduleView)
                        .map((row) => [
                          row.schedule_id,
                          showLine(row.name),
                          row.cron_expression,
                          row.timezone,
                          row.enabled ? (row.next_trigger_at ?? 'never') : 'switched off',
                        ]),
                    ),
              ),
          ),
        ),
      ),
    )
}

function addNext(schedules: Command, program: Command, cli: Cli): void {
  fileOption(schedules.command('next <schedule>'))
    .description('the next times of a schedule, in UTC and in its zone')
    .option('--count <count>', 'how many (default: 5)', parseWhole, 5)
    .addHelpText('after', '\nExample:\n  $ concord schedules next nightly --count 10\n')
    .action(
      cli.handle((named: string, flags: FileFlag & { count: number }) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const found = findSchedule(scheduler, jobs, named)
          if (!found.ok) return found
          const { cron_expression, timezone } = found.value
          const count = Math.min(Math.max(1, flags.count), 1_000)
          const times = jobs.nextOccurrences(cron_expression, timezone, scheduler.deps.now(), count)
          return answer(
            cli,
            program,
            times,
            (dates) => ({ timezone, times: dates.map((date) => date.toISOString()) }),
            (dates) => {
              const local = new Intl.DateTimeFormat('sv-SE', {
                timeZone: timezone,
                dateStyle: 'short',
                timeStyle: 'long',
              })
              for (const date of dates) cli.terminal.out(`${date.toISOString()}  ${local.format(date)}\n`)
            },
          )
        }),
      ),
    )
}

function addSwitch(schedules: Command, program: Command, cli: Cli, verb: 'enable' | 'disable'): void {
  fileOption(schedules.command(`${verb} <schedule>`))
    .description(verb === 'enable' ? 'let a schedule fire again, from now on' : 'keep a schedule from firing')
    .addHelpText('after', `\nExample:\n  $ concord schedules ${verb} nightly\n`)
    .action(
      cli.handle((named: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const found = findSchedule(scheduler, jobs, named)
          if (!found.ok) return found
          const changed = jobs.changeSchedule(scheduler, found.value.schedule_id, { enabled: verb === 'enable' })
          return answer(cli, program, changed, jobs.toScheduleView, (row) =>
            cli.terminal.out(
              row.enabled === 1 ? `next at ${jobs.toScheduleView(row).next_trigger_at}\n` : 'switched off\n',
            ),
          )
        }),
      ),
    )
}

function addRemove(schedules: Command, program: Command, cli: Cli): void {
  fileOption(schedules.command('remove <schedule>'))
    .description('end a schedule; the jobs it made stay')
    .addHelpText('after', '\nExample:\n  $ concord schedules remove nightly\n')
    .action(
      cli.handle((named: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const found = findSchedule(scheduler, jobs, named)
          if (!found.ok) return found
          const removed = jobs.deleteSchedule(scheduler, found.value.schedule_id)
          if (removed.ok) archiveOwn(scheduler, jobs, found.value.name)
          return answer(cli, program, removed, jobs.toScheduleView, () => cli.terminal.out('removed\n'))
        }),
      ),
    )
}

/** By its name, which people remember, or by its id. */
function findSchedule(scheduler: Scheduler, jobs: Jobs, named: string): Decision<StoredSchedule> {
  const plans = jobs.readPlans(scheduler)
  if (!plans.ok) return plans
  const byName = plans.value.schedules.find(({ name }) => name === named)
  if (byName) return accept(byName)
  const id = readId('schedule', named)
  const byId = id.ok ? plans.value.schedules.find(({ schedule_id }) => schedule_id === id.value) : undefined
  if (byId) return accept(byId)
  return refuse('scheduler.schedule.not_found', `there is no schedule ${quote(named)}`, {
    hint: '`concord schedules list` shows the ids and names of schedules.',
  })
}
