/** `concord stop`: stops agents and lifts a stop. Without an option it lists the stops in force. */
import type { stopView, submittedView } from '#domains/commands'
import { refuse } from '#kernel/refusal'
import { askServer, fieldsOf, type Page, pathOf } from './client.ts'
import { actorOf } from './event-sentence.ts'
import { findNames, type NameOf } from './names.ts'
import { action, type Add, showAnswer, table, type TableColumns, type ViewOf } from './noun.ts'
import { awaitOutcome } from './submit.ts'
import type { Cli } from './terminal.ts'

type StopView = ViewOf<typeof stopView>
type Flags = {
  readonly all?: boolean
  readonly agent?: string
  readonly run?: string
  readonly swarm?: string
  readonly lift?: string
  readonly endRuns?: boolean
  readonly reason?: string
}

const columnsOf = (nameOf: NameOf): TableColumns<StopView> => ({
  id: ({ stop_id }) => stop_id,
  stopped: ({ scope, target }) => (target === null ? 'all agents' : `${scope} ${target}`),
  since: ({ created_at }, when) => when(created_at),
  by: ({ stopped_by }) => nameOf(actorOf(stopped_by)),
  reason: ({ reason }) => reason,
})

/** The command is inline: it has ended when the server answers, unless people have to approve it. */
const WAIT_MS = 30_000

export const stop = (cli: Cli): Add =>
  action({
    description:
      'stop agents: nothing of theirs begins until the stop is lifted; without an option, list the stops in force',
    options: [
      ['--all', 'every agent of the workspace'],
      ['--agent <name>', 'one agent: its keys and its runs'],
      ['--run <id>', 'one run and its children'],
      ['--swarm <id>', 'the runs of one swarm'],
      ['--lift <id>', 'lift a stop: what waited goes on'],
      ['--end-runs', 'end the runs under way; otherwise they wait for the lift'],
      ['--reason <text>', 'the reason, for the record'],
    ],
    examples: [
      'concord stop --all --reason "wrong prices in the catalogue"',
      'concord stop --agent inventory-bot --end-runs --reason "orders twice"',
      'concord stop --lift stop_0197f3b2c4d57a8e9b0c1d2e3f405166 --reason "prices are right again"',
    ],
    async run({ all, endRuns, reason, lift, ...named }: Flags) {
      const scopes = Object.entries({ all: all === true ? '' : undefined, ...named, lift }).filter(
        ([, of]) => of !== undefined,
      )
      const [chosen, another] = scopes
      if (another) return refuse('cli.usage', 'Choose one of --all, --agent, --run, --swarm and --lift.')
      if (!chosen) {
        const stops = await askServer<Page<StopView>>(cli, 'GET', '/stops?in_force=true&limit=500')
        return showAnswer(cli, stops, async ({ items }) => {
          if (items.length === 0) return ['', 'No stop is in force.\n']
          const people = items.map(({ stopped_by }) => actorOf(stopped_by))
          return table(cli.terminal, columnsOf(await findNames(cli, people)), items, { long: 'wrap' })
        })
      }
      if (reason === undefined)
        return refuse('cli.usage', '--reason is missing.', { hint: 'Give the reason, for the record.' })
      const [scope, target = ''] = chosen
      const body = fieldsOf({ scope, target: scope === 'all' ? undefined : target, ends_runs: endRuns, reason })
      const asked =
        scope === 'lift'
          ? await askServer<ViewOf<typeof submittedView>>(cli, 'POST', pathOf('stop', target, '/lift'), { reason })
          : await askServer<ViewOf<typeof submittedView>>(cli, 'POST', '/stops', body)
      return asked.ok ? awaitOutcome(cli, asked.value, WAIT_MS) : asked
    },
  })
