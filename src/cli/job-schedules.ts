/** `concord jobs schedules`: cron schedules of local jobs; `concord scheduler run` fires them. */
import type { Scheduler, StoredSchedule, StoredTemplate } from '#app/scheduler'
import { type Decision, quote, refuse } from '#kernel/refusal'
import { fieldsOf } from './client.ts'
import { findTemplate } from './job-templates.ts'
import { fileVerb, findJobSchedule, type Jobs, type OnFile, type WorkFlags, workOf, workOptions } from './jobs-file.ts'
import { mapAnswer, noun, parseTime, parseWhole, table, type When } from './noun.ts'
import { findServerSchedule } from './schedules.ts'
import type { Cli } from './terminal.ts'
import { sayTime } from './times.ts'

type ScheduleView = ReturnType<Jobs['toScheduleView']>
type AddFlags = WorkFlags & {
  name: string
  cron: string
  zone: string
  template?: string
  priority?: number
  misfire?: 'skip' | 'last' | 'all'
  overlap?: 'skip' | 'queue'
}

export const jobSchedules = noun('schedules of local jobs (for commands of a server see `schedules`)', (cli) => {
  const toggle = (name: 'enable' | 'disable', description: string) =>
    fileVerb({
      description,
      examples: [`concord jobs schedules ${name} nightly`],
      async ask(on: OnFile, named: string) {
        const { scheduler, jobs } = on
        const found = await find(cli, on, name, named)
        if (!found.ok) return found
        const changed = jobs.changeSchedule(scheduler, found.value.schedule_id, { enabled: name === 'enable' })
        return mapAnswer(changed, jobs.toScheduleView)
      },
      say: ({ enabled, next_trigger_at }) =>
        enabled ? `next at ${next_trigger_at && sayTime(cli.terminal, next_trigger_at)}\n` : 'switched off\n',
    })
  return {
    'add [command...]': fileVerb({
      description: 'create a schedule for a command, or for a type with its params',
      required: [
        ['--name <name>', 'the name of the schedule'],
        ['--cron <expression>', 'minute, hour, day of month, month, day of week: "30 2 * * *"'],
      ],
      options: [
        ['--zone <zone>', 'the time zone of the expression, like Europe/Berlin', 'UTC'],
        ...workOptions,
        ['--template <template>', 'the name or id of an existing template'],
        ['--priority <number>', 'priority of its jobs', parseWhole],
        ['--timeout <duration>', 'stop the command after this, like 30s or 2h', parseTime],
        ['--misfire <policy>', 'for times that were missed: skip, last or all (default: last)'],
        ['--overlap <policy>', 'while its last job is running: skip or queue (default: queue)'],
      ],
      examples: [
        'concord jobs schedules add --name nightly --cron "30 2 * * *" --zone Europe/Berlin -- node report.mjs',
      ],
      ask: ({ scheduler, jobs }: OnFile, words: string[], flags: AddFlags) =>
        mapAnswer(create(cli, scheduler, jobs, words, flags), jobs.toScheduleView),
      say: ({ schedule_id, next_trigger_at, name }) => [
        `${schedule_id}\n`,
        `next at ${next_trigger_at === null ? 'no time' : sayTime(cli.terminal, next_trigger_at)}; \`concord jobs schedules next ${quote(name)}\` shows more\n`,
      ],
    }),
    list: fileVerb({
      description: 'list schedules and their next times',
      examples: ['concord jobs schedules list --json'],
      ask: ({ scheduler, jobs }: OnFile) =>
        mapAnswer(jobs.readPlans(scheduler), (plans) => ({ schedules: plans.schedules.map(jobs.toScheduleView) })),
      say: ({ schedules }) => (schedules.length === 0 ? 'no schedules\n' : table(cli.terminal, columns, schedules)),
    }),
    'next <schedule>': fileVerb({
      description: 'show the next times of a schedule, in UTC and in its zone',
      options: [['--count <count>', 'how many (default: 5)', parseWhole, 5]],
      examples: ['concord jobs schedules next nightly --count 10'],
      async ask(on: OnFile, named: string, flags: { count: number }) {
        const { scheduler, jobs } = on
        const found = await find(cli, on, 'show', named)
        if (!found.ok) return found
        const { cron_expression, timezone } = found.value
        const count = Math.min(Math.max(1, flags.count), 1_000)
        const times = jobs.nextOccurrences(cron_expression, timezone, scheduler.deps.now(), count)
        return mapAnswer(times, (dates) => ({ timezone, times: dates.map((date) => date.toISOString()) }))
      },
      say({ timezone, times }) {
        const local = new Intl.DateTimeFormat('sv-SE', { timeZone: timezone, dateStyle: 'short', timeStyle: 'long' })
        return times.map((time) => `${time}  ${local.format(new Date(time))}\n`).join('')
      },
    }),
    'enable <schedule>': toggle('enable', 'enable a schedule from now on'),
    'disable <schedule>': toggle('disable', 'disable a schedule'),
    'remove <schedule>': fileVerb({
      description: 'remove a schedule; the jobs it created stay',
      examples: ['concord jobs schedules remove nightly'],
      async ask(on: OnFile, named: string) {
        const { scheduler, jobs } = on
        const found = await find(cli, on, 'remove', named)
        if (!found.ok) return found
        const removed = jobs.deleteSchedule(scheduler, found.value.schedule_id)
        if (removed.ok) archiveOwn(scheduler, jobs, found.value.name)
        return mapAnswer(removed, jobs.toScheduleView)
      },
      say: () => 'removed\n',
    }),
  }
})

/** If a server has a schedule of that name, the refusal names the verb for it. */
async function find(cli: Cli, on: OnFile, verb: string, named: string): Promise<Decision<StoredSchedule>> {
  const found = findJobSchedule(on, named)
  if (found.ok || !(await findServerSchedule(cli, named)).ok) return found
  const hint = `${quote(named)} is a schedule of the server: \`concord schedules ${verb} ${named}\`.`
  return { ...found, hint }
}

const columns = {
  schedule: ({ schedule_id }: ScheduleView) => schedule_id,
  name: ({ name }: ScheduleView) => name,
  cron: ({ cron_expression }: ScheduleView) => cron_expression,
  zone: ({ timezone }: ScheduleView) => timezone,
  next: ({ enabled, next_trigger_at }: ScheduleView, when: When) =>
    enabled ? (next_trigger_at === null ? 'never' : when(next_trigger_at)) : 'switched off',
}

function create(
  cli: Cli,
  scheduler: Scheduler,
  jobs: Jobs,
  words: readonly string[],
  flags: AddFlags,
): Decision<StoredSchedule> {
  // The times are checked first: a mistake there must not leave a template behind.
  const times = jobs.nextOccurrences(flags.cron, flags.zone, scheduler.deps.now(), 1)
  if (!times.ok) return times
  const { name, cron, zone, priority, misfire, overlap } = flags
  const template =
    flags.template === undefined
      ? createTemplate(cli, scheduler, jobs, words, flags)
      : findTemplate(scheduler, jobs, flags.template)
  if (!template.ok) return template
  const { template_id } = jobs.toTemplateView(template.value)
  const rest = fieldsOf({ priority, misfire_policy: misfire, overlap_policy: overlap })
  const made = jobs.createSchedule(scheduler, { template_id, name, cron_expression: cron, timezone: zone, ...rest })
  if (!made.ok && flags.template === undefined) archiveOwn(scheduler, jobs, name)
  return made
}

function createTemplate(
  cli: Cli,
  scheduler: Scheduler,
  jobs: Jobs,
  words: readonly string[],
  flags: AddFlags,
): Decision<StoredTemplate> {
  const work = workOf(cli.terminal, words, flags)
  if (!work.ok) return work
  const made = jobs.createTemplate(scheduler, { name: flags.name, ...work.value })
  if (made.ok || made.code !== 'scheduler.template.name_taken') return made
  const reason = `There is already a schedule or a template called ${quote(flags.name)}.`
  return refuse('scheduler.schedule.name_taken', reason, { path: '--name' })
}

/** Archives the template that was created with the schedule, unless something else uses it. */
function archiveOwn(scheduler: Scheduler, jobs: Jobs, name: string): void {
  const plans = jobs.readPlans(scheduler)
  const own = plans.ok ? plans.value.templates.find((each) => each.name === name) : undefined
  if (own) jobs.archiveTemplate(scheduler, own.template_id)
}
