/** `concord migrate`: brings the database schema up or down, or says where it stands. */
import type { Command } from 'commander'
import { readConfig } from '#app/config'
import type { SchemaMove, SchemaMoved } from '#app/migrate-store'
import { accept, refuse } from '#kernel/refusal'
import { type Cli, formatTable, type Terminal } from './terminal.ts'

export function addMigrate(program: Command, cli: Cli): void {
  const migrate = program.command('migrate').description('bring the database schema up or down')
  const json = () => program.opts()['json'] === true
  const run = async (move: SchemaMove) => {
    const config = readConfig(cli.terminal.environment, cli.terminal.folder)
    if (!config.ok) return config
    const { migrateStore } = await import('#app/migrate-store')
    const moved = await migrateStore(config.value, move)
    if (!moved.ok) return moved
    if (json()) cli.terminal.out(`${JSON.stringify(moved.value)}\n`)
    else show(cli.terminal, moved.value)
    return moved.value.verdict.ok ? accept(undefined) : moved.value.verdict
  }

  migrate
    .command('status')
    .description('list the migrations and which of them are applied')
    .action(cli.handle(() => run({ go: 'nowhere' })))
  migrate
    .command('up')
    .description('apply what is missing')
    .action(cli.handle(() => run({ go: 'up' })))
  migrate
    .command('down')
    .description('take migrations back, newest first; what they stored is gone')
    .requiredOption('--to <number>', 'the migration that stays the newest; 0 takes all back')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nExample:\n  $ concord migrate down --to 6 --yes\n')
    .action(
      cli.handle(async (options: { to: string; yes?: boolean }) => {
        if (!/^\d{1,4}$/.test(options.to)) {
          return refuse('cli.usage', `--to takes the number of a migration, not ${options.to.slice(0, 64)}`, {
            path: '--to',
            hint: '`concord migrate status` lists them',
          })
        }
        if (options.yes !== true) {
          return refuse('cli.confirmation_missing', 'taking a migration back removes what its tables hold', {
            hint: 'add --yes',
          })
        }
        return run({ go: 'down', to: Number(options.to) })
      }),
    )
}

function show(terminal: Terminal, moved: SchemaMoved): void {
  for (const step of moved.steps) terminal.out(`${step.direction === 'up' ? 'applied' : 'took back'} ${step.name}\n`)
  const rows = [
    ...moved.applied.map((row) => [String(row.number), row.name, row.appliedAt]),
    ...moved.pending.map((name) => [name.slice(0, 4).replace(/^0+/, ''), name, 'not applied']),
  ]
  terminal.out(formatTable(['number', 'name', 'applied at'], rows))
}
