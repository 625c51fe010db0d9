/** `concord schedules`: schedules of a server that submit commands. Schedules of local jobs are `concord jobs schedules`. */
import type { commandScheduleDetailView, commandScheduleView } from '#domains/command-schedules'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, listAll, queryOf } from './client.ts'
import { hasJobSchedule } from './jobs-file.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import { findNames, type NameOf } from './names.ts'
import { mapAnswer, noun, parseTime, parseWhole, type ViewOf, table, verb, type When } from './noun.ts'
import { formatFacts } from './layout.ts'
import type { Cli, Terminal } from './terminal.ts'
import { sayTime } from './times.ts'

type ScheduleView = ViewOf<typeof commandScheduleView>

type AddFlags = JsonFlags & {
  name: string
  cron: string
  zone?: string
  overlap?: string
  misfire?: string
  jitter?: number
  queue?: string
  disabled?: boolean
}

export const schedules = noun('schedules that submit commands (for local jobs see `jobs schedules`)', (cli) => {
  const toggle = (name: 'enable' | 'disable', description: string) =>
    verb({
      description,
      examples: [`concord schedules ${name} nightly`],
      ask: async (named: string) =>
        askServer<ScheduleView>(cli, 'PATCH', await pathOfSchedule(cli, name, named), { enabled: name === 'enable' }),
      say: ({ enabled, next_occurrences: [next] }) =>
        enabled ? `next at ${next === undefined ? 'no time' : sayTime(cli.terminal, next)}\n` : 'switched off\n',
    })
  return {
    list: verb({
      description: 'list the schedules of the workspace with their next and last times',
      examples: ['concord schedules list'],
      ask: async () => mapAnswer(await listSchedules(cli), ({ items }) => ({ items })),
      say: ({ items }) => (items.length === 0 ? ['', 'There are none.\n'] : table(cli.terminal, columns, items)),
    }),
    'show <schedule>': verb({
      description: 'show one schedule, by name or id, with its next times',
      options: [['--count <count>', 'how many of the next times (default: 5)', parseWhole, 5]],
      examples: ['concord schedules show nightly --count 10'],
      ask: async (named: string, { count }: { count: number }) =>
        askServer<ViewOf<typeof commandScheduleDetailView>>(
          cli,
          'GET',
          await pathOfSchedule(cli, 'next', named, queryOf({ occurrences: count })),
        ),
      say: async (schedule) => formatSchedule(cli.terminal, schedule, await findNames(cli, [schedule.created_by])),
    }),
    add: verb({
      description: 'create a schedule that submits a command with your rights',
      args: [['<command-type>', 'or the name of its task; `concord task-types` lists them']],
      required: [
        ['--name <name>', 'the name of the schedule'],
        ['--cron <expression>', 'minute, hour, day of month, month, day of week: "30 2 * * *"'],
      ],
      options: [
        ['--zone <zone>', 'the time zone of the expression, like Europe/Berlin (default: UTC)'],
        ['--payload <json>', 'the payload of every command, as a JSON object'],
        ['--file <file>', 'the same, from a file'],
        ['--overlap <policy>', 'while its last command is running: skip, queue or allow (default: skip)'],
        ['--misfire <policy>', 'for times that were missed: skip, last or all (default: last)'],
        ['--jitter <duration>', 'spread the start over this, like 30s', parseTime],
        ['--queue <queue>', 'the queue of its commands (default: scheduled_maintenance)'],
        ['--disabled', 'create it disabled'],
      ],
      examples: [
        `concord schedules add generate_report --name nightly --cron "30 2 * * *" --zone Europe/Berlin --payload '{"report_type":"monthly_revenue","date_range":"2026-05"}'`,
      ],
      async ask(commandType: string, { payload: text, file, disabled, zone, jitter, ...flags }: AddFlags) {
        const payload = await readJsonFlags(cli.terminal, fieldsOf({ payload: text, file }), undefined)
        if (!payload.ok) return payload
        const { name, cron, overlap, misfire, queue } = flags
        const body = {
          ...fieldsOf({
            name,
            cron,
            time_zone: zone,
            overlap,
            misfire,
            jitter_ms: jitter,
            queue,
            payload: payload.value,
          }),
          command_type: commandType,
          ...(disabled === true ? { enabled: false } : {}),
        }
        return askServer<ScheduleView>(cli, 'POST', '/schedules', body)
      },
      say: ({ schedule_id, next_occurrences: [next] }) => [
        `${schedule_id}\n`,
        next === undefined ? 'switched off\n' : `next at ${sayTime(cli.terminal, next)}\n`,
      ],
    }),
    'enable <schedule>': toggle('enable', 'enable a schedule from now on'),
    'disable <schedule>': toggle('disable', 'disable a schedule'),
    'remove <schedule>': verb({
      description: 'remove a schedule; the commands it submitted continue',
      examples: ['concord schedules remove nightly'],
      async ask(named: string) {
        const removed = await askServer<undefined>(cli, 'DELETE', await pathOfSchedule(cli, 'remove', named))
        return mapAnswer(removed, () => ({ removed: named }))
      },
      say: () => 'removed\n',
    }),
  }
})

const columns = {
  name: ({ name }: ScheduleView) => name,
  command: ({ command_type }: ScheduleView) => command_type,
  cron: ({ cron }: ScheduleView) => cron,
  zone: ({ time_zone }: ScheduleView) => time_zone,
  next: ({ enabled, next_occurrences: [next] }: ScheduleView, when: When) =>
    enabled ? (next === undefined ? 'never' : when(next)) : 'switched off',
  last: lastOf,
}

function lastOf({ last_firing: last }: ScheduleView, when: When): string {
  if (last === null) return 'not yet'
  return `${when(last.due_at)} ${last.command_id ?? `refused: ${last.refusal ?? ''}`}`
}

function formatSchedule(terminal: Terminal, each: ViewOf<typeof commandScheduleDetailView>, nameOf: NameOf): string {
  const when: When = (instant) => sayTime(terminal, instant)
  const facts = formatFacts(terminal, 8, [
    ['schedule', each.schedule_id],
    ['command', each.command_type],
    ['times', `${each.cron} ${each.time_zone}${each.enabled ? '' : ', switched off'}`],
    ['overlap', each.overlap],
    ['misfire', each.misfire],
    ['from', each.origin === 'catalog' ? 'the catalog' : showLine(nameOf(each.created_by))],
    ['last', showLine(lastOf(each, when))],
    ['so far', `${each.fired_count} fired, ${each.missed_count} missed, ${each.open_count} open`],
    ...each.next_occurrences.map((time, index) => [index === 0 ? 'next' : '', when(time)] as const),
  ])
  return `${showLine(each.name)}\n${facts}`
}

const listSchedules = (cli: Cli) => listAll<ScheduleView>(cli, '/schedules')

/** Finds a schedule of the server by name or id. */
export async function findServerSchedule(cli: Cli, named: string): Promise<Decision<{ readonly schedule_id: string }>> {
  if (named.startsWith('csched_')) return accept({ schedule_id: named })
  const listed = await listSchedules(cli)
  if (!listed.ok) return listed
  const found = listed.value.items.find(({ name }) => name === named)
  if (found) return accept(found)
  return refuse('schedules.schedule.not_found', `There is no schedule ${quote(named)} in this workspace.`, {
    path: '<schedule>',
    hint: '`concord schedules list` shows them. `concord jobs schedules list` shows the schedules of local jobs.',
  })
}

/** If this folder has a schedule of local jobs of that name, the refusal names the verb for it. */
async function pathOfSchedule(cli: Cli, verb: string, named: string, query = ''): Promise<Decision<string>> {
  const found = await findServerSchedule(cli, named)
  if (found.ok) return accept(`/schedules/${found.value.schedule_id}${query}`)
  if (found.code !== 'schedules.schedule.not_found' || !(await hasJobSchedule(cli.terminal, named))) return found
  const hint = `${quote(named)} is a schedule of local jobs: \`concord jobs schedules ${verb} ${named}\`.`
  return { ...found, hint }
}
