/** `concord people`: invites people, changes their roles and deactivates them. */
import type { changedView, delegationView, invitedPersonView, meView, personView } from '#domains/identity'
import { decodeId, encodeId } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, listAll, openClient } from './client.ts'
import { confirm, noun, type Said, type ViewOf, table, verb, type Verbs, type When, yesOption } from './noun.ts'
import type { Cli } from './terminal.ts'
import { sayTime } from './times.ts'

type PersonView = ViewOf<typeof personView>
type InvitedView = ViewOf<typeof invitedPersonView>
type Changed = ViewOf<typeof changedView>
type DelegationView = ViewOf<typeof delegationView>

export const people = noun('invite people, change their roles, deactivate them', (cli) => {
  const { terminal } = cli
  const sayPerson = (person: PersonView) =>
    `${person.user_id} ${showLine(person.external_id)} ${person.deactivated_at ? 'deactivated' : person.role}\n`
  const sayChanged = ({ changed }: Changed) => (changed ? 'done\n' : 'nothing changed\n')
  const sayInvited = ({
    external_id,
    invitation,
    invitation_expires_at: until,
    user_id,
    awaits_yes,
  }: InvitedView): Said => {
    const name = showLine(external_id)
    if (invitation === null) return [`${user_id}\n`, `${name} signs in at the identity provider.\n`]
    const note = `Send it to ${name}, who redeems it with \`concord people redeem\`. It works once, until ${until && sayTime(terminal, until)}.\n`
    const held = `It works only after ${name} or another administrator agrees: \`concord people confirm ${name}\`.\n`
    return [`${invitation}\n`, awaits_yes ? note + held : note]
  }
  /** Sends one action for one person. */
  const act = async <Answer>(who: string, verb: string, body?: unknown, method: 'POST' | 'DELETE' = 'POST') => {
    const id = await findPerson(cli, who)
    return id.ok ? askServer<Answer>(cli, method, `/people/${id.value}/${verb}`, body) : id
  }
  return {
    list: verb({
      description: 'list the people of the organisation',
      examples: ['concord people list'],
      ask: () => listPeople(cli),
      say: ({ items }) => table(terminal, columns, items),
    }),
    'invite <who>': verb({
      description: 'invite a person: a name if they use keys, or their subject at the identity provider',
      options: [
        ['--role <role>', 'reader, writer or admin', 'writer'],
        ['--email <address>', 'their e-mail address'],
        ['--again', 'create a new invitation for an existing person, which takes the place of all their keys'],
      ],
      examples: ['concord people invite ada --role writer', 'concord people invite ada --again'],
      ask(who: string, { role, email, again }: { role: string; email?: string; again?: boolean }) {
        if (again === true) return act<InvitedView>(who, 'invite', {})
        const body = fieldsOf({ external_id: /[:|]/.test(who) ? who : `local:${who}`, role, email })
        return askServer<InvitedView>(cli, 'POST', '/people', body)
      },
      say: sayInvited,
    }),
    'confirm [who]': verb({
      description:
        'agree to a new invitation: your own, or as a second administrator that of a person; it revokes their keys',
      examples: ['concord people confirm', 'concord people confirm ada'],
      async ask(who: string | undefined) {
        if (who !== undefined) return act<Changed>(who, 'invite/confirm', {})
        const me = await askServer<ViewOf<typeof meView>>(cli, 'GET', '/me')
        return me.ok ? act<Changed>(me.value.user_id, 'invite/confirm', {}) : me
      },
      say: sayChanged,
    }),
    'redeem <invitation>': verb({
      description: 'redeem your invitation, once, for your key',
      examples: ['concord people redeem ck_9f3b2c4d57a8_…'],
      async ask(invitation: string) {
        const client = openClient(terminal, { credential: 'none' })
        return client.ok ? client.value.call<{ key: string }>('POST', '/invitations/redeem', { invitation }) : client
      },
      say: ({ key }) => [
        `${key}\n`,
        'This is your key. It is not shown again: keep it safe, for example as CONCORD_KEY.\n',
      ],
    }),
    'role <who> <role>': verb({
      description: 'change the role of a person: reader, writer or admin',
      examples: ['concord people role ada admin'],
      ask: (who: string, role: string) => act<PersonView>(who, 'role', { role }),
      say: sayPerson,
    }),
    'grant <who> <org-role>': verb({
      description: 'grant an org role to a person',
      options: [['--create', 'create the role first if it does not exist']],
      examples: ['concord people grant ada data-owner --create'],
      async ask(who: string, orgRole: string, { create }: { create?: boolean }) {
        if (create === true) {
          const made = await askServer(cli, 'POST', '/org-roles', { slug: orgRole, name: orgRole })
          if (!made.ok && made.code !== 'identity.org_role.slug_taken') return made
        }
        return act<Changed>(who, 'org-roles', { org_role: orgRole })
      },
      say: sayChanged,
    }),
    'revoke <who> <org-role>': verb({
      description: 'revoke an org role from a person',
      examples: ['concord people revoke ada data-owner'],
      ask: (who: string, orgRole: string) =>
        act<Changed>(who, `org-roles/${encodeURIComponent(orgRole)}`, undefined, 'DELETE'),
      say: sayChanged,
    }),
    ...membership(cli, sayChanged),
    ...standIns(cli),
    'deactivate <who>': verb({
      description: 'deactivate a person and revoke all their credentials; their decisions stay on record',
      options: [['--reason <text>', 'the reason, for the record'], yesOption],
      examples: ['concord people deactivate ada --reason "left the company" --yes'],
      ask(who: string, { reason, ...flags }: { reason?: string; yes?: boolean }) {
        return (
          confirm(flags, `This revokes every key of ${who}.`) ??
          act<PersonView>(who, 'deactivate', fieldsOf({ reason }))
        )
      },
      say: sayPerson,
    }),
    'reactivate <who>': verb({
      description: 'reactivate a person with a new invitation',
      examples: ['concord people reactivate ada'],
      ask: (who: string) => act<InvitedView>(who, 'reactivate', {}),
      say: sayInvited,
    }),
  }
})

function membership(cli: Cli, say: (answer: Changed) => string): Verbs {
  const member = (name: 'join' | 'leave', description: string) =>
    verb({
      description,
      examples: [`concord people ${name} ada ws_0197f3b2c4d57a8e9b0c1d2e3f405162`],
      async ask(who: string, workspace: string) {
        const id = await findPerson(cli, who)
        if (!id.ok) return id
        const path = `/workspaces/${encodeURIComponent(workspace)}/members`
        return name === 'join'
          ? askServer<Changed>(cli, 'POST', path, { user_id: id.value })
          : askServer<Changed>(cli, 'DELETE', `${path}/${id.value}`)
      },
      say,
    })
  return {
    'join <who> <workspace-id>': member('join', 'add a person to a workspace'),
    'leave <who> <workspace-id>': member('leave', 'remove a person from a workspace'),
  }
}

function standIns(cli: Cli): Verbs {
  const say = ({ delegation_id, from, to, until, ended_at }: DelegationView) =>
    `${delegation_id} ${showLine(to)} stands in for ${showLine(from)} until ${sayTime(cli.terminal, ended_at ?? until)}\n`
  return {
    delegate: verb({
      description: 'let another person decide approvals in your place until a time; administrators also for others',
      options: [
        ['--from <who>', 'in whose place (default: yours)'],
        ['--to <who>', 'who stands in: a user id or a name'],
        ['--until <time>', 'when it ends by itself, like 2027-01-31T00:00:00Z'],
      ],
      examples: ['concord people delegate --from dora --to ben --until 2027-01-31T00:00:00Z'],
      ask({ from, to, until }: { from?: string; to?: string; until?: string }) {
        if (to === undefined || until === undefined) return refuse('cli.usage', 'A delegation needs --to and --until.')
        return askServer<DelegationView>(cli, 'POST', '/delegations', fieldsOf({ from, to, until }))
      },
      say,
    }),
    delegations: verb({
      description: 'list the delegations that concern you; administrators see those of the organisation',
      examples: ['concord people delegations'],
      ask: () => listAll<DelegationView>(cli, '/delegations'),
      say: ({ items }) =>
        table(
          cli.terminal,
          {
            id: ({ delegation_id }: DelegationView) => delegation_id,
            'in place of': ({ from }: DelegationView) => from,
            'stands in': ({ to }: DelegationView) => to,
            until: ({ until }: DelegationView, when: When) => when(until),
            ended: ({ ended_at }: DelegationView, when: When) => (ended_at === null ? '-' : when(ended_at)),
          },
          items,
        ),
    }),
    'undelegate <id>': verb({
      description: 'end a delegation',
      examples: ['concord people undelegate deleg_0197f3b2c4d57a8e9b0c1d2e3f405161'],
      ask: (id: string) => askServer<DelegationView>(cli, 'DELETE', `/delegations/${encodeURIComponent(id)}`),
      say,
    }),
  }
}

const listPeople = (cli: Cli) => listAll<PersonView>(cli, '/people')

/** By id, by the whole subject, by the name behind `local:`, or by e-mail. Exactly one person must match. */
async function findPerson(cli: Cli, who: string): Promise<Decision<string>> {
  const id = decodeId('user', who)
  if (id.ok) return accept(encodeId('user', id.value))
  const listed = await listPeople(cli)
  if (!listed.ok) return listed
  const found = listed.value.items.filter(
    ({ external_id, email }) => external_id === who || external_id === `local:${who}` || email === who,
  )
  const [only] = found
  if (only && found.length === 1) return accept(only.user_id)
  const reason = `${found.length === 0 ? 'No person' : 'More than one person'} is called ${quote(who)}.`
  return refuse('identity.user.not_found', reason, { path: '<who>', hint: '`concord people list` lists all people.' })
}

const columns = {
  id: ({ user_id }: PersonView) => user_id,
  who: ({ external_id }: PersonView) => external_id,
  may: ({ role }: PersonView) => role,
  'org roles': ({ org_roles }: PersonView) => org_roles.join(', ') || '-',
  status: ({ deactivated_at }: PersonView, when: When) =>
    deactivated_at ? `deactivated ${when(deactivated_at)}` : 'active',
}
