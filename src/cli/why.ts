/** `concord why`: why a command is where it is, from who asked to how it ended, in plain words. */
import type { Command } from 'commander'
import { showLine } from '#kernel/visible-text'
import { askServer, isJson, pathOf, showAnswer } from './ask-server.ts'
import { type Cli, colorsOf, formatTable } from './terminal.ts'
import { listWhoAnswers } from './who-answers.ts'

type Explanation = {
  readonly summary: string
  readonly archived_note?: string | null
  readonly chain: readonly {
    readonly kind: string
    readonly at: string
    readonly by: string
    readonly by_name?: string | null
    readonly text: string
  }[]
}

/** The last thing that happened is a question or an answer: somebody may still be asked. */
function isAsking({ chain }: Explanation): boolean {
  return chain.at(-1)?.kind === 'approval'
}

export function addWhy(program: Command, cli: Cli): void {
  program
    .command('why <id>')
    .description('say in plain words why a command is where it is')
    .addHelpText('after', '\nExample:\n  $ concord why cmd_0197f3b2c4d57a8e9b0c1d2e3f405170\n')
    .action(
      cli.handle(async (id: string) => {
        const path = pathOf('command', id, '/explanation')
        if (!path.ok) return path
        const explained = await askServer<Explanation>(cli, 'GET', path.value)
        const asked = explained.ok && !isJson(program) && isAsking(explained.value) ? await listWhoAnswers(cli, id) : []
        return showAnswer(cli, program, explained, ({ summary, archived_note, chain }) => {
          cli.terminal.out(`${colorsOf(cli.terminal).bold(showLine(summary))}\n`)
          if (archived_note) cli.terminal.out(`\n${showLine(archived_note)}\n`)
          if (chain.length === 0) return
          const rows = chain.map(({ kind, at, by, by_name, text }) => [at, kind, by_name ?? by, text].map(showLine))
          cli.terminal.out(`\n${formatTable(['when', 'step', 'by', 'what'], rows)}`)
          if (asked.length > 0) cli.terminal.out(`\n${asked.join('\n')}\n`)
        })
      }),
    )
}
