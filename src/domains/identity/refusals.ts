/** The refusals of identity: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const identityRefusals = {
  unauthenticated: ['unauthenticated', 'Send `Authorization: Bearer <key>` with a key of this server.'],
  workspace_unknown: ['not_found', 'GET /workspaces lists yours.'],
  'identity.role.insufficient': ['forbidden', 'Ask an administrator of your organisation for a key with that role.'],
  'identity.provider.unavailable': ['unavailable', 'Try again in a moment; keys of this server work meanwhile.'],
  'identity.org.slug_taken': ['conflict', 'Choose another short name.'],
  'identity.org.not_found': ['not_found', 'Check the id of the organisation.'],
  'identity.workspace.slug_taken': ['conflict', 'Choose another short name.'],
  'identity.user.external_id_taken': ['conflict', 'Check the identity: it belongs to one organisation only.'],
  'identity.user.not_found': ['not_found', 'GET /people lists the people of your organisation.'],
  'identity.org_role.slug_taken': ['conflict', 'Choose another short name, or use the role that exists.'],
  'identity.org_role.not_found': ['not_found', 'GET /org-roles lists the roles of your organisation.'],
  'identity.key.not_found': ['not_found', 'GET /keys lists your keys.'],
  'identity.key.role_too_high': ['forbidden', 'Ask for a role that is not above your own.'],
  'identity.key.workspace_bound': ['forbidden', 'Use a key that is not bound to a workspace.'],
  'identity.user.self': ['forbidden', 'Ask another administrator.'],
  'identity.user.last_admin': ['conflict', 'Make another person an administrator first.'],
  'identity.user.deactivated': ['conflict', 'Reactivate the person first.'],
  'identity.user.outside': ['conflict', 'Change it at the identity provider where the person signs in.'],
  'identity.delegation.self': ['invalid', 'Name another person to stand in.'],
  'identity.delegation.to_maker': ['forbidden', 'The person or another administrator makes the delegation.'],
  'identity.delegation.not_found': ['not_found', 'List the delegations that concern you.'],
  'identity.invitation.own': ['forbidden', 'The person or another administrator agrees with their own key.'],
  'identity.invitation.not_independent': [
    'forbidden',
    'The person agrees with their own key, or an administrator whom neither of you invited does.',
  ],
  'identity.invitation.invalid': ['unauthenticated', 'Ask an administrator for a new one.'],
  'identity.workspace.open': ['conflict', 'Create a workspace with an access role to choose who may enter.'],
  'identity.workspace.owner': ['conflict', 'An owner needs no role.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    identity: typeof identityRefusals
  }
}
