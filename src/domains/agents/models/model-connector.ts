/** A model as a connector with one operation, `generate`: the gate gives it row, limits, circuit breaker, checked addresses and secret. */
import type { LanguageModel } from 'ai'
import {
  type Connector,
  type ConnectorCall,
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorResult,
  defineConnector,
  failureOfStatus,
  findAddressFlaws,
  httpReachOf,
  type Network,
  openGuardedFetch,
  succeeded,
} from '#domains/connectors'
import { type JsonObject, type JsonValue, utf8Size } from '#kernel/json-value'
import type { ModelAnswer, ModelUsage } from '../agent-runtime.ts'
import {
  type GenerateInput,
  generateInput,
  generateOutput,
  openNames,
  readCalls,
  toModelMessages,
  toToolSet,
} from './model-messages.ts'
import { findTermFlaws, type ModelTerms, readUsage, worstUsage } from './model-terms.ts'

/** What a provider of the AI SDK needs to make its model. It must use this `fetch` and no other way out. */
type LanguageModelGiven = {
  readonly baseUrl: string
  readonly model: string
  readonly apiKey: string | undefined
  readonly fetch: typeof globalThis.fetch
}

/** A language model of the AI SDK, as far as its type is part of ours: the declarations of the SDK do not compile under every strict setting. */
type ProviderModel = { readonly specificationVersion: string; readonly provider: string; readonly modelId: string }

export type ModelInput = Omit<ModelTerms, 'overheadTokens'> &
  Network & {
    readonly overheadTokens?: number
    readonly baseUrl: string
    /** A reference such as `env://OPENAI_API_KEY`; absent for a server without a key. */
    readonly apiKey?: string
    readonly description?: string
    readonly timeoutMs?: number
    readonly rateLimits?: Partial<ConnectorDefinition['rate_limits']>
    readonly breaker?: ConnectorDefinition['breaker']
    /** The strictest class of data that may be sent to it. */
    readonly dataClassMax?: ConnectorDefinition['data_class_max']
    /** For providers with an API of their own: `({ fetch, apiKey, model }) => createAnthropic({ fetch, apiKey })(model)`. */
    readonly languageModel?: (given: LanguageModelGiven) => ProviderModel
  }

/** A model of a project: its terms, and the connector that calls it. */
export type ModelDefinition = {
  readonly kind: 'model'
  readonly terms: ModelTerms
  readonly connector: ConnectorDefinition
}

const TIMEOUT_MS = 120_000
const OVERHEAD_TOKENS = 1_024
/** The wire format is larger than the answer: escapes, and fields that nobody reads. */
const WIRE_BYTES_MAX = 4_194_304

export function modelConnector(input: ModelInput): ModelDefinition {
  const { name, provider, model, prices, contextTokens, outputTokensMax, baseUrl, apiKey } = input
  const overheadTokens = input.overheadTokens ?? OVERHEAD_TOKENS
  const terms: ModelTerms = { name, provider, model, prices, contextTokens, overheadTokens, outputTokensMax }
  const connector = defineConnector({
    name,
    description: input.description ?? `The model ${model} of ${provider}.`,
    connector_type: 'model',
    auth: apiKey === undefined ? {} : { mode: 'bearer', secret_ref: apiKey },
    rate_limits: input.rateLimits ?? {},
    ...(input.breaker ? { breaker: input.breaker } : {}),
    ...(input.dataClassMax ? { data_class_max: input.dataClassMax } : {}),
    operations: [
      {
        name: 'generate',
        description: `Asks ${model} for one answer. It executes nothing: tools are offered, and its calls come back as data.`,
        input: generateInput,
        output: generateOutput,
        // The provider charges for every call, and takes no key.
        side_effect_class: 'opaque',
        // An answer is as trusted as what the model was asked, and the run has the labels of that.
        output_trust: 'trusted',
        timeout_ms: input.timeoutMs ?? TIMEOUT_MS,
        record: 'digest',
      },
    ],
    settings: {
      base_url: baseUrl,
      provider,
      model,
      prices: { ...prices } as JsonObject,
      context_tokens: contextTokens,
      overhead_tokens: overheadTokens,
      output_tokens_max: outputTokensMax,
    },
    flaws: [...findAddressFlaws('baseUrl', baseUrl, input.reach), ...findTermFlaws(terms)],
    open: () => openModel(input, terms),
  })
  return Object.freeze({ kind: 'model', terms, connector })
}

function openModel(input: ModelInput, terms: ModelTerms): Connector {
  return {
    name: terms.name,
    connector_type: 'model',
    capabilities: () => ['generate'],
    // The gate has checked the input against the schema of the only operation.
    call: (call) => generate(input, terms, call, call.input as GenerateInput),
  }
}

async function generate(
  input: ModelInput,
  terms: ModelTerms,
  { context }: ConnectorCall,
  asked: GenerateInput,
): Promise<ConnectorResult> {
  let failure: ConnectorFailure | undefined
  const guarded = openGuardedFetch({
    reach: httpReachOf(new URL(input.baseUrl), input.reach),
    resolve: input.resolve,
    ca: input.ca,
    headers: {
      ...(context.traceparent === undefined ? {} : { traceparent: context.traceparent }),
      ...(context.idempotency_key === null ? {} : { 'idempotency-key': context.idempotency_key }),
    },
    signal: context.signal,
    bytesMax: WIRE_BYTES_MAX,
    onFailure: (seen) => (failure ??= seen),
  })
  const fetch: typeof globalThis.fetch = async (address, init) => {
    const answer = await guarded(address instanceof Request ? address.url : address, init)
    if (answer.ok) return answer
    // In Concord's words: an error text of a provider can repeat what it was sent.
    failure ??= failureOfStatus({ status: answer.status, headers: Object.fromEntries(answer.headers) })
    throw failure
  }
  const apiKey = input.apiKey === undefined ? undefined : await context.secret(input.apiKey)
  const names = openNames(asked.tools.map(({ name }) => name))
  const modelOf = input.languageModel ?? openAiCompatible(terms)
  const cap = Math.min(asked.output_tokens_max, terms.outputTokensMax)
  // Loaded with the first call: a project without agents does not pay for it at start.
  const { generateText, jsonSchema } = await import('ai')
  try {
    const { text, toolCalls, usage, response } = await generateText({
      // The SDK refuses a model of another shape.
      model: (await modelOf({ baseUrl: input.baseUrl, model: terms.model, apiKey, fetch })) as LanguageModel,
      messages: [...toModelMessages(asked.messages, names)],
      allowSystemInMessages: true,
      tools: toToolSet(asked.tools, names, jsonSchema),
      maxOutputTokens: cap,
      maxRetries: 0,
      abortSignal: context.signal,
      telemetry: { isEnabled: false },
    })
    const calls = readCalls(toolCalls, names)
    const worst = worstUsage(terms, utf8Size(JSON.stringify(asked)), cap)
    const said = {
      inputTokens: usage.inputTokens,
      outputTokens: usage.outputTokens,
      cachedTokens: usage.inputTokenDetails.cacheReadTokens,
      reasoningTokens: usage.outputTokenDetails.reasoningTokens,
    }
    const used = readUsage(said, text === '' && calls.length === 0, worst)
    const answer: ModelAnswer = { text: text === '' ? null : text, calls, usage: used }
    // The gate compares it with its schema.
    return succeeded(answer as unknown as JsonValue, spanOf(terms, used, response.modelId))
  } catch (error) {
    if (failure) throw failure
    if (error instanceof ConnectorFailure) throw error
    throw new ConnectorFailure('transient_connector_error', 'The answer of the model cannot be read.', 'unknown')
  }
}

function openAiCompatible({ provider }: ModelTerms): (given: LanguageModelGiven) => Promise<ProviderModel> {
  return async ({ baseUrl, model, apiKey, fetch }) => {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
    const key = apiKey === undefined ? {} : { apiKey }
    return createOpenAICompatible({ name: provider, baseURL: baseUrl, fetch, ...key })(model)
  }
}

/** The figures of a call under the GenAI names of OpenTelemetry, which still change: this is their only place. No content. */
function spanOf({ provider, model }: ModelTerms, usage: ModelUsage, responseModel: string): JsonObject {
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': provider,
    'gen_ai.request.model': model,
    'gen_ai.response.model': responseModel,
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
  }
}
