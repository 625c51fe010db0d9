/** `concord retry`: runs a failed command again; what succeeded is kept. */
import type { Command } from 'commander'
import { askServer, fieldsOf, pathOf, showAnswer } from './ask-server.ts'
import { type CommandView, sayStatus } from './command-view.ts'
import type { Cli } from './terminal.ts'

export function addRetry(program: Command, cli: Cli): void {
  program
    .command('retry <id>')
    .description('run a failed command again; what succeeded is kept')
    .option('--reason <text>', 'why, for the record')
    .addHelpText(
      'after',
      '\nExample:\n  $ concord retry cmd_0197f3b2c4d57a8e9b0c1d2e3f405170 --reason "the provider is back"\n',
    )
    .action(
      cli.handle(async (id: string, options: { reason?: string }) => {
        const path = pathOf('command', id, '/retry')
        if (!path.ok) return path
        const retried = await askServer<CommandView>(cli, 'POST', path.value, fieldsOf({ reason: options.reason }))
        return showAnswer(cli, program, retried, ({ status, attempt }) => {
          const { terminal } = cli
          terminal.out(`${id} ${sayStatus(status)}, run ${attempt}\n`)
          terminal.err(`\`concord commands show ${id}\` says where it stands\n`)
        })
      }),
    )
}
