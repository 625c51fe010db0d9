/**
 * Verdicts of workers: a check `{ "worker": true }` waits for one. A verifier starts with the output, and gives its verdict about the attempt and the digest that
 * it has seen. Each is one transaction under the lock of the mission.
 */
import type { Actor } from '#kernel/actor'
import type { EndState } from '#kernel/dag/readiness'
import type { JsonValue } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { findOutput, isUnchanged } from './accept-output.ts'
import { applyJudged, rounded } from './apply-verdict.ts'
import { Batch } from './batch.ts'
import { isSameWorker } from './claim-task.ts'
import { type MissionConfig, readMissionConfig } from './config.ts'
import { applyThresholds, joinVerdicts, type OutputVerdict, PASSED } from './decide-verdict.ts'
import { MISSION_KIND, MISSION_QUEUE, type MissionDeps } from './deps.ts'
import { lockMission, type StoredTask } from './mission.ts'
import { coordinator } from './plan-rows.ts'
import { cascade, showResult } from './settle.ts'
import { decideOnRefused, scoreOf } from './verify.ts'
import { taskFacts, refuseMissingTask, refuseTaskState } from './worker-calls.ts'

type Verifying = {
  readonly workspaceId: string
  readonly taskId: string
  readonly attempt: number
  /** The worker that verifies. */
  readonly workerId: string
}
type Looked = { readonly batch: Batch; readonly output: TaskOutput; readonly config: MissionConfig; readonly at: Date }
export type TaskOutput = {
  readonly task: StoredTask
  readonly result: JsonValue
  readonly artifact_checksum: string | null
}

/** Nothing is written unless the attempt waits for the verdict of a worker. */
function underVerification<T>(
  { commands: { db, now } }: MissionDeps,
  { workspaceId, taskId, attempt, workerId }: Verifying,
  work: (looked: Looked, tx: Tx) => Promise<Decision<T>>,
): Promise<Decision<T>> {
  return db.transaction(async (tx): Promise<Decision<T>> => {
    const [known] = await tx.run(findOutput, [taskId, workspaceId])
    const run = known && (await lockMission(tx, known.run_id))
    const [found] = run ? await tx.run(findOutput, [taskId, workspaceId]) : []
    if (!run || !found) return refuseMissingTask()
    const { result, artifact_checksum, ...task } = found
    const check = task.spec.verify?.[task.checks_passed]
    const isAsked = check !== undefined && 'worker' in check
    if (task.state !== 'verifying' || task.attempt_number !== attempt || !isAsked) return refuseTaskState(task)
    if (task.worker_id !== null && isSameWorker(task.worker_id, workerId))
      return refuse('missions.verdict.own_output', 'A worker does not verify its own output.', {
        facts: taskFacts(task),
      })
    const config = readMissionConfig(run.config)
    if (!config.ok) return config
    const output = { task, result, artifact_checksum }
    return work({ batch: new Batch(run), output, config: config.value, at: now() }, tx)
  })
}

/** Gives a verifier the output, and the time to look at it. */
export const startVerification = (
  deps: MissionDeps,
  by: Actor,
  { model, ...asked }: Verifying & { readonly model?: string | undefined },
): Promise<Decision<TaskOutput>> =>
  underVerification(deps, asked, async ({ batch, output, at }, tx) => {
    const { task } = output
    const started = { verifier_agent_id: null, verifier_model: model ?? null, check: task.checks_passed }
    const noted = { by: { ...by, kind: 'verifier' as const }, at, payloads: { task_verification_started: started } }
    batch.note('task_verification_started', noted, task.id)
    const moved = batch.change(task, { updated_at: at })
    await batch.commit(tx)
    return accept({ ...output, task: moved, result: showResult(deps, output) })
  })

/** A verdict about an output that is not the one of the digest counts for nothing. */
export const recordVerdict = (
  deps: MissionDeps,
  by: Actor,
  {
    verdict,
    outputChecksum,
    ...asked
  }: Verifying & { readonly verdict: OutputVerdict; readonly outputChecksum: string },
): Promise<Decision<StoredTask>> =>
  underVerification(deps, asked, async ({ batch, output, config, at }, tx) => {
    const { task, result, artifact_checksum } = output
    if (task.output_checksum !== outputChecksum || !isUnchanged(task, result, artifact_checksum))
      return refuse('missions.output.changed', 'The verdict is about another output.', { facts: taskFacts(task) })
    const joined = joinVerdicts({ ...PASSED, score: scoreOf(task) }, applyThresholds(verdict, config.verification))
    const { traceId } = by
    const set = { checks_passed: task.checks_passed + 1, verifier_score: rounded(joined.score), updated_at: at }
    const moved =
      joined.verdict === 'pass'
        ? batch.change(task, set)
        : applyJudged(batch, task, await decideOnRefused(tx, deps, config, task, joined), {
            at,
            traceId,
            config,
            verifier: by.id,
          })
    if (moved.state_type === 'terminal')
      await cascade(tx, batch, [{ id: moved.id, state: moved.state as EndState }], at, coordinator(traceId))
    await batch.commit(tx)
    await deps.commands.wake({ kind: MISSION_KIND, id: task.run_id }, { tx, queue: MISSION_QUEUE })
    return accept(moved)
  })
