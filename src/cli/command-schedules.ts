/** `concord command-schedules`: governed commands that a server asks for by the clock. Jobs of one machine are `concord schedules`. */
import type { Command } from 'commander'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, showAnswer } from './ask-server.ts'
import { type Page, queryOf } from './command-view.ts'
import { parseTime, parseWhole } from './jobs-file.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import { type Cli, formatTable } from './terminal.ts'

type ScheduleView = {
  readonly schedule_id: string
  readonly name: string
  readonly origin: string
  readonly command_type: string
  readonly cron: string
  readonly time_zone: string
  readonly overlap: string
  readonly misfire: string
  readonly enabled: boolean
  readonly created_by: string
  readonly next_occurrences: readonly string[]
  readonly last_firing: {
    readonly due_at: string
    readonly command_id: string | null
    readonly refusal: string | null
  } | null
  readonly fired_count?: number
  readonly missed_count?: number
  readonly open_count?: number
}

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

export function addCommandSchedules(program: Command, cli: Cli): void {
  const schedules = program
    .command('command-schedules')
    .description('commands that the server asks for by the clock (jobs of this machine: schedules)')
  addList(schedules, program, cli)
  addShow(schedules, program, cli)
  addAdd(schedules, program, cli)
  addSwitch(schedules, program, cli, 'enable')
  addSwitch(schedules, program, cli, 'disable')
  addRemove(schedules, program, cli)
}

function addList(schedules: Command, program: Command, cli: Cli): void {
  schedules
    .command('list')
    .description('all schedules of the workspace, when they come next and what came of the last time')
    .addHelpText('after', '\nExample:\n  $ concord command-schedules list\n')
    .action(
      cli.handle(async () => {
        const listed = await listAll(cli)
        return showAnswer(cli, program, listed, ({ items }) => {
          if (items.length === 0) return cli.terminal.err('There are none.\n')
          const rows = items.map((each) => [
            showLine(each.name),
            each.command_type,
            each.cron,
            each.time_zone,
            each.enabled ? (each.next_occurrences[0] ?? 'never') : 'switched off',
            lastOf(each),
          ])
          cli.terminal.out(formatTable(['name', 'command', 'cron', 'zone', 'next', 'last'], rows))
        })
      }),
    )
}

function lastOf({ last_firing: last }: ScheduleView): string {
  if (last === null) return 'not yet'
  return `${last.due_at} ${last.command_id ?? `refused: ${last.refusal ?? ''}`}`
}

function addShow(schedules: Command, program: Command, cli: Cli): void {
  schedules
    .command('show <schedule>')
    .description('one schedule, by its name or id, with its next times')
    .option('--count <count>', 'how many of the next times (default: 5)', parseWhole, 5)
    .addHelpText('after', '\nExample:\n  $ concord command-schedules show nightly --count 10\n')
    .action(
      cli.handle(async (named: string, { count }: { count: number }) => {
        const path = await pathOfSchedule(cli, named, queryOf({ occurrences: count }))
        if (!path.ok) return path
        const found = await askServer<ScheduleView>(cli, 'GET', path.value)
        return showAnswer(cli, program, found, (each) => {
          const lines = [
            ['schedule', each.schedule_id],
            ['command', each.command_type],
            ['times', `${each.cron} ${each.time_zone}${each.enabled ? '' : ', switched off'}`],
            ['overlap', each.overlap],
            ['misfire', each.misfire],
            ['from', each.origin === 'catalog' ? 'the catalog' : each.created_by],
            ['last', lastOf(each)],
            [
              'so far',
              `${each.fired_count ?? 0} fired, ${each.missed_count ?? 0} missed, ${each.open_count ?? 0} open`,
            ],
            ...each.next_occurrences.map((time, index) => [index === 0 ? 'next' : '', time]),
          ]
          cli.terminal.out(`${showLine(each.name)}\n`)
          for (const [label = '', value = ''] of lines) cli.terminal.out(`  ${label.padEnd(9)} ${showLine(value)}\n`)
        })
      }),
    )
}

function addAdd(schedules: Command, program: Command, cli: Cli): void {
  schedules
    .command('add')
    .argument('<command-type>', 'or the name of its task; `concord task-types` lists them')
    .description('have a command asked for by the clock, with your rights')
    .requiredOption('--name <name>', 'what it is called')
    .requiredOption('--cron <expression>', 'minute, hour, day of month, month, day of week: "30 2 * * *"')
    .option('--zone <zone>', 'the time zone of the expression, like Europe/Berlin (default: UTC)')
    .option('--payload <json>', 'what every command gets, as a JSON object')
    .option('--file <file>', 'the same, from a file')
    .option('--overlap <policy>', 'while its last command is not over: skip, queue or allow (default: skip)')
    .option('--misfire <policy>', 'what becomes of times while nothing ran: skip, last or all (default: last)')
    .option('--jitter <duration>', 'spread the start over this, like 30s', parseTime)
    .option('--queue <queue>', 'where it waits for a worker (default: scheduled_maintenance)')
    .option('--disabled', 'make it, and leave it switched off')
    .addHelpText(
      'after',
      `\nExample:\n  $ concord command-schedules add generate_report --name nightly --cron "30 2 * * *" --zone Europe/Berlin --payload '{"report_type":"monthly_revenue","date_range":"2026-05"}'\n`,
    )
    .action(
      cli.handle(async (commandType: string, { payload: text, file, ...flags }: AddFlags) => {
        const source = fieldsOf({ payload: text, file }) as JsonFlags
        const payload = await readJsonFlags(cli.terminal, source, undefined)
        if (!payload.ok) return payload
        const { name, cron, zone: time_zone, overlap, misfire, jitter: jitter_ms, queue } = flags
        const body = {
          ...fieldsOf({ name, cron, time_zone, overlap, misfire, jitter_ms, queue, payload: payload.value }),
          command_type: commandType,
          ...(flags.disabled === true ? { enabled: false } : {}),
        }
        const made = await askServer<ScheduleView>(cli, 'POST', '/schedules', body)
        return showAnswer(cli, program, made, ({ schedule_id, next_occurrences }) => {
          cli.terminal.out(`${schedule_id}\n`)
          cli.terminal.err(`${next_occurrences[0] === undefined ? 'switched off' : `next at ${next_occurrences[0]}`}\n`)
        })
      }),
    )
}

function addSwitch(schedules: Command, program: Command, cli: Cli, verb: 'enable' | 'disable'): void {
  schedules
    .command(`${verb} <schedule>`)
    .description(verb === 'enable' ? 'let a schedule fire again, from now on' : 'keep a schedule from firing')
    .addHelpText('after', `\nExample:\n  $ concord command-schedules ${verb} nightly\n`)
    .action(
      cli.handle(async (named: string) => {
        const path = await pathOfSchedule(cli, named)
        if (!path.ok) return path
        const changed = await askServer<ScheduleView>(cli, 'PATCH', path.value, { enabled: verb === 'enable' })
        return showAnswer(cli, program, changed, ({ enabled, next_occurrences }) =>
          cli.terminal.out(enabled ? `next at ${next_occurrences[0] ?? 'no time'}\n` : 'switched off\n'),
        )
      }),
    )
}

function addRemove(schedules: Command, program: Command, cli: Cli): void {
  schedules
    .command('remove <schedule>')
    .description('end a schedule; the commands it asked for go on')
    .addHelpText('after', '\nExample:\n  $ concord command-schedules remove nightly\n')
    .action(
      cli.handle(async (named: string) => {
        const path = await pathOfSchedule(cli, named)
        if (!path.ok) return path
        const removed = await askServer<undefined>(cli, 'DELETE', path.value)
        const answer: Decision<{ removed: string }> = removed.ok ? accept({ removed: named }) : removed
        return showAnswer(cli, program, answer, () => cli.terminal.out('removed\n'))
      }),
    )
}

const PAGE = 500

async function listAll(cli: Cli): Promise<Decision<{ items: readonly ScheduleView[] }>> {
  const items: ScheduleView[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await askServer<Page<ScheduleView>>(cli, 'GET', `/schedules${queryOf({ limit: PAGE, cursor })}`)
    if (!page.ok) return page
    items.push(...page.value.items)
    cursor = page.value.next_cursor
  }
  return accept({ items })
}

/** By its name, which people remember, or by its id. */
async function pathOfSchedule(cli: Cli, named: string, query = ''): Promise<Decision<string>> {
  if (/^csched_[0-9a-f]{32}$/.test(named)) return accept(`/schedules/${named}${query}`)
  const listed = await listAll(cli)
  if (!listed.ok) return listed
  const found = listed.value.items.find(({ name }) => name === named)
  if (found) return accept(`/schedules/${found.schedule_id}${query}`)
  return refuse('schedules.schedule.not_found', `there is no schedule ${quote(named)} in this workspace`, {
    path: '<schedule>',
    hint: '`concord command-schedules list` shows them; jobs of this machine are in `concord schedules list`.',
  })
}
