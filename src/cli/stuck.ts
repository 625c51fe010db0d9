/** `concord stuck`: lists work that gets no more turns. `resume` retries it, `abort` stops all work on a command. */
import { userInfo } from 'node:os'
import { type Config, readConfig } from '#app/config'
import type { StuckWork } from '#app/stuck-work'
import { type Decision, refuse } from '#kernel/refusal'
import { pathOf } from './client.ts'
import { type Add, mapAnswer, noun, type Said, table, verb, type When } from './noun.ts'
import { cut } from './layout.ts'
import type { Cli } from './terminal.ts'

type Items = { readonly items: readonly StuckWork[] }

const ID = 'cmd_0197f3b2c4d57a8e9b0c1d2e3f405166'
const RESUME = '`concord stuck resume <id>` retries one of them; fix the cause first'
const RESUMED = 'resumed; `concord stuck` lists what gets stuck again'

const columns = {
  id: ({ id }: StuckWork) => id,
  kind: ({ kind }: StuckWork) => kind,
  why: ({ why }: StuckWork) => why,
  since: ({ since }: StuckWork, when: When) => when(since),
  detail: ({ detail }: StuckWork) => cut(detail, 160),
}

export const stuck = (cli: Cli): Add => {
  /** `said` follows a list that is not empty. */
  const show =
    (none: string, said: string) =>
    ({ items }: Items): Said =>
      items.length === 0 ? ['', `${none}\n`] : [table(cli.terminal, columns, items, { long: 'wrap' }), `${said}\n`]
  const withConfig = async (
    work: (config: Config, app: typeof import('#app/stuck-work')) => Promise<Decision<readonly StuckWork[]>>,
  ): Promise<Decision<Items>> => {
    const config = readConfig(cli.terminal.environment, cli.terminal.folder)
    if (!config.ok) return config
    return mapAnswer(await work(config.value, await import('#app/stuck-work')), (items) => ({ items }))
  }
  const verbs = noun('', () => ({
    resume: verb({
      description: 'retry stuck work with fresh counters',
      args: [['[id]', 'an id of `concord stuck`']],
      options: [
        ['--all', 'everything that is stuck'],
        ['--reason <text>', 'the reason, for the record', 'resumed by an operator'],
      ],
      examples: [`concord stuck resume ${ID}`],
      async ask(id: string | undefined, { all, reason }: { all?: boolean; reason: string }) {
        if ((id === undefined) === (all !== true))
          return refuse('cli.usage', 'Give one id, or --all.', { hint: '`concord stuck` lists them.' })
        return withConfig((config, { resumeWork }) => resumeWork(config, id, { actor: operator(), reason }))
      },
      say: show('Nothing was stuck.', RESUMED),
    }),
    abort: verb({
      description:
        'stop all work on a command, including work in progress, until it is resumed; nothing is undone (see `concord cancel`)',
      args: [['<id>', 'the command']],
      required: [['--reason <text>', 'the reason, for the record']],
      examples: [`concord stuck abort ${ID} --reason "the provider books twice"`],
      async ask(id: string, { reason }: { reason: string }) {
        if (reason.trim() === '')
          return refuse('cli.usage', '--reason is empty.', { hint: 'Give the reason, for the record.' })
        const known = pathOf('command', id)
        if (!known.ok) return known
        return withConfig(async (config, { abortWork }) =>
          mapAnswer(await abortWork(config, id, { actor: operator(), reason }), (aborted) => [aborted]),
        )
      },
      say: show('', RESUME),
    }),
  }))
  return (command, ...rest) => {
    verbs(command, ...rest)
    verb({
      description: 'list work that failed or crashed its worker too often and waits for an operator',
      examples: ['concord stuck', 'concord stuck resume --all'],
      ask: () => withConfig((config, { listStuckWork }) => listStuckWork(config)),
      say: show('Nothing is stuck.', RESUME),
    })(command, ...rest)
  }
}

/** A person with access to the database is known only by the login on this machine. */
function operator(): string {
  return `operator:${userInfo().username}`
}
