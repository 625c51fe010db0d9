/** `concord keys`: creates, lists and revokes API keys of a running server. */
import type { apiKeyView, createdApiKeyView } from '#domains/identity'
import { refuse } from '#kernel/refusal'
import { askServer, fieldsOf } from './client.ts'
import { confirm, listVerb, noun, type ViewOf, verb, yesOption } from './noun.ts'
import { colorsOf } from './terminal.ts'

type CreateOptions = Partial<Record<'name' | 'workspace' | 'expires' | 'agent' | 'tools', string>> & { role: string }
type KeyView = ViewOf<typeof apiKeyView>

export const keys = noun('create, list and revoke API keys', (cli) => ({
  create: verb({
    description: 'create a key; it is shown once',
    options: [
      ['--name <name>', 'what the key is for; the name of the agent if there is one'],
      ['--role <role>', 'reader, writer or admin', 'writer'],
      ['--workspace <id>', 'restrict it to this workspace'],
      ['--expires <time>', 'when it expires, like 2027-01-31T00:00:00Z'],
      ['--agent <name>', 'make it the key of an agent, which only proposes and reads its own proposals'],
      ['--tools <names>', 'the tasks that the agent may propose, separated by commas'],
    ],
    examples: [
      'concord keys create --name nightly-import --role writer',
      'concord keys create --agent planner --tools publish_report,book_hotel',
    ],
    ask: ({ role, workspace, expires, agent, tools, name = agent }: CreateOptions) => {
      if (name === undefined) return refuse('cli.usage', 'A key needs --name, or --agent.')
      const named = tools?.split(',').flatMap((tool) => tool.trim() || [])
      const body = fieldsOf({ name, role, workspace_id: workspace, expires_at: expires, agent, tools: named })
      return askServer<ViewOf<typeof createdApiKeyView>>(cli, 'POST', '/keys', body)
    },
    say: ({ key, role, name, agent }) => [
      `${key}\n`,
      `Created the ${role} key "${name}"${agent === null ? '' : ` of the agent "${agent}"`}. It is not shown again: keep it safe.\n`,
    ],
  }),
  list: listVerb<KeyView, []>({
    description: 'list your keys without their secrets; administrators see those of the organisation',
    examples: ['concord keys list'],
    at: () => '/keys?limit=500',
    none: () => 'There are none.',
    columns: {
      id: ({ key_id }) => key_id,
      name: ({ name }) => name,
      key: ({ prefix }) => `ck_${prefix}_…`,
      kind: ({ kind }) => kind,
      agent: ({ agent, tools }) => (agent === null ? '' : `${agent}: ${tools?.join(', ')}`),
      role: ({ role }) => role,
      status: ({ revoked_at, expires_at }, when) =>
        revoked_at ? 'revoked' : expires_at ? `until ${when(expires_at)}` : 'active',
      'last used': ({ last_used_at }, when) => (last_used_at === null ? 'never' : when(last_used_at)),
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
