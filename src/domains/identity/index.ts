/** The door of the identity room: who is asking, what they may do, and which workspace they are in. */
export { type RandomBytes, prefixOf } from './api-key.ts'
export { type Authenticator, type AuthenticatorDeps, openAuthenticator } from './authenticate.ts'
export { type DeactivatePerson, deactivatePerson, type SetPlatformRole, setPlatformRole } from './change-person.ts'
export { ADMIN_EXTERNAL_ID, bootstrapAdmin, type Bootstrapped, type KeyPlace } from './bootstrap-admin.ts'
export {
  type ApiKeyView,
  apiKeyView,
  type CreatedApiKeyView,
  createApiKeyBody,
  createdApiKeyView,
  createWorkspaceBody,
  type MeView,
  meView,
  platformRole,
  toApiKeyView,
  toMeView,
  toWorkspaceView,
  type WorkspaceView,
  workspaceView,
} from './contract.ts'
export { type CreateApiKey, type CreatedApiKey, createApiKey } from './create-api-key.ts'
export { type CreateOrg, createOrg } from './create-org.ts'
export { type CreateOrgRole, createOrgRole } from './create-org-role.ts'
export { type CreateUser, createUser } from './create-user.ts'
export { type CreateWorkspace, createWorkspace } from './create-workspace.ts'
export { type IdentityEventType, identityEventTypes } from './events.ts'
export { findHomeWorkspace, findMember, type Member } from './find-member.ts'
export {
  addMember,
  type GiveOrgRole,
  giveOrgRole,
  type Membership,
  removeMember,
  takeOrgRole,
} from './give-org-role.ts'
export { type GrantOutcome, grantOrgRole, type OrgRoleGrant, revokeOrgRole } from './grant-org-role.ts'
export type { StoredApiKey } from './api-key-repository.ts'
export type { StoredOrg, StoredOrgRole, StoredUser, StoredWorkspace } from './identity-repository.ts'
export { type Invited, inviteAgain, type InvitePerson, invitePerson, reactivatePerson } from './invite-person.ts'
export { type ApiKeyPage, listApiKeys } from './list-api-keys.ts'
export { listNames, type Names } from './list-names.ts'
export { listOrgRoles, listPeople, type OrgRolePage } from './list-people.ts'
export type { PeoplePage, StoredPerson } from './people-repository.ts'
export { authorize, canSee, isRoleAtLeast, type PlatformRole, platformRoles } from './platform-role.ts'
export { type Actor, actorOf, decideUnbound, type Principal } from './principal.ts'
export { redeemInvitation } from './redeem-invitation.ts'
export {
  listWorkspaces,
  resolveWorkspace,
  type Workspace,
  type WorkspacePage,
  type WorkspaceSources,
} from './resolve-workspace.ts'
export { revokeApiKey } from './revoke-api-key.ts'
export type { IdentityProvider } from './verify-token.ts'
export { type ActivePerson, listActive, type NamedPersons } from './list-active.ts'
export { type By, byPrincipal, bySystem, type IdentityDeps } from './deps.ts'
export {
  addMemberBody,
  changedView,
  createOrgRoleBody,
  deactivateBody,
  giveOrgRoleBody,
  type InvitedPersonView,
  invitedPersonView,
  invitePersonBody,
  orgRoleView,
  type PersonView,
  personView,
  redeemBody,
  setRoleBody,
  toInvitedPersonView,
  toOrgRoleView,
  toPersonView,
} from './people-contract.ts'
