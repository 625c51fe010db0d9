/** Submits the attempts of queued tasks, and repeats what failed for a reason of the infrastructure. */
import { cancelCommand, retryCommand } from '#domains/commands'
import { type Actor, bySystem } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { formatMoney } from '#kernel/money'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { failpoint } from '#store'
import { findAttempt, isUnchanged } from './accept-output.ts'
import { isUnpaid } from './auxiliary.ts'
import type { Batch, MissionActor } from './batch.ts'
import { cutSummary } from './cards.ts'
import { chooseModel } from './config.ts'
import { sayCrash } from './decide-attempt.ts'
import type { MissionDeps } from './deps.ts'
import { NOBODY } from './events.ts'
import { passHooks } from './hooks.ts'
import {
  countAttempts,
  findSubmitted,
  findTaskOf,
  listDueRetries,
  listUnsentTasks,
  listUpstreamResults,
} from './mission-task.ts'
import type { StoredTask } from './mission.ts'
import { coordinator, systemOf } from './plan-rows.ts'
import { taskNameOf } from './plan.ts'
import { fillReferences, referencesIn } from './references.ts'
import { cascade, type Ended } from './settle.ts'
import { attemptCostKey, exceedBudget, reserveInMission } from './spending.ts'
import { actAsRequester, type Found, oneDeeper, submitFollowed, write } from './turn.ts'
import { maxCostOf } from './usage.ts'
import { announceOffers, workerPayload } from './worker-task.ts'

/** Attempts of one mission at the same time: what a turn reads stays the same at any size. */
export const AT_ONCE_MAX = 256
/** Attempts that are submitted together. */
const SUBMITS = 32

/**
 * The command is submitted first. Its key is that of the attempt, so after a crash the next turn gets the same command, also if a submit would be refused
 * by now.
 */
export async function dispatch(deps: MissionDeps, found: Found): Promise<boolean> {
  const { run, origin, config } = found
  const { db } = deps.commands
  const { running, offered } = await countAttempts(db, run.id)
  const room = Math.min(AT_ONCE_MAX - running, SUBMITS)
  const mayOffer = offered < AT_ONCE_MAX
  const unsent = room > 0 ? await listUnsentTasks(db, run.id, deps.commands.now(), room, mayOffer) : []
  const hooked = await passHooks(
    deps,
    found,
    unsent.map((task) => ({ task, attempt: nextAttempt(task) })),
  )
  const { ready: queued, stopped, isUnpaid: isHookUnpaid } = splitHooked(unsent, hooked)
  if (queued.length === 0 && stopped.size === 0 && !isHookUnpaid) return false
  const paid = await payFor(
    deps,
    found,
    queued.map((task) => ({ ...task, attempt_number: nextAttempt(task) })),
  )
  const upstream = await readResults(deps, queued)
  const by = await actAsRequester(deps.commands, run, origin)
  const submits = queued
    .filter(({ id }) => paid.has(id))
    .map(async (task) => {
      const submitted = by.ok
        ? await submitAttempt(deps, by.value, { run, origin, config }, task, upstream.get(task.id))
        : by
      return [attemptKey(task), { task, submitted }] as const
    })
  const sent: Answers = new Map([...stopped, ...(await Promise.all(submits))])
  await failpoint('missions.attempts_submitted')
  const begunKeys = new Set<string>()
  await write(deps, run, async (batch, at, tx) => {
    const ended: Ended[] = []
    const refused = [...sent.values()].flatMap(({ task, submitted }) => (submitted.ok ? [] : [task.id]))
    const known = await findSubmitted(tx, refused)
    for (const task of await listUnsentTasks(tx, run.id, at, AT_ONCE_MAX, mayOffer)) {
      const answer = sent.get(attemptKey(task))
      if (!answer) continue
      const commandId = known.get(task.id)
      const submitted = commandId === undefined ? answer.submitted : accept(commandId)
      // Another writer has the key, and has not committed: the next step finds its command.
      if (!submitted.ok && submitted.code === 'key_in_progress') continue
      const begun = begin(batch, task, submitted, found, at)
      begunKeys.add(attemptKey(task))
      if (begun.state === 'failed') ended.push({ id: begun.id, state: 'failed' })
    }
    await cascade(tx, batch, ended, at, coordinator(origin.context.trace_id))
    if (paid.size < queued.length || isHookUnpaid) exceedBudget(batch, { at, traceId: origin.context.trace_id })
  })
  await failpoint('missions.attempts_begun')
  for (const [key, { task, submitted }] of sent)
    if (submitted.ok && !begunKeys.has(key)) await dropUnbegun(deps, found, task, submitted.value)
  return true
}

/** By the key of the attempt: a turn that was held up does not answer for the attempt that came after it. */
type Answers = Map<string, { readonly task: StoredTask; readonly submitted: Decision<string> }>

/** The tasks whose attempt may start, those whose hook failed, and whether the limit does not pay for one. The others wait for theirs. */
function splitHooked<T extends StoredTask>(tasks: readonly T[], hooked: Awaited<ReturnType<typeof passHooks>>) {
  const stopped: Answers = new Map()
  for (const task of tasks) {
    const each = hooked.get(task.id)
    if (each?.ok === false && !isUnpaid(each)) stopped.set(attemptKey(task), { task, submitted: each })
  }
  const ready = tasks.filter(({ id }) => {
    const each = hooked.get(id)
    return each === undefined || (each.ok && each.value === 'passed')
  })
  return { ready, stopped, isUnpaid: [...hooked.values()].some(isUnpaid) }
}

/** The task has ended or has another attempt since it was read, so nothing of this one may run. A task that still waits for this attempt takes it later. */
async function dropUnbegun({ commands }: MissionDeps, { run, origin }: Found, seen: StoredTask, commandId: string) {
  const task = await findTaskOf(commands.db, run.id, seen.id)
  const isTaken = task?.command_id === commandId && task.state !== 'cancelled'
  const isAwaited = task?.state_type !== 'terminal' && task !== undefined && attemptKey(task) === attemptKey(seen)
  if (isTaken || isAwaited) return
  const reason = `its task is ${task?.state ?? 'gone'}`
  await cancelCommand(commands, bySystem(origin.context.trace_id), {
    workspaceId: run.workspace_id,
    commandId,
    reason,
  })
}

/** The tasks whose attempts may start. */
async function payFor(
  deps: MissionDeps,
  found: Found,
  attempts: readonly Pick<StoredTask, 'id' | 'attempt_number' | 'spec'>[],
): Promise<ReadonlySet<string>> {
  const costs = attempts.map(({ id, attempt_number, spec }) => ({
    id,
    key: attemptCostKey(id, attempt_number),
    amount: maxCostOf(spec.max_cost, found.config),
  }))
  const held = await reserveInMission(deps, found, costs)
  return new Set(costs.flatMap(({ id, key }) => (held.has(key) ? [id] : [])))
}

/** What the references of a task take: the results by temporary id, and the commands whose labels come with them. */
type Upstream = { readonly results: Map<string, JsonValue>; readonly labelled: string[]; readonly changed: string[] }

async function readResults({ commands: { db } }: MissionDeps, tasks: readonly StoredTask[]) {
  // Null: a worker gets the summary of every one.
  const named = new Map(
    tasks.map(({ id, spec: { run } }) => [
      id,
      run.worker === undefined ? new Set(referencesIn(run.payload).map(({ from }) => from)) : null,
    ]),
  )
  const needing = [...named].flatMap(([id, names]) => (names?.size === 0 ? [] : [id]))
  const rows = needing.length === 0 ? [] : await listUpstreamResults(db, needing)
  const upstream = new Map(
    needing.map((id): [string, Upstream] => [id, { results: new Map(), labelled: [], changed: [] }]),
  )
  for (const { task_id, temp_id, result, labelled_id, artifact_checksum, ...upstreamTask } of rows) {
    const own = named.get(task_id)?.has(temp_id) === false ? undefined : upstream.get(task_id)
    own?.results.set(temp_id, (result ?? null) as JsonValue)
    if (labelled_id !== null) own?.labelled.push(labelled_id)
    if (!isUnchanged(upstreamTask, (result ?? null) as JsonValue, artifact_checksum)) own?.changed.push(temp_id)
  }
  return upstream
}

async function submitAttempt(
  deps: MissionDeps,
  by: Actor,
  { run, origin, config }: Found,
  task: StoredTask,
  upstream: Upstream = { results: new Map(), labelled: [], changed: [] },
): Promise<Decision<string>> {
  const { results, labelled, changed } = upstream
  if (changed[0] !== undefined)
    return refuse('missions.output.changed', `The output of ${quote(changed[0])} has changed since it was verified.`)
  const payload = fillReferences(task.spec.run.payload, results)
  if (!payload.ok) return payload
  const { worker } = task.spec.run
  const isAgain = task.state === 'awaiting_retry'
  const refused = isAgain ? await findAttempt(deps.commands.db, task, task.attempt_number) : null
  return submitFollowed(
    deps,
    by,
    { run, origin },
    {
      taskName: taskNameOf(task.spec.run),
      payload:
        worker === undefined ? (payload.value as JsonObject) : workerPayload(task, worker, payload.value as JsonObject),
      idempotencyKey: attemptKey(task),
      ...(worker !== undefined && { ingress: 'system_event' }),
      metadata: {
        ...oneDeeper(origin),
        mission_id: encodeId('mission', run.id),
        mission_task_id: encodeId('mission_task', task.id),
        attempt: nextAttempt(task),
        // Why the output of the last attempt was refused.
        ...(isAgain && { feedback: task.error_message }),
        // What it starts, such as an agent, takes this as its limit.
        ...(run.account_id !== null && { max_cost: formatMoney(maxCostOf(task.spec.max_cost, config)) }),
      },
      // The plan itself may come from untrusted content, and the feedback from the output that was refused.
      labelled: [...labelled, origin.labelled_plan_id, refused],
    },
  )
}

/** A refused output needs a new attempt, which is a new command: nothing of the old one is kept. */
const nextAttempt = ({ state, attempt_number }: StoredTask) => attempt_number + (state === 'awaiting_retry' ? 1 : 0)
const attemptKey = (task: StoredTask) => `mission:${task.id}:${nextAttempt(task)}`

function begin(
  batch: Batch,
  task: StoredTask,
  submitted: Decision<string>,
  { config, origin }: Found,
  at: Date,
): StoredTask {
  const traceId = origin.context.trace_id
  const isAgain = task.state === 'awaiting_retry'
  // A worker begins its attempt itself, after the claim.
  if (submitted.ok && task.spec.run.worker !== undefined)
    return batch.change(task, { command_id: submitted.value, due_at: null, ...(isAgain && { verifier_score: null }) })
  if (isAgain) {
    assignAgain(batch, task, chooseModel(task, config), at, traceId)
    return start(batch, task, submitted, at, traceId, task.attempt_number + 1)
  }
  const { board_task_id, attempt_number } = task
  const model = chooseModel(task, config)
  const assigned = { agent_id: null, agent_type: null, model, board_task_id }
  const set = { model_override: model }
  batch.task(task, 'assigned', { by: coordinator(traceId), at, payloads: { task_assigned: assigned }, set })
  return start(batch, task, submitted, at, traceId, attempt_number)
}

function assignAgain(batch: Batch, task: StoredTask, model_override: string | null, at: Date, traceId: string): void {
  const attempt_number = task.attempt_number + 1
  const failure_type = task.failure_type ?? 'infrastructure'
  const backoff_seconds =
    task.due_at === null ? 0 : Math.max(0, (task.due_at.getTime() - task.updated_at.getTime()) / 1_000)
  batch.task(task, 'assigned', {
    by: systemOf(traceId),
    at,
    payloads: { task_retrying: { attempt_number, backoff_seconds, failure_type } },
    set: { attempt_number, continuation_count: 0, model_override, verifier_score: null },
  })
}

/** An attempt that could not be submitted has failed: the same request would be refused again. */
function start(
  batch: Batch,
  task: StoredTask,
  submitted: Decision<string>,
  at: Date,
  traceId: string,
  attempt: number,
): StoredTask {
  const commandId = submitted.ok ? submitted.value : task.command_id
  const by: MissionActor = { id: commandId === null ? NOBODY : encodeId('command', commandId), kind: 'agent', traceId }
  const payloads = { task_started: { attempt_number: attempt } }
  const running = batch.task(task, 'running', { by, at, payloads, set: { command_id: commandId } })
  if (submitted.ok) return running
  const { code, reason } = submitted
  const last = task.error_message
  const error_message = last === null ? reason : cutSummary(`${last} It could not run again: ${reason}`)
  const failed = { kind: 'failed', errorType: code, failureType: null } as const
  return batch.task(task, 'failed', { by: systemOf(traceId), at, ...sayCrash(running, failed, error_message, at) })
}

/** The same command runs again, so that what succeeded in it is kept. It is asked for first; a command that runs again already is not asked twice. */
export async function retryDue(deps: MissionDeps, found: Found): Promise<boolean> {
  const { run, origin } = found
  const { db, now } = deps.commands
  const retries = await listDueRetries(db, run.id, now(), SUBMITS)
  const attempts = retries.map((task) => ({ task, attempt: task.attempt_number + 1 }))
  const { ready: due, stopped, isUnpaid: isHookUnpaid } = splitHooked(retries, await passHooks(deps, found, attempts))
  if (due.length === 0 && stopped.size === 0 && !isHookUnpaid) return false
  const traceId = origin.context.trace_id
  const again: Answers = new Map(stopped)
  const next = due.map((task) => ({ ...task, attempt_number: task.attempt_number + 1 }))
  const paid = await payFor(deps, found, next)
  for (const task of due) {
    const { command_id, command_attempt, attempt_number, has_ended, workspace_id: workspaceId } = task
    if (!paid.has(task.id)) continue
    const commandId = command_id ?? ''
    // The command of a task that workers run waits on, whatever becomes of one worker.
    const isAgain = command_attempt > attempt_number || !has_ended
    const retried = isAgain
      ? accept(commandId)
      : await retryCommand(deps.commands, bySystem(traceId), { workspaceId, commandId })
    again.set(attemptKey(task), { task, submitted: retried.ok ? accept(commandId) : retried })
  }
  await failpoint('missions.attempts_retried')
  await write(deps, run, async (batch, at, tx) => {
    const ended: Ended[] = []
    for (const { command_attempt, has_ended, ...task } of await listDueRetries(tx, run.id, at, AT_ONCE_MAX)) {
      const key = attemptKey(task)
      const answer = again.get(key)
      if (!answer) continue
      // Somebody else may have asked since the first read, so that the own request was refused.
      const isAgain = !stopped.has(key) && (command_attempt > task.attempt_number || !has_ended)
      const retried = isAgain ? accept(task.command_id ?? '') : answer.submitted
      if (retried.ok && task.spec.run.worker !== undefined) {
        batch.change(task, { due_at: null })
        continue
      }
      assignAgain(batch, task, task.model_override, at, traceId)
      const begun = start(batch, task, retried, at, traceId, task.attempt_number + 1)
      if (begun.state === 'failed') ended.push({ id: begun.id, state: 'failed' })
    }
    await cascade(tx, batch, ended, at, coordinator(traceId))
    if (paid.size < due.length || isHookUnpaid) exceedBudget(batch, { at, traceId })
  })
  if (due.some(({ spec }) => spec.run.worker !== undefined)) await announceOffers(db, run.workspace_id)
  return true
}
