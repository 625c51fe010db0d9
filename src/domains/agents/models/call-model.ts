/** One call of a model through the gate of the connectors, and the most that it can use. */
import type { ConnectorRequest, ConnectorResult, Connectors } from '#domains/connectors'
import { utf8Size } from '#kernel/json-value'
import type { ModelAnswer, ModelRequest, ModelUsage } from '../agent-runtime.ts'
import { toGenerateInput } from './model-messages.ts'
import { type ModelTerms, worstUsage } from './model-terms.ts'

/** The run, command, effect and key that a call belongs to. */
type ModelCallFor = Pick<ConnectorRequest, 'command_id' | 'context'> & { readonly agent_run_id: string }

export type ModelCalled =
  | { readonly ok: true; readonly answer: ModelAnswer }
  | { readonly ok: false; readonly error: NonNullable<ConnectorResult['error']> }

/** The most that the call can use, for the reservation before it. */
export function worstOf(terms: ModelTerms, request: ModelRequest): ModelUsage {
  const bytes = utf8Size(JSON.stringify(toGenerateInput(request)))
  return worstUsage(terms, bytes, request.outputTokensMax)
}

/** One call, one row. It asks once: what a failure means is for the caller to decide. */
export async function callModel(
  connectors: Pick<Connectors, 'call'>,
  request: ModelRequest,
  calledFor: ModelCallFor,
): Promise<ModelCalled> {
  const input = toGenerateInput(request)
  const called = { ...calledFor, connector_name: request.model, capability: 'generate', input }
  const { ok, output, error } = await connectors.call(called)
  // The gate has checked it against the schema.
  if (ok) return { ok, answer: output as unknown as ModelAnswer }
  return { ok, error: error ?? { error_class: 'internal_error', message: 'The call failed.', happened: 'unknown' } }
}
