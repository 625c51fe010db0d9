/** `concord migrate`: applies or reverts migrations of the database schema, or lists them. */
import { readConfig } from '#app/config'
import type { SchemaMove, SchemaMoved } from '#app/migrate-store'
import { refuse } from '#kernel/refusal'
import { action, confirm, noun, showAnswer, yesOption } from './noun.ts'
import { formatTable } from './layout.ts'
import type { Terminal, VerbResult } from './terminal.ts'
import { sayTime } from './times.ts'

export const migrateNoun = noun('migrate the database schema up or down', (cli) => {
  const run = async (move: SchemaMove): Promise<VerbResult> => {
    const config = readConfig(cli.terminal.environment, cli.terminal.folder)
    if (!config.ok) return config
    const { migrateStore } = await import('#app/migrate-store')
    const moved = await migrateStore(config.value, move)
    const shown = await showAnswer(cli, moved, (done) => formatMoved(cli.terminal, done))
    return moved.ok && !moved.value.verdict.ok ? moved.value.verdict : shown
  }
  return {
    status: action({
      description: 'list the applied and the pending migrations',
      examples: ['concord migrate status'],
      run: () => run({ go: 'nowhere' }),
    }),
    up: action({
      description: 'apply the pending migrations',
      examples: ['concord migrate up'],
      run: () => run({ go: 'up' }),
    }),
    down: action({
      description: 'revert migrations, newest first; the data in their tables is lost',
      required: [['--to <number>', 'the last migration to keep; 0 reverts all']],
      options: [yesOption],
      examples: ['concord migrate down --to 6 --yes'],
      async run({ to, ...flags }: { to: string; yes?: boolean }) {
        if (!/^\d{1,4}$/.test(to))
          return refuse('cli.usage', `--to needs the number of a migration, not ${to.slice(0, 64)}.`, {
            path: '--to',
            hint: '`concord migrate status` lists them.',
          })
        return (
          confirm(flags, 'Reverting a migration deletes the data in its tables.') ?? run({ go: 'down', to: Number(to) })
        )
      },
    }),
  }
})

function formatMoved(terminal: Terminal, moved: SchemaMoved): string {
  const steps = moved.steps.map((step) => `${step.direction === 'up' ? 'applied' : 'reverted'} ${step.name}\n`)
  const rows = [
    ...moved.applied.map((row) => [String(row.number), row.name, sayTime(terminal, row.appliedAt)]),
    ...moved.pending.map((name) => [name.slice(0, 4).replace(/^0+/, ''), name, 'not applied']),
  ]
  return steps.join('') + formatTable(terminal, ['number', 'name', 'applied'], rows)
}
