/** Identity: the caller, workspaces, API keys, people, org roles, invitations, members, and the audit of the organisation. */
import { z } from '@hono/zod-openapi'
import { idField, idListField, pageView, slugField, textField } from '#contract'
import { countArchiveFiles, findTools, listAudit, toEventView } from '#domains/commands'
import {
  addMember,
  addMemberBody,
  apiKeyView,
  authorize,
  changedView,
  confirmInvitation,
  createApiKey,
  createApiKeyBody,
  createdApiKeyView,
  createOrgRole,
  createOrgRoleBody,
  createWorkspace,
  createWorkspaceBody,
  deactivateBody,
  deactivatePerson,
  decideUnbound,
  delegate,
  delegateBody,
  delegationView,
  endDelegation,
  findHeldInvitation,
  giveOrgRoleBody,
  grantOrgRole,
  inviteAgain,
  invitedPersonView,
  invitePerson,
  invitePersonBody,
  listApiKeys,
  listDelegations,
  listNames,
  listOrgRoles,
  listPeople,
  listWorkspaces,
  meView,
  orgRoleView,
  personNameView,
  personView,
  reactivatePerson,
  redeemBody,
  redeemInvitation,
  removeMember,
  revokeApiKey,
  revokeOrgRole,
  setPlatformRole,
  setRoleBody,
  toApiKeyView,
  toDelegationView,
  toInvitedPersonView,
  toMeView,
  toOrgRoleView,
  toPersonView,
  toWorkspaceView,
  workspaceView,
} from '#domains/identity'
import { type Agent, byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { cutPage } from '#store'
import type { ApiDeps } from './api-deps.ts'
import { auditPageOf, auditPosition, beforePosition } from './audit-routes.ts'
import type { BadBearers } from './caller.ts'
import { bodyProblems } from './problem.ts'
import { resource, routes, shown } from './resource.ts'

type Api = Pick<ApiDeps, 'db' | 'now' | 'newId' | 'randomBytes' | 'work'> & { readonly badBearers: BadBearers }

const { list, get, post, delete: remove } = resource<Api>('identity', 'org')

/** As many as a page of most lists names. */
const NAMES_MAX = 100

const user = { user_id: idField('user') }
const workspace = { workspace: idField('workspace') }
const nothing = z.strictObject({}).meta({ id: 'Nothing', description: 'An empty object.' })
const showCreated = ({
  stored,
  key,
}: {
  readonly stored: Parameters<typeof toApiKeyView>[0]
  readonly key: string
}) => ({
  ...toApiKeyView(stored),
  key,
})

/** An API without commands counts nobody as independent who is not. */
const settledBy = (deps: Api) => ({ ...deps, invited: deps.work?.approvals.types.invited ?? 'none' })

/** An API without commands has no tools. */
const NO_TASKS = { tasks: new Map() }

/** The tools are stored by the names of their tasks, so that a key keeps its meaning when another task gets the same slug. */
function agentOf({ work }: Api, { agent, tools }: z.output<typeof createApiKeyBody>): Decision<Agent | undefined> {
  if (agent === undefined && tools === undefined) return accept(undefined)
  if (agent === undefined || tools === undefined) {
    const path = agent === undefined ? 'agent' : 'tools'
    return refuse('api.field.missing', 'The key of an agent needs the name of the agent and its tools.', { path })
  }
  const named = findTools(work?.commands.catalog ?? NO_TASKS, tools)
  return named.ok ? accept({ name: agent, tools: named.value }) : named
}

export const identityRoutes = routes({
  describeMe: get('/me', {
    summary: 'Get the caller and its rights',
    role: 'reader',
    agents: true,
    answers: { 200: ['The caller.', meView] },
    async handle({ deps, principal }) {
      const held = principal.agent ? undefined : await findHeldInvitation(deps.db, principal.orgId, principal.userId)
      return accept(toMeView(principal, held?.made_by ?? null))
    },
  }),
  listWorkspaces: list('/workspaces', {
    summary: 'List the workspaces that you can access, by short name',
    role: 'reader',
    page: [pageView(workspaceView, 'WorkspacePage'), 'A page of workspaces.'],
    scope: ({ principal }) => [principal.orgId, principal.userId],
    async read({ deps, principal }, from, limit) {
      const rows = await listWorkspaces(deps, principal, { afterSlug: from?.[0] ?? null, limit: limit + 1 })
      return accept(cutPage(rows, limit, toWorkspaceView, ({ slug }) => slug))
    },
  }),
  createWorkspace: post('/workspaces', {
    summary: 'Create a workspace that you own',
    role: 'admin',
    allow: ({ principal }) => decideUnbound(principal),
    body: [createWorkspaceBody, 'The workspace'],
    answers: { 201: ['The new workspace.', workspaceView] },
    problems: [404, 409],
    handle({ deps, principal, traceId, body: { slug, name, access_role: accessRole } }) {
      const input = { orgId: principal.orgId, ownerUserId: principal.userId, slug, name, accessRole }
      return shown(createWorkspace(deps, byPerson(principal, traceId), input), toWorkspaceView)
    },
  }),
  listApiKeys: list('/keys', {
    summary: 'List your API keys, newest first, without their secrets; administrators see those of the organisation',
    role: 'reader',
    page: [pageView(apiKeyView, 'ApiKeyPage'), 'A page of keys.'],
    scope: ({ principal }) => [
      principal.orgId,
      principal.workspaceId,
      principal.role === 'admin' ? null : principal.userId,
    ],
    async read({ deps, principal }, from, limit) {
      const rows = await listApiKeys(deps, principal, { beforeId: from?.[0] ?? null, limit: limit + 1 })
      return accept(cutPage(rows, limit, toApiKeyView, ({ id }) => id))
    },
  }),
  createApiKey: post('/keys', {
    summary: 'Create an API key; the answer shows it once',
    description: 'Everybody may create keys for their agents; other keys need the role admin.',
    role: 'writer',
    body: [createApiKeyBody, 'The key'],
    answers: { 201: ['The key with its secret.', createdApiKeyView] },
    problems: [404],
    handle({ deps, principal, traceId, body }) {
      const { name, role, workspace_id: workspaceId, expires_at: expiresAt } = body
      const agent = agentOf(deps, body)
      if (!agent.ok) return agent
      const allowed = authorize(principal, agent.value ? 'writer' : 'admin')
      if (!allowed.ok) return allowed
      const input = { name, role, workspaceId, expiresAt, agent: agent.value }
      return shown(createApiKey(deps, byPerson(principal, traceId), input), showCreated)
    },
  }),
  revokeApiKey: remove('/keys/{key_id}', {
    summary: 'Revoke an API key immediately: your own, or as an administrator any of the organisation',
    role: 'reader',
    params: { key_id: idField('api_key') },
    answers: { 200: ['The revoked key.', apiKeyView] },
    problems: [404, ...bodyProblems],
    handle: ({ deps, principal, traceId, params }) =>
      shown(revokeApiKey(deps, byPerson(principal, traceId), params.key_id), toApiKeyView),
  }),
  listPeople: list('/people', {
    summary: 'List the people of your organisation, newest first',
    role: 'admin',
    allow: ({ principal }) => decideUnbound(principal),
    page: [pageView(personView, 'PersonPage'), 'A page of people.'],
    scope: ({ principal }) => [principal.orgId],
    async read({ deps, principal }, from, limit) {
      const rows = await listPeople(deps, principal.orgId, { beforeId: from?.[0] ?? null, limit: limit + 1 })
      return accept(cutPage(rows, limit, toPersonView, ({ id }) => id))
    },
  }),
  listNames: get('/people/names', {
    summary: 'Get the names of people by their ids; ids of other organisations are left out',
    role: 'reader',
    query: {
      user_id: idListField('user', NAMES_MAX).meta({ description: `Up to ${NAMES_MAX} ids with commas between them.` }),
    },
    answers: { 200: ['The names.', z.object({ items: z.array(personNameView) }).meta({ id: 'PersonNameList' })] },
    async handle({ deps, principal, query }) {
      const names = await listNames(deps.db, principal.orgId, query.user_id)
      return accept({ items: [...names].map(([id, name]) => ({ user_id: encodeId('user', id), name })) })
    },
  }),
  invitePerson: post('/people', {
    summary: 'Invite a person; the answer shows the invitation once',
    role: 'admin',
    body: [invitePersonBody, 'The person'],
    answers: { 201: ['The new person.', invitedPersonView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, body: { external_id: externalId, email, role } }) =>
      shown(invitePerson(deps, byPerson(principal, traceId), { externalId, email, role }), toInvitedPersonView),
  }),
  setPlatformRole: post('/people/{user_id}/role', {
    summary: 'Change the role of a person',
    role: 'admin',
    params: user,
    body: [setRoleBody, 'Change the role of a person'],
    answers: { 200: ['The changed person.', personView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, params: { user_id: userId }, body: { role } }) =>
      shown(setPlatformRole(deps, byPerson(principal, traceId), { userId, role }), toPersonView),
  }),
  giveOrgRole: post('/people/{user_id}/org-roles', {
    summary: 'Grant an org role to a person',
    role: 'admin',
    params: user,
    body: [giveOrgRoleBody, 'Grant an org role to a person'],
    answers: { 200: ['Whether the person did not have it before.', changedView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, params: { user_id: userId }, body: { org_role: role } }) =>
      grantOrgRole(deps, byPerson(principal, traceId), { orgId: principal.orgId, userId, role }),
  }),
  takeOrgRole: remove('/people/{user_id}/org-roles/{org_role}', {
    summary: 'Revoke an org role from a person',
    role: 'admin',
    params: { ...user, org_role: slugField('finance') },
    answers: { 200: ['Whether the person had it.', changedView] },
    problems: [404, ...bodyProblems],
    handle: ({ deps, principal, traceId, params: { user_id: userId, org_role: role } }) =>
      revokeOrgRole(deps, byPerson(principal, traceId), { orgId: principal.orgId, userId, role }),
  }),
  deactivatePerson: post('/people/{user_id}/deactivate', {
    summary: 'Deactivate a person and revoke all their credentials',
    role: 'admin',
    params: user,
    body: [deactivateBody, 'Deactivate a person and revoke all their credentials'],
    answers: { 200: ['The changed person.', personView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, params: { user_id: userId }, body: { reason } }) =>
      shown(deactivatePerson(deps, byPerson(principal, traceId), { userId, reason }), toPersonView),
  }),
  reactivatePerson: post('/people/{user_id}/reactivate', {
    summary: 'Reactivate a person with a new invitation',
    role: 'admin',
    params: user,
    body: [nothing, 'Reactivate a person with a new invitation'],
    answers: { 200: ['The changed person.', invitedPersonView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, params }) =>
      shown(reactivatePerson(settledBy(deps), byPerson(principal, traceId), params.user_id), toInvitedPersonView),
  }),
  inviteAgain: post('/people/{user_id}/invite', {
    summary: 'Issue a new invitation for a person, which takes the place of all their keys',
    role: 'admin',
    params: user,
    body: [nothing, 'Issue a new invitation for a person'],
    answers: { 200: ['The changed person.', invitedPersonView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, params }) =>
      shown(inviteAgain(settledBy(deps), byPerson(principal, traceId), params.user_id), toInvitedPersonView),
  }),
  confirmInvitation: post('/people/{user_id}/invite/confirm', {
    summary:
      'Agree to a new invitation for yourself, or for a person as a second administrator; it revokes all their keys',
    role: 'reader',
    params: user,
    body: [nothing, 'Agree to a new invitation'],
    answers: { 200: ['Whether an invitation was waiting.', changedView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, params }) =>
      confirmInvitation(settledBy(deps), byPerson(principal, traceId), params.user_id),
  }),
  listDelegations: list('/delegations', {
    summary: 'List the delegations that concern you, newest first; administrators see those of the organisation',
    role: 'reader',
    page: [pageView(delegationView, 'DelegationPage'), 'A page of delegations.'],
    scope: ({ principal }) => [principal.orgId, principal.userId, principal.role],
    async read({ deps, principal, traceId }, from, limit) {
      const page = { beforeId: from?.[0] ?? null, limit: limit + 1 }
      const rows = await listDelegations(deps, byPerson(principal, traceId), page)
      return accept(cutPage(rows, limit, toDelegationView, ({ id }) => id))
    },
  }),
  delegate: post('/delegations', {
    summary:
      'Let another person decide approvals in your place until a time, or as an administrator in the place of others',
    role: 'writer',
    body: [delegateBody, 'The delegation'],
    answers: { 201: ['The new delegation.', delegationView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, body }) =>
      shown(delegate(deps, byPerson(principal, traceId), body), toDelegationView),
  }),
  endDelegation: remove('/delegations/{delegation_id}', {
    summary: 'End a delegation from you or to you, or as an administrator any of the organisation',
    role: 'reader',
    params: { delegation_id: idField('delegation') },
    answers: { 200: ['The ended delegation.', delegationView] },
    problems: [404, ...bodyProblems],
    handle: ({ deps, principal, traceId, params }) =>
      shown(endDelegation(deps, byPerson(principal, traceId), params.delegation_id), toDelegationView),
  }),
  listOrgRoles: list('/org-roles', {
    summary: 'List the org roles of your organisation, by short name',
    role: 'reader',
    page: [pageView(orgRoleView, 'OrgRolePage'), 'A page of roles.'],
    scope: ({ principal }) => [principal.orgId],
    async read({ deps, principal }, from, limit) {
      const rows = await listOrgRoles(deps, principal.orgId, { afterSlug: from?.[0] ?? null, limit: limit + 1 })
      return accept(cutPage(rows, limit, toOrgRoleView, ({ slug }) => slug))
    },
  }),
  createOrgRole: post('/org-roles', {
    summary: 'Create an org role',
    role: 'admin',
    allow: ({ principal }) => decideUnbound(principal),
    body: [createOrgRoleBody, 'The role'],
    answers: { 201: ['The new role.', orgRoleView] },
    problems: [404, 409],
    handle({ deps, principal, traceId, body }) {
      const input = { orgId: principal.orgId, ...body }
      return shown(createOrgRole(deps, byPerson(principal, traceId), input), toOrgRoleView)
    },
  }),
  redeemInvitation: post('/invitations/redeem', {
    summary: 'Redeem an invitation, once, for your first key',
    role: null,
    body: [redeemBody, 'The invitation'],
    answers: { 201: ['Your key.', createdApiKeyView] },
    async handle({ deps, c, traceId, body: { invitation } }) {
      const tooMany = deps.badBearers.decide(c, invitation)
      if (tooMany) return tooMany
      const redeemed = await redeemInvitation(deps, traceId, invitation)
      if (!redeemed.ok) deps.badBearers.note(c, invitation, false)
      return shown(redeemed, showCreated)
    },
  }),
  addMember: post('/workspaces/{workspace}/members', {
    summary: 'Add a member to a workspace by granting its access role',
    role: 'admin',
    params: workspace,
    body: [addMemberBody, 'The person'],
    answers: { 200: ['Whether the person was not a member before.', changedView] },
    problems: [404, 409],
    handle: ({ deps, principal, traceId, params: { workspace: workspaceId }, body: { user_id: userId } }) =>
      addMember(deps, byPerson(principal, traceId), { workspaceId, userId }),
  }),
  removeMember: remove('/workspaces/{workspace}/members/{user_id}', {
    summary: 'Remove a member from a workspace by revoking its access role',
    role: 'admin',
    params: { ...workspace, ...user },
    answers: { 200: ['Whether the person was a member.', changedView] },
    problems: [404, 409, ...bodyProblems],
    handle: ({ deps, principal, traceId, params: { workspace: workspaceId, user_id: userId } }) =>
      removeMember(deps, byPerson(principal, traceId), { workspaceId, userId }),
  }),
  listOrgAudit: resource<Api>('audit', 'org').list('/org/audit', {
    summary: 'List changes to people, roles and unbound keys of your organisation, newest first',
    role: 'admin',
    allow: ({ principal }) => decideUnbound(principal),
    query: { event_type: textField(100).optional().meta({ example: 'api_key_created' }) },
    page: [auditPageOf('OrgAuditPage'), 'A page of the audit.'],
    scope: ({ principal, query }) => [principal.orgId, query.event_type ?? null],
    async read({ deps: { db }, principal, query: { event_type: eventType } }, from, limit) {
      // Events of the organisation are stored under its own id, which no workspace has.
      const rows = await listAudit(db, principal.orgId, { eventType, before: beforePosition(from), limit })
      const page = cutPage(rows, limit, toEventView, auditPosition)
      return accept({ ...page, archived_files: await countArchiveFiles(db, principal.orgId) })
    },
  }),
})
