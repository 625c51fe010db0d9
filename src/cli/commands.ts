/** `concord commands`, `why`, `cancel`, `depend` and `retry`: everything about commands that were submitted. */
import type {
  cancelledView,
  effectView,
  explanationView,
  listedCommandView,
  submittedView,
  undoPreviewView,
} from '#domains/commands'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, type Page, pathOf, queryOf } from './client.ts'
import { formatAnswer } from './agents.ts'
import { type CommandView, formatCommand, listWhoAnswers, parseStatus, sayStatus, statusWords } from './command-view.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import { wrap } from './layout.ts'
import {
  action,
  moreOf,
  noun,
  type PageFlags,
  paging,
  type ViewOf,
  showAnswer,
  table,
  type TableColumns,
  verb,
  type Verbs,
} from './noun.ts'
import { type Cli, colorsOf, type Terminal, wordsOf } from './terminal.ts'
import { sayClock } from './times.ts'

const ID = 'cmd_0197f3b2c4d57a8e9b0c1d2e3f405170'
const REASON = ['--reason <text>', 'the reason, for the record'] as const

type Listed = ViewOf<typeof listedCommandView>
type ListFlags = PageFlags &
  Partial<Record<'status' | 'task' | 'by' | 'after' | 'before' | 'ingress' | 'trace', string>> & {
    readonly all?: boolean
    readonly include?: string
  }

/** A page of a filter without an index looks at some hundred commands, so a list may need several. */
const PAGES_MAX = 25

async function listWanted(
  cli: Cli,
  { limit, cursor, include, all, ...flags }: ListFlags,
): Promise<Decision<Page<Listed>>> {
  const { status, task, by, after, before, ingress, trace } = flags
  const filters = { status, task_name: task, requested_by: by, created_after: after, created_before: before, ingress }
  // The housekeeping has its own tasks and requesters, so these filters leave it out or ask for it.
  const housekeeping = all === true || task !== undefined || by !== undefined ? undefined : 'false'
  const items: Listed[] = []
  let next = cursor
  for (let pages = 0; pages < PAGES_MAX && items.length < limit; pages++) {
    const left = limit - items.length
    const query = queryOf({ ...filters, trace_id: trace, housekeeping, limit: left, cursor: next, include })
    const page = await askServer<Page<Listed>>(cli, 'GET', `/commands${query}`)
    if (!page.ok) return page
    items.push(...page.value.items)
    next = page.value.next_cursor ?? undefined
    if (next === undefined) break
  }
  return accept({ items, next_cursor: next ?? null })
}

const columns: TableColumns<Listed> = {
  id: ({ command_id }) => command_id,
  status: statusWords,
  created: ({ created_at }, when) => when(created_at),
  task: ({ task_name, command_type }) => task_name ?? command_type,
}

export const commands = noun('list commands, show one, supply missing input', (cli) => ({
  list: verb({
    description: 'list the commands of the workspace, newest first',
    options: [
      ...paging,
      ['--status <status>', 'only this status, like failed or waiting_for_approval', parseStatus],
      ['--task <name>', 'only this task'],
      ['--by <id>', 'only of this requester, like user_0197…'],
      ['--after <time>', 'only created at this time or later, like 2026-05-01T10:00:00Z'],
      ['--before <time>', 'only created before this time'],
      ['--ingress <way>', 'only those that came this way, like agent_action'],
      ['--trace <id>', 'only of this trace'],
      ['--all', 'with the commands that Concord submits for itself, like Expire Pending Approvals'],
      ['--include <fields>', 'payload, result or payload,result; shown with --json'],
    ],
    examples: [
      'concord commands list --status failed --limit 20',
      'concord --json commands list --include payload,result',
    ],
    ask: (flags: ListFlags) => listWanted(cli, flags),
    say: (page) =>
      page.items.length === 0 && !page.next_cursor
        ? ['', 'There are none. `concord task-types` lists what can be submitted.\n']
        : [page.items.length === 0 ? '' : table(cli.terminal, columns, page.items), moreOf(page)],
  }),
  'show <id>': action({
    description: 'show the status of a command, what can happen next and its effects',
    examples: [`concord commands show ${ID}`],
    async run(id: string) {
      const found = await askServer<CommandView>(cli, 'GET', pathOf('command', id))
      if (!found.ok || cli.isJson()) return showAnswer(cli, found, () => '')
      const effects = await askServer<Page<ViewOf<typeof effectView>>>(
        cli,
        'GET',
        pathOf('command', id, '/effects?limit=500'),
      )
      return showAnswer(
        cli,
        effects,
        async ({ items }) =>
          `${formatCommand(cli.terminal, found.value, items)}${await formatAnswer(cli, found.value.result)}`,
      )
    },
  }),
  input: verb({
    description: 'supply the fields that a waiting command needs',
    args: [
      ['<id>', 'the command'],
      ['[-]', 'read the fields from standard input'],
    ],
    options: [
      ['--payload <json>', 'the fields, as a JSON object'],
      ['--file <file>', 'the fields, from a file'],
    ],
    examples: [`concord commands input ${ID} --payload '{"date_range":"2026-05"}'`],
    async ask(id: string, dash: string | undefined, options: JsonFlags) {
      const path = pathOf('command', id, '/input')
      if (!path.ok) return path
      const input = await readJsonFlags(cli.terminal, options, dash)
      if (!input.ok) return input
      if (input.value === undefined)
        return refuse('cli.usage', 'No fields were given.', { path: '--payload', hint: `Add --payload '{…}'.` })
      return askServer<CommandView>(cli, 'POST', path, { input: input.value })
    },
    say: ({ status }, id) => `${id} ${sayStatus(status)}\n`,
  }),
}))

type Explanation = ViewOf<typeof explanationView>
type UndoPreview = ViewOf<typeof undoPreviewView>

export function commandVerbs(cli: Cli): Verbs {
  const { terminal } = cli
  return {
    'cancel <id>': verb({
      description: 'cancel a command; no new effect starts afterwards',
      options: [
        ['--mode <mode>', 'graceful (completed effects stay) or compensate_then_stop (they are undone)'],
        ['--force', 'for administrators: end a command that no longer answers, or free the key of one that has ended'],
        REASON,
      ],
      examples: [`concord cancel ${ID} --mode compensate_then_stop --reason "wrong month"`],
      ask: (id: string, { mode, ...more }: { mode?: string; reason?: string; force?: boolean }) => {
        const body = fieldsOf({ cancellation_mode: mode, ...more })
        return askServer<ViewOf<typeof cancelledView>>(cli, 'POST', pathOf('command', id, '/cancel'), body)
      },
      say({ status, changed }, id) {
        const isEnding = status === 'cancelling' || status === 'compensating'
        const note = `it finishes what is running; \`concord commands show ${id}\` shows its status\n`
        return [`${id} ${sayStatus(status)}${changed ? '' : ' already; nothing was changed'}\n`, isEnding ? note : '']
      },
    }),
    'depend <id>': verb({
      description: 'make a command that has not started wait for another one',
      required: [['--on <id>', 'the command to wait for']],
      options: [
        ['--status <status>', 'the status that the other command must reach (default: succeeded)'],
        ['--no-propagate', 'fail instead of being cancelled if that status cannot be reached'],
      ],
      examples: [`concord depend ${ID} --on cmd_0197f3b2c4d57a8e9b0c1d2e3f405171`],
      ask: (id: string, { on, status, propagate }: { on: string; status?: string; propagate: boolean }) => {
        const propagation = propagate ? undefined : false
        const body = fieldsOf({ command_id: on, required_status: status, propagate_cancellation: propagation })
        return askServer<CommandView>(cli, 'POST', pathOf('command', id, '/dependencies'), body)
      },
      say: ({ status }, id, { on }) => `${id} ${sayStatus(status)} and waits for ${on}\n`,
    }),
    'retry <id>': verb({
      description: 'run a failed command again; effects that succeeded are kept',
      options: [REASON],
      examples: [`concord retry ${ID} --reason "the provider is back"`],
      ask: (id: string, { reason }: { reason?: string }) =>
        askServer<CommandView>(cli, 'POST', pathOf('command', id, '/retry'), fieldsOf({ reason })),
      say: ({ status, attempt }, id) => [
        `${id} ${sayStatus(status)}, run ${attempt}\n`,
        `\`concord commands show ${id}\` shows its status\n`,
      ],
    }),
    'undo <id>': action({
      description: 'request the undo of a command that has ended; policy decides who must approve',
      options: [['--preview', 'show what would be undone and what not; nothing is recorded'], REASON],
      examples: [`concord undo ${ID} --preview`, `concord undo ${ID} --reason "wrong month"`],
      async run(id: string, { preview, reason }: { preview?: boolean; reason?: string }) {
        const path = pathOf('command', id, '/undo')
        if (preview === true)
          return showAnswer(cli, await askServer<UndoPreview>(cli, 'GET', path), (view) => formatUndo(terminal, view))
        const asked = await askServer<ViewOf<typeof submittedView>>(cli, 'POST', path, fieldsOf({ reason }))
        return showAnswer(cli, asked, async ({ command_id: undo, status }) => {
          const who = status === 'waiting_for_approval' ? await listWhoAnswers(cli, undo) : []
          const shows = `\`concord commands show ${undo}\` shows its status`
          return [`${undo}\n`, `${[`it ${sayStatus(status)}; ${shows}`, ...who].join('\n')}\n`]
        })
      },
    }),
    'why <id>': verb({
      description: 'explain the status of a command: who asked, which rules applied, who decided',
      examples: [`concord why ${ID}`],
      ask: (id: string) => askServer<Explanation>(cli, 'GET', pathOf('command', id, '/explanation')),
      async say({ summary, archived_note, truncated, chain }, id) {
        // The chain ends with an approval: people may still have to answer.
        const asked = chain.at(-1)?.kind === 'approval' ? await listWhoAnswers(cli, id) : []
        const parts = [
          wrap(showLine(summary), terminal.columns ?? Number.POSITIVE_INFINITY)
            .map((line) => `${colorsOf(terminal).bold(line)}\n`)
            .join(''),
          archived_note ? `${showLine(archived_note)}\n` : '',
          chain.length === 0 ? '' : formatChain(terminal, chain),
          truncated ? `These are the first events. concord history show ${id} shows all of them.\n` : '',
          asked.length === 0 ? '' : `${asked.join('\n')}\n`,
        ]
        return parts.filter(Boolean).join('\n')
      },
    }),
  }
}

const KEPT: Readonly<Record<UndoPreview['kept'][number]['why'], string>> = {
  no_undo_declared: 'stays: it has no undo',
  already_undone: 'is undone already',
  in_doubt: 'stays: its outcome, or that of its undo, is not known yet',
  too_late: 'stays: it is too late to undo it',
}

function formatUndo(terminal: Terminal, { refused, undone, kept, request }: UndoPreview): string {
  const lines = [
    ...undone.map(({ effect_type, undo }) => ({ effect: effect_type, undo: `is undone by ${undo}` })),
    ...kept.map(({ effect_type, why }) => ({ effect: effect_type, undo: KEPT[why] })),
  ]
  const columns = {
    effect: ({ effect }: (typeof lines)[number]) => effect,
    undo: ({ undo }: (typeof lines)[number]) => undo,
  }
  const approvers = request?.approvals.map(({ approver }) => approver).join(', ') ?? ''
  const decided = request?.policy && `policy: ${wordsOf(request.policy.decision)}${approvers && `, by ${approvers}`}`
  const said = refused ? showLine(refused.reason) : (decided ?? '')
  return `${lines.length === 0 ? '' : `${table(terminal, columns, lines, { long: 'wrap' })}\n`}${said}\n`
}

function formatChain(terminal: Terminal, chain: Explanation['chain']): string {
  const columns: TableColumns<Explanation['chain'][number]> = {
    when: ({ at }) => sayClock(terminal, at),
    step: ({ kind }) => kind,
    by: ({ by, by_name }) => by_name ?? by,
    what: ({ text }) => text,
  }
  return table(terminal, columns, chain, { long: 'wrap' })
}
