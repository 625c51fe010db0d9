/**
 * Whose commands may use which connector: what the project grants, read when policy is asked (`connector_scopes`, for the rule
 * `connector_scope`). A connector that nobody restricted is there for everybody who may act; having its credential says nothing.
 */
import { encodeId } from '#kernel/ids'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Sql } from '#store'
import type { Catalog } from './catalog/open-catalog.ts'
import type { StoredCommand } from './command-table.ts'

type ConnectorGrant = {
  /** Members of one of these org roles; left out: everybody who may act. */
  readonly org_roles?: readonly string[]
  /** Workspaces by id or short name (which counts in every organisation); left out: all. */
  readonly workspaces?: readonly string[]
}
/** By the name of the connector. */
export type ConnectorAccess = Readonly<Record<string, ConnectorGrant>>

const CONNECTOR_SCOPE = 'connector_scope'

type Requester = {
  readonly role: unknown
  readonly orgRoles: readonly string[]
  /** The names under which the workspace may be granted: its id and its short name. */
  readonly workspaceNames: readonly string[]
}

/** Of these connectors, those that the requester's command may use. Pure. */
function decideConnectorScopes(
  names: readonly string[],
  access: ConnectorAccess,
  { role, orgRoles, workspaceNames }: Requester,
): readonly string[] {
  return names.filter((name) => {
    const { org_roles, workspaces } = access[name] ?? {}
    // What the clock asks for in Concord's own name was written by whoever wrote the grants.
    const isMember = org_roles === undefined || role === 'system' || org_roles.some((slug) => orgRoles.includes(slug))
    return isMember && (workspaces === undefined || workspaces.some((each) => workspaceNames.includes(each)))
  })
}

/** The connectors that the tasks of the catalog name. */
function namesIn(catalog: Catalog): readonly string[] {
  return [...new Set([...catalog.tasks.values()].flatMap(({ spec }) => spec.connector_requirements))].toSorted()
}

export async function findConnectorScopes(
  { db, catalog, connectorAccess = {} }: { db: Sql; catalog: Catalog; connectorAccess?: ConnectorAccess | undefined },
  { workspace_id, context: { metadata } }: Pick<StoredCommand, 'workspace_id' | 'context'>,
): Promise<readonly string[]> {
  const isByWorkspace = Object.values(connectorAccess).some(({ workspaces }) => workspaces !== undefined)
  const [workspace] = isByWorkspace
    ? await db.query<{ slug: string }>('select slug from identity.workspaces where id = $1', [workspace_id])
    : []
  const roles = metadata['org_roles']
  return decideConnectorScopes(namesIn(catalog), connectorAccess, {
    role: metadata['role'],
    orgRoles: Array.isArray(roles) ? roles.map(String) : [],
    workspaceNames: [workspace_id, encodeId('workspace', workspace_id), ...(workspace ? [workspace.slug] : [])],
  })
}

/** At the start: every grant is about a connector that some task names, and every such task asks the rule that reads it. */
export function checkConnectorAccess(catalog: Catalog, access: ConnectorAccess): Decision<void> {
  const known = namesIn(catalog)
  for (const [name, grant] of Object.entries(access)) {
    const path = `connectorAccess.${name}`
    if (!known.includes(name)) {
      return refuse('commands.connector_access.invalid', `no task uses a connector ${quote(name)}`, {
        path,
        ...didYouMean(name, known),
      })
    }
    const wrong = Object.entries(grant).find(
      ([field, value]) => !(field === 'org_roles' || field === 'workspaces') || !isListOfNames(value),
    )
    if (wrong) {
      return refuse('commands.connector_access.invalid', `${wrong[0]} of the grant is not a list of names`, {
        path: `${path}.${wrong[0]}`,
        hint: 'org_roles and workspaces are lists of names; leave one out and it restricts nothing',
      })
    }
    const blind = [...catalog.tasks.values()].find(
      ({ spec, policyNames }) => spec.connector_requirements.includes(name) && !policyNames.includes(CONNECTOR_SCOPE),
    )
    if (blind) {
      return refuse(
        'commands.connector_access.invalid',
        `the task ${quote(blind.spec.name)} uses ${quote(name)}, which is not for everybody, and does not ask ${CONNECTOR_SCOPE}`,
        { path, hint: `add '${CONNECTOR_SCOPE}' to its policy_checks` },
      )
    }
  }
  return accept(undefined)
}

function isListOfNames(value: unknown): boolean {
  return Array.isArray(value) && value.every((name) => typeof name === 'string' && name !== '')
}
