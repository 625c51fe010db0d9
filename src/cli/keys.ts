/** `concord keys`: makes, lists and revokes API keys of a running server. A key is shown once and never again. */
import type { Command } from 'commander'
import { accept, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer } from './ask-server.ts'
import { type Cli, colorsOf, formatTable } from './terminal.ts'

type KeyView = {
  key_id: string
  name: string
  prefix: string
  role: string
  workspace_id: string | null
  created_at: string
  expires_at: string | null
  revoked_at: string | null
  last_used_at: string | null
}

export function addKeys(program: Command, cli: Cli): void {
  const keys = program.command('keys').description('make, list and revoke API keys')
  const json = () => program.opts()['json'] === true
  const { terminal } = cli

  keys
    .command('create')
    .description('make a key; it is shown once')
    .requiredOption('--name <name>', 'what the key is for')
    .option('--role <role>', 'reader, writer or admin', 'writer')
    .option('--workspace <id>', 'only this workspace')
    .option('--expires <time>', 'when it ends, like 2027-01-31T00:00:00Z')
    .addHelpText('after', '\nExample:\n  $ concord keys create --name nightly-import --role writer\n')
    .action(
      cli.handle(async (options: { name: string; role: string; workspace?: string; expires?: string }) => {
        const made = await askServer<KeyView & { key: string }>(cli, 'POST', '/keys', {
          name: options.name,
          role: options.role,
          ...(options.workspace === undefined ? {} : { workspace_id: options.workspace }),
          ...(options.expires === undefined ? {} : { expires_at: options.expires }),
        })
        if (!made.ok) return made
        if (json()) terminal.out(`${JSON.stringify(made.value)}\n`)
        else {
          terminal.out(`${made.value.key}\n`)
          terminal.err(`${made.value.role} key "${made.value.name}" made. It is shown only now: keep it safe.\n`)
        }
        return accept(undefined)
      }),
    )

  keys
    .command('list')
    .description('list the keys of the organisation, never their secrets')
    .action(
      cli.handle(async () => {
        const listed = await askServer<{ items: KeyView[] }>(cli, 'GET', '/keys?limit=500')
        if (!listed.ok) return listed
        if (json()) terminal.out(`${JSON.stringify(listed.value)}\n`)
        else
          terminal.out(formatTable(['id', 'name', 'key', 'role', 'state', 'last used'], listed.value.items.map(keyRow)))
        return accept(undefined)
      }),
    )

  keys
    .command('revoke <id>')
    .description('end a key at once')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nExample:\n  $ concord keys revoke key_0190… --yes\n')
    .action(
      cli.handle(async (id: string, options: { yes?: boolean }) => {
        if (options.yes !== true) {
          return refuse('cli.confirmation_missing', `revoking ${id} cannot be undone`, { hint: 'add --yes' })
        }
        const revoked = await askServer<KeyView>(cli, 'DELETE', `/keys/${encodeURIComponent(id)}`)
        if (!revoked.ok) return revoked
        if (json()) terminal.out(`${JSON.stringify({ key_id: id, revoked: true })}\n`)
        else terminal.out(`${colorsOf(terminal).green('revoked')} ${id}\n`)
        return accept(undefined)
      }),
    )
}

function keyRow(key: KeyView): string[] {
  const state = key.revoked_at ? 'revoked' : key.expires_at ? `until ${key.expires_at}` : 'active'
  return [key.key_id, showLine(key.name), `ck_${key.prefix}_…`, key.role, state, key.last_used_at ?? 'never']
}
