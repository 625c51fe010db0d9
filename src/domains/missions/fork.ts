/**
 * A fork: a new run of a mission from one of its tasks on. What the fork does not touch is carried over, completed and with its outputs. What it would do
 * again, although it stands, is named by the requester, task by task.
 */
import { z } from 'zod'
import { textField } from '#contract'
import { type Catalog, findHolders, keysOf } from '#domains/commands'
import { canonicalJson } from '#kernel/canonical-json'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, statement } from '#store'
import { missionConfig, sayUnknown } from './config.ts'
import { listTasks } from './mission-task.ts'
import { restorePlan } from './hidden-values.ts'
import { findMission, readStoredPlan, type StoredMission, type StoredTask } from './mission.ts'
import { edgesOf, missionPlan, type MissionPlan, type PlanTask, taskNameOf } from './plan.ts'
import { fillReferences, referencesIn } from './references.ts'
import { type AttemptEffect, listStandingEffects } from './standing-effects.ts'

const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'
const EFFECTS_SHOWN = 100

const tempId = textField(100, { charsMin: 1 }).meta({ example: 'send' })

export const forkMissionBody = z
  .strictObject({
    from: tempId.meta({ description: 'This task and what depends on it run again.' }),
    plan: missionPlan.optional().meta({ description: 'Default: that of the mission. What differs runs again too.' }),
    refire: z
      .array(tempId)
      .max(10_000)
      .default([])
      .meta({
        example: ['send'],
        description: 'The tasks whose effects stand and may be done again.',
      }),
    config: missionConfig.optional(),
  })
  .meta({ id: 'ForkMission' })

/** As the command keeps it. */
export const forkRequest = z.object({ mission_id: z.string(), from: z.string(), refire: z.array(z.string()) })
export type ForkRequest = z.output<typeof forkRequest>

/** The temporary ids of the tasks that run again: the one that was named, those that are new, changed or not completed, and all that depend on one of them. */
function decideAgain(
  origin: MissionPlan,
  next: MissionPlan,
  completed: ReadonlySet<string>,
  from: string,
): ReadonlySet<string> {
  const textOf = (task: object) => canonicalJson(task as JsonValue)
  const before = new Map(origin.tasks.map((task) => [task.temp_id, textOf(task)]))
  const behind = new Map<string, string[]>()
  for (const task of next.tasks)
    for (const { from: before_ } of edgesOf(task)) {
      const list = behind.get(before_)
      if (list) list.push(task.temp_id)
      else behind.set(before_, [task.temp_id])
    }
  const open = next.tasks.flatMap((task) => {
    const { temp_id: id } = task
    return id === from || !completed.has(id) || before.get(id) !== textOf(task) ? [id] : []
  })
  const again = new Set(open)
  for (let id = open.pop(); id !== undefined; id = open.pop())
    for (const each of behind.get(id) ?? [])
      if (!again.has(each)) {
        again.add(each)
        open.push(each)
      }
  return again
}

export type Fork = {
  readonly origin: StoredMission
  readonly plan: JsonValue
  /** The completed tasks of the origin by temporary id. */
  readonly carried: ReadonlyMap<string, StoredTask>
}

/** $1 mission. The mission that was not forked is locked, so that the forks of a family are decided one after another. */
const lockRoot = statement<{ readonly id: string }>(
  'missions.lock_root',
  `with recursive up as (
  select r.id, r.forked_from_id from ${RUNS} as r where r.id = $1::uuid
  union select p.id, p.forked_from_id from up join ${RUNS} as p on p.id = up.forked_from_id)
select r.id from ${RUNS} as r where r.id in (select up.id from up where up.forked_from_id is null) for update`,
)
/** $1 the mission that was not forked. */
const listFamily = statement<{ readonly id: string; readonly is_open: boolean }>(
  'missions.list_family',
  `with recursive family as (
  select $1::uuid as id union select c.id from family join ${RUNS} as c on c.forked_from_id = family.id)
select r.id, c.completed_at is null as is_open
from family join ${RUNS} as r on r.id = family.id join concord.commands as c on c.command_id = r.command_id order by r.id`,
)
/** $1 missions, $2 temporary ids. The commands of every attempt, also of one that was submitted and is not on record. */
const listAttempts = statement<{ readonly temp_id: string; readonly command_id: string }>(
  'missions.list_attempts',
  `select t.spec->>'temp_id' as temp_id, c.command_id from ${TASKS} as t cross join lateral generate_series(1, t.attempt_number + 1) as n
  join concord.commands as c on c.workspace_id = t.workspace_id and c.idempotency_key = 'mission:' || t.id || ':' || n
where t.run_id = any($1::uuid[]) and t.carried_from_id is null and t.spec->>'temp_id' = any($2::text[])`,
)

/** $1 commands. */
const listResults = statement<{ readonly command_id: string; readonly result: unknown }>(
  'missions.list_carried_results',
  `select c.command_id, c.result from concord.commands as c where c.command_id = any($1::uuid[])`,
)

type Taken = { readonly task: string; readonly command_id: string }

/** Commands that have the contract's key of a task that runs again. A payload with a result that is not there yet has no key yet. */
async function listTaken(
  sql: Sql,
  { tasks: known }: Pick<Catalog, 'tasks'>,
  workspaceId: string,
  tasks: readonly PlanTask[],
  carried: ReadonlyMap<string, StoredTask>,
): Promise<readonly Taken[]> {
  const own = tasks.filter(({ run }) => run.worker === undefined)
  const sources = new Map(
    own.flatMap(({ run }) => referencesIn(run.payload).map(({ from }) => [carried.get(from)?.command_id, from])),
  )
  const rows = sources.size === 0 ? [] : await sql.run(listResults, [[...sources.keys()].filter(Boolean)])
  const results = new Map(rows.map(({ command_id, result }) => [sources.get(command_id) ?? '', result as JsonValue]))
  const taskOf = new Map<string, string>()
  for (const { temp_id, run } of own) {
    const task = known.get(taskNameOf(run))
    const payload = fillReferences(run.payload, results)
    if (!task || !payload.ok) continue
    const keys = keysOf(task, { payload: payload.value as JsonObject, ingress: 'user_request' })
    if (keys.ok && keys.value.contract !== undefined) taskOf.set(keys.value.contract, temp_id)
  }
  const holders = await findHolders(sql, workspaceId, [...taskOf.keys()])
  return holders.map(({ command_id, contract_key }) => ({
    task: taskOf.get(contract_key ?? '') ?? '',
    command_id: encodeId('command', command_id),
  }))
}

/**
 * `self` is the fork, if it exists already. A family has one open run: two of them could do the same thing at the same time. So what stands is known here,
 * and stays as it is until the fork starts.
 */
export async function readFork(
  sql: Sql,
  catalog: Pick<Catalog, 'effects' | 'tasks'>,
  workspaceId: string,
  { mission_id, from, refire }: ForkRequest,
  given: JsonValue | null,
  self?: string,
): Promise<Decision<Fork>> {
  const id = decodeId('mission', mission_id)
  const origin = id.ok ? await findMission(sql, workspaceId, id.value) : undefined
  if (!origin) return refuse('missions.mission.not_found', 'There is no such mission.')
  const [root] = await sql.run(lockRoot, [origin.id])
  const family = (await sql.run(listFamily, [root?.id])).filter((run) => run.id !== self)
  const open = family.find(({ is_open }) => is_open)
  if (open)
    return refuse('missions.fork.open', 'The mission, or another fork of it, has not ended.', {
      facts: { mission_id: encodeId('mission', open.id) },
    })
  const before = missionPlan.safeParse(await readStoredPlan(sql, origin.id))
  const next = given === null ? before : missionPlan.safeParse(given)
  if (!before.success || !next.success)
    return refuse('missions.plan.invalid', 'The plan cannot be read.', { path: 'plan' })
  const restored = restorePlan(next.data, before.data, catalog)
  if (!restored.ok) return restored
  const { value: plan } = restored
  const ids = new Set(plan.tasks.map(({ temp_id }) => temp_id))
  if (!ids.has(from)) return refuse('missions.fork.unknown_task', sayUnknown('task', from, ids), { path: 'from' })
  const tasks = new Map((await listTasks(sql, origin.id)).map((task) => [task.spec.temp_id, task]))
  const completed = new Set([...tasks].flatMap(([tempId_, { state }]) => (state === 'completed' ? [tempId_] : [])))
  const again = decideAgain(before.data, plan, completed, from)
  const wrong = refire.find((each) => !again.has(each))
  if (wrong !== undefined)
    return refuse('missions.fork.unknown_task', sayUnknown('task that runs again', wrong, again), {
      path: 'refire',
    })
  const named = new Set(refire)
  const unnamed = [...again].filter((each) => !named.has(each))
  const attempts = await sql.run(listAttempts, [family.map((run) => run.id), unnamed])
  const commandIds = attempts.map(({ command_id }) => command_id)
  const standing = await listStandingEffects(sql, catalog, workspaceId, commandIds)
  const carried = new Map([...tasks].filter(([tempId_]) => ids.has(tempId_) && !again.has(tempId_)))
  const repeated = plan.tasks.filter(({ temp_id }) => again.has(temp_id))
  const taken = await listTaken(sql, catalog, workspaceId, repeated, carried)
  if (standing.length > 0 || taken.length > 0)
    return refuseStanding(standing, new Map(attempts.map((each) => [each.command_id, each.temp_id])), taken)
  return accept({ origin, plan: plan as unknown as JsonValue, carried })
}

/** Consent does not free a key of a contract: only the undo of its command does. */
function refuseStanding(
  standing: readonly AttemptEffect[],
  taskOf: ReadonlyMap<string, string>,
  taken: readonly Taken[],
) {
  const effects = standing.map(({ attemptId, ...effect }) => ({
    task: taskOf.get(attemptId) ?? null,
    command_id: encodeId('command', attemptId),
    ...effect,
  }))
  const names = [...new Set([...effects, ...taken].map(({ task }) => task))].join(', ')
  return refuse('missions.fork.effects_stand', `Effects of tasks that would run again stand: ${names}.`, {
    path: 'refire',
    ...(taken[0] && {
      hint: `Their contract allows this once. Undo it first: \`concord undo ${taken[0].command_id}\`.`,
    }),
    facts: { effects: effects.slice(0, EFFECTS_SHOWN), count: effects.length, commands: taken.slice(0, EFFECTS_SHOWN) },
  })
}

/** $1 command. */
const findRequest = statement<{ readonly fork: unknown }>(
  'missions.find_fork_request',
  `select c.payload->'fork' as fork from concord.commands as c where c.command_id = $1::uuid`,
)

/** What a mission carries over; nothing if it is no fork. Read again at its start: what stands may have changed meanwhile. */
export async function readCarried(
  sql: Sql,
  catalog: Pick<Catalog, 'effects' | 'tasks'>,
  run: StoredMission,
  plan: MissionPlan,
): Promise<Decision<Fork['carried']>> {
  if (run.forked_from_id === null) return accept(new Map())
  const [row] = await sql.run(findRequest, [run.command_id])
  const request = forkRequest.safeParse(row?.fork)
  if (!request.success) return refuse('missions.request.invalid', 'The request of the fork cannot be read.')
  const fork = await readFork(sql, catalog, run.workspace_id, request.data, plan as unknown as JsonValue, run.id)
  return fork.ok ? accept(fork.value.carried) : fork
}
