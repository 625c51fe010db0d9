/** Writes what a verifier or a person has decided about the output of a task: the move, its event, and the fields of the row. */
import type { Decision } from '#kernel/refusal'
import type { Batch, MissionActor } from './batch.ts'
import { cutSummary } from './cards.ts'
import type { MissionConfig } from './config.ts'
import { decideQualityRetry, type Refused, type OutputVerdict } from './decide-verdict.ts'
import { NOBODY } from './events.ts'
import type { StoredTask } from './mission.ts'

/** What one look at a task has found. */
export type Judged =
  | { readonly t: 'passed'; readonly score: number | null; readonly by: string }
  | { readonly t: 'refused'; readonly verdict: OutputVerdict; readonly next: Refused }
  /** A verifier works, or a worker is waited for. */
  | { readonly t: 'waits'; readonly passed: number; readonly score: number | null; readonly commandId: string | null }
  | { readonly t: 'person'; readonly score: number | null }
  | { readonly t: 'asked'; readonly command: Decision<string> }
  | {
      readonly t: 'reviewed'
      readonly by: string
      readonly decision: 'approved' | 'changes' | 'rejected' | 'cancelled'
      readonly reason: string
    }

type Applying = {
  readonly at: Date
  readonly traceId: string
  readonly config: MissionConfig
  /** The worker that gave the verdict. */
  readonly verifier?: string
}

export const rounded = (score: number | null) => (score === null ? null : score.toFixed(2))
/** A new attempt is a new command, with a verdict of its own. */
const forNewAttempt = { command_id: null, review_command_id: null, checks_passed: 0, failure_type: 'quality' } as const

const failed = (task: StoredTask, reason: string) => ({
  task_failed: { reason, total_attempts: task.attempt_number, total_cost: task.cost },
})

export function applyJudged(batch: Batch, task: StoredTask, judged: Judged, applying: Applying): StoredTask {
  const { at, traceId, verifier = NOBODY } = applying
  const by: MissionActor = { id: verifier, kind: 'verifier', traceId }
  switch (judged.t) {
    case 'waits': {
      const { passed, score, commandId } = judged
      if (commandId !== null) {
        const started = { verifier_agent_id: null, verifier_model: null, check: passed }
        batch.note('task_verification_started', { by, at, payloads: { task_verification_started: started } }, task.id)
      }
      return batch.change(task, {
        checks_passed: passed,
        verifier_score: rounded(score),
        review_command_id: commandId,
        // Each verifier has its own time.
        updated_at: at,
      })
    }
    case 'passed':
      return batch.task(task, 'completed', {
        by,
        at,
        payloads: {
          task_verification_passed: {
            score: judged.score,
            verifier_feedback: null,
            output_checksum: task.output_checksum,
          },
        },
        set: { verified_by: judged.by, verifier_score: rounded(judged.score), error_message: null, failure_type: null },
      })
    case 'person':
      return ask(batch, task, 'The plan asks for a person.', judged.score, by, at)
    case 'refused':
      return refuseOutput(batch, task, judged, by, at)
    case 'asked':
      if (judged.command.ok) return batch.change(task, { review_command_id: judged.command.value })
      return reject(batch, task, `No person could be asked: ${judged.command.reason}`, NOBODY, applying)
    case 'reviewed':
      return applyReview(batch, task, judged, applying)
  }
}

function ask(
  batch: Batch,
  task: StoredTask,
  reason: string,
  score: number | null,
  by: MissionActor,
  at: Date,
): StoredTask {
  return batch.task(task, 'awaiting_human', {
    by,
    at,
    payloads: { task_human_review_requested: { reason, score } },
    set: { error_message: cutSummary(reason), verifier_score: rounded(score), review_command_id: null },
  })
}

function refuseOutput(
  batch: Batch,
  task: StoredTask,
  { verdict: { score, feedback }, next }: Extract<Judged, { t: 'refused' }>,
  by: MissionActor,
  at: Date,
): StoredTask {
  const verifier_score = rounded(score)
  switch (next.kind) {
    case 'review':
      return ask(batch, task, cutSummary(next.reason), score, by, at)
    case 'retry': {
      const refused = { score, verifier_feedback: feedback, retries_remaining: next.retriesRemaining }
      return batch.task(task, 'awaiting_retry', {
        by,
        at,
        payloads: { task_verification_failed: refused },
        set: {
          ...forNewAttempt,
          verifier_score,
          error_message: feedback,
          due_at: new Date(at.getTime() + next.delayMs),
        },
      })
    }
    case 'failed': {
      const reason = cutSummary(next.reason)
      const set = { verifier_score, error_message: reason, failure_type: 'quality' } as const
      return batch.task(task, 'failed', { by, at, payloads: failed(task, reason), set })
    }
  }
}

function applyReview(
  batch: Batch,
  task: StoredTask,
  { by: person, decision, reason }: Extract<Judged, { t: 'reviewed' }>,
  applying: Applying,
): StoredTask {
  const { at, traceId, config } = applying
  const by: MissionActor = { id: person, kind: 'human', traceId }
  switch (decision) {
    case 'approved':
      return batch.task(task, 'completed', {
        by,
        at,
        payloads: { task_human_approved: { approved_by: person, output_checksum: task.output_checksum } },
        set: { verified_by: 'human', error_message: null, failure_type: null },
      })
    case 'cancelled':
      return batch.task(task, 'cancelled', {
        by,
        at,
        payloads: { task_cancelled: { cancelled_by: person === NOBODY ? null : person } },
        set: { error_message: cutSummary(reason) },
      })
    case 'rejected':
      return reject(batch, task, reason, person, applying)
    case 'changes': {
      const retry = decideQualityRetry(task, config)
      if (!retry) return reject(batch, task, `${reason} No retry is left.`, person, applying)
      const rejected = { rejected_by: person, reason, retries_remaining: retry.retriesRemaining }
      return batch.task(task, 'awaiting_retry', {
        by,
        at,
        payloads: { task_human_rejected: rejected },
        set: {
          ...forNewAttempt,
          error_message: cutSummary(reason),
          due_at: new Date(at.getTime() + retry.delayMs),
        },
      })
    }
  }
}

function reject(batch: Batch, task: StoredTask, reason: string, person: string, { at, traceId }: Applying): StoredTask {
  const said = cutSummary(reason)
  return batch.task(task, 'failed', {
    by: { id: person, kind: 'human', traceId },
    at,
    payloads: {
      task_human_rejected: { rejected_by: person, reason: said, retries_remaining: 0 },
      ...failed(task, said),
    },
    set: { error_message: said, failure_type: 'quality' },
  })
}
