/** The commands that are hooks of attempts: the statements that read them. */
import { type Sql, statement } from '#store'
import type { StoredTask } from './mission.ts'

const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'

/** The commands `c` of the hooks of the attempts of a mission. */
export const hooksIn = (
  run: string,
) => `from ${TASKS} as t cross join lateral generate_series(1, t.attempt_number + 1) as n
  join concord.commands as c on c.workspace_id = t.workspace_id
    and c.idempotency_key in ('mission:' || t.id || ':' || n || ':before_run', 'mission:' || t.id || ':' || n || ':after_run')
where t.run_id = ${run}`
/** $1 mission. */
export const hooksOf = `${hooksIn('$1::uuid')} and exists (select from ${RUNS} as r where r.id = $1::uuid and r.config->'hooks' <> '{}')`

export type Hook = {
  readonly command_id: string
  readonly title: string
  readonly attempt: number
  readonly name: string
  readonly status: string
  readonly completed_at: Date | null
  readonly error: string | null
}
const listHookRows = statement<Hook>(
  'missions.list_hooks',
  `select c.command_id, t.title, n as attempt, split_part(c.idempotency_key, ':', 4) as name, c.status, c.completed_at, c.error ${hooksOf}
order by t.sequence_number, n, 4 limit 1000`,
)
export const listHooks = (sql: Sql, runId: string) => sql.run(listHookRows, [runId])

/** $1 mission, $2 limit. Attempts that have ended and whose hook was not asked for. */
const listUnhooked = statement<StoredTask & { readonly attempt: number }>(
  'missions.list_unhooked',
  `select t.*, n as attempt from ${TASKS} as t
  cross join lateral generate_series(1, t.attempt_number - (t.state in ('queued', 'assigned', 'running', 'continuing'))::int) as n
where t.run_id = $1::uuid and t.started_at is not null and t.carried_from_id is null
  and not exists (select from concord.commands as c
    where c.workspace_id = t.workspace_id and c.idempotency_key = 'mission:' || t.id || ':' || n || ':after_run')
order by t.sequence_number, n limit $2`,
)
export const listEndedWithoutHook = (sql: Sql, runId: string, limit: number) => sql.run(listUnhooked, [runId, limit])
