/** Fetches what rules must know beside the command itself, before they are asked: evaluation stays pure, the facts are recorded. */
import { KernelFault } from '#kernel/errors'
import { statement } from '#store'
import type { StoredCommand } from './command-table.ts'
import { findConnectorScopes } from './connector-access.ts'
import type { CommandDeps } from './deps.ts'

type FactSource = (
  deps: Pick<CommandDeps, 'db' | 'now' | 'catalog' | 'connectorAccess'>,
  command: StoredCommand,
) => Promise<unknown>
export type FactSources = Readonly<Record<string, FactSource>>

const countRecent = statement<{ readonly count: number }>(
  'commands_count_recent',
  `select count(*)::integer as count from concord.commands
where workspace_id = $1 and requested_by = $2 and command_type = $3 and created_at > $4 and command_id <> $5`,
)

const HOUR_MS = 3_600_000

const builtInFacts: FactSources = {
  commands_last_hour: async ({ db, now }, command) => {
    const since = new Date(now().getTime() - HOUR_MS)
    const [row] = await db.run(countRecent, [
      command.workspace_id,
      command.requested_by,
      command.command_type,
      since,
      command.command_id,
    ])
    return row?.count ?? 0
  },
  connector_scopes: findConnectorScopes,
  /** Where nobody keeps consents, nobody has given one. */
  memory_consent: () => Promise.resolve(false),
}

export async function gatherFacts(
  deps: CommandDeps,
  command: StoredCommand,
  names: readonly string[],
): Promise<Record<string, unknown>> {
  const facts: Record<string, unknown> = {}
  for (const name of names) {
    const source = deps.facts[name] ?? builtInFacts[name]
    // A rule that must know something nobody can tell would otherwise decide on nothing.
    if (!source) throw new KernelFault('commands.fact.unknown', `no source is given for the fact ${name}`)
    facts[name] = await source(deps, command)
  }
  return facts
}
