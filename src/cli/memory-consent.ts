/** `concord memory consent` and `concord memory hold`: what may be remembered, and what must not be forgotten. */
import type { Command } from 'commander'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, showAnswer } from './ask-server.ts'
import { parseLimit, queryOf, wordsOf } from './command-view.ts'
import { type ConsentView, type HoldView, memoryPath } from './memory-view.ts'
import { type Cli, formatTable } from './terminal.ts'

const CONSENT = 'memcon_0197f3b2c4d57a8e9b0c1d2e3f405170'
const HOLD = 'memhold_0197f3b2c4d57a8e9b0c1d2e3f405171'

export function addMemoryConsent(memory: Command, program: Command, cli: Cli): void {
  addConsent(memory.command('consent').description('give, take back and list consents'), program, cli)
  addHold(memory.command('hold').description('place, release and list holds (administrators)'), program, cli)
}

function addConsent(consent: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  const say = (view: ConsentView) =>
    terminal.out(`${view.memory_consent_id} ${view.revoked_at === null ? 'stands' : 'is taken back'}\n`)
  consent
    .command('grant')
    .description('agree that something of a kind may be remembered')
    .requiredOption('--subject <kind:id>', 'whose consent it is, like customer:4711')
    .option('--type <type>', 'to what kind of memory', 'preference')
    .option('--scope <scope>', 'for which scope', 'user')
    .option('--expires <time>', 'when it ends, like 2027-01-31T00:00:00Z')
    .addHelpText('after', '\nExample:\n  $ concord memory consent grant --subject customer:4711 --type preference\n')
    .action(
      cli.handle(async (options: { subject: string; type: string; scope: string; expires?: string }) => {
        const { subject, type, scope, expires } = options
        const body = fieldsOf({ subject, memory_type: type, scope, expires_at: expires })
        return showAnswer(cli, program, await askServer<ConsentView>(cli, 'POST', '/memory/consents', body), say)
      }),
    )
  consent
    .command('revoke <id>')
    .description('take a consent back; what is remembered stays until it is forgotten')
    .addHelpText('after', `\nExample:\n  $ concord memory consent revoke ${CONSENT}\n`)
    .action(
      cli.handle(async (id: string) => {
        const path = memoryPath('memory_consent', 'consents', id, '/revoke')
        if (!path.ok) return path
        return showAnswer(cli, program, await askServer<ConsentView>(cli, 'POST', path.value), say)
      }),
    )
  consent
    .command('list')
    .description('list who agreed to what')
    .option('--subject <kind:id>', 'only of this one')
    .option('--limit <number>', 'how many at most, 1 to 500', parseLimit, 50)
    .addHelpText('after', '\nExample:\n  $ concord memory consent list --subject customer:4711\n')
    .action(
      cli.handle(async ({ subject, limit }: { subject?: string; limit: number }) => {
        const path = `/memory/consents${queryOf({ subject, limit })}`
        const listed = await askServer<{ items: ConsentView[] }>(cli, 'GET', path)
        return showAnswer(cli, program, listed, ({ items }) => terminal.out(formatConsents(items)))
      }),
    )
}

export function formatConsents(consents: readonly ConsentView[]): string {
  const rows = consents.map((each) => [
    each.memory_consent_id,
    showLine(each.subject),
    wordsOf(each.memory_type),
    wordsOf(each.scope),
    each.revoked_at === null ? 'stands' : `taken back ${each.revoked_at}`,
  ])
  return formatTable(['id', 'of', 'to', 'scope', 'state'], rows)
}

export function formatHolds(holds: readonly HoldView[]): string {
  const rows = holds.map((each) => [
    each.memory_hold_id,
    showLine(each.placed_by),
    each.released_at === null ? 'stands' : `released ${each.released_at}`,
    showLine(each.reason),
  ])
  return formatTable(['id', 'by', 'state', 'why'], rows)
}

function addHold(hold: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  hold
    .command('place')
    .description('keep what is known about a subject, whoever asks to forget it')
    .requiredOption('--subject <kind:id>', 'about whom, like customer:4711')
    .requiredOption('--reason <text>', 'why it must be kept')
    .addHelpText('after', '\nExample:\n  $ concord memory hold place --subject customer:4711 --reason "case 2026-17"\n')
    .action(
      cli.handle(async (body: { subject: string; reason: string }) => {
        const placed = await askServer<HoldView>(cli, 'POST', '/memory/holds', body)
        return showAnswer(cli, program, placed, (view) => terminal.out(`${view.memory_hold_id} stands\n`))
      }),
    )
  hold
    .command('release <id>')
    .description('end a hold')
    .addHelpText('after', `\nExample:\n  $ concord memory hold release ${HOLD}\n`)
    .action(
      cli.handle(async (id: string) => {
        const path = memoryPath('memory_hold', 'holds', id, '/release')
        if (!path.ok) return path
        const released = await askServer<HoldView>(cli, 'POST', path.value)
        return showAnswer(cli, program, released, (view) => terminal.out(`${view.memory_hold_id} is released\n`))
      }),
    )
  hold
    .command('list')
    .description('list the holds on a subject')
    .requiredOption('--subject <kind:id>', 'about whom')
    .addHelpText('after', '\nExample:\n  $ concord memory hold list --subject customer:4711\n')
    .action(
      cli.handle(async ({ subject }: { subject: string }) => {
        const listed = await askServer<{ items: HoldView[] }>(cli, 'GET', `/memory/holds${queryOf({ subject })}`)
        return showAnswer(cli, program, listed, ({ items }) => terminal.out(formatHolds(items)))
      }),
    )
}
