/** The door of the identity room: who is asking, what they may do, and which workspace they are in. */
export { openAuthenticator } from './authenticate.ts'
export { deactivatePerson, setPlatformRole } from './change-person.ts'
export { bootstrapAdmin } from './bootstrap-admin.ts'
export {
  type ApiKeyView,
  apiKeyView,
  type CreatedApiKeyView,
  createApiKeyBody,
  createdApiKeyView,
  createWorkspaceBody,
  type MeView,
  meView,
  toApiKeyView,
  toMeView,
  toWorkspaceView,
  type WorkspaceView,
  workspaceView,
} from './contract.ts'
export { createApiKey } from './create-api-key.ts'
export { createOrg } from './create-org.ts'
export { createOrgRole } from './create-org-role.ts'
export { createUser } from './create-user.ts'
export { createWorkspace } from './create-workspace.ts'
export { findHomeWorkspace, findMember } from './find-member.ts'
export { addMember, giveOrgRole, removeMember, takeOrgRole } from './give-org-role.ts'
export { grantOrgRole } from './grant-org-role.ts'
export type { StoredApiKey } from './api-key-repository.ts'
export { inviteAgain, invitePerson, reactivatePerson } from './invite-person.ts'
export { listApiKeys } from './list-api-keys.ts'
export { listNames, type Names } from './list-names.ts'
export { listOrgRoles, listPeople } from './list-people.ts'
export { authorize, type PlatformRole, platformRoles } from './platform-role.ts'
export type { Principal } from '#kernel/actor'
export { actorOf, decideUnbound } from './principal.ts'
export { redeemInvitation } from './redeem-invitation.ts'
export { listWorkspaces, resolveWorkspace, type Workspace } from './resolve-workspace.ts'
export { revokeApiKey } from './revoke-api-key.ts'
export { type ActivePerson, listActive } from './list-active.ts'
export { byPrincipal, bySystem, type IdentityDeps } from './deps.ts'
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
