/** Settles attempts that ended: moves, events, counters, cards, and what follows for the tasks behind. */
import { redactPayload } from '#domains/commands'
import { canonicalJson } from '#kernel/canonical-json'
import { decideCounterStep, type EndState } from '#kernel/dag/readiness'
import { encodeId } from '#kernel/ids'
import type { JsonValue } from '#kernel/json-value'
import type { Tx } from '#store'
import { type Batch, type MissionActor, NO_LEASE } from './batch.ts'
import { cutSummary } from './cards.ts'
import { digestOutput } from './checks.ts'
import { type AttemptEnd, decideAttempt, keepStanding, sayCrash } from './decide-attempt.ts'
import type { MissionDeps } from './deps.ts'
import { NOBODY } from './events.ts'
import { type EndedAttempt, listEndedAttempts, listWaitingFor } from './mission-task.ts'
import type { StoredTask } from './mission.ts'
import { coordinator, systemOf } from './plan-rows.ts'
import { taskNameOf } from './plan.ts'
import { settleUsage } from './spending.ts'
import { attemptsOf, listRepeated } from './standing-effects.ts'
import { type Found, write } from './turn.ts'
import { usageOf } from './usage.ts'

/** Tasks that one transaction settles or queues. */
export const BATCH = 256

/** Everything that ended since the last turn: moves, events, counters, cards, and what follows for the tasks behind. */
export function settle(deps: MissionDeps, { run, origin, config }: Found): Promise<undefined> {
  const traceId = origin.context.trace_id
  return write(deps, run, async (batch, at, tx) => {
    const attempts = await listEndedAttempts(tx, run.id, BATCH)
    const usage = attempts.map(({ task, spent, result }) => usageOf(task, spent, (result ?? null) as JsonValue))
    await settleUsage(tx, batch, config, usage, { at, traceId })
    const ends = attempts.map((attempt) => decideAttempt(attempt, config, runsMax(deps, attempt), at))
    const retried = attempts.flatMap(({ task }, index) => (ends[index]?.kind === 'retry' ? attemptsOf(task) : []))
    const repeated = await listRepeated(tx, deps.commands.catalog, run.workspace_id, retried)
    const ended = attempts.flatMap((attempt, index): Ended[] => {
      const task = settleAttempt(
        batch,
        {
          ...attempt,
          result: showResult(deps, attempt),
          output_checksum: digest(attempt),
          tokens: usage[index]?.tokens ?? 0,
        },
        keepStanding(ends[index] as AttemptEnd, repeated.get(attempt.task.command_id ?? '')),
        at,
        traceId,
      )
      return task.state_type === 'terminal' ? [{ id: task.id, state: task.state as EndState }] : []
    })
    await cascade(tx, batch, ended, at, coordinator(traceId))
  })
}

/** As people see it: without the values that the contract of the task hides. */
export function showResult(
  { commands: { catalog } }: MissionDeps,
  { task, result }: Pick<EndedAttempt, 'task' | 'result'>,
): JsonValue {
  const fields = Object.entries(catalog.tasks.get(taskNameOf(task.spec.run))?.type.fields ?? {})
  const inResult = Object.fromEntries(fields.map(([path, dataClass]) => [`result.${path}`, dataClass]))
  return redactPayload({ result: (result ?? null) as JsonValue }, inResult, 'pii')['result'] ?? null
}

/** The last attempt that the command of a task may be, since the catalog limits how often it runs. */
const runsMax = ({ commands: { catalog } }: MissionDeps, { task, first_attempt }: EndedAttempt) =>
  first_attempt - 1 + (catalog.tasks.get(taskNameOf(task.spec.run))?.spec.max_attempts ?? 1)

const digest = ({ result, artifact_checksum: artifact }: EndedAttempt) =>
  digestOutput({ result: (result ?? null) as JsonValue, artifact })

type Settled = EndedAttempt & { readonly output_checksum: string; readonly tokens: number }

function settleAttempt(batch: Batch, attempt: Settled, next: AttemptEnd, at: Date, traceId: string): StoredTask {
  const task = next.kind === 'cancelled' ? attempt.task : toRunning(batch, attempt.task, at, traceId)
  const worker: MissionActor = { id: encodeId('command', task.command_id ?? ''), kind: 'agent', traceId }
  const message = cutSummary(attempt.error ?? `The command is ${attempt.status}.`)
  switch (next.kind) {
    case 'completed': {
      // A worker may have sent one with its submission.
      const output_summary = (task.submission === null ? null : task.output_summary) ?? summaryOf(attempt.result)
      const output_ref = attempt.artifact_id === null ? null : encodeId('artifact', attempt.artifact_id)
      const submitted = { output_ref, output_summary_length: output_summary.length, tokens_used: attempt.tokens }
      const verifying = batch.task(task, 'verifying', {
        by: worker,
        at,
        payloads: { task_output_submitted: submitted },
        set: { output_summary, output_ref, output_checksum: attempt.output_checksum, submission: null },
      })
      if (task.spec.verify?.length) return verifying
      return batch.task(task, 'completed', {
        by: { id: NOBODY, kind: 'verifier', traceId },
        at,
        payloads: { task_verification_passed: { score: null, verifier_feedback: null } },
        set: { verified_by: 'auto', failure_type: null },
      })
    }
    case 'cancelled':
      return batch.task(task, 'cancelled', {
        by: coordinator(traceId),
        at,
        payloads: { task_cancelled: { cancelled_by: null } },
        set: { error_message: message },
      })
    case 'retry':
      return batch.task(task, 'awaiting_retry', { by: systemOf(traceId), at, ...sayCrash(task, next, message, at) })
    case 'failed': {
      const standing = next.standing?.join(', ')
      const why =
        standing === undefined ? '' : `It is not tried again, because another attempt would repeat: ${standing}. `
      return batch.task(task, 'failed', {
        by: systemOf(traceId),
        at,
        ...sayCrash(task, next, cutSummary(`${why}${message}`), at),
      })
    }
  }
}

/** An attempt of a worker can end before it runs, for example because a person rejected its command. */
export function toRunning(batch: Batch, task: StoredTask, at: Date, traceId: string): StoredTask {
  const assigned = { agent_id: null, agent_type: null, model: task.model_override, board_task_id: task.board_task_id }
  const agent: MissionActor = { id: NOBODY, kind: 'agent', traceId }
  if (task.state === 'queued')
    batch.task(task, 'assigned', { by: coordinator(traceId), at, payloads: { task_assigned: assigned } })
  if (task.state === 'queued' || task.state === 'assigned')
    batch.task(task, 'running', {
      by: agent,
      at,
      payloads: { task_started: { attempt_number: task.attempt_number } },
      set: NO_LEASE,
    })
  if (task.state === 'continuing')
    batch.task(task, 'running', {
      by: systemOf(traceId),
      at,
      payloads: { task_resumed: { continuation_count: task.continuation_count } },
      set: NO_LEASE,
    })
  return batch.taskOf(task)
}

const summaryOf = (result: unknown) =>
  cutSummary(typeof result === 'string' ? result : canonicalJson((result ?? null) as JsonValue))

export type Ended = { readonly id: string; readonly state: EndState }

/** Visits the edges that leave what ended, and what is skipped because of it: the size of the plan does not matter. */
export async function cascade(
  tx: Tx,
  batch: Batch,
  first: readonly Ended[],
  at: Date,
  by: MissionActor,
): Promise<void> {
  for (let layer = first; layer.length > 0; ) {
    const ends = new Map(layer.map(({ id, state }) => [id, state]))
    const waiting = await listWaitingFor(tx, [...ends.keys()])
    const skipped: Ended[] = []
    for (const { upstream_id, ...row } of waiting) {
      const task = batch.taskOf(row)
      const state = ends.get(upstream_id)
      if (task.state !== 'pending' || state === undefined) continue
      const follows = decideCounterStep(task.trigger_rule, state)
      if (follows === 'skip') {
        const because = {
          skipped_because: `${task.trigger_rule}: a dependency is ${state}`,
          failed_dependency_id: upstream_id,
        }
        batch.task(task, 'skipped', { by, at, payloads: { task_skipped: because } })
        skipped.push({ id: task.id, state: 'skipped' })
      }
      if (follows === 'decrement' && batch.decrement(task).remaining === 0)
        batch.task(task, 'queued', { by, at, payloads: { task_queued: { unblocked_by: upstream_id } } })
    }
    layer = skipped
  }
}
