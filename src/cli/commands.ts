/** `concord commands`: lists commands, shows one with what can happen next, and gives one what it lacks. */
import type { Command } from 'commander'
import { accept, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, isJson, pathOf, showAnswer } from './ask-server.ts'
import {
  addPaging,
  type CommandView,
  nameOf,
  type Page,
  parseStatus,
  queryOf,
  standingOf,
  sayStatus,
} from './command-view.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import { type EffectView, formatCommand } from './show-command.ts'
import { type Cli, formatTable } from './terminal.ts'

type ListOptions = { status?: string; limit: number; cursor?: string }

export function addCommands(program: Command, cli: Cli): void {
  const commands = program.command('commands').description('list commands, look at one, give one what it lacks')
  const { terminal } = cli

  addPaging(commands.command('list'))
    .description('list the commands of the workspace, newest first')
    .option('--status <status>', 'only those, like failed or waiting_for_approval', parseStatus)
    .addHelpText('after', '\nExample:\n  $ concord commands list --status failed --limit 20\n')
    .action(
      cli.handle(async ({ status, limit, cursor }: ListOptions) => {
        const path = `/commands${queryOf({ status, limit, cursor })}`
        const listed = await askServer<Page<CommandView>>(cli, 'GET', path)
        return showAnswer(cli, program, listed, ({ items, next_cursor }) => {
          if (items.length === 0)
            return terminal.err('There are none. `concord task-types` lists what can be submitted.\n')
          const rows = items.map((item) => [item.command_id, standingOf(item), item.created_at, nameOf(item)])
          terminal.out(formatTable(['id', 'status', 'created', 'task'], rows))
          if (next_cursor !== null) terminal.err(`there are more: add --cursor ${showLine(next_cursor)}\n`)
        })
      }),
    )

  commands
    .command('show <id>')
    .description('show a command: where it stands, what can happen now and who can do it, what it did')
    .addHelpText('after', '\nExample:\n  $ concord commands show cmd_0197f3b2c4d57a8e9b0c1d2e3f405170\n')
    .action(
      cli.handle(async (id: string) => {
        const path = pathOf('command', id)
        if (!path.ok) return path
        const found = await askServer<CommandView>(cli, 'GET', path.value)
        if (!found.ok || isJson(program)) return showAnswer(cli, program, found, () => undefined)
        const effects = await askServer<{ items: readonly EffectView[] }>(cli, 'GET', `${path.value}/effects`)
        if (!effects.ok) return effects
        terminal.out(formatCommand(terminal, found.value, effects.value.items))
        return accept(undefined)
      }),
    )

  commands
    .command('input')
    .argument('<id>', 'the command')
    .argument('[-]', 'read the fields from standard input')
    .description('give a waiting command the fields that it lacks')
    .option('--payload <json>', 'the fields, as a JSON object')
    .option('--file <file>', 'the fields, from a file')
    .addHelpText(
      'after',
      `\nExample:\n  $ concord commands input cmd_0197f3b2c4d57a8e9b0c1d2e3f405170 --payload '{"date_range":"2026-05"}'\n`,
    )
    .action(
      cli.handle(async (id: string, dash: string | undefined, options: JsonFlags) => {
        const path = pathOf('command', id, '/input')
        if (!path.ok) return path
        const input = await readJsonFlags(terminal, options, dash)
        if (!input.ok) return input
        if (input.value === undefined) {
          return refuse('cli.usage', 'there is nothing to give', { path: '--payload', hint: `add --payload '{…}'` })
        }
        const supplied = await askServer<CommandView>(cli, 'POST', path.value, { input: input.value })
        return showAnswer(cli, program, supplied, ({ status }) => terminal.out(`${id} ${sayStatus(status)}\n`))
      }),
    )
}
