/** Which workspace a request is about, and whether the caller may enter it; unknown and foreign ones are the same answer. */
import { decodeId } from '#kernel/ids'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { Sql } from '#store'
import { isSlug } from '#contract'
import type { StoredWorkspace } from './identity-repository.ts'
import type { Principal } from '#kernel/actor'
import { findEnterableWorkspace } from './sql/find-enterable-workspace.ts'
import { listEnterableWorkspaces } from './sql/list-enterable-workspaces.ts'

export type Workspace = StoredWorkspace

/** Where a request may name its workspace, in the order in which the places count. */
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

/** I6: the first place that names one counts, even if it is wrong; a later one never rescues it. */
export function pickWorkspace(sources: WorkspaceSources, boundTo: string | null): Wanted | undefined {
  if (sources.idHeader !== undefined) return byId(sources.idHeader)
  if (sources.slugHeader !== undefined) return bySlug(sources.slugHeader)
  if (sources.idQuery !== undefined) return byId(sources.idQuery)
  // A key that opens one workspace says as much as a header; the installation's default would only contradict it.
  if (boundTo !== null) return { id: boundTo, slug: null }
  if (sources.fallback === undefined) return undefined
  const wanted = byId(sources.fallback)
  return wanted.id === null ? bySlug(sources.fallback) : wanted
}

export async function resolveWorkspace(
  deps: { readonly db: Sql },
  principal: Principal,
  sources: WorkspaceSources,
): Promise<Decision<Workspace>> {
  const wanted = pickWorkspace(sources, principal.workspaceId)
  if (!wanted) {
    return refuse('workspace_unknown', 'The request names no workspace.', {
      hint: 'Send X-Workspace-ID or X-Workspace; GET /workspaces lists yours.',
    })
  }
  // A malformed name asks the database too, so that it takes as long as a foreign one.
  const [workspace] = await deps.db.run(findEnterableWorkspace, [
    principal.orgId,
    principal.userId,
    principal.workspaceId,
    wanted.id,
    wanted.slug,
  ])
  return workspace ? accept(workspace) : unknown()
}

function unknown(): Refusal {
  return refuse('workspace_unknown', 'There is no such workspace.', { hint: 'GET /workspaces lists yours.' })
}

export type WorkspacePage = { readonly afterSlug: string | null; readonly limit: number }

export function listWorkspaces(
  deps: { readonly db: Sql },
  principal: Principal,
  page: WorkspacePage,
): Promise<readonly Workspace[]> {
  return deps.db.run(listEnterableWorkspaces, [
    principal.orgId,
    principal.userId,
    principal.workspaceId,
    page.afterSlug,
    page.limit,
  ])
}
