/** `concord depend`: makes a command that has not begun wait for another one. */
import type { Command } from 'commander'
import { askServer, fieldsOf, pathOf, showAnswer } from './ask-server.ts'
import { type CommandView, sayStatus } from './command-view.ts'
import type { Cli } from './terminal.ts'

type Options = { readonly on: string; readonly status?: string; readonly propagate: boolean }

export function addDepend(program: Command, cli: Cli): void {
  program
    .command('depend <id>')
    .description('make a command that has not begun wait for another one')
    .requiredOption('--on <id>', 'the command that it waits for')
    .option('--status <status>', 'where that one must be; succeeded unless given')
    .option('--no-propagate', 'fail when that status cannot be reached, instead of being cancelled')
    .addHelpText(
      'after',
      '\nExample:\n  $ concord depend cmd_0197f3b2c4d57a8e9b0c1d2e3f405170 --on cmd_0197f3b2c4d57a8e9b0c1d2e3f405171\n',
    )
    .action(
      cli.handle(async (id: string, { on, status: required, propagate }: Options) => {
        const path = pathOf('command', id, '/dependencies')
        if (!path.ok) return path
        const body = fieldsOf({
          command_id: on,
          required_status: required,
          propagate_cancellation: propagate ? undefined : false,
        })
        const added = await askServer<CommandView>(cli, 'POST', path.value, body)
        return showAnswer(cli, program, added, ({ status }) => {
          cli.terminal.out(`${id} ${sayStatus(status)} and waits for ${on}\n`)
        })
      }),
    )
}
