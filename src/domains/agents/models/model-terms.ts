/** The terms of a model as data: what it costs, how much it reads and writes, and the most that one call can use. Pure. */
import type { TokenPrices } from '#kernel/agents/price'
import { parseMoney } from '#kernel/money'
import type { ModelUsage } from '../agent-runtime.ts'

export type ModelTerms = {
  /** The name in the project: agents ask for it. */
  readonly name: string
  /** The provider by its name in the GenAI conventions: `openai`, `anthropic`, `mistral_ai`. */
  readonly provider: string
  /** The name of the model at the provider. */
  readonly model: string
  readonly prices: TokenPrices
  /** How many tokens the model reads and writes at most in one call. */
  readonly contextTokens: number
  /** How many tokens the provider adds to a request: its template, and its own instructions about tools. */
  readonly overheadTokens: number
  readonly outputTokensMax: number
}

export function findTermFlaws(terms: ModelTerms): readonly string[] {
  // A project in JavaScript may leave fields out.
  const prices: Partial<TokenPrices> = (terms as Partial<ModelTerms>).prices ?? {}
  const wrong = (['input', 'output', 'cachedInput'] as const).filter((kind) => {
    const price = prices[kind]
    return kind === 'cachedInput' && price === undefined ? false : typeof price !== 'string' || !parseMoney(price).ok
  })
  const counts = (['contextTokens', 'overheadTokens', 'outputTokensMax'] as const).filter(
    (field) => !Number.isSafeInteger(terms[field]) || terms[field] < (field === 'overheadTokens' ? 0 : 1),
  )
  return [
    ...(['provider', 'model'] as const)
      .filter((field) => typeof terms[field] !== 'string' || terms[field].trim() === '')
      .map((field) => `${field} is empty.`),
    ...wrong.map((kind) => `prices.${kind} must be a decimal in a text, such as '0.15': units per million tokens.`),
    ...counts.map((field) => `${field} must be a whole number of at least ${field === 'overheadTokens' ? 0 : 1}.`),
    ...(terms.outputTokensMax > terms.contextTokens ? ['outputTokensMax must not exceed contextTokens.'] : []),
  ]
}

/**
 * The most that a call can use: a token has at least one byte, and the model reads no more than its context. Reasoning is part of the
 * output, and nothing counts as cached.
 */
export function worstUsage(
  terms: Pick<ModelTerms, 'contextTokens' | 'overheadTokens' | 'outputTokensMax'>,
  requestBytes: number,
  outputTokensMax: number,
): ModelUsage {
  return {
    inputTokens: Math.min(requestBytes + terms.overheadTokens, terms.contextTokens),
    outputTokens: Math.min(outputTokensMax, terms.outputTokensMax),
    cachedTokens: 0,
    reasoningTokens: 0,
  }
}

export type SaidUsage = { readonly [Figure in keyof ModelUsage]: number | undefined }

/**
 * Reads what the provider says that a call has used. Figures that cannot be true are no figures: the worst case counts, so that leaving
 * them out saves nothing. Figures above the worst case are kept: the budget has to see them.
 */
export function readUsage(said: SaidUsage, isEmpty: boolean, worst: ModelUsage): ModelUsage {
  const { inputTokens = 0, outputTokens = 0, cachedTokens = 0, reasoningTokens = 0 } = said
  const usage = { inputTokens, outputTokens, cachedTokens, reasoningTokens }
  const isReported =
    Object.values(usage).every((figure) => Number.isSafeInteger(figure) && figure >= 0) &&
    inputTokens > 0 &&
    (outputTokens > 0 || isEmpty) &&
    cachedTokens <= inputTokens &&
    reasoningTokens <= outputTokens
  return isReported ? usage : worst
}
