/** Workspaces. A workspace that the caller may not enter is reported as not found, like an unknown or closed one. */
import type { Actor, Principal } from '#kernel/actor'
import { isSlug, parseName, parseSlug } from '#contract'
import { decodeId } from '#kernel/ids'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type Paged, pageText, type Sql, statement } from '#store'
import type { IdentityDeps } from './deps.ts'
import { appendWorkspaceEvent } from './events.ts'
import { findOrg, findOrgRole, findUser, insertWorkspace, type StoredWorkspace } from './identity-repository.ts'
import { mayEnter } from './member.ts'
import { refusePerson } from './principal.ts'

export const WORKSPACE = `select w.id, w.org_id, w.slug, w.name, w.owner_user_id, r.slug as access_role, w.created_at
     from identity.workspaces w
     left join identity.org_roles r on r.org_id = w.org_id and r.id = w.access_role_id`

/** $1 org, $2 user, $3 the workspace the key is bound to or null, $4 id or null, $5 slug or null. */
const findEnterableWorkspace = statement<StoredWorkspace>(
  'identity.find_enterable_workspace',
  `${WORKSPACE}
    where w.org_id = $1
      and (w.id = $4::uuid or w.slug = $5)
      and w.archived_at is null
      and ($3::uuid is null or w.id = $3)
      and ${mayEnter('$2')}`,
)

/** $1 org, $2 user, $3 the workspace the key is bound to or null, $4 slug to start after or null, $5 limit. */
const listEnterableWorkspaces = statement<StoredWorkspace & Paged>(
  'identity.list_enterable_workspaces',
  pageText(`${WORKSPACE}
    where w.org_id = $1
      and ($4::text is null or w.slug > $4)
      and w.archived_at is null
      and ($3::uuid is null or w.id = $3)
      and ${mayEnter('$2')}
    order by w.slug
    limit $5`),
)

export type CreateWorkspace = {
  readonly orgId: string
  readonly slug: string
  readonly name: string
  readonly ownerUserId: string | null
  /** The slug of the org role whose members may enter; without one everyone in the organisation may. */
  readonly accessRole?: string | undefined
}

export async function createWorkspace(
  deps: IdentityDeps,
  actor: Actor,
  input: CreateWorkspace,
): Promise<Decision<StoredWorkspace>> {
  const slug = parseSlug(input.slug)
  if (!slug.ok) return { ...slug, path: 'slug' }
  const name = parseName(input.name)
  if (!name.ok) return { ...name, path: 'name' }
  return deps.db.transaction(async (tx) => {
    if (!(await findOrg(tx, input.orgId))) return refuse('identity.org.not_found', 'There is no such organisation.')
    if (input.ownerUserId !== null && !(await findUser(tx, input.orgId, input.ownerUserId))) {
      return refusePerson('owner_user_id')
    }
    const role = input.accessRole === undefined ? undefined : await findOrgRole(tx, input.orgId, input.accessRole)
    if (input.accessRole !== undefined && !role) {
      return refuse('identity.org_role.not_found', 'There is no such role.', { path: 'access_role' })
    }
    const workspace = {
      id: deps.newId(),
      org_id: input.orgId,
      slug: slug.value,
      name: name.value,
      owner_user_id: input.ownerUserId,
      created_at: deps.now(),
    }
    if (!(await insertWorkspace(tx, { ...workspace, access_role_id: role?.id ?? null }))) {
      return refuse('identity.workspace.slug_taken', `The short name ${slug.value} is in use.`, { path: 'slug' })
    }
    const payload = { workspace_id: workspace.id, slug: workspace.slug, access_role: role?.slug ?? null }
    await appendWorkspaceEvent(tx, deps, actor, { type: 'workspace_created', workspaceId: workspace.id, payload })
    return accept({ ...workspace, access_role: role?.slug ?? null })
  })
}

export type Workspace = StoredWorkspace

/** The places where a request may name its workspace, in order of precedence. */
export type WorkspaceSources = {
  /** Header `X-Workspace-ID`. */
  readonly idHeader?: string | undefined
  /** Header `X-Workspace`: the short name. */
  readonly slugHeader?: string | undefined
  /** Query `workspace_id`. */
  readonly idQuery?: string | undefined
  /** The installation's default: an id or a short name. */
  readonly fallback?: string | undefined
}

type Wanted = { readonly id: string | null; readonly slug: string | null }
const NOTHING: Wanted = { id: null, slug: null }

const byId = (text: string): Wanted => {
  const decoded = decodeId('workspace', text)
  return decoded.ok ? { id: decoded.value, slug: null } : NOTHING
}
const bySlug = (text: string): Wanted => (isSlug(text) ? { id: null, slug: text } : NOTHING)

/** I6: the first place that names a workspace counts, even if it is wrong; a later place never replaces it. */
export function pickWorkspace(sources: WorkspaceSources, boundTo: string | null): Wanted | undefined {
  if (sources.idHeader !== undefined) return byId(sources.idHeader)
  if (sources.slugHeader !== undefined) return bySlug(sources.slugHeader)
  if (sources.idQuery !== undefined) return byId(sources.idQuery)
  // A key that is bound to one workspace counts like a header; the default of the installation could only contradict it.
  if (boundTo !== null) return { id: boundTo, slug: null }
  if (sources.fallback === undefined) return undefined
  const wanted = byId(sources.fallback)
  return wanted.id === null ? bySlug(sources.fallback) : wanted
}

export function refuseWorkspace(wanted: Wanted | undefined): Refusal {
  if (wanted)
    return refuse('workspace_unknown', 'There is no such workspace.', { hint: 'GET /workspaces lists yours.' })
  return refuse('workspace_unknown', 'The request names no workspace.', {
    hint: 'Send X-Workspace-ID or X-Workspace; GET /workspaces lists yours.',
  })
}

export async function resolveWorkspace(
  deps: { readonly db: Sql },
  principal: Principal,
  sources: WorkspaceSources,
): Promise<Decision<Workspace>> {
  const wanted = pickWorkspace(sources, principal.workspaceId)
  if (!wanted) return refuseWorkspace(wanted)
  // A malformed name also queries the database, so that it takes as long as a name in another organisation.
  const [workspace] = await deps.db.run(findEnterableWorkspace, [
    principal.orgId,
    principal.userId,
    principal.workspaceId,
    wanted.id,
    wanted.slug,
  ])
  return workspace ? accept(workspace) : refuseWorkspace(wanted)
}

export type WorkspacePage = { readonly afterSlug: string | null; readonly limit: number }

export function listWorkspaces(
  deps: { readonly db: Sql },
  principal: Principal,
  page: WorkspacePage,
): Promise<readonly (Workspace & Paged)[]> {
  return deps.db.run(listEnterableWorkspaces, [
    principal.orgId,
    principal.userId,
    principal.workspaceId,
    page.afterSlug,
    page.limit,
  ])
}
