/** `concord cancel`: stops a command; what it did stays done or is undone, as its mode says. */
import type { Command } from 'commander'
import { askServer, fieldsOf, pathOf, showAnswer } from './ask-server.ts'
import { type CommandView, sayStatus } from './command-view.ts'
import type { Cli } from './terminal.ts'

export function addCancel(program: Command, cli: Cli): void {
  program
    .command('cancel <id>')
    .description('stop a command; no new effect starts after the answer')
    .option('--mode <mode>', 'graceful (what was done stays) or compensate_then_stop (it is undone)')
    .option('--reason <text>', 'why, for the record')
    .addHelpText(
      'after',
      '\nExample:\n  $ concord cancel cmd_0197f3b2c4d57a8e9b0c1d2e3f405170 --mode compensate_then_stop --reason "wrong month"\n',
    )
    .action(
      cli.handle(async (id: string, options: { mode?: string; reason?: string }) => {
        const path = pathOf('command', id, '/cancel')
        if (!path.ok) return path
        const body = fieldsOf({ cancellation_mode: options.mode, reason: options.reason })
        const cancelled = await askServer<CommandView & { changed: boolean }>(cli, 'POST', path.value, body)
        return showAnswer(cli, program, cancelled, ({ status, changed }) => {
          const { terminal } = cli
          if (!changed) terminal.out(`${id} ${sayStatus(status)} already; nothing was changed\n`)
          else terminal.out(`${id} ${sayStatus(status)}\n`)
          if (status === 'cancelling' || status === 'compensating')
            terminal.err(`it ends what is under way; \`concord commands show ${id}\` says when it is done\n`)
        })
      }),
    )
}
