/** `concord memory`: what is remembered about whom, what waits to be, and who agreed. */
import type { Command } from 'commander'
import { accept, refuse } from '#kernel/refusal'
import { askServer, fieldsOf, showAnswer } from './ask-server.ts'
import { addPaging, type Page, parseLimit, queryOf } from './command-view.ts'
import { parseNamed } from './json-source.ts'
import { addMemoryConsent } from './memory-consent.ts'
import { addMemoryForget } from './memory-forget.ts'
import { type CandidateView, formatCandidate, formatMemory, memoryPath, type MemoryView } from './memory-view.ts'
import type { Cli } from './terminal.ts'

const MEMORY = 'mem_0197f3b2c4d57a8e9b0c1d2e3f405167'
const CANDIDATE = 'memc_0197f3b2c4d57a8e9b0c1d2e3f405168'

type SearchOptions = { subject?: string; type?: string; taskType?: string; connector?: string; limit: number }

export function addMemory(program: Command, cli: Cli): void {
  const memory = program.command('memory').description('look at what is remembered, and forget')
  addReading(memory, program, cli)
  addProposing(memory, program, cli)
  addMemoryConsent(memory, program, cli)
  addMemoryForget(memory, program, cli)
}

function addReading(memory: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  memory
    .command('search [words]')
    .description('find memories by words, subject, task type or connector; the read is recorded')
    .option('--subject <kind:id>', 'only about this one, like customer:4711')
    .option('--type <type>', 'only of this type, like preference')
    .option('--task-type <name>', 'only for this kind of task')
    .option('--connector <name>', 'only for this connector')
    .option('--limit <number>', 'how many at most, 1 to 500', parseLimit, 50)
    .addHelpText('after', '\nExample:\n  $ concord memory search "quiet room" --subject customer:4711\n')
    .action(
      cli.handle(async (words: string | undefined, { subject, type, taskType, connector, limit }: SearchOptions) => {
        const query = { q: words, subject, memory_type: type, task_type: taskType, connector, limit }
        const found = await askServer<{ items: MemoryView[] }>(cli, 'GET', `/memory${queryOf(query)}`)
        return showAnswer(cli, program, found, ({ items }) => {
          if (items.length === 0) return terminal.err('Nothing is remembered that fits.\n')
          terminal.out(items.map((item) => formatMemory(terminal, item)).join('\n'))
        })
      }),
    )
  memory
    .command('show <id>')
    .description('show one memory, in whatever state; the read is recorded')
    .addHelpText('after', `\nExample:\n  $ concord memory show ${MEMORY}\n`)
    .action(
      cli.handle(async (id: string) => {
        const path = memoryPath('memory', 'records', id)
        if (!path.ok) return path
        const shown = await askServer<MemoryView>(cli, 'GET', path.value)
        return showAnswer(cli, program, shown, (view) => terminal.out(formatMemory(terminal, view)))
      }),
    )
}

type ProposeOptions = {
  subject: string
  content: string
  scope: string
  type: string
  key?: string
  confidence?: string
  expires?: string
  supersedes?: string
}

function addProposing(memory: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  const say = (view: CandidateView) => terminal.out(formatCandidate(terminal, view))
  memory
    .command('propose')
    .description('propose something to remember: written at once, or put to a person')
    .requiredOption('--subject <kind:id>', 'whom it is about, like customer:4711')
    .requiredOption('--content <json>', 'what to remember')
    .option('--scope <scope>', 'where it counts', 'user')
    .option('--type <type>', 'what kind it is', 'preference')
    .option('--key <key>', 'what it is about; of one key one is in force, like travel.seat')
    .option('--confidence <number>', 'how sure it is, 0 to 1')
    .option('--expires <time>', 'when it ends, like 2027-01-31T00:00:00Z')
    .option('--supersedes <id>', 'the memory that it replaces')
    .addHelpText(
      'after',
      `\nExample:\n  $ concord memory propose --subject customer:4711 --content '{"seat":"aisle"}' --key travel.seat --confidence 0.9\n`,
    )
    .action(
      cli.handle(async (options: ProposeOptions) => {
        const content = parseNamed('--content', options.content)
        if (!content.ok) return content
        const confidence = options.confidence === undefined ? undefined : Number(options.confidence)
        if (confidence !== undefined && !(confidence >= 0 && confidence <= 1))
          return refuse('cli.usage', 'the confidence is a number from 0 to 1', { path: '--confidence' })
        const { subject, scope, type, key, expires, supersedes } = options
        const body = { subject, scope, memory_type: type, content: content.value, fact_key: key, confidence }
        const asked = fieldsOf({ ...body, expires_at: expires, supersedes })
        return showAnswer(cli, program, await askServer<CandidateView>(cli, 'POST', '/memory', asked), say)
      }),
    )

  addPaging(memory.command('candidates [id]'))
    .description('list what was proposed, or show one with the consent of its subject')
    .option('--status <status>', 'only these, like awaiting_approval')
    .addHelpText(
      'after',
      `\nExamples:\n  $ concord memory candidates --status awaiting_approval\n  $ concord memory candidates ${CANDIDATE}\n`,
    )
    .action(
      cli.handle(
        async (
          id: string | undefined,
          { status, limit, cursor }: { status?: string; limit: number; cursor?: string },
        ) => {
          if (id !== undefined) {
            const path = memoryPath('memory_candidate', 'candidates', id)
            if (!path.ok) return path
            return showAnswer(cli, program, await askServer<CandidateView>(cli, 'GET', path.value), say)
          }
          const path = `/memory/candidates${queryOf({ status, limit, cursor })}`
          const listed = await askServer<Page<CandidateView>>(cli, 'GET', path)
          return showAnswer(cli, program, listed, ({ items, next_cursor }) => {
            if (items.length === 0)
              return terminal.err(
                status === undefined ? 'Nothing was proposed.\n' : 'Nothing that was proposed has this status.\n',
              )
            terminal.out(items.map((item) => formatCandidate(terminal, item)).join('\n'))
            if (next_cursor !== null) terminal.err(`there are more: add --cursor ${next_cursor}\n`)
          })
        },
      ),
    )

  const decide =
    (verb: 'approve' | 'reject') =>
    async (id: string, { reason }: { reason?: string }) => {
      const path = memoryPath('memory_candidate', 'candidates', id, `/${verb}`)
      if (!path.ok) return path
      const decided = await askServer<CandidateView>(cli, 'POST', path.value, fieldsOf({ reason }))
      const shown = showAnswer(cli, program, decided, () =>
        terminal.out(`${id}: ${verb === 'approve' ? 'yes, it is written now' : 'no, it is not written'}\n`),
      )
      return shown.ok ? accept(undefined) : shown
    }
  memory
    .command('approve <id>')
    .description('say yes to a candidate; the same as `concord approve` of its question')
    .option('--reason <text>', 'why, for the record')
    .addHelpText('after', `\nExample:\n  $ concord memory approve ${CANDIDATE}\n`)
    .action(cli.handle(decide('approve')))
  memory
    .command('reject <id>')
    .description('say no to a candidate')
    .requiredOption('--reason <text>', 'why; the proposer reads it')
    .addHelpText('after', `\nExample:\n  $ concord memory reject ${CANDIDATE} --reason "she never said so"\n`)
    .action(cli.handle(decide('reject')))
}
