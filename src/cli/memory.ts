/** `concord memory`: searches memories, proposes new ones and decides candidates. */
import type { candidateDetailView, candidateView, memoryView } from '#domains/memory'
import { refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, type Page, pathOf, queryOf } from './client.ts'
import { parseNamed } from './json-source.ts'
import { consent, forgetVerbs, hold } from './memory-keeping.ts'
import { findNames, type NameOf } from './names.ts'
import { limitOption, listVerb, noun, type PageFlags, moreOf, paging, type ViewOf, verb } from './noun.ts'
import { type Fact, formatFacts } from './layout.ts'
import { colorsOf, shortJson, type Terminal, tint, wordsOf } from './terminal.ts'
import { sayTime } from './times.ts'

type MemoryView = ViewOf<typeof memoryView>
type CandidateView = ViewOf<typeof candidateView> & Partial<ViewOf<typeof candidateDetailView>>

const MEMORY = 'mem_0197f3b2c4d57a8e9b0c1d2e3f405167'
const CANDIDATE = 'memc_0197f3b2c4d57a8e9b0c1d2e3f405168'

type SearchFlags = { subject?: string; type?: string; taskType?: string; connector?: string; limit: number }
type ProposeFlags = {
  subject: string
  content: string
  scope: string
  type: string
  key?: string
  confidence?: string
  expires?: string
  supersedes?: string
}

export const memory = noun('search memories, propose new ones, forget', (cli) => {
  const { terminal } = cli
  const formatAll = async (candidates: readonly CandidateView[]) => {
    const nameOf = await findNames(
      cli,
      candidates.map(({ created_by }) => created_by),
    )
    return candidates.map((candidate) => formatCandidate(terminal, candidate, nameOf)).join('\n')
  }
  const decide = (name: 'approve' | 'reject') => ({
    ask: (id: string, { reason }: { reason?: string }) =>
      askServer<CandidateView>(cli, 'POST', pathOf('memory_candidate', id, `/${name}`), fieldsOf({ reason })),
    say: (_: CandidateView, id: string) =>
      `${id}: ${name === 'approve' ? 'approved and written' : 'rejected, not written'}\n`,
  })
  return {
    'search [words]': listVerb<MemoryView, [string | undefined, SearchFlags]>({
      description: 'find memories by words, subject, task type or connector; the read is recorded',
      options: [
        ['--subject <kind:id>', 'only about this subject, like customer:4711'],
        ['--type <type>', 'only this type, like preference'],
        ['--task-type <name>', 'only for this task type'],
        ['--connector <name>', 'only for this connector'],
        limitOption,
      ],
      examples: ['concord memory search "quiet room" --subject customer:4711'],
      at: (words, { subject, type, taskType, connector, limit }) =>
        `/memory${queryOf({ q: words, subject, memory_type: type, task_type: taskType, connector, limit })}`,
      none: () => 'No memory matches.',
      each: (item, nameOf) => formatMemory(terminal, item, nameOf),
      people: ({ created_by }) => [created_by],
    }),
    'show <id>': verb({
      description: 'show one memory in any status; the read is recorded',
      examples: [`concord memory show ${MEMORY}`],
      ask: (id: string) => askServer<MemoryView>(cli, 'GET', pathOf('memory', id)),
      say: async (view) => formatMemory(terminal, view, await findNames(cli, [view.created_by])),
    }),
    propose: verb({
      description: 'propose a memory, which is written immediately or after an approval',
      required: [
        ['--subject <kind:id>', 'the subject, like customer:4711'],
        ['--content <json>', 'what to remember'],
      ],
      options: [
        ['--scope <scope>', 'where it applies', 'user'],
        ['--type <type>', 'the type of memory', 'preference'],
        ['--key <key>', 'the fact it states, like travel.seat; only one memory per key is active'],
        ['--confidence <number>', 'the confidence, 0 to 1'],
        ['--expires <time>', 'when it expires, like 2027-01-31T00:00:00Z'],
        ['--supersedes <id>', 'the memory that it replaces'],
      ],
      examples: [
        `concord memory propose --subject customer:4711 --content '{"seat":"aisle"}' --key travel.seat --confidence 0.9`,
      ],
      async ask({ content: text, type, key, confidence: sure, expires, ...flags }: ProposeFlags) {
        const content = parseNamed('--content', text)
        if (!content.ok) return content
        const confidence = sure === undefined ? undefined : Number(sure)
        if (confidence !== undefined && !(confidence >= 0 && confidence <= 1))
          return refuse('cli.usage', '--confidence must be a number from 0 to 1.', { path: '--confidence' })
        const { subject, scope, supersedes } = flags
        const body = { subject, scope, memory_type: type, content: content.value, fact_key: key, confidence }
        return askServer<CandidateView>(cli, 'POST', '/memory', fieldsOf({ ...body, expires_at: expires, supersedes }))
      },
      say: (candidate) => formatAll([candidate]),
    }),
    'candidates [id]': verb({
      description: 'list candidates, or show one with the consents of its subject',
      options: [...paging, ['--status <status>', 'only this status, like awaiting_approval']],
      examples: ['concord memory candidates --status awaiting_approval', `concord memory candidates ${CANDIDATE}`],
      ask: (id: string | undefined, { status, limit, cursor }: PageFlags & { status?: string }) => {
        const page = `/memory/candidates${queryOf({ status, limit, cursor })}`
        const path = id === undefined ? page : pathOf('memory_candidate', id)
        return askServer<CandidateView | Page<CandidateView>>(cli, 'GET', path)
      },
      async say(found, _, { status }) {
        if (!('items' in found)) return formatAll([found])
        if (found.items.length === 0)
          return ['', status === undefined ? 'Nothing was proposed.\n' : 'No candidate has this status.\n']
        return [await formatAll(found.items), moreOf(found)]
      },
    }),
    'approve <id>': verb({
      description: 'approve a candidate; the same as `concord approve` of its approval',
      options: [['--reason <text>', 'the reason, for the record']],
      examples: [`concord memory approve ${CANDIDATE}`],
      ...decide('approve'),
    }),
    'reject <id>': verb({
      description: 'reject a candidate',
      required: [['--reason <text>', 'the reason; the proposer sees it']],
      examples: [`concord memory reject ${CANDIDATE} --reason "she never said so"`],
      ...decide('reject'),
    }),
    consent,
    hold,
    ...forgetVerbs(cli),
  }
})

/** The facts that memories and candidates share. */
function describe({ subject, memory_type, scope, sensitivity, fact_key }: MemoryView | CandidateView): readonly Fact[] {
  return [
    ['about', showLine(subject)],
    ['kind', `${wordsOf(memory_type)}, scope ${wordsOf(scope)}, ${showLine(sensitivity)}`],
    ['key', fact_key && showLine(fact_key)],
  ]
}

function formatMemory(terminal: Terminal, memory: MemoryView, nameOf: NameOf): string {
  const facts = formatFacts(terminal, 10, [
    ...describe(memory),
    ['status', tint(terminal, wordsOf(memory.status))],
    ['confidence', memory.confidence === null ? null : String(memory.confidence)],
    ['until', memory.expires_at && sayTime(terminal, memory.expires_at)],
    ['replaced by', memory.superseded_by],
    ['from', `${showLine(nameOf(memory.created_by))}, ${sayTime(terminal, memory.created_at)}`],
    ['command', memory.command_id],
  ])
  return `${colorsOf(terminal).bold(shortJson(memory.content, 2_000))}  ${memory.memory_id}\n${facts}`
}

function formatCandidate(terminal: Terminal, candidate: CandidateView, nameOf: NameOf): string {
  const { memory_candidate_id: id, status, consents } = candidate
  const author = showLine(nameOf(candidate.created_by))
  const given = consents?.some(({ revoked_at }) => revoked_at === null)
  const facts = formatFacts(terminal, 10, [
    ...describe(candidate),
    ['status', tint(terminal, wordsOf(status))],
    ['consent', given === undefined ? null : given ? 'given' : 'none'],
    ['replaces', candidate.supersedes],
    ['became', candidate.memory_id],
    ['from', `${author}, ${sayTime(terminal, candidate.created_at)}`],
    ['command', candidate.command_id],
    [
      'next',
      status === 'awaiting_approval'
        ? `a person other than ${author} decides: concord memory approve ${id} | concord memory reject ${id} --reason "…"`
        : null,
    ],
  ])
  return `${colorsOf(terminal).bold(shortJson(candidate.content, 2_000))}  ${id}\n${facts}`
}
