/**
 * Corrects the commands that were written while the clock was ahead, after it has been set back: their turns, their retries and the deadlines of
 * their questions keep their length, counted from now.
 */
import { AHEAD_MAX_MS, type RepairedTime } from '#kernel/clock'
import { statement } from '#store'
import { capLeases, type TurnDeps } from '#turns'
import { commandTurns } from './command-table.ts'
import { REQUEST_INPUT } from './tasks.ts'

/** A process whose own clock is behind must not correct times that are right: the later clock counts. */
const NOW = 'greatest($1::timestamptz, statement_timestamp())'

/** $1 the time of the process that writes commands. Uses commands_due_ix. */
const repairCommands = statement<{ readonly id: string; readonly ahead_ms: number }>(
  'commands_repair_times',
  `with ahead as materialized (
  select c.command_id, c.updated_at - ${NOW} as lead from concord.commands as c
  where c.completed_at is null and c.updated_at > ${NOW} + make_interval(secs => ${AHEAD_MAX_MS / 1_000})
  for no key update
), repeated as (
  update concord.domain_effects as e set run_after = e.run_after - a.lead from ahead as a
  where e.command_id = a.command_id and e.run_after is not null
), asked as (
  update concord.domain_effects as e set created_at = ${NOW}, effect_payload = jsonb_set(e.effect_payload, '{expires_at}',
    to_jsonb(to_char(((e.effect_payload->>'expires_at')::timestamptz - (e.created_at - ${NOW})) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
  from ahead as a
  where e.command_id = a.command_id and e.effect_type = '${REQUEST_INPUT}' and e.created_at > ${NOW}
)
update concord.commands as c set updated_at = ${NOW}, run_after = c.run_after - a.lead from ahead as a
where c.command_id = a.command_id
returning c.command_id as id, (extract(epoch from a.lead) * 1000)::double precision as ahead_ms`,
)

export async function repairCommandTimes(deps: Pick<TurnDeps, 'db' | 'now'>): Promise<readonly RepairedTime[]> {
  const rows = [...(await capLeases(deps, commandTurns.table)), ...(await deps.db.run(repairCommands, [deps.now()]))]
  return rows.map(({ id, ahead_ms }) => ({ what: 'command', id, aheadMs: ahead_ms }))
}
