/** `concord memory consent`, `hold`, `forget` and `erasure`: what may be remembered, what must be kept, what is erased. */
import type { consentView, erasureView, forgetPreviewView, holdView } from '#domains/memory'
import { shownId } from '#kernel/ids'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, type Page, pathOf, queryOf } from './client.ts'
import { findNames, type NameOf } from './names.ts'
import { limitOption, noun, type Said, type ViewOf, table, verb, type Verbs, type When } from './noun.ts'
import { type Cli, colorsOf, type Terminal, wordsOf } from './terminal.ts'
import { sayTime } from './times.ts'

type ConsentView = ViewOf<typeof consentView>
type HoldView = ViewOf<typeof holdView>
type PreviewView = ViewOf<typeof forgetPreviewView>
type ErasureView = ViewOf<typeof erasureView>

const CONSENT = 'memcon_0197f3b2c4d57a8e9b0c1d2e3f405170'
const HOLD = 'memhold_0197f3b2c4d57a8e9b0c1d2e3f405171'
const ERASURE = 'memerase_0197f3b2c4d57a8e9b0c1d2e3f405172'

const consentColumns = {
  id: ({ memory_consent_id }: ConsentView) => memory_consent_id,
  of: ({ subject }: ConsentView) => subject,
  to: ({ memory_type }: ConsentView) => wordsOf(memory_type),
  scope: ({ scope }: ConsentView) => wordsOf(scope),
  status: ({ revoked_at }: ConsentView, when: When) => (revoked_at === null ? 'given' : `revoked ${when(revoked_at)}`),
}

export const consent = noun('grant, revoke and list consents', (cli) => {
  const say = (view: ConsentView) => `${view.memory_consent_id} ${view.revoked_at === null ? 'given' : 'revoked'}\n`
  return {
    grant: verb({
      description: 'consent to memories of one type',
      required: [['--subject <kind:id>', 'whose consent it is, like customer:4711']],
      options: [
        ['--type <type>', 'the type of memory', 'preference'],
        ['--scope <scope>', 'the scope', 'user'],
        ['--expires <time>', 'when it expires, like 2027-01-31T00:00:00Z'],
      ],
      examples: ['concord memory consent grant --subject customer:4711 --type preference'],
      ask: ({ subject, type, scope, expires }: { subject: string; type: string; scope: string; expires?: string }) => {
        const body = fieldsOf({ subject, memory_type: type, scope, expires_at: expires })
        return askServer<ConsentView>(cli, 'POST', '/memory/consents', body)
      },
      say,
    }),
    'revoke <id>': verb({
      description: 'revoke a consent; existing memories stay until they are forgotten',
      examples: [`concord memory consent revoke ${CONSENT}`],
      ask: (id: string) => askServer<ConsentView>(cli, 'POST', pathOf('memory_consent', id, '/revoke')),
      say,
    }),
    list: verb({
      description: 'list consents',
      options: [['--subject <kind:id>', 'only of this subject'], limitOption],
      examples: ['concord memory consent list --subject customer:4711'],
      ask: ({ subject, limit }: { subject?: string; limit: number }) =>
        askServer<Page<ConsentView>>(cli, 'GET', `/memory/consents${queryOf({ subject, limit })}`),
      say: ({ items }) => table(cli.terminal, consentColumns, items),
    }),
  }
})

const holdColumns = (nameOf: NameOf) => ({
  id: ({ memory_hold_id }: HoldView) => memory_hold_id,
  by: ({ placed_by }: HoldView) => nameOf(placed_by),
  status: ({ released_at }: HoldView, when: When) =>
    released_at === null ? 'active' : `released ${when(released_at)}`,
  why: ({ reason }: HoldView) => reason,
})

export const hold = noun('place, release and list holds (administrators)', (cli) => ({
  place: verb({
    description: 'keep everything known about a subject, even if erasure is requested',
    required: [
      ['--subject <kind:id>', 'the subject, like customer:4711'],
      ['--reason <text>', 'why it must be kept'],
    ],
    examples: ['concord memory hold place --subject customer:4711 --reason "case 2026-17"'],
    ask: (body: { subject: string; reason: string }) => askServer<HoldView>(cli, 'POST', '/memory/holds', body),
    say: ({ memory_hold_id }) => `${memory_hold_id} is active\n`,
  }),
  'release <id>': verb({
    description: 'release a hold',
    examples: [`concord memory hold release ${HOLD}`],
    ask: (id: string) => askServer<HoldView>(cli, 'POST', pathOf('memory_hold', id, '/release')),
    say: ({ memory_hold_id }) => `${memory_hold_id} is released\n`,
  }),
  list: verb({
    description: 'list the holds on a subject',
    required: [['--subject <kind:id>', 'the subject']],
    examples: ['concord memory hold list --subject customer:4711'],
    ask: ({ subject }: { subject: string }) =>
      askServer<Page<HoldView>>(cli, 'GET', `/memory/holds${queryOf({ subject })}`),
    async say({ items }) {
      const nameOf = await findNames(
        cli,
        items.map(({ placed_by }) => placed_by),
      )
      return table(cli.terminal, holdColumns(nameOf), items)
    },
  }),
}))

export function forgetVerbs(cli: Cli): Verbs {
  const { terminal } = cli
  return {
    forget: verb({
      description: 'show what is known about a subject; with --yes, request its erasure',
      required: [['--subject <kind:id>', 'the subject to forget, like customer:4711']],
      options: [['--yes', 'request the erasure; it runs after an approval']],
      examples: [
        'concord memory forget --subject customer:4711',
        'concord memory forget --subject customer:4711 --yes',
      ],
      ask: ({ subject, yes }: { subject: string; yes?: boolean }) =>
        askServer<ErasureView | PreviewView>(cli, 'POST', yes === true ? '/memory/forget' : '/memory/forget/preview', {
          subject,
        }),
      async say(answer) {
        if ('may_erase' in answer) return showPreview(cli, answer)
        const { memory_erasure_id: id } = answer
        const note = `requested; it waits for the data owner. \`concord memory erasure ${id}\` shows the certificate\n`
        return [`${id}\n`, note]
      },
    }),
    'erasure <id>': verb({
      description: 'show the result of a request to forget, with its certificate',
      examples: [`concord memory erasure ${ERASURE}`],
      ask: (id: string) => askServer<ErasureView>(cli, 'GET', pathOf('memory_erasure', id)),
      say: (view) => formatErasure(terminal, view),
    }),
  }
}

function formatCounts(counts: Readonly<Record<string, number>>): string {
  const kinds = Object.entries(counts)
  if (kinds.length === 0) return '  nothing\n'
  return kinds.map(([kind, count]) => `  ${String(count).padStart(6)}  ${wordsOf(kind)}\n`).join('')
}

async function showPreview(cli: Cli, view: PreviewView): Promise<void> {
  const { terminal } = cli
  const { bold } = colorsOf(terminal)
  terminal.out(`${bold(showLine(view.subject))}: this would be erased\n${formatCounts(view.counts)}`)
  for (const { kind, id, is_held } of view.items) {
    const shown = showLine(shownId(kind.replace(/^derived_/, ''), id))
    terminal.out(`  ${kind.padEnd(18)}  ${shown}${is_held ? '  held' : ''}\n`)
  }
  if (view.consents.length > 0) terminal.out(`\n${bold('consents')}\n${table(terminal, consentColumns, view.consents)}`)
  const nameOf = await findNames(
    cli,
    view.holds.map(({ placed_by }) => placed_by),
  )
  if (view.holds.length > 0) terminal.out(`\n${bold('holds')}\n${table(terminal, holdColumns(nameOf), view.holds)}`)
  terminal.err(
    view.may_erase
      ? 'nothing was changed; add --yes to request it. Payloads of commands stay, with the subjects in them\n'
      : 'a hold is active, so it cannot be erased; `concord memory hold release` releases a hold on a subject, POST /artifacts/<id>/release one on an artifact\n',
  )
}

function formatErasure(terminal: Terminal, view: ErasureView): Said {
  const { memory_erasure_id: id, certificate } = view
  if (view.outcome === null)
    return [
      `${id} is open, about ${showLine(view.subject ?? '')}\n`,
      `\`concord why ${view.command_id}\` shows what it waits for\n`,
    ]
  if (certificate === null) return `${id} was dropped; nothing was erased\n`
  const counts = formatCounts((certificate['counts'] ?? {}) as Readonly<Record<string, number>>)
  return `${id} was carried out ${view.closed_at === null ? '' : sayTime(terminal, view.closed_at)}\n${counts}  certificate  ${view.certificate_hash ?? ''}\n`
}
