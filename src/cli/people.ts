/** `concord people`: brings people in, changes what they may do, and lets them go. */
import type { Command } from 'commander'
import { decodeId, encodeId } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, showAnswer } from './ask-server.ts'
import { openClient } from './client.ts'
import { type Cli, formatTable, type Outcome } from './terminal.ts'

type PersonView = {
  user_id: string
  external_id: string
  email: string | null
  role: string
  org_roles: string[]
  deactivated_at: string | null
}
type InvitedView = PersonView & { invitation: string | null; invitation_expires_at: string | null }
type Changed = { changed: boolean }

export function addPeople(program: Command, cli: Cli): void {
  const people = program.command('people').description('bring people in, change what they may do, let them go')
  const { terminal } = cli
  const sayInvited = (person: InvitedView) => {
    terminal.out(`${person.invitation ?? person.user_id}\n`)
    terminal.err(
      person.invitation === null
        ? `${showLine(person.external_id)} signs in at the identity provider.\n`
        : `Give it to ${showLine(person.external_id)}, who runs \`concord people redeem\`. It works once, until ${person.invitation_expires_at}.\n`,
    )
  }
  const sayPerson = (person: PersonView) =>
    terminal.out(`${person.user_id} ${showLine(person.external_id)} ${person.deactivated_at ? 'gone' : person.role}\n`)
  const sayChanged = ({ changed }: Changed) => terminal.out(changed ? 'done\n' : 'it was so already\n')
  /** One thing done to one person. */
  const act = async (
    who: string,
    verb: string,
    body: unknown,
    say: (answer: InvitedView & Changed) => void,
  ): Promise<Outcome> => {
    const id = await findPerson(cli, who)
    if (!id.ok) return id
    return showAnswer(
      cli,
      program,
      await askServer<InvitedView & Changed>(cli, 'POST', `/people/${id.value}/${verb}`, body),
      say,
    )
  }

  people
    .command('list')
    .description('list the people of the organisation')
    .action(
      cli.handle(async () => {
        const listed = await listEverybody(cli)
        return showAnswer(cli, program, listed, ({ items }) =>
          terminal.out(formatTable(['id', 'who', 'may', 'org roles', 'state'], items.map(personRow))),
        )
      }),
    )

  people
    .command('invite <who>')
    .description('bring somebody in: a name for those who sign in with keys, or a subject at the identity provider')
    .option('--role <role>', 'reader, writer or admin', 'writer')
    .option('--email <address>', 'where they can be reached')
    .option('--again', 'a new invitation for somebody who is in; every key they have ends')
    .addHelpText(
      'after',
      '\nExamples:\n  $ concord people invite ada --role writer\n  $ concord people invite ada --again\n',
    )
    .action(
      cli.handle(async (who: string, { role, email, again }: { role: string; email?: string; again?: boolean }) => {
        if (again === true) return act(who, 'invite', {}, sayInvited)
        const body = fieldsOf({ external_id: /[:|]/.test(who) ? who : `local:${who}`, role, email })
        return showAnswer(cli, program, await askServer<InvitedView>(cli, 'POST', '/people', body), sayInvited)
      }),
    )

  people
    .command('redeem <invitation>')
    .description('exchange your invitation, once, for your key')
    .addHelpText('after', '\nExample:\n  $ concord people redeem ck_9f3b2c4d57a8_…\n')
    .action(
      cli.handle(async (invitation: string) => {
        const client = openClient(terminal, { credential: 'none' })
        if (!client.ok) return client
        const made = await client.value.call<{ key: string }>('POST', '/invitations/redeem', { invitation })
        return showAnswer(cli, program, made, ({ key }) => {
          terminal.out(`${key}\n`)
          terminal.err('Your key. It is shown only now: keep it safe, as CONCORD_KEY for example.\n')
        })
      }),
    )

  people
    .command('role <who> <role>')
    .description('change what somebody may do: reader, writer or admin')
    .addHelpText('after', '\nExample:\n  $ concord people role ada admin\n')
    .action(cli.handle((who: string, role: string) => act(who, 'role', { role }, sayPerson)))

  people
    .command('grant <who> <org-role>')
    .description('give somebody an org role; it is made if --create says so')
    .option('--create', 'make the role first if there is none')
    .addHelpText('after', '\nExample:\n  $ concord people grant ada data-owner --create\n')
    .action(
      cli.handle(async (who: string, orgRole: string, { create }: { create?: boolean }) => {
        if (create === true) {
          const made = await askServer(cli, 'POST', '/org-roles', { slug: orgRole, name: orgRole })
          if (!made.ok && made.code !== 'identity.org_role.slug_taken') return made
        }
        const granted = await act(who, 'org-roles', { org_role: orgRole }, sayChanged)
        if (granted.ok || granted.code !== 'identity.org_role.not_found') return granted
        return {
          ...granted,
          hint: 'Add --create to make the role, or use one that `concord people list` shows.',
        }
      }),
    )

  people
    .command('revoke <who> <org-role>')
    .description('take an org role from somebody')
    .addHelpText('after', '\nExample:\n  $ concord people revoke ada data-owner\n')
    .action(
      cli.handle(async (who: string, orgRole: string) => {
        const id = await findPerson(cli, who)
        if (!id.ok) return id
        const path = `/people/${id.value}/org-roles/${encodeURIComponent(orgRole)}`
        return showAnswer(cli, program, await askServer<Changed>(cli, 'DELETE', path), sayChanged)
      }),
    )

  for (const [name, description] of [
    ['join', 'let somebody enter a workspace'],
    ['leave', 'let somebody enter a workspace no more'],
  ] as const) {
    people
      .command(`${name} <who> <workspace-id>`)
      .description(description)
      .addHelpText('after', `\nExample:\n  $ concord people ${name} ada ws_0197f3b2c4d57a8e9b0c1d2e3f405162\n`)
      .action(
        cli.handle(async (who: string, workspace: string) => {
          const id = await findPerson(cli, who)
          if (!id.ok) return id
          const path = `/workspaces/${encodeURIComponent(workspace)}/members`
          const answer =
            name === 'join'
              ? await askServer<Changed>(cli, 'POST', path, { user_id: id.value })
              : await askServer<Changed>(cli, 'DELETE', `${path}/${id.value}`)
          return showAnswer(cli, program, answer, sayChanged)
        }),
      )
  }

  people
    .command('deactivate <who>')
    .description('end every credential of somebody who leaves; what they decided keeps their name')
    .option('--reason <text>', 'why, for the record')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nExample:\n  $ concord people deactivate ada --reason "left the company" --yes\n')
    .action(
      cli.handle(async (who: string, { reason, yes }: { reason?: string; yes?: boolean }) => {
        if (yes !== true) {
          return refuse('cli.confirmation_missing', `every key of ${who} would end`, { hint: 'add --yes' })
        }
        return act(who, 'deactivate', fieldsOf({ reason }), sayPerson)
      }),
    )

  people
    .command('reactivate <who>')
    .description('let somebody come back, with a new invitation')
    .addHelpText('after', '\nExample:\n  $ concord people reactivate ada\n')
    .action(cli.handle((who: string) => act(who, 'reactivate', {}, sayInvited)))
}

type PeoplePage = { items: PersonView[]; next_cursor?: string | null }
/** 50,000 people; a server that never comes to its last page does not hold us for ever. */
const PAGES_MAX = 100

/** All pages as one: whoever is looked for by name may stand on the last of them. */
async function listEverybody(cli: Cli): Promise<Decision<PeoplePage>> {
  const first = await askServer<PeoplePage>(cli, 'GET', '/people?limit=500')
  if (!first.ok || !first.value.next_cursor) return first
  const all: PeoplePage = { items: [...first.value.items], next_cursor: first.value.next_cursor }
  for (let pages = 1; all.next_cursor && pages < PAGES_MAX; pages++) {
    const path = `/people?limit=500&cursor=${encodeURIComponent(all.next_cursor)}`
    const page = await askServer<PeoplePage>(cli, 'GET', path)
    if (!page.ok) return page
    all.items.push(...page.value.items)
    all.next_cursor = page.value.next_cursor ?? null
  }
  return accept(all)
}

/** By id, by the whole subject, by the name behind `local:`, or by e-mail; whoever is meant must be one person. */
async function findPerson(cli: Cli, who: string): Promise<Decision<string>> {
  const id = decodeId('user', who)
  if (id.ok) return accept(encodeId('user', id.value))
  const listed = await listEverybody(cli)
  if (!listed.ok) return listed
  const found = listed.value.items.filter(
    ({ external_id, email }) => external_id === who || external_id === `local:${who}` || email === who,
  )
  const [only] = found
  if (only && found.length === 1) return accept(only.user_id)
  return refuse(
    'identity.user.not_found',
    `${found.length === 0 ? 'nobody' : 'more than one'} is called ${quote(who)}`,
    {
      path: '<who>',
      hint: '`concord people list` shows everybody.',
    },
  )
}

function personRow(person: PersonView): string[] {
  const state = person.deactivated_at ? `gone since ${person.deactivated_at}` : 'active'
  const roles = person.org_roles.join(', ') || '-'
  return [person.user_id, showLine(person.external_id), person.role, showLine(roles), state]
}
