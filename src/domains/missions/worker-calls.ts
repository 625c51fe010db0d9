/**
 * The calls of workers. Each is one transaction under the lock of its mission: the row decides with the lease token and the attempt, and the call moves the task
 * through `batch.ts`. A submission is a fact: it ends the command of the attempt, and the turn of the mission settles it like any other end of a command.
 */
import { COMMAND_KIND } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { formatMoney } from '#kernel/money'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import { Batch, type MissionActor, NO_LEASE } from './batch.ts'
import { cutSummary } from './cards.ts'
import { digestOutput } from './checks.ts'
import { type MissionConfig, readMissionConfig } from './config.ts'
import { later, leaseOf } from './decide-attempt.ts'
import { MISSION_KIND, MISSION_QUEUE, type MissionDeps } from './deps.ts'
import { NOBODY } from './events.ts'
import { bringForward, lockMission, type Reported, type StoredTask } from './mission.ts'
import { coordinator, systemOf } from './plan-rows.ts'
import { cascade } from './settle.ts'
import { settleUsage } from './spending.ts'
import { type Crash, crash } from './stalls.ts'
import { maxCostOf, reported } from './usage.ts'

const TASKS = 'missions.orchestration_tasks'

export type LeaseHolder = {
  readonly workspaceId: string
  readonly taskId: string
  readonly leaseToken: string
  readonly attempt: number
  readonly traceId: string
}

type FoundTask = StoredTask & { readonly is_cancelled: boolean }

/** $1 task, $2 workspace. */
const findTask = statement<FoundTask>(
  'missions.find_task',
  `select t.*, coalesce(c.cancellation_requested, false) as is_cancelled from ${TASKS} as t left join concord.commands as c on c.command_id = t.command_id
where t.id = $1::uuid and t.workspace_id = $2::uuid`,
)
async function findTaskOf(sql: Sql, { taskId, workspaceId }: Pick<LeaseHolder, 'taskId' | 'workspaceId'>) {
  const [task] = await sql.run(findTask, [taskId, workspaceId])
  return task
}

export const taskFacts = ({ id, state, attempt_number, lease_until }: StoredTask) => ({
  task_id: encodeId('mission_task', id),
  state,
  attempt: attempt_number,
  lease_until: lease_until?.toISOString() ?? null,
})

export const refuseMissingTask = () => refuse('missions.task.not_found', 'There is no such task.')
const refuseStale = (task: StoredTask, isCancelled: boolean) =>
  refuse('missions.lease.stale', 'The task is no longer held with this lease and attempt.', {
    facts: taskFacts(task),
    ...((isCancelled || task.state_type === 'terminal') && {
      hint: 'Stop the work. The task was cancelled or has ended, and needs no result.',
    }),
  })
export const refuseTaskState = (task: StoredTask) =>
  refuse('missions.task.wrong_state', `The task is ${task.state}.`, {
    facts: taskFacts(task),
    ...(task.state === 'assigned' && { hint: 'Call POST /mission-tasks/{task_id}/start first, with the same lease.' }),
  })

type Held = {
  readonly tx: Tx
  readonly batch: Batch
  readonly task: StoredTask
  readonly config: MissionConfig
  readonly at: Date
  readonly by: MissionActor
}

/** Nothing is written unless the caller holds the lease. `answerAgain` has the answer to a call that is repeated. */
function underLease(
  { commands: { db, now } }: MissionDeps,
  holder: LeaseHolder,
  work: (held: Held) => Decision<StoredTask> | Promise<Decision<StoredTask>>,
  answerAgain: (task: StoredTask) => StoredTask | undefined = () => undefined,
): Promise<Decision<StoredTask>> {
  return db.transaction(async (tx): Promise<Decision<StoredTask>> => {
    const known = await findTaskOf(tx, holder)
    const run = known && (await lockMission(tx, known.run_id))
    const found = run && (await findTaskOf(tx, holder))
    if (!found) return refuseMissingTask()
    const { is_cancelled, ...task } = found
    const again = answerAgain(task)
    if (again) return accept(again)
    const { leaseToken, attempt, traceId } = holder
    const isHeld = task.lease_token === leaseToken && task.attempt_number === attempt
    // A worker whose command was cancelled stops, also before the mission has a turn.
    if (!isHeld || is_cancelled) return refuseStale(task, is_cancelled)
    const config = readMissionConfig(run.config)
    if (!config.ok) return config
    const batch = new Batch(run)
    const by: MissionActor = { id: task.worker_id ?? NOBODY, kind: 'agent', traceId }
    const done = await work({ tx, batch, task, config: config.value, at: now(), by })
    if (!done.ok) return done
    await batch.commit(tx)
    const due = done.value.due_at ?? done.value.lease_until
    if (due !== null) await bringForward(tx, run.id, due)
    return done
  })
}

/** The worker begins. It names its model if it cannot use the one that the plan asked for. */
export function startTask(
  deps: MissionDeps,
  { model, ...holder }: LeaseHolder & { readonly model?: string | undefined },
) {
  const isRunning = (task: StoredTask) =>
    task.state === 'running' && task.lease_token === holder.leaseToken ? task : undefined
  return underLease(
    deps,
    holder,
    ({ batch, task, config, at, by }) => {
      if (task.state !== 'assigned') return refuseTaskState(task)
      const asked = task.model_override
      const isOther = model !== undefined && model !== asked
      if (isOther && asked !== null) {
        const reason = 'The worker cannot use the model that the plan asked for.'
        const task_id = encodeId('mission_task', task.id)
        const model_fallback = { task_id, requested_model: asked, fallback_model: model, reason }
        batch.note('model_fallback', { by, at, payloads: { model_fallback } }, task.id)
      }
      const begun = { started_at: task.started_at ?? at, attempt_started_at: at }
      const set = {
        last_heartbeat_at: at,
        attempt_started_at: at,
        lease_until: leaseOf(begun, config, at),
        ...(isOther && { model_override: model }),
      }
      const payloads = { task_started: { attempt_number: task.attempt_number } }
      return accept(batch.task(task, 'running', { by, at, payloads, set }))
    },
    isRunning,
  )
}

/** Renews the lease. A worker that has stopped with work left sees in the state when it may go on. */
export function keepTask(deps: MissionDeps, holder: LeaseHolder) {
  return underLease(deps, holder, ({ batch, task, config, at }) => {
    if (task.state === 'assigned') return accept(task)
    const until = leaseOf(task, config, at)
    const lease_until = task.lease_until !== null && task.lease_until > until ? task.lease_until : until
    const kept = { ...task, last_heartbeat_at: at, lease_until }
    // A heartbeat is no news: who has read the task before it holds the newest version.
    batch.put(kept)
    return accept(kept)
  })
}

/** The worker stopped cleanly, and work is left. The same attempt goes on after a delay. One that stops too often has failed, and may be retried. */
export function continueTask(deps: MissionDeps, { tokens, ...holder }: LeaseHolder & { readonly tokens: number }) {
  return underLease(deps, holder, async ({ tx, batch, task, config, at, by }) => {
    if (task.state !== 'running') return refuseTaskState(task)
    const continuation_count = task.continuation_count + 1
    const { max_continuations, continuation_delay_seconds } = config.retry
    const most = Math.min(max_continuations, task.spec.max_continuations ?? max_continuations)
    if (continuation_count > most) {
      const message = `An attempt goes on at most ${most} times.`
      const crashed = { errorType: 'max_continuations', errorClass: 'timeout', message } as const
      // What it has cost is not known, so its reservation counts as spent.
      const cost = batch.run.account_id === null ? '0' : formatMoney(maxCostOf(task.spec.max_cost, config))
      return failHeld(deps, { tx, batch, task, config, at, by }, crashed, { cost, tokens })
    }
    const due_at = later(at, continuation_delay_seconds)
    batch.spend(reported(task, { cost: '0', tokens }))
    const moved = batch.task(task, 'continuing', {
      by,
      at,
      payloads: { task_continuing: { continuation_count, tokens_this_turn: tokens } },
      set: {
        continuation_count,
        due_at,
        last_heartbeat_at: at,
        lease_until: leaseOf(task, config, due_at),
      },
    })
    const wake = { tx, delayMs: continuation_delay_seconds * 1_000, queue: MISSION_QUEUE }
    await deps.commands.wake({ kind: MISSION_KIND, id: task.run_id }, wake)
    return accept(moved)
  })
}

type Output = {
  readonly output: JsonObject
  readonly summary?: string | undefined
  readonly artifactId?: string | undefined
}

/** $1 artifact, $2 workspace. */
const findArtifact = statement<{ readonly found: boolean }>(
  'missions.find_artifact',
  `select true as found from concord.artifacts where artifact_id = $1::uuid and workspace_id = $2::uuid`,
)

/** The same submission again gets the same answer, also after its turn: the first answer may have been lost. */
export function submitTask(
  deps: MissionDeps,
  { output, summary, artifactId, cost, tokens, ...holder }: LeaseHolder & Output & Reported,
): Promise<Decision<StoredTask>> {
  const { leaseToken: lease_token, attempt } = holder
  const sent = { output, summary: summary ?? null, artifact_id: artifactId ?? null, cost, tokens }
  const digest = digestOutput({ result: sent, artifact: null })
  const answerAgain = (task: StoredTask): StoredTask | undefined => {
    const { receipt } = task
    if (receipt?.lease_token !== lease_token || receipt.attempt !== attempt || receipt.digest !== digest)
      return undefined
    const { continuations: continuation_count } = receipt
    return { ...task, ...NO_LEASE, state: 'running', attempt_number: attempt, continuation_count, due_at: null }
  }
  return underLease(
    deps,
    holder,
    async ({ tx, batch, task, at }) => {
      if (task.state !== 'running') return refuseTaskState(task)
      const output_ref = artifactId === undefined ? null : encodeId('artifact', artifactId)
      if (artifactId !== undefined && (await tx.run(findArtifact, [artifactId, holder.workspaceId])).length === 0)
        return refuse('missions.output.artifact_unknown', 'There is no such artifact.', { path: 'artifact_id' })
      const result = output_ref === null ? output : { ...output, artifact_id: output_ref }
      const submitted = batch.change(task, {
        ...NO_LEASE,
        last_heartbeat_at: at,
        submission: { output: result, cost, tokens },
        receipt: { lease_token, attempt, digest, continuations: task.continuation_count },
        output_summary: summary === undefined ? null : cutSummary(summary),
        output_ref,
      })
      await wakeCommand(deps, tx, task)
      return accept(submitted)
    },
    answerAgain,
  )
}

type Failure = { readonly error: string; readonly isRetryable: boolean }

/** The attempt failed. It is retried if the worker says that another attempt can succeed, and retries are left. */
export function failTask(
  deps: MissionDeps,
  { error, isRetryable, cost, tokens, ...holder }: LeaseHolder & Failure & Reported,
) {
  return underLease(deps, holder, async (held) => {
    if (held.task.state !== 'running') return refuseTaskState(held.task)
    const errorType = isRetryable ? 'transient_connector_error' : 'validation_error'
    return failHeld(deps, held, { errorType, message: cutSummary(error) }, { cost, tokens })
  })
}

async function failHeld(
  deps: MissionDeps,
  { tx, batch, task, config, at, by: { traceId } }: Held,
  crashed: Omit<Crash, 'by'>,
  used: Reported,
): Promise<Decision<StoredTask>> {
  await settleUsage(tx, batch, config, [reported(task, used)], { at, traceId })
  const moved = crash(batch, task, { ...crashed, by: systemOf(traceId) }, config, at)
  if (moved.state === 'failed') await cascade(tx, batch, [{ id: task.id, state: 'failed' }], at, coordinator(traceId))
  await wakeCommand(deps, tx, task)
  await deps.commands.wake({ kind: MISSION_KIND, id: task.run_id }, { tx, queue: MISSION_QUEUE })
  return accept(moved)
}

/** The command of the attempt waits for its worker. */
async function wakeCommand({ commands: { wake } }: MissionDeps, tx: Tx, { command_id }: StoredTask): Promise<void> {
  if (command_id !== null) await wake({ kind: COMMAND_KIND, id: command_id }, { tx })
}
