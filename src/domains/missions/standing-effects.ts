/** Effects of an attempt that stand: to run it again would repeat them. */
import { type Catalog, listStanding } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { type Sql, statement } from '#store'
import type { StoredTask } from './mission.ts'

/** $1 commands. With the commands that they started: those of the runs of agents, those that an effect waits for, and every attempt of missions. */
const listStarted = statement<{ readonly attempt_id: string; readonly command_id: string }>(
  'missions.list_started_commands',
  `with recursive made (attempt_id, command_id) as (
  select a, a from unnest($1::uuid[]) as a
  union
  select m.attempt_id, n.command_id from made as m cross join lateral (
    select c.command_id from concord.agent_runs as r join concord.commands as c on c.agent_run_id = r.agent_run_id where r.command_id = m.command_id
    union all
    select (e.read_back->>'command_id')::uuid from concord.domain_effects as e where e.command_id = m.command_id and e.read_back ? 'command_id'
    union all
    select c.command_id from missions.orchestration_runs as r join missions.orchestration_tasks as t on t.run_id = r.id
      cross join lateral generate_series(1, t.attempt_number + 1) as a
      join concord.commands as c on c.workspace_id = t.workspace_id and c.idempotency_key = 'mission:' || t.id || ':' || a
    where r.command_id = m.command_id) as n)
select m.attempt_id, m.command_id from made as m`,
)

/** The command of the attempt that a task has now. */
export const attemptsOf = ({ command_id }: Pick<StoredTask, 'command_id'>) => (command_id === null ? [] : [command_id])

export type AttemptEffect = {
  /** The command of the attempt. */
  readonly attemptId: string
  /** The attempt did it itself, and not a command that it started. */
  readonly isOwn: boolean
  readonly effect_id: string
  readonly effect_type: string
}

/** Only what acts outside of Concord counts: an artifact of a refused attempt does no harm. An effect that the catalog does not know counts. */
export async function listStandingEffects(
  sql: Sql,
  { effects }: Pick<Catalog, 'effects'>,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<readonly AttemptEffect[]> {
  if (commandIds.length === 0) return []
  const started = await sql.run(listStarted, [commandIds])
  const attemptOf = new Map(started.map(({ attempt_id, command_id }) => [command_id, attempt_id]))
  const standing = await listStanding(sql, workspaceId, [...attemptOf.keys()])
  return standing
    .filter(({ effect_type }) => effects.get(effect_type)?.definition.outward ?? true)
    .map(({ command_id, domain_effect_id, effect_type }) => ({
      attemptId: attemptOf.get(command_id) ?? command_id,
      isOwn: attemptOf.get(command_id) === command_id,
      effect_id: encodeId('effect', domain_effect_id),
      effect_type,
    }))
}

/**
 * By the command of an attempt: what another run of it would repeat. Another run keeps what the command did itself, and starts agents and missions anew, which
 * do everything again.
 */
export async function listRepeated(
  sql: Sql,
  catalog: Pick<Catalog, 'effects'>,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const below = (await listStandingEffects(sql, catalog, workspaceId, commandIds)).filter(({ isOwn }) => !isOwn)
  const byAttempt = Map.groupBy(below, ({ attemptId }) => attemptId)
  return new Map([...byAttempt].map(([id, all]) => [id, [...new Set(all.map(({ effect_type }) => effect_type))]]))
}
