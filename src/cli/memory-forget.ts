/** `concord memory forget`: shows everything that is known about a subject, and with --yes asks to erase it. */
import type { Command } from 'commander'
import { showLine } from '#kernel/visible-text'
import { askServer, showAnswer } from './ask-server.ts'
import { formatConsents, formatHolds } from './memory-consent.ts'
import { type ErasureView, formatCounts, memoryPath, type PreviewView } from './memory-view.ts'
import { shownId } from '#kernel/shown-ids'
import { type Cli, colorsOf, type Terminal } from './terminal.ts'

const ERASURE = 'memerase_0197f3b2c4d57a8e9b0c1d2e3f405172'

export function addMemoryForget(memory: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  memory
    .command('forget')
    .description('show what is known about a subject; with --yes, ask to erase it')
    .requiredOption('--subject <kind:id>', 'whom to forget, like customer:4711')
    .option('--yes', 'ask for the erasure; it happens after an approval')
    .addHelpText(
      'after',
      '\nExamples:\n  $ concord memory forget --subject customer:4711\n  $ concord memory forget --subject customer:4711 --yes\n',
    )
    .action(
      cli.handle(async ({ subject, yes }: { subject: string; yes?: boolean }) => {
        if (yes === true) {
          const asked = await askServer<ErasureView>(cli, 'POST', '/memory/forget', { subject })
          return showAnswer(cli, program, asked, (view) => {
            terminal.out(`${view.memory_erasure_id}\n`)
            terminal.err(
              `asked for; it waits for the data owner. \`concord memory erasure ${view.memory_erasure_id}\` shows the certificate\n`,
            )
          })
        }
        const preview = await askServer<PreviewView>(cli, 'POST', '/memory/forget/preview', { subject })
        return showAnswer(cli, program, preview, (view) => showPreview(terminal, view))
      }),
    )
  memory
    .command('erasure <id>')
    .description('show what became of a request to forget, with its certificate')
    .addHelpText('after', `\nExample:\n  $ concord memory erasure ${ERASURE}\n`)
    .action(
      cli.handle(async (id: string) => {
        const path = memoryPath('memory_erasure', 'erasures', id)
        if (!path.ok) return path
        const shown = await askServer<ErasureView>(cli, 'GET', path.value)
        return showAnswer(cli, program, shown, (view) => showErasure(terminal, view))
      }),
    )
}

function showPreview(terminal: Terminal, view: PreviewView): void {
  const { bold } = colorsOf(terminal)
  terminal.out(`${bold(showLine(view.subject))}: this would be erased\n${formatCounts(view.counts)}`)
  for (const { kind, id, is_held } of view.items)
    terminal.out(
      `  ${kind.padEnd(18)}  ${showLine(shownId(kind.replace(/^derived_/, ''), id))}${is_held ? '  held' : ''}\n`,
    )
  if (view.consents.length > 0) terminal.out(`\n${bold('consents')}\n${formatConsents(view.consents)}`)
  if (view.holds.length > 0) terminal.out(`\n${bold('holds')}\n${formatHolds(view.holds)}`)
  terminal.err(
    view.may_erase
      ? 'nothing was changed; add --yes to ask for it\n'
      : 'a hold stands: it cannot be erased; `concord memory hold release` ends a hold on a subject, POST /artifacts/<id>/release one on an artifact\n',
  )
}

function showErasure(terminal: Terminal, view: ErasureView): void {
  if (view.outcome === null) {
    terminal.out(`${view.memory_erasure_id} is open, about ${showLine(view.subject ?? '')}\n`)
    terminal.err(`\`concord why ${view.command_id}\` says what it waits for\n`)
  } else if (view.certificate === null) terminal.out(`${view.memory_erasure_id} was dropped; nothing was erased\n`)
  else {
    terminal.out(`${view.memory_erasure_id} was carried out ${view.closed_at ?? ''}\n`)
    terminal.out(formatCounts(view.certificate.counts ?? {}))
    terminal.out(`  certificate  ${view.certificate_hash ?? ''}\n`)
  }
}
