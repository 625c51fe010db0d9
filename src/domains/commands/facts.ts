/**
 * The facts that policy rules read in addition to the command itself. They are loaded before the rules run, so evaluation stays pure, and they are
 * recorded with the decision. `connector_scopes` lists the connectors that the project grants to the requester, for the rule
 * `connector_scope`. A connector without a grant is open to everyone who may act; whether it has a credential does not matter. `inside`
 * lists the declared places that cover a destination of the payload.
 */
import { KernelFault } from '#kernel/errors'
import { guardValue } from '#kernel/json-guard'
import { encodeId, firstIdOf } from '#kernel/ids'
import { statesOf } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/command'
import { didYouMean } from '#kernel/nearest'
import { findPlaces } from '#kernel/policy/destination'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { redactValue } from '#kernel/secrets/redact-value'
import { scoped, statement } from '#store'
import { LATE, withDeadline } from '#turns'
import { findAgentScope } from './actions/run-authority.ts'
import { findAgentStanding } from './labels.ts'
import type { Catalog } from './catalog/open-catalog.ts'
import type { StoredCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'

type FactSource = (
  deps: Pick<CommandDeps, 'db' | 'now' | 'catalog' | 'connectorAccess' | 'inside'>,
  command: StoredCommand,
) => Promise<unknown>
export type FactSources = Readonly<Record<string, FactSource>>

/** All states, because the index of requesters orders by state before id. */
const countRecent = statement<{ readonly count: number }>(
  'commands_count_recent',
  `select count(*)::integer as count from concord.commands
where workspace_id = $1 and requested_by = $2 and command_type = $3 and created_at > $4 and command_id <> $5 and command_id >= $6
  and status = any('{${statesOf(commandMachine).join(',')}}')`,
)

const HOUR_MS = 3_600_000

const builtInFacts: FactSources = {
  agent_scope: findAgentScope,
  agent_standing: findAgentStanding,
  commands_last_hour: async ({ db, now }, { workspace_id, requested_by, command_type, command_id }) => {
    const since = new Date(now().getTime() - HOUR_MS)
    const [row] = await db.run(countRecent, [
      workspace_id,
      requested_by,
      command_type,
      since,
      command_id,
      firstIdOf(since),
    ])
    return row?.count ?? 0
  },
  connector_scopes: findConnectorScopes,
  inside: ({ inside = [] }, { payload }) => Promise.resolve(findPlaces(payload, inside)),
  /** Without a store of consents there is no consent. */
  memory_consent: () => Promise.resolve(false),
  /** Without swarms nothing needs a review. */
  review: () => Promise.resolve(null),
}

/**
 * Facts that count commands, as those of a project may. The command must be committed before they are read, or commands submitted together
 * would not see each other.
 */
export function isCounting({ facts }: Pick<Catalog, 'facts'>, name: string): boolean {
  return name === 'commands_last_hour' || facts.has(name)
}

function ofProject({ facts }: Pick<Catalog, 'facts'>, name: string): FactSource | undefined {
  const fact = facts.get(name)
  return (
    fact &&
    (({ db, now }, { payload, workspace_id: workspaceId, requested_by: requestedBy }) =>
      fact.load({
        input: payload,
        workspaceId,
        requestedBy,
        now: now(),
        // Row security shows the workspace alone, and one statement cannot leave the transaction.
        sql: (text, values = []) => scoped(db, workspaceId).read((tx) => tx.query(text, values, 'single')),
      }))
  )
}

const FACT_MS = 5_000

/** A source of a project may hang or return what is not JSON. A command whose facts cannot be loaded is tried again, and stuck in the end. */
async function settle(name: string, load: Promise<unknown>, { sleep }: Pick<CommandDeps, 'sleep'>): Promise<unknown> {
  const value = await withDeadline({ sleep, ms: FACT_MS }, () => load)
  if (value === LATE) throw new KernelFault('commands.fact.invalid', `the fact ${name} took more than ${FACT_MS} ms`)
  const guarded = guardValue(value instanceof Date ? value.toISOString() : (value ?? null))
  if (!guarded.ok) throw new KernelFault('commands.fact.invalid', `the fact ${name} is not JSON: ${guarded.reason}`)
  return redactValue(guarded.value)
}

export async function gatherFacts(
  deps: CommandDeps,
  command: StoredCommand,
  names: readonly string[],
): Promise<Record<string, unknown>> {
  const facts: Record<string, unknown> = {}
  for (const name of names) {
    const source = deps.facts[name] ?? builtInFacts[name] ?? ofProject(deps.catalog, name)
    // Without this check the rule would decide without its fact.
    if (!source) throw new KernelFault('commands.fact.unknown', `no source is given for the fact ${name}`)
    const loaded = source(deps, command)
    facts[name] = deps.catalog.facts.has(name) ? await settle(name, loaded, deps) : await loaded
  }
  return facts
}

type ConnectorGrant = {
  /** Members of one of these org roles. Omitted: everyone who may act. */
  readonly org_roles?: readonly string[]
  /** Workspaces by id, or by short name, which matches in every organisation. Omitted: all workspaces. */
  readonly workspaces?: readonly string[]
}
/** By the name of the connector. */
export type ConnectorAccess = Readonly<Record<string, ConnectorGrant>>

const CONNECTOR_SCOPE = 'connector_scope'

/** The connectors that the tasks of the catalog name. */
function connectorsIn(catalog: Catalog): readonly string[] {
  return [...new Set([...catalog.tasks.values()].flatMap(({ spec }) => spec.connector_requirements))].toSorted()
}

async function findConnectorScopes(
  { db, catalog, connectorAccess = {} }: Parameters<FactSource>[0],
  { workspace_id, context: { metadata } }: StoredCommand,
): Promise<readonly string[]> {
  const isByWorkspace = Object.values(connectorAccess).some(({ workspaces }) => workspaces !== undefined)
  const [workspace] = isByWorkspace
    ? await db.query<{ slug: string }>('select slug from identity.workspaces where id = $1', [workspace_id])
    : []
  const { role, org_roles: roles } = metadata
  const orgRoles = Array.isArray(roles) ? roles.map(String) : []
  const workspaceNames = [workspace_id, encodeId('workspace', workspace_id), ...(workspace ? [workspace.slug] : [])]
  return connectorsIn(catalog).filter((name) => {
    const { org_roles, workspaces } = connectorAccess[name] ?? {}
    // The schedules that run as Concord itself come from the same project as the grants.
    const isMember = org_roles === undefined || role === 'system' || org_roles.some((slug) => orgRoles.includes(slug))
    return isMember && (workspaces === undefined || workspaces.some((each) => workspaceNames.includes(each)))
  })
}

/** Checks at the start that every grant names a connector of some task, and that every such task asks the rule that reads the grant. */
export function checkConnectorAccess(catalog: Catalog, access: ConnectorAccess): Decision<void> {
  const known = connectorsIn(catalog)
  for (const [name, grant] of Object.entries(access)) {
    const path = `connectorAccess.${name}`
    if (!known.includes(name)) {
      return refuse('commands.connector_access.invalid', `No task uses a connector ${quote(name)}.`, {
        path,
        ...didYouMean(name, known),
      })
    }
    const wrong = Object.entries(grant).find(
      ([field, value]) => !(field === 'org_roles' || field === 'workspaces') || !isListOfNames(value),
    )
    if (wrong) {
      return refuse('commands.connector_access.invalid', `${quote(wrong[0])} of the grant is not a list of names.`, {
        path: `${path}.${wrong[0]}`,
        hint: 'org_roles and workspaces are lists of names. Leave one out to not restrict by it.',
      })
    }
    const unchecked = [...catalog.tasks.values()].find(
      ({ spec, policyNames }) => spec.connector_requirements.includes(name) && !policyNames.includes(CONNECTOR_SCOPE),
    )
    if (unchecked) {
      return refuse(
        'commands.connector_access.invalid',
        `The task ${quote(unchecked.spec.name)} uses the restricted connector ${quote(name)} without the rule ${CONNECTOR_SCOPE}.`,
        { path, hint: `Add '${CONNECTOR_SCOPE}' to its policy_checks (in defineCommand: task.policy_checks).` },
      )
    }
  }
  return accept(undefined)
}

function isListOfNames(value: unknown): boolean {
  return Array.isArray(value) && value.every((name) => typeof name === 'string' && name !== '')
}
