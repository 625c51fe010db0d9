/**
 * The part of a turn that verifies outputs. The checks of a task are taken in the order of the plan: some look at the output, some are commands, a worker or a
 * person gives the last. The first that does not pass decides what follows.
 */
import { type ArtifactDeps, readArtifactText } from '#domains/artifacts'
import type { EndState } from '#kernel/dag/readiness'
import { encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision } from '#kernel/refusal'
import { type Sql, statement } from '#store'
import { findSubmittedAs, isUnchanged, submitReview } from './accept-output.ts'
import { applyJudged, type Judged } from './apply-verdict.ts'
import { isUnpaid, submitAuxiliary } from './auxiliary.ts'
import { cutSummary } from './cards.ts'
import { type Check, judgeOutput, type Output, readVerdict, verifierOf } from './checks.ts'
import { applyThresholds, decideRefused, joinVerdicts, PASSED, type OutputVerdict } from './decide-verdict.ts'
import type { MissionConfig } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { NOBODY } from './events.ts'
import { outputArtifact } from './mission-task.ts'
import type { StoredTask } from './mission.ts'
import { coordinator } from './plan-rows.ts'
import { fillReferences } from './references.ts'
import { cascade, type Ended } from './settle.ts'
import { attemptsOf, listStandingEffects } from './standing-effects.ts'
import { exceedBudget } from './spending.ts'
import { findPlanDecision } from './start-plan.ts'
import { actAsRequester, type Found, write } from './turn.ts'

/** Tasks that one step verifies. */
const AT_ONCE = 32
/** A text that is longer is not read. */
const TEXT_BYTES_MAX = 5_000_000

/** The verifier does not fit into the limit of the mission. */
type Unpaid = { readonly t: 'unpaid' }

type OpenReview = {
  readonly task: StoredTask
  readonly result: JsonValue
  readonly artifact: (NonNullable<Output['artifact']> & { readonly location: string }) | null
  /** The command of the attempt, if it has labels. */
  readonly labelled_id: string | null
  /** The command that has ended: a verifier, or the question to a person. */
  readonly answer: { readonly status: string; readonly result: JsonValue; readonly error: string | null } | null
}

/** $1 mission, $2 limit. Tasks whose next check can be taken, or whose verifier or reviewer has answered. */
const listReviews = statement<
  StoredTask & { readonly [K in 'result' | 'artifact' | 'answer']: OpenReview[K] } & Pick<OpenReview, 'labelled_id'>
>(
  'missions.list_reviews',
  `select t.*, c.result, case when c.labels <> '[]' then c.command_id end as labelled_id,
  case when a.artifact_id is not null then jsonb_build_object('artifact_type', a.artifact_type, 'size_bytes', a.size_bytes, 'checksum', a.checksum,
    'location', a.location) end as artifact,
  case when v.command_id is not null then jsonb_build_object('status', v.status, 'result', v.result, 'error', v.error) end as answer
from missions.orchestration_tasks as t left join concord.commands as c on c.command_id = t.command_id
  left join concord.commands as v on v.command_id = t.review_command_id
  left join concord.artifacts as a on a.workspace_id = t.workspace_id
    and a.artifact_id = ${outputArtifact('t')}
where t.run_id = $1::uuid and t.state_type = 'paused'
  and case when t.review_command_id is null then t.state = 'awaiting_human' or not coalesce(t.spec->'verify'->t.checks_passed::int ? 'worker', false)
    else v.completed_at is not null end
order by t.sequence_number limit $2`,
)

async function listOpenReviews(sql: Sql, runId: string): Promise<readonly OpenReview[]> {
  const rows = await sql.run(listReviews, [runId, AT_ONCE])
  return rows.map(({ result, artifact, labelled_id, answer, ...task }) => ({
    task,
    result: result ?? task.output_summary,
    artifact,
    labelled_id,
    answer,
  }))
}

/** False: no task waits for a step. */
export async function verify(deps: MissionDeps, found: Found): Promise<boolean> {
  const { run, config, origin } = found
  const open = await listOpenReviews(deps.commands.db, run.id)
  if (open.length === 0) return false
  const judged = new Map<string, { readonly version: number; readonly judged: Judged | Unpaid }>()
  for (const review of open) {
    const one = review.task.state === 'verifying' ? judge(deps, found, review) : askPerson(deps, found, review)
    judged.set(review.task.id, { version: review.task.version_id, judged: await one })
  }
  await write(deps, run, async (batch, at, tx) => {
    const ended: Ended[] = []
    for (const { task } of await listOpenReviews(tx, run.id)) {
      const one = judged.get(task.id)
      if (one?.version !== task.version_id) continue
      if (one.judged.t === 'unpaid') {
        exceedBudget(batch, { at, traceId: origin.context.trace_id })
        continue
      }
      const moved = applyJudged(batch, task, one.judged, { at, traceId: origin.context.trace_id, config })
      if (moved.state_type === 'terminal') ended.push({ id: moved.id, state: moved.state as EndState })
    }
    await cascade(tx, batch, ended, at, coordinator(origin.context.trace_id))
  })
  return true
}

export const scoreOf = ({ verifier_score: score }: StoredTask) => (score === null ? null : Number(score))

/** Takes the checks one after the other, until one needs work or does not pass. */
async function judge(deps: MissionDeps, found: Found, review: OpenReview): Promise<Judged | Unpaid> {
  const { task, result, artifact, answer } = review
  const { verification } = found.config
  const own = new Map([[task.spec.temp_id, result]])
  if (!isUnchanged(task, result, artifact?.checksum ?? null))
    return decideOnRefused(deps.commands.db, deps, found.config, task, {
      verdict: 'unsure',
      score: scoreOf(task),
      feedback: 'The output has changed.',
    })
  const checks = task.spec.verify ?? []
  let joined: OutputVerdict = { ...PASSED, score: scoreOf(task) }
  let given = answer
  for (let passed = task.checks_passed; ; passed++) {
    const check = checks[passed]
    if (!check) return { t: 'passed', score: joined.score, by: 'auto' }
    if ('person' in check) return { t: 'person', score: joined.score }
    if ('worker' in check) return { t: 'waits', passed, score: joined.score, commandId: null }
    const verdict = given ? readAnswer(check, given, own) : judgeOutput(check, await readOutput(deps, check, review))
    given = null
    if (!verdict) {
      const submitted = await submitVerifier(deps, found, review, check, passed)
      if (submitted.ok) return { t: 'waits', passed, score: joined.score, commandId: submitted.value }
      if (isUnpaid(submitted)) return { t: 'unpaid' }
      const feedback = `The verifier could not start: ${submitted.reason}`
      return decideOnRefused(deps.commands.db, deps, found.config, task, {
        verdict: 'unsure',
        score: joined.score,
        feedback,
      })
    }
    joined = joinVerdicts(joined, applyThresholds(verdict, verification))
    if (joined.verdict !== 'pass') return decideOnRefused(deps.commands.db, deps, found.config, task, joined)
  }
}

function readAnswer(
  check: Check,
  { status, result, error }: NonNullable<OpenReview['answer']>,
  own: ReadonlyMap<string, JsonValue>,
): OutputVerdict {
  if (status === 'succeeded') return readVerdict(check, result, own)
  return { verdict: 'unsure', score: null, feedback: `The verifier is ${status}: ${error ?? 'no reason given'}` }
}

async function readOutput({ commands }: MissionDeps, check: Check, { result, artifact }: OpenReview): Promise<Output> {
  const isText = 'sections' in check
  const read =
    isText && artifact && artifact.size_bytes <= TEXT_BYTES_MAX && commands.artifacts
      ? await readText(commands.artifacts, artifact)
      : null
  return { result, artifact, text: artifact ? read : typeof result === 'string' ? result : null }
}

async function readText(deps: ArtifactDeps, artifact: NonNullable<OpenReview['artifact']>): Promise<string | null> {
  const text = await readArtifactText(deps, artifact)
  return text.ok ? text.value : null
}

async function submitVerifier(
  deps: MissionDeps,
  found: Found,
  { task, result, labelled_id }: OpenReview,
  check: Check,
  number: number,
): Promise<Decision<string>> {
  const { run } = found
  const key = `mission:${task.id}:${task.attempt_number}:verify:${number}`
  const known = await findSubmittedAs(deps.commands.db, run.workspace_id, key)
  if (known !== undefined) return accept(known)
  const verifier = verifierOf(check)
  const payload = fillReferences(verifier?.payload ?? {}, new Map([[task.spec.temp_id, result]]))
  if (!payload.ok) return payload
  return submitAuxiliary(deps, found, {
    kind: 'verifier',
    key,
    task,
    attempt: task.attempt_number,
    maxCost: verifier?.maxCost,
    taskName: verifier?.task ?? '',
    payload: payload.value as JsonObject,
    metadata: {
      mission_id: encodeId('mission', run.id),
      mission_task_id: encodeId('mission_task', task.id),
      output_checksum: task.output_checksum,
    },
    labelled: [labelled_id],
  })
}

/** What follows for an output that did not pass. */
export async function decideOnRefused(
  sql: Sql,
  { commands: { catalog } }: MissionDeps,
  config: MissionConfig,
  task: StoredTask,
  given: OutputVerdict,
): Promise<Judged> {
  const standing = await listStandingEffects(sql, catalog, task.workspace_id, attemptsOf(task))
  const verdict = { ...given, feedback: given.feedback === null ? null : cutSummary(given.feedback) }
  const names = [...new Set(standing.map(({ effect_type }) => effect_type))]
  return { t: 'refused', verdict, next: decideRefused(verdict, task, config, names) }
}

/** Asks a person, or reads the answer. */
async function askPerson(deps: MissionDeps, found: Found, { task, answer }: OpenReview): Promise<Judged> {
  const { run, origin, config } = found
  const { db } = deps.commands
  if (!answer || task.review_command_id === null) {
    const by = await actAsRequester(deps.commands, run, origin)
    return { t: 'asked', command: by.ok ? await submitReview(deps, by.value, { run, task, origin, config }) : by }
  }
  const decided = await findPlanDecision(db, task.review_command_id)
  const said = decided?.status === 'approved' ? null : decided?.decision_reason
  const reason = said ?? answer.error ?? `The review is ${answer.status}.`
  const decision =
    answer.status === 'succeeded'
      ? 'approved'
      : answer.status === 'cancelled'
        ? 'cancelled'
        : decided?.status === 'changes_requested'
          ? 'changes'
          : 'rejected'
  return { t: 'reviewed', by: decided?.decided_by ?? NOBODY, decision, reason }
}
