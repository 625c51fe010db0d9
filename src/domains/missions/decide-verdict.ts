/** Verdicts about the output of a task, and what follows from one. Pure. */
import { decideRetry, retriesRemaining, tightenLimit } from '#kernel/retry'
import { missionRetryOf } from '#kernel/retry-policy'
import type { MissionConfig } from './config.ts'
import type { StoredTask } from './mission.ts'

/** From the best to the worst. */
export const verdicts = ['pass', 'unsure', 'fail'] as const
type VerdictValue = (typeof verdicts)[number]

/** `score` is between 0 and 1. `verdict` may be worse than the score says, never better. */
export type OutputVerdict = {
  readonly verdict: VerdictValue
  readonly score: number | null
  readonly feedback: string | null
}

export const PASSED: OutputVerdict = { verdict: 'pass', score: null, feedback: null }

const worse = (one: VerdictValue, other: VerdictValue): VerdictValue =>
  verdicts.indexOf(one) >= verdicts.indexOf(other) ? one : other

/** The worst verdict and the lowest score count; the feedback is that of the worst. */
export function joinVerdicts(one: OutputVerdict, other: OutputVerdict): OutputVerdict {
  const verdict = worse(one.verdict, other.verdict)
  const scores = [one.score, other.score].filter((score) => score !== null)
  const feedback = [one, other].flatMap((each) =>
    each.verdict === verdict && each.feedback !== null ? [each.feedback] : [],
  )
  return {
    verdict,
    score: scores.length === 0 ? null : Math.min(...scores),
    feedback: feedback.length === 0 ? null : feedback.join('\n'),
  }
}

type Thresholds = MissionConfig['verification']

/** At or above `pass_threshold`: pass. At or above `human_threshold`: a person decides. Below: fail. */
export function applyThresholds(
  given: OutputVerdict,
  { pass_threshold: pass, human_threshold: human }: Thresholds,
): OutputVerdict {
  const { verdict, score } = given
  if (score === null) return given
  return { ...given, verdict: worse(verdict, score >= pass ? 'pass' : score >= human ? 'unsure' : 'fail') }
}

export type Refused =
  | { readonly kind: 'review'; readonly reason: string }
  | { readonly kind: 'retry'; readonly delayMs: number; readonly retriesRemaining: number }
  | { readonly kind: 'failed'; readonly reason: string }

/** When the next attempt of a refused output may start. Undefined: none is left. */
export function decideQualityRetry(
  { attempt_number: attempt, spec }: Pick<StoredTask, 'attempt_number' | 'spec'>,
  config: Pick<MissionConfig, 'retry'>,
): Extract<Refused, { kind: 'retry' }> | undefined {
  const whole = missionRetryOf(config.retry)
  const settings = spec.max_retries === undefined ? whole : tightenLimit(whole, { retries: spec.max_retries })
  const decided = decideRetry(settings, { attempt, errorClass: 'quality', random: () => 0 })
  if (!decided.retry) return undefined
  return {
    kind: 'retry',
    delayMs: decided.delayMs,
    retriesRemaining: retriesRemaining(settings.limit, attempt),
  }
}

/**
 * What follows for an output that did not pass. A person is asked if the verifier is unsure, or if another attempt would repeat an effect of this one
 * (`standing`). Nothing but reads and artifacts stands: the attempt is repeated.
 */
export function decideRefused(
  { verdict, feedback }: OutputVerdict,
  task: Pick<StoredTask, 'attempt_number' | 'spec'>,
  config: Pick<MissionConfig, 'retry'>,
  standing: readonly string[],
): Refused {
  const said = feedback ?? 'no reason given'
  if (verdict !== 'fail') return { kind: 'review', reason: `The verifier is unsure: ${said}` }
  const retry = decideQualityRetry(task, config)
  if (!retry) return { kind: 'failed', reason: `The verifier refused the output: ${said}` }
  if (standing.length === 0) return retry
  return {
    kind: 'review',
    reason: `The verifier refused the output: ${said} Another attempt would repeat: ${standing.join(', ')}.`,
  }
}
