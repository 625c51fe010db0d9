/** `concord board`: the columns of the board side by side. */
import type { boardView } from '#domains/missions'
import { showLine } from '#kernel/visible-text'
import { askServer, queryOf } from './client.ts'
import { formatTable } from './layout.ts'
import { type Add, verb, type ViewOf } from './noun.ts'
import type { Cli, Terminal } from './terminal.ts'

type BoardView = ViewOf<typeof boardView>
type Card = BoardView['columns'][number]['cards'][number]

export function board(cli: Cli): Add {
  return verb({
    description: 'show the board: missions and cards by column, or the tasks of one mission',
    options: [['--mission <id>', 'show the tasks of this mission']],
    examples: ['concord board', 'concord board --mission mission_0197f3b2c4d57a8e9b0c1d2e3f405161'],
    ask: ({ mission }: { mission?: string }) =>
      askServer<BoardView>(cli, 'GET', `/board${queryOf({ mission_id: mission })}`),
    say: (shown) => formatBoard(cli.terminal, shown),
  })
}

/** The card of a mission shows how far it is. */
function sayCard({ id, title, planning_data, error_message }: Card): string {
  const { task_count: tasks, tasks_completed: completed } = planning_data
  const progress = typeof tasks === 'number' && tasks > 0 ? ` ${String(completed)}/${tasks}` : ''
  return showLine(`${error_message === null ? '' : '✗ '}${id} ${title}${progress}`)
}

function formatBoard(terminal: Terminal, { columns }: BoardView): string | readonly [string, string] {
  const head = columns.map(({ status, count, is_more }) => `${status.replace('_', ' ')} ${count}${is_more ? '+' : ''}`)
  const longest = Math.max(0, ...columns.map(({ cards }) => cards.length))
  if (longest === 0) return ['', 'The board is empty.\n']
  const rows = Array.from({ length: longest }, (_, at) =>
    columns.map(({ cards }) => {
      const card = cards[at]
      return card ? sayCard(card) : ''
    }),
  )
  return formatTable(terminal, head, rows)
}
