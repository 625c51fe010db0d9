/** `concord keys`: creates, lists and revokes API keys of a running server. */
import type { apiKeyView, createdApiKeyView } from '#domains/identity'
import { askServer, fieldsOf } from './client.ts'
import { confirm, listVerb, noun, type ViewOf, verb, yesOption } from './noun.ts'
import { colorsOf } from './terminal.ts'

type KeyView = ViewOf<typeof apiKeyView>

export const keys = noun('create, list and revoke API keys', (cli) => ({
  create: verb({
    description: 'create a key; it is shown once',
    required: [['--name <name>', 'what the key is for']],
    options: [
      ['--role <role>', 'reader, writer or admin', 'writer'],
      ['--workspace <id>', 'restrict it to this workspace'],
      ['--expires <time>', 'when it expires, like 2027-01-31T00:00:00Z'],
    ],
    examples: ['concord keys create --name nightly-import --role writer'],
    ask: ({ name, role, workspace, expires }: { name: string; role: string; workspace?: string; expires?: string }) => {
      const body = fieldsOf({ name, role, workspace_id: workspace, expires_at: expires })
      return askServer<ViewOf<typeof createdApiKeyView>>(cli, 'POST', '/keys', body)
    },
    say: ({ key, role, name }) => [
      `${key}\n`,
      `Created the ${role} key "${name}". It is not shown again: keep it safe.\n`,
    ],
  }),
  list: listVerb<KeyView, []>({
    description: 'list the keys of the organisation, without their secrets',
    examples: ['concord keys list'],
    at: () => '/keys?limit=500',
    none: () => 'There are none.',
    columns: {
      id: ({ key_id }) => key_id,
      name: ({ name }) => name,
      key: ({ prefix }) => `ck_${prefix}_…`,
      role: ({ role }) => role,
      state: ({ revoked_at, expires_at }) => (revoked_at ? 'revoked' : expires_at ? `until ${expires_at}` : 'active'),
      'last used': ({ last_used_at }) => last_used_at ?? 'never',
    },
  }),
  'revoke <id>': verb({
    description: 'revoke a key immediately',
    options: [yesOption],
    examples: ['concord keys revoke key_0190… --yes'],
    async ask(id: string, flags: { yes?: boolean }) {
      const missing = confirm(flags, `Revoking ${id} cannot be undone.`)
      if (missing) return missing
      const revoked = await askServer<KeyView>(cli, 'DELETE', `/keys/${encodeURIComponent(id)}`)
      return revoked.ok ? { ok: true, value: { key_id: id, revoked: true } } : revoked
    },
    say: ({ key_id }) => `${colorsOf(cli.terminal).green('revoked')} ${key_id}\n`,
  }),
}))
