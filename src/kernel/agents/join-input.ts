/** What a join sees of a swarm: how its agents ended, their artifacts and the evaluations of these. Never a message. */
export type JoinArtifact = {
  readonly artifactId: string
  readonly artifactType: string
  readonly contentHash: string
}

/** An agent that works on the objective. Judges are no workers: they appear by their evaluations. */
export type JoinWorker = {
  readonly agentRunId: string
  /** Null: still at work. */
  readonly status: 'succeeded' | 'failed' | 'cancelled' | 'expired' | null
  /** The time of the end; texts of times sort like times. */
  readonly endedAt: string | null
  readonly isRequired: boolean
  /** The part of the work that `map_reduce` gave to it. */
  readonly part: string | null
  readonly artifacts: readonly JoinArtifact[]
}

/** `subjectId` is the artifact that was evaluated, `by` the run of the judge. */
export type JoinEvaluation = {
  readonly subjectId: string
  readonly by: string
  readonly decision: string
  readonly confidence: number
}

type JoinSettings = {
  /** `quorum`: how many must succeed; null: more than half. */
  readonly needed: number | null
  /** `evaluator_selection` and `best_of_n`: the lowest confidence that can be selected. */
  readonly threshold: number
  /** `best_of_n`: how many candidates are compared. */
  readonly candidates: number
  /** `consensus`: the share of workers whose results must be equal. */
  readonly share: number
  /** `map_reduce`: who puts the parts together. */
  readonly reduce: 'list' | 'coordinator'
}

export type JoinInput = {
  readonly workers: readonly JoinWorker[]
  readonly evaluations: readonly JoinEvaluation[]
  readonly haveJudgesEnded: boolean
  /** The artifact that the coordinator or the reducer wrote from those of the workers; `none`: it ended without one. */
  readonly synthesis: JoinArtifact | 'none' | null
  /** The answer of a person. */
  readonly review: 'approved' | 'rejected' | null
  readonly settings: JoinSettings
}

/** The five fields of every join, as stored. */
export type Joined = {
  readonly decision: 'succeeded' | 'partially_succeeded' | 'failed'
  readonly summary: string
  readonly selected_artifact_id: string | null
  readonly confidence: number
  readonly requires_human_review: boolean
}

/** `losers` are the runs whose work is not part of the result: they are cancelled and undone. */
export type JoinStep =
  | { readonly kind: 'wait' }
  | { readonly kind: 'ask'; readonly whom: 'coordinator' | 'judges' | 'reducer' | 'person' }
  | { readonly kind: 'joined'; readonly result: Joined; readonly losers: readonly string[] }

export const wait: JoinStep = { kind: 'wait' }

export function askNext(whom: 'coordinator' | 'judges' | 'reducer' | 'person'): JoinStep {
  return { kind: 'ask', whom }
}

export function joined(
  decision: Joined['decision'],
  summary: string,
  more: { readonly selected?: string | null; readonly confidence?: number; readonly losers?: readonly string[] } = {},
): JoinStep {
  const { selected = null, confidence = 0, losers = [] } = more
  const result = { decision, summary, selected_artifact_id: selected, confidence, requires_human_review: false }
  return { kind: 'joined', result, losers: [...losers].sort() }
}

/** A worker that succeeded and left an artifact. */
export type Candidate = { readonly agentRunId: string; readonly endedAt: string; readonly artifact: JoinArtifact }

/** In the order of their runs, so that the order of arrival means nothing. */
export function candidatesOf(workers: readonly JoinWorker[]): readonly Candidate[] {
  return [...workers]
    .sort((one, other) => compareTexts(one.agentRunId, other.agentRunId))
    .flatMap(({ agentRunId, status, endedAt, artifacts }) => {
      const artifact = resultOf(artifacts)
      return status === 'succeeded' && artifact ? [{ agentRunId, endedAt: endedAt ?? '', artifact }] : []
    })
}

/** The newest artifact that is no evaluation: ids only increase. */
function resultOf(artifacts: readonly JoinArtifact[]): JoinArtifact | null {
  let newest: JoinArtifact | null = null
  for (const each of artifacts)
    if (each.artifactType !== 'evaluation_result' && (newest === null || each.artifactId > newest.artifactId))
      newest = each
  return newest
}

export function isAtWork({ status }: JoinWorker): boolean {
  return status === null
}

export function countSuccesses(workers: readonly JoinWorker[]): number {
  return workers.filter(({ status }) => status === 'succeeded').length
}

export function othersThan(workers: readonly JoinWorker[], kept: readonly string[]): readonly string[] {
  return workers.flatMap(({ agentRunId }) => (kept.includes(agentRunId) ? [] : [agentRunId]))
}

export function compareTexts(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
