/** `concord stuck`: work that gets no more turns by itself, why; `resume` gives it another chance, `abort` takes a command from every turn. */
import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { readConfig } from '#app/config'
import type { StuckWork } from '#app/stuck-work'
import { accept, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { pathOf } from './ask-server.ts'
import { type Cli, formatTable } from './terminal.ts'

const DETAIL_CHARS_MAX = 160
const RESUME = '`concord stuck resume <id>` gives one of them another chance, when its cause is mended'
const RESUMED = 'resumed: their turns come again; `concord stuck` lists what is stuck once more'

export function addStuck(program: Command, cli: Cli): void {
  const { terminal } = cli
  const json = () => program.opts()['json'] === true
  /** `said` stands under a list that has something in it: what became of it, or what to do. */
  const show = (items: readonly StuckWork[], none: string, said: string) => {
    if (json()) terminal.out(`${JSON.stringify({ items })}\n`)
    else if (items.length === 0) terminal.err(`${none}\n`)
    else {
      const rows = items.map(({ id, kind, why, since, detail }) => [id, kind, why, since, shorten(detail)])
      terminal.out(formatTable(['id', 'kind', 'why', 'since', 'detail'], rows))
      terminal.err(`${said}\n`)
    }
    return accept(undefined)
  }
  const stuck = program
    .command('stuck')
    .description('list work that failed or took its worker down again and again, and now waits for you')
    .addHelpText('after', '\nExample:\n  $ concord stuck\n  $ concord stuck resume --all\n')
    .action(
      cli.handle(async () => {
        const config = readConfig(terminal.environment, terminal.folder)
        if (!config.ok) return config
        const { listStuckWork } = await import('#app/stuck-work')
        const found = await listStuckWork(config.value)
        return found.ok ? show(found.value, 'Nothing is stuck.', RESUME) : found
      }),
    )
  stuck
    .command('resume')
    .description('give stuck work another chance, with all its counts at zero')
    .argument('[id]', 'one of `concord stuck`')
    .option('--all', 'all of it')
    .option('--reason <text>', 'for the record', 'resumed by an operator')
    .addHelpText('after', '\nExample:\n  $ concord stuck resume cmd_0197f3b2c4d57a8e9b0c1d2e3f405166\n')
    .action(
      cli.handle(async (id: string | undefined, options: { all?: boolean; reason: string }) => {
        if ((id === undefined) === (options.all !== true)) {
          return refuse('cli.usage', 'say which one, or --all', { hint: '`concord stuck` lists them' })
        }
        const config = readConfig(terminal.environment, terminal.folder)
        if (!config.ok) return config
        const { resumeWork } = await import('#app/stuck-work')
        const resumed = await resumeWork(config.value, id, { actor: operator(), reason: options.reason })
        return resumed.ok ? show(resumed.value, 'Nothing was stuck.', RESUMED) : resumed
      }),
    )
  stuck
    .command('abort')
    .description(
      'take a command from every turn, also one under way, until it is resumed; nothing is undone (`concord cancel` undoes)',
    )
    .argument('<id>', 'of the command')
    .requiredOption('--reason <text>', 'for the record')
    .addHelpText(
      'after',
      '\nExample:\n  $ concord stuck abort cmd_0197f3b2c4d57a8e9b0c1d2e3f405166 --reason "the provider books twice"\n',
    )
    .action(
      cli.handle(async (id: string, { reason }: { reason: string }) => {
        if (reason.trim() === '') return refuse('cli.usage', '--reason is empty', { hint: 'say why, for the record' })
        const known = pathOf('command', id)
        if (!known.ok) return known
        const config = readConfig(terminal.environment, terminal.folder)
        if (!config.ok) return config
        const { abortWork } = await import('#app/stuck-work')
        const aborted = await abortWork(config.value, id, { actor: operator(), reason })
        return aborted.ok ? show([aborted.value], '', RESUME) : aborted
      }),
    )
}

function shorten(detail: string): string {
  const line = showLine(detail)
  return line.length > DETAIL_CHARS_MAX ? `${line.slice(0, DETAIL_CHARS_MAX - 1)}…` : line
}

/** Whoever can reach the database: the login on this machine is all that is known of them. */
function operator(): string {
  return `operator:${userInfo().username}`
}
