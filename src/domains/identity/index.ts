/** The exports of the identity room: the caller, the rights of the caller, and the workspace of a request. */
export { openAuthenticator } from './authenticate.ts'
export type { Callers } from './caller-memory.ts'
export {
  createUser,
  deactivatePerson,
  listNames,
  listOrgRoles,
  listPeople,
  type Names,
  setPlatformRole,
} from './person.ts'
export { bootstrapAdmin } from './bootstrap-admin.ts'
export { appendOrgEvent } from './events.ts'
export {
  addMemberBody,
  type ApiKeyView,
  apiKeyView,
  changedView,
  createApiKeyBody,
  type CreatedApiKeyView,
  createdApiKeyView,
  createOrgRoleBody,
  createWorkspaceBody,
  deactivateBody,
  delegateBody,
  type DelegationView,
  delegationView,
  giveOrgRoleBody,
  type InvitedPersonView,
  invitedPersonView,
  invitePersonBody,
  type MeView,
  meView,
  orgRoleView,
  type PersonView,
  personNameView,
  personView,
  redeemBody,
  setRoleBody,
  toApiKeyView,
  toDelegationView,
  toInvitedPersonView,
  toMeView,
  toOrgRoleView,
  toPersonView,
  toWorkspaceView,
  type WorkspaceView,
  workspaceView,
} from './contract.ts'
export { createApiKey, listApiKeys, revokeApiKey, type StoredApiKey } from './api-key.ts'
export { createOrg } from './identity-repository.ts'
export { addMember, createOrgRole, grantOrgRole, removeMember, revokeOrgRole } from './org-role.ts'
export { createWorkspace, listWorkspaces, resolveWorkspace, type Workspace } from './workspace.ts'
export {
  type ActivePerson,
  findHomeWorkspace,
  findMember,
  findOrigins,
  hasLeft,
  isLiveKey,
  listActive,
  memberColumn,
  memberOf,
  type Origins,
  originsColumn,
  type SubjectRow,
} from './member.ts'
export {
  confirmInvitation,
  findHeldInvitation,
  inviteAgain,
  invitePerson,
  reactivatePerson,
  redeemInvitation,
} from './invitation.ts'
export { authorize, decideUnbound, lowerRole, type PlatformRole, platformRoles } from './principal.ts'
export { delegate, endDelegation, listDelegations } from './delegation.ts'
export type { IdentityDeps } from './deps.ts'
export type { Principal } from '#kernel/actor'
