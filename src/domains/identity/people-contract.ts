/** The shapes of people, org roles and invitations as they cross the edge of this room. */
import { z } from 'zod'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { platformRole } from './contract.ts'
import { idField, idView, nameField, slugField, timeView } from '#contract'
import type { StoredOrgRole } from './identity-repository.ts'
import type { Invited } from './invite-person.ts'
import type { StoredPerson } from './people-repository.ts'

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
    deactivated_at: timeView('Since when they may not sign in.').nullable(),
  })
  .meta({ id: 'Person', description: 'Somebody of your organisation.' })

export const invitedPersonView = personView
  .extend({
    invitation: z.string().nullable().meta({
      example: 'ck_9f3b2c4d57a8_EXAMPLE-EXAMPLE-EXAMPLE-EXAMPLE-EXAMPLE-00',
      description:
        'Give it to the person, who exchanges it once for a key. It is shown now and never again; null for those who sign in at the identity provider.',
    }),
    invitation_expires_at: timeView('When the invitation ends.').nullable(),
  })
  .meta({ id: 'InvitedPerson', description: 'A person with the invitation that was made for them.' })

export const invitePersonBody = z
  .strictObject({
    external_id: nameField('local:ada', 255).meta({
      description: '`local:` and a name for those who sign in with keys; else the subject at the identity provider.',
    }),
    email: z.string().max(255).optional().meta({ example: 'ada@example.com' }),
    role: platformRole,
  })
  .meta({ id: 'InvitePerson', description: 'Somebody new.' })

export const setRoleBody = z.strictObject({ role: platformRole }).meta({ id: 'SetPlatformRole' })
export const deactivateBody = z
  .strictObject({ reason: z.string().max(500).optional().meta({ example: 'Left the company.' }) })
  .meta({ id: 'DeactivatePerson' })
export const giveOrgRoleBody = z.strictObject({ org_role: slugField('finance') }).meta({ id: 'GiveOrgRole' })
export const addMemberBody = z.strictObject({ user_id: idField('user') }).meta({ id: 'AddMember' })
export const redeemBody = z
  .strictObject({ invitation: z.string().max(200).meta({ example: 'ck_9f3b2c4d57a8_EXAMPLE' }) })
  .meta({ id: 'RedeemInvitation' })
export const changedView = z
  .object({ changed: z.boolean().meta({ description: 'False when it was so already.' }) })
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
  }
}

export function toOrgRoleView({ slug: short, name }: StoredOrgRole): z.infer<typeof orgRoleView> {
  return { slug: short, name }
}
