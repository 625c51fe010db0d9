/** The people of an organisation and their circles: who is in, what they may do, and how they leave. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView, parsedField, parseSlug } from '#contract'
import {
  changedView,
  createOrgRole,
  createOrgRoleBody,
  byPrincipal,
  createdApiKeyView,
  deactivateBody,
  deactivatePerson,
  decideUnbound,
  giveOrgRole,
  giveOrgRoleBody,
  inviteAgain,
  invitedPersonView,
  invitePerson,
  invitePersonBody,
  listOrgRoles,
  listPeople,
  orgRoleView,
  personView,
  reactivatePerson,
  redeemBody,
  redeemInvitation,
  setPlatformRole,
  setRoleBody,
  takeOrgRole,
  toApiKeyView,
  toInvitedPersonView,
  toOrgRoleView,
  toPersonView,
} from '#domains/identity'
import type { ApiDeps } from './api-deps.ts'
import type { BadBearers } from './bad-bearers.ts'
import { openPageCursors } from './page-cursor.ts'
import { readPage } from './read-page.ts'
import { principalOf } from './request-context.ts'
import { needs, needsNothing } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, newRouter, problems, queryOf, refused } from './route-kit.ts'

const administers = headOf('identity', needs('admin', 'org'))
const reads = headOf('identity', needs('reader', 'org'))
const open = headOf('identity', needsNothing())

const params = z.object({ user_id: idField('user') })

const getPeople = createRoute({
  ...administers('get', '/people', 'listPeople', 'The people of your organisation, newest first'),
  request: { query: queryOf(pageFields) },
  responses: { 200: jsonAnswer(pageView(personView, 'PersonPage'), 'A page of people.'), ...problems(400, 422) },
})

const postPerson = createRoute({
  ...administers('post', '/people', 'invitePerson', 'Bring somebody in; the answer shows their invitation once'),
  request: { query: queryOf({}), body: jsonBody(invitePersonBody, 'The person') },
  responses: { 201: jsonAnswer(invitedPersonView, 'The new person.'), ...problems(404, 409, ...bodyProblems) },
})

/** What is done to one person by somebody else. */
const change = <V extends string, B extends z.ZodType, A extends z.ZodType>(
  verb: V,
  operationId: string,
  summary: string,
  body: B,
  answer: A,
) =>
  createRoute({
    ...administers('post', `/people/{user_id}/${verb}`, operationId, summary),
    request: { query: queryOf({}), params, body: jsonBody(body, summary) },
    responses: { 200: jsonAnswer(answer, 'The person after it.'), ...problems(404, 409, ...bodyProblems) },
  })

const nothing = z.strictObject({}).meta({ id: 'Nothing', description: 'An empty object.' })
const postRole = change('role', 'setPlatformRole', 'Change what somebody may do', setRoleBody, personView)
const postOrgRole = change('org-roles', 'giveOrgRole', 'Give somebody an org role', giveOrgRoleBody, changedView)
const postDeactivate = change(
  'deactivate',
  'deactivatePerson',
  'End all credentials of somebody who leaves',
  deactivateBody,
  personView,
)
const postReactivate = change(
  'reactivate',
  'reactivatePerson',
  'Let somebody come back, with a new invitation',
  nothing,
  invitedPersonView,
)
const postInvite = change(
  'invite',
  'inviteAgain',
  'A new invitation for somebody; every key they have ends',
  nothing,
  invitedPersonView,
)

const deleteOrgRole = createRoute({
  ...administers('delete', '/people/{user_id}/org-roles/{org_role}', 'takeOrgRole', 'Take an org role from somebody'),
  request: {
    query: queryOf({}),
    params: params.extend({ org_role: parsedField(parseSlug).meta({ type: 'string', example: 'finance' }) }),
  },
  responses: { 200: jsonAnswer(changedView, 'Whether they had it.'), ...problems(404, ...bodyProblems) },
})

const getOrgRoles = createRoute({
  ...reads('get', '/org-roles', 'listOrgRoles', 'The org roles of your organisation, by short name'),
  request: { query: queryOf(pageFields) },
  responses: { 200: jsonAnswer(pageView(orgRoleView, 'OrgRolePage'), 'A page of roles.'), ...problems(400, 422) },
})

const postOrgRoles = createRoute({
  ...administers('post', '/org-roles', 'createOrgRole', 'Create an org role'),
  request: { query: queryOf({}), body: jsonBody(createOrgRoleBody, 'The role') },
  responses: { 201: jsonAnswer(orgRoleView, 'The new role.'), ...problems(404, 409, ...bodyProblems) },
})

const postRedeem = createRoute({
  ...open('post', '/invitations/redeem', 'redeemInvitation', 'Exchange an invitation, once, for your first key'),
  request: { query: queryOf({}), body: jsonBody(redeemBody, 'The invitation') },
  responses: { 201: jsonAnswer(createdApiKeyView, 'Your key.'), ...problems(...bodyProblems) },
})

export function peopleRoutes(deps: ApiDeps, badBearers: BadBearers) {
  const cursors = openPageCursors(deps.cursorKey)
  return newRouter()
    .openapi(getPeople, async (c) => {
      const principal = principalOf(c)
      const unbound = decideUnbound(principal)
      if (!unbound.ok) return refused(c, unbound)
      const page = await readPage(cursors, c.req.valid('query'), {
        scope: ['listPeople', principal.orgId],
        read: (beforeId, limit) => listPeople(deps, principal.orgId, { beforeId, limit }),
        view: toPersonView,
        position: ({ id }) => id,
      })
      return page.ok ? c.json(page.value, 200) : refused(c, page)
    })
    .openapi(postPerson, async (c) => {
      const { external_id, email, role } = c.req.valid('json')
      const invited = await invitePerson(deps, principalOf(c), c.get('ids').traceId, {
        externalId: external_id,
        email,
        role,
      })
      return invited.ok ? c.json(toInvitedPersonView(invited.value), 201) : refused(c, invited)
    })
    .openapi(postRole, async (c) => {
      const asked = { userId: c.req.valid('param').user_id, role: c.req.valid('json').role }
      const changed = await setPlatformRole(deps, principalOf(c), c.get('ids').traceId, asked)
      return changed.ok ? c.json(toPersonView(changed.value), 200) : refused(c, changed)
    })
    .openapi(postOrgRole, async (c) => {
      const grant = { userId: c.req.valid('param').user_id, role: c.req.valid('json').org_role }
      const given = await giveOrgRole(deps, principalOf(c), c.get('ids').traceId, grant)
      return given.ok ? c.json(given.value, 200) : refused(c, given)
    })
    .openapi(deleteOrgRole, async (c) => {
      const { user_id: userId, org_role: role } = c.req.valid('param')
      const taken = await takeOrgRole(deps, principalOf(c), c.get('ids').traceId, { userId, role })
      return taken.ok ? c.json(taken.value, 200) : refused(c, taken)
    })
    .openapi(postDeactivate, async (c) => {
      const asked = { userId: c.req.valid('param').user_id, reason: c.req.valid('json').reason }
      const gone = await deactivatePerson(deps, principalOf(c), c.get('ids').traceId, asked)
      return gone.ok ? c.json(toPersonView(gone.value), 200) : refused(c, gone)
    })
    .openapi(postReactivate, async (c) => {
      const back = await reactivatePerson(deps, principalOf(c), c.get('ids').traceId, c.req.valid('param').user_id)
      return back.ok ? c.json(toInvitedPersonView(back.value), 200) : refused(c, back)
    })
    .openapi(postInvite, async (c) => {
      const invited = await inviteAgain(deps, principalOf(c), c.get('ids').traceId, c.req.valid('param').user_id)
      return invited.ok ? c.json(toInvitedPersonView(invited.value), 200) : refused(c, invited)
    })
    .openapi(getOrgRoles, async (c) => {
      const { orgId } = principalOf(c)
      const page = await readPage(cursors, c.req.valid('query'), {
        scope: ['listOrgRoles', orgId],
        read: (afterSlug, limit) => listOrgRoles(deps, orgId, { afterSlug, limit }),
        view: toOrgRoleView,
        position: ({ slug }) => slug,
      })
      return page.ok ? c.json(page.value, 200) : refused(c, page)
    })
    .openapi(postOrgRoles, async (c) => {
      const principal = principalOf(c)
      const unbound = decideUnbound(principal)
      if (!unbound.ok) return refused(c, unbound)
      const by = byPrincipal(principal, c.get('ids').traceId)
      const made = await createOrgRole(deps, by, { orgId: principal.orgId, ...c.req.valid('json') })
      return made.ok ? c.json(toOrgRoleView(made.value), 201) : refused(c, made)
    })
    .openapi(postRedeem, async (c) => {
      const { invitation } = c.req.valid('json')
      const tooMany = badBearers.decide(c, invitation)
      if (tooMany) return refused(c, tooMany)
      const redeemed = await redeemInvitation(deps, c.get('ids').traceId, invitation)
      if (!redeemed.ok) badBearers.note(c, invitation, false)
      if (!redeemed.ok) return refused(c, redeemed)
      return c.json({ ...toApiKeyView(redeemed.value.stored), key: redeemed.value.key }, 201)
    })
}
