/** The verdict on killed missions: their ends by the model, their rows by the invariants, and the payments of each task by the book of the provider. */
import { findBrokenInvariants } from '#domains/commands'
import { missionInvariants } from '#domains/missions'
import { encodeId } from '#kernel/ids'
import { endsOf, missionEndOf } from '#test/mission-model'
import type { Installation } from './installation.ts'
import { compareBook } from './judge.ts'
import type { KillPlan } from './mission-plans.ts'
import type { Book } from './provider-process.ts'

export type Asked = {
  readonly key: string
  readonly plan: KillPlan
  /** Its place among the missions, which decides its settings. */
  readonly nth: number
  /** People leave it alone. */
  readonly isPeaceful: boolean
  id: string | undefined
  isCancelled: boolean
}

export const openCommands = `select command_id as id from concord.commands where completed_at is null`

type Row = {
  readonly id: string
  readonly goal: string
  readonly forked_from_id: string | null
  readonly state: string
  readonly ends: readonly string[]
  readonly errors: string | null
  readonly retried: number
  readonly carried: number
  readonly worked: number
  readonly reviewed: number
  readonly started: number
  readonly attempts: number | null
  readonly cards: number
  readonly reports: number
  readonly to_report: number
  readonly is_reported: boolean
}

const REPORTABLE = `t.carried_from_id is null and (t.state = 'failed' or t.output_summary is not null)`

const listRows = `select r.id, r.goal, r.forked_from_id, r.state, array_agg(t.state::text order by t.sequence_number) filter (where t.id is not null) as ends,
  string_agg(t.title || ' ' || coalesce(t.spec->'run'->>'task', 'worker') || ' ' || t.attempt_number || ': ' || t.error_message, '; ') as errors,
  (count(*) filter (where t.attempt_number > 1))::int as retried, (count(*) filter (where t.carried_from_id is not null))::int as carried,
  (count(*) filter (where t.spec->'run' ? 'worker' and t.carried_from_id is null and t.state = 'completed'))::int as worked,
  (count(*) filter (where t.review_command_id is not null))::int as reviewed,
  -- An attempt of a worker that was claimed counts before it starts; M04 compares those.
  sum(t.attempt_number) filter (where t.started_at is not null and t.carried_from_id is null and not t.spec->'run' ? 'worker')::int as attempts,
  (select count(*)::int from missions.orchestration_events as e join missions.orchestration_tasks as o on o.id = e.task_id
    where e.run_id = r.id and e.event_type = 'task_started' and not o.spec->'run' ? 'worker') as started,
  (select count(*)::int from missions.board_tasks as b join missions.orchestration_tasks as o on o.board_task_id = b.id
    where o.run_id = r.id and b.status = 'done') as cards,
  (select count(*)::int from missions.agent_reports as e join missions.orchestration_tasks as o on o.id = e.orchestration_task_id where o.run_id = r.id) as reports,
  (count(*) filter (where t.state_type = 'terminal' and ${REPORTABLE}))::int as to_report, r.report_id is not null as is_reported
from missions.orchestration_runs as r left join missions.orchestration_tasks as t on t.run_id = r.id group by r.id`

/** Missions whose account is open, holds a reservation, or has spent something else than their tasks. */
const listUnsettled = `select r.id from missions.orchestration_runs as r join concord.budget_accounts as a on a.account_id = r.account_id
where r.completed_at is not null and (a.closed_at is null or a.reserved_units <> 0 or a.spent_units + a.excess_units <> r.total_cost)`

export async function judgeMissions(installation: Installation, asked: readonly Asked[], began: readonly string[]) {
  const { db } = installation
  const book = await installation.provider.book()
  const rows = await db.query<Row>(listRows)
  const byId = new Map(rows.map((row) => [encodeId('mission', row.id), row]))
  const differing = asked.flatMap(({ key, id, plan, isCancelled }) => {
    const row = byId.get(id ?? '')
    if (isCancelled && row?.state === 'cancelled') return []
    const ends = endsOf(plan)
    const usual = [missionEndOf(plan, ends), ...ends, ends.length].join(' ')
    const seen = row && [row.state, ...(row.ends ?? []), row.cards].join(' ')
    return seen === usual ? [] : [`${key}: ${seen} instead of ${usual}; ${row?.errors}`]
  })
  const twice = rows.filter(({ started, attempts }) => started !== (attempts ?? 0))
  const unreported = rows.filter(({ reports, to_report, is_reported }) => !is_reported || reports !== to_report)
  const broken = await findBrokenInvariants(db, undefined, missionInvariants)
  const unsettled = await db.query<{ id: string }>(listUnsettled)
  const compared = await compareBook(installation, book)
  const ofTasks = await countPayments(installation, book)
  const sum = (pick: (row: Row) => number) => rows.reduce((total, row) => total + pick(row), 0)
  return {
    missions: rows.length,
    tasks: sum(({ ends }) => ends?.length ?? 0),
    payments: Object.keys(book.paid).length,
    cancelled: rows.filter(({ state }) => state === 'cancelled').length,
    forks: rows.filter(({ forked_from_id }) => forked_from_id !== null).length,
    carried: sum(({ carried }) => carried),
    retried: sum(({ retried }) => retried),
    worked: sum(({ worked }) => worked),
    reviewed: sum(({ reviewed }) => reviewed),
    reports: sum(({ reports }) => reports) + rows.filter(({ is_reported }) => is_reported).length,
    refired: ofTasks.refired,
    phantom: compared.phantom,
    lost: [...compared.lost, ...ofTasks.lost],
    doubled: [...compared.doubled, ...ofTasks.doubled, ...listRepeated(began)],
    differing: [
      ...differing,
      ...twice.map(({ goal, started, attempts }) => `${goal}: ${attempts} attempts, started ${started} times`),
      ...unreported.map(({ goal, reports, to_report }) => `${goal}: ${reports} reports of ${to_report} tasks`),
    ],
    restless: (await db.query<{ id: string }>(openCommands)).map(({ id }) => id),
    broken: [
      ...broken.map(({ code, name, count, examples }) => `${code} ${name}: ${count}, ${examples[0] ?? ''}`),
      ...unsettled.map(({ id }) => `the account of ${id}`),
    ],
  }
}

/** An outside worker wrote down what it began: each attempt of a task once. */
const listRepeated = (began: readonly string[]) =>
  began.filter((line, at) => began.indexOf(line) < at).map((line) => `worker began ${line} again`)

type Payment = {
  readonly root: string
  readonly run_id: string
  readonly temp_id: string
  readonly effect_type: string
  readonly key: string
  readonly undo_key: string | null
  readonly is_named: boolean
}

/** The effects of attempts, by the mission that was not forked, in the order of its forks. */
const listPayments = `with recursive family (root, id) as (
  select r.id, r.id from missions.orchestration_runs as r where r.forked_from_id is null
  union all select f.root, r.id from family as f join missions.orchestration_runs as r on r.forked_from_id = f.id)
select f.root, f.id as run_id, t.spec->>'temp_id' as temp_id, e.effect_type, e.idempotency_key as key, u.idempotency_key as undo_key,
  coalesce(m.payload->'fork'->'refire' ? (t.spec->>'temp_id'), false) as is_named
from family as f join missions.orchestration_runs as r on r.id = f.id join concord.commands as m on m.command_id = r.command_id
  join missions.orchestration_tasks as t on t.run_id = r.id and t.carried_from_id is null
  join concord.commands as c on c.workspace_id = t.workspace_id and c.idempotency_key ~ ('^mission:' || t.id || ':[0-9]+$')
  join concord.domain_effects as e on e.command_id = c.command_id and e.effect_type like 'pay.%'
  left join concord.domain_effects as u on u.compensates_effect_id = e.domain_effect_id
order by r.created_at, r.id`

/** Tasks that ended as completed here, and pay. */
const listPayers = `select t.run_id, t.spec->>'temp_id' as temp_id from missions.orchestration_tasks as t
where t.state = 'completed' and t.carried_from_id is null and t.spec->'run'->>'task' like 'Pay%'`

/**
 * A key belongs to an attempt, so it cannot show that another attempt or a fork paid again. A task of a mission and of all its forks pays each of its effects
 * once. A fork pays again only what its request names, and what was refunded.
 */
async function countPayments({ db }: Installation, { paid, undone }: Book) {
  const rows = (await db.query<Payment>(listPayments)).filter(({ key }) => (paid[key] ?? 0) > 0)
  const doubled: string[] = []
  let refired = 0
  const byEffect = Map.groupBy(rows, ({ root, temp_id, effect_type }) => `${root} ${temp_id} ${effect_type}`)
  for (const [what, all] of byEffect) {
    const standing = new Map<string, number>()
    for (const { run_id, is_named, undo_key } of all) {
      if (standing.size > 0 && is_named) refired += 1
      if ((standing.size > 0 && !standing.has(run_id) && !is_named) || (standing.get(run_id) ?? 0) > 0)
        doubled.push(`task ${what}: paid again by ${run_id}`)
      if (undo_key === null || (undone[undo_key] ?? 0) === 0) standing.set(run_id, (standing.get(run_id) ?? 0) + 1)
    }
  }
  const payers = new Set(rows.map(({ run_id, temp_id }) => `${run_id} ${temp_id}`))
  const completed = await db.query<{ run_id: string; temp_id: string }>(listPayers)
  const unpaid = completed.map(({ run_id, temp_id }) => `${run_id} ${temp_id}`).filter((each) => !payers.has(each))
  return { refired, doubled, lost: unpaid.map((each) => `task ${each}: completed and not paid`) }
}
