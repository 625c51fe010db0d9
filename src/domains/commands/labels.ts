/**
 * Labels: what came from an untrusted source is known wherever it goes. The database passes them on (migration `labels`); a command gets those of what it
 * reads here. A label is the source and the way from there: `untrusted:web.fetch>inv_…>cmd_…>agent_…`.
 */
import { type Db, type Sql, statement } from '#store'
import { EffectFailure } from './catalog/effect-definition.ts'
import type { Catalog } from './catalog/open-catalog.ts'
import { isOfAgent, type StoredCommand } from './command-table.ts'
import { draftEffects, taskOf } from './tasks.ts'

const carry = `concord.carry_labels(c.labels, l.labels, concord.shown_id('cmd', c.command_id))`

/** $1 command, $2 workspace, $3 ids of what it reads. */
const labelFrom = (table: string, id: string) =>
  statement<{ readonly is_lost: boolean }>(
    `commands_label_from_${table}`,
    `with l as materialized (
  select jsonb_agg(x.label) as labels from concord.${table} as t cross join jsonb_array_elements_text(t.labels) as x(label)
  where t.workspace_id = $2::uuid and t.${id} = any($3::uuid[])
), labelled as (
  update concord.commands as c set labels = ${carry} from l
  where c.command_id = $1::uuid and c.workspace_id = $2::uuid and l.labels is not null and c.labels <> ${carry}
)
select l.labels is not null and not exists (select from concord.commands as c where c.command_id = $1::uuid) as is_lost from l`,
  )

const labelReads = {
  artifact: labelFrom('artifacts', 'artifact_id'),
  memory: labelFrom('memory_records', 'memory_id'),
  command: labelFrom('commands', 'command_id'),
}

/**
 * Before a handler gets what it reads, its command has the labels of it. A command that is decided before its first commit has no row to label: the effect
 * then fails as one that did nothing, and is called again in a turn.
 */
export async function labelReader(
  { db }: { readonly db: Sql },
  { command_id, workspace_id }: Pick<StoredCommand, 'command_id' | 'workspace_id'>,
  kind: keyof typeof labelReads,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return
  const [row] = await db.run(labelReads[kind], [command_id, workspace_id, ids])
  if (row?.is_lost) throw new EffectFailure('temporary_database_error', 'The command is not on record yet.', 'no')
}

/** What decides about content and stops of an agent, as it is stored. */
export type StandingRow = {
  readonly labels: readonly string[]
  /** The stop that covers the agent. */
  readonly stop_id: string | null
}

/** The function is called only where a stop is in force. */
export const stopColumn = (workspaceId: string, agent: string, runId: string): string =>
  `case when exists (select from concord.stops as s where s.workspace_id = ${workspaceId} and s.lifted_at is null)
    then (select s.stop_id from concord.find_stops(${workspaceId}, ${agent}, ${runId}) as s limit 1) end as stop_id`

/** $1 workspace, $2 requester, $3 agent or null, $4 run or null, $5 time. */
const findStandingRow = statement<StandingRow>(
  'commands_find_agent_standing',
  `select concord.agent_labels($1::uuid, $2::text, $3::text, $4::uuid, $5::timestamptz) as labels,
  ${stopColumn('$1::uuid', '$3::text', '$4::uuid')}`,
)

/** What the rules `not_stopped` and `untrusted_content` read. JSON: it is recorded with the decision. */
export type AgentStanding = StandingRow & {
  /** The effects of the task that act outside. */
  readonly outward: readonly string[]
  /** Those that take a value from the result of an untrusted operation of the same command. */
  readonly mixed: readonly string[]
}

/** Null for a command without an agent. */
export async function findAgentStanding(
  { db, catalog }: { readonly db: Db; readonly catalog: Catalog },
  command: StoredCommand,
): Promise<AgentStanding | null> {
  if (!isOfAgent(command)) return null
  const { workspace_id, requested_by, context, agent_run_id, created_at } = command
  const values = [workspace_id, requested_by, context.agent ?? null, agent_run_id, created_at]
  const [found] = await db.run(findStandingRow, values)
  return standingOf(catalog, command, found ?? { labels: [], stop_id: null })
}

/** Null for a command whose task is gone. */
export function standingOf(
  catalog: Catalog,
  command: StoredCommand,
  { labels, stop_id }: StandingRow,
): AgentStanding | null {
  const task = taskOf(catalog, command)
  if (!task) return null
  const outward = task.type.side_effects.filter((type) => isOutward(catalog, type))
  return { stop_id, labels, outward, mixed: findMixed(catalog, task, command) }
}

/** An effect whose definition is gone counts as one that acts outside. */
function isOutward({ effects }: Pick<Catalog, 'effects'>, effectType: string): boolean {
  return effects.get(effectType)?.definition.outward ?? true
}

function findMixed(
  catalog: Catalog,
  task: NonNullable<ReturnType<typeof taskOf>>,
  command: StoredCommand,
): readonly string[] {
  const drafts = draftEffects(task, command)
  if (!drafts.ok) return []
  const isUntrusted = (step: number) => {
    const { operation } = catalog.effects.get(drafts.value[step]?.effect_type ?? '') ?? {}
    return operation !== undefined && operation.output_trust !== 'trusted'
  }
  return drafts.value
    .filter(
      ({ effect_type, inputs = [] }) => isOutward(catalog, effect_type) && inputs.some(({ step }) => isUntrusted(step)),
    )
    .map(({ effect_type }) => effect_type)
}
