/** The API shapes of this room: requests and responses. */
import type { Principal } from '#kernel/actor'
import { z } from 'zod'
import {
  idField,
  idView,
  instantField,
  nameField,
  orNull,
  parsedField,
  slugField,
  textField,
  textView,
  timeView,
} from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { StoredApiKey } from './api-key.ts'
import type { StoredDelegation } from './delegation.ts'
import type { StoredOrgRole, StoredWorkspace } from './identity-repository.ts'
import type { Invited } from './invitation.ts'
import { emailForm, parseEmail, type StoredPerson } from './person.ts'
import { platformRoles } from './principal.ts'

const platformRole = z.enum(platformRoles).meta({
  id: 'PlatformRole',
  description: 'What a caller may do: readers look, writers also act, admins also administer.',
  example: 'writer',
})

const name = (example: string) => nameField(example).meta({ description: 'Display name.' })

const tools = z.array(z.string()).meta({ example: null, description: 'The tasks that the agent may propose.' })

export const meView = z
  .object({
    user_id: idView('user', 'Who the credential belongs to.'),
    org_id: idView('org', 'The organisation of the user.'),
    org: z.string().meta({ example: 'default' }),
    external_id: z.string().meta({ example: 'local:admin', description: 'Subject at the identity provider.' }),
    email: z.string().nullable().meta({ example: 'ada@example.com' }),
    role: platformRole,
    org_roles: z.array(z.string()).meta({ example: ['finance'], description: 'Roles that decide what is visible.' }),
    credential: z.enum(['api_key', 'jwt']),
    key_id: idView('api_key', 'The key in use, if one is.').nullable(),
    workspace_id: idView('workspace', 'The workspace the key is bound to.').nullable(),
    agent: z
      .string()
      .nullable()
      .meta({ example: null, description: 'The agent that the key belongs to, if it is one.' }),
    tools: tools.nullable(),
    invitation_by: idView(
      'user',
      'Who issued an invitation for you that waits for your confirmation, or that of another administrator.',
    ).nullable(),
  })
  .meta({ id: 'Me', description: 'The caller, as the server knows it.' })

export const workspaceView = z
  .object({
    workspace_id: idView('workspace', 'Send it as X-Workspace-ID.'),
    slug: z.string().meta({ example: 'default', description: 'Send it as X-Workspace.' }),
    name: z.string().meta({ example: 'Default' }),
    owner_user_id: idView('user', 'The owner may always enter.').nullable(),
    access_role: z.string().nullable().meta({
      example: 'finance',
      description: 'Org role whose members may enter; null lets everyone of the organisation in.',
    }),
    created_at: timeView('When it was created.'),
  })
  .meta({ id: 'Workspace', description: 'A workspace that the caller may enter.' })

export const createWorkspaceBody = z
  .strictObject({
    slug: slugField('finance'),
    name: name('Finance'),
    access_role: slugField('finance')
      .optional()
      .meta({ description: 'Org role whose members may enter; without it everyone may.' }),
  })
  .meta({ id: 'CreateWorkspace', description: 'A new workspace, owned by the caller.' })

export const apiKeyView = z
  .object({
    key_id: idView('api_key', 'Names the key; it is not the key.'),
    name: z.string().meta({ example: 'ci' }),
    prefix: z.string().meta({ example: '9f3b2c4d57a8', description: 'The visible part of the key.' }),
    role: platformRole,
    kind: z
      .enum(['person', 'agent'])
      .meta({ description: 'Who holds it: the person, or an agent that acts for them.' }),
    agent: z.string().nullable().meta({ example: null, description: 'The name of the agent.' }),
    tools: tools.nullable(),
    user_id: idView('user', 'The user who owns the key.'),
    workspace_id: idView('workspace', 'The only workspace the key opens; null for all of the user.').nullable(),
    created_at: timeView('When it was created.'),
    expires_at: timeView('When it stops working.').nullable(),
    revoked_at: timeView('When it was revoked.').nullable(),
    last_used_at: timeView('When it was last used, to the minute.').nullable(),
  })
  .meta({ id: 'ApiKey', description: 'An API key without its secret.' })

export const createApiKeyBody = z
  .strictObject({
    name: name('ci'),
    role: platformRole,
    workspace_id: idField('workspace').optional().meta({ description: 'Bind the key to one workspace.' }),
    expires_at: instantField('2027-05-01T10:00:00Z').optional().meta({ description: 'At most ten years ahead.' }),
    agent: nameField('planner')
      .optional()
      .meta({ description: 'The agent that gets the key. It can only propose actions and read its own proposals.' }),
    tools: z
      .array(textField(200, { charsMin: 1 }))
      .min(1)
      .max(100)
      .optional()
      .meta({ example: ['Publish Report'], description: 'The tasks that the agent may propose; needed with `agent`.' }),
  })
  .meta({
    id: 'CreateApiKey',
    dependentRequired: { agent: ['tools'], tools: ['agent'] },
    description: 'A new API key of your own.',
  })

export const createdApiKeyView = apiKeyView
  .extend({
    key: z.string().meta({
      example: 'ck_9f3b2c4d57a8_EXAMPLE-EXAMPLE-EXAMPLE-EXAMPLE-EXAMPLE-00',
      description: 'The key itself. It is shown now and never again.',
    }),
  })
  .meta({ id: 'CreatedApiKey', description: 'The new key with its secret.' })

export type MeView = z.infer<typeof meView>
export type WorkspaceView = z.infer<typeof workspaceView>
export type ApiKeyView = z.infer<typeof apiKeyView>
export type CreatedApiKeyView = z.infer<typeof createdApiKeyView>

export function toMeView(principal: Principal, invitationBy: string | null): MeView {
  return {
    user_id: encodeId('user', principal.userId),
    org_id: encodeId('org', principal.orgId),
    org: principal.orgSlug,
    external_id: principal.externalId,
    email: principal.email,
    role: principal.role,
    org_roles: [...principal.orgRoles],
    credential: principal.credential,
    key_id: orNull(principal.keyId, (key) => encodeId('api_key', key)),
    workspace_id: orNull(principal.workspaceId, (workspace) => encodeId('workspace', workspace)),
    agent: principal.agent?.name ?? null,
    tools: principal.agent ? [...principal.agent.tools] : null,
    invitation_by: orNull(invitationBy, (user) => encodeId('user', user)),
  }
}

export function toWorkspaceView(workspace: StoredWorkspace): WorkspaceView {
  return {
    workspace_id: encodeId('workspace', workspace.id),
    slug: workspace.slug,
    name: workspace.name,
    owner_user_id: orNull(workspace.owner_user_id, (user) => encodeId('user', user)),
    access_role: workspace.access_role,
    created_at: formatInstant(workspace.created_at),
  }
}

export function toApiKeyView(key: StoredApiKey): ApiKeyView {
  return {
    key_id: encodeId('api_key', key.id),
    name: key.name,
    prefix: key.prefix,
    role: key.role,
    kind: key.agent === null ? 'person' : 'agent',
    agent: key.agent,
    tools: key.tools && [...key.tools],
    user_id: encodeId('user', key.user_id),
    workspace_id: orNull(key.workspace_id, (workspace) => encodeId('workspace', workspace)),
    created_at: formatInstant(key.created_at),
    expires_at: orNull(key.expires_at, formatInstant),
    revoked_at: orNull(key.revoked_at, formatInstant),
    last_used_at: orNull(key.last_used_at, formatInstant),
  }
}

/** The API shapes of people, org roles and invitations. */
export const personView = z
  .object({
    user_id: idView('user'),
    external_id: z
      .string()
      .meta({ example: 'local:ada', description: 'Subject at the identity provider, or `local:` and a name.' }),
    email: z.string().nullable().meta({ example: 'ada@example.com' }),
    role: platformRole,
    org_roles: z.array(z.string()).meta({ example: ['finance'] }),
    created_at: timeView('When they were created.'),
    deactivated_at: timeView('When they were deactivated.').nullable(),
  })
  .meta({ id: 'Person', description: 'A person of your organisation.' })

export const personNameView = z
  .object({ user_id: idView('user'), name: textView('local:dora') })
  .meta({ id: 'PersonName', description: 'The name of a person.' })

export const invitedPersonView = personView
  .extend({
    invitation: z.string().nullable().meta({
      example: 'ck_9f3b2c4d57a8_EXAMPLE-EXAMPLE-EXAMPLE-EXAMPLE-EXAMPLE-00',
      description:
        'Give it to the person, who exchanges it once for a key. It is shown now and never again; null for those who sign in at the identity provider.',
    }),
    invitation_expires_at: timeView('When the invitation ends.').nullable(),
    awaits_yes: z.boolean().meta({
      description:
        'The person has or had keys, so the invitation works only after the person or another administrator agrees: POST /people/{user_id}/invite/confirm.',
    }),
  })
  .meta({ id: 'InvitedPerson', description: 'A person with the invitation that was made for them.' })

const emailField = parsedField(parseEmail).meta({
  type: 'string',
  pattern: emailForm.source,
  example: 'ada@example.com',
})

export const invitePersonBody = z
  .strictObject({
    external_id: nameField('local:ada', 255).meta({
      description: '`local:` and a name for those who sign in with keys; else the subject at the identity provider.',
    }),
    email: emailField.optional(),
    role: platformRole,
  })
  .meta({ id: 'InvitePerson', description: 'A new person.' })

export const setRoleBody = z.strictObject({ role: platformRole }).meta({ id: 'SetPlatformRole' })
export const deactivateBody = z
  .strictObject({ reason: textField(500).optional().meta({ example: 'Left the company.' }) })
  .meta({ id: 'DeactivatePerson' })
export const giveOrgRoleBody = z.strictObject({ org_role: slugField('finance') }).meta({ id: 'GiveOrgRole' })
export const addMemberBody = z.strictObject({ user_id: idField('user') }).meta({ id: 'AddMember' })
export const redeemBody = z
  .strictObject({ invitation: textField(200).meta({ example: 'ck_9f3b2c4d57a8_EXAMPLE' }) })
  .meta({ id: 'RedeemInvitation' })
export const changedView = z
  .object({ changed: z.boolean().meta({ description: 'False when nothing had to change.' }) })
  .meta({ id: 'Changed' })

export const orgRoleView = z
  .object({ slug: z.string().meta({ example: 'finance' }), name: z.string().meta({ example: 'Finance' }) })
  .meta({ id: 'OrgRole', description: 'A circle of people: it decides what they see and which questions they answer.' })
export const createOrgRoleBody = z
  .strictObject({
    slug: slugField('finance'),
    name: nameField('Finance'),
  })
  .meta({ id: 'CreateOrgRole' })

const PERSON_NAME = 'A user id, the subject at the identity provider, or the name behind `local:`.'
export const delegateBody = z
  .strictObject({
    from: textField(255, { charsMin: 1 })
      .optional()
      .meta({ example: 'dora', description: `${PERSON_NAME} Omitted: you.` }),
    to: textField(255, { charsMin: 1 }).meta({ example: 'ben', description: PERSON_NAME }),
    until: instantField('2026-05-15T18:00:00Z').meta({
      description: 'When it ends by itself: in the future, within a year.',
    }),
  })
  .meta({ id: 'Delegate', description: 'Who decides in whose place, until when.' })
export const delegationView = z
  .object({
    delegation_id: idView('delegation'),
    from_user_id: idView('user', 'In whose place.'),
    from: textView('local:dora', 'Their display name.'),
    to_user_id: idView('user', 'Who stands in.'),
    to: textView('local:ben', 'The display name of the stand-in.'),
    until: timeView('When it ends by itself.'),
    made_by: idView('user', 'Who made it.'),
    created_at: timeView('When it was made.'),
    ended_at: timeView('When it was ended before its time; null: it was not.').nullable(),
  })
  .meta({ id: 'Delegation', description: 'A person decides approvals in the place of another until a time.' })
export type DelegationView = z.infer<typeof delegationView>

export function toDelegationView(delegation: StoredDelegation): DelegationView {
  const [maker = delegation.from_user_id] = delegation.made_by
  return {
    delegation_id: encodeId('delegation', delegation.id),
    from_user_id: encodeId('user', delegation.from_user_id),
    from: delegation.from_name,
    to_user_id: encodeId('user', delegation.to_user_id),
    to: delegation.to_name,
    until: formatInstant(delegation.until),
    made_by: encodeId('user', maker),
    created_at: formatInstant(delegation.created_at),
    ended_at: orNull(delegation.ended_at, formatInstant),
  }
}

export type PersonView = z.infer<typeof personView>
export type InvitedPersonView = z.infer<typeof invitedPersonView>

export function toPersonView(person: StoredPerson): PersonView {
  return {
    user_id: encodeId('user', person.id),
    external_id: person.external_id,
    email: person.email,
    role: person.role,
    org_roles: [...person.org_roles],
    created_at: formatInstant(person.created_at),
    deactivated_at: person.deactivated_at && formatInstant(person.deactivated_at),
  }
}

export function toInvitedPersonView({ person, invitation }: Invited): InvitedPersonView {
  return {
    ...toPersonView(person),
    invitation: invitation?.text ?? null,
    invitation_expires_at: invitation && formatInstant(invitation.expiresAt),
    awaits_yes: invitation?.isHeld ?? false,
  }
}

export function toOrgRoleView({ slug: short, name }: StoredOrgRole): z.infer<typeof orgRoleView> {
  return { slug: short, name }
}
