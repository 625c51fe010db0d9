/** Turns the operations of connectors into definitions: contract, retry policy, and an effect with its undo and its lookup. */
import {
  type ConnectorDefinition,
  type ConnectorOperationContract,
  type Connectors,
  fillTemplate,
  type ReadBack,
  valueIn,
} from '#domains/connectors'
import { highestClass } from '#kernel/data-class'
import { encodeId } from '#kernel/ids'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { higherRisk } from '#kernel/policy/policy'
import { defineRetryPolicy } from '#kernel/retry-policy'
import { defineConnectorOperation, type Definition, registerRetry } from './definitions.ts'
import { defineEffect, type EffectCall, EffectFailure, type LookupResult, type UndoCall } from './effect-definition.ts'

/** Added to the timeout of the operation, so that the connector gate times out before the effect does. */
const GATE_MS = 10_000

export function connectorDefinitions(connectors: Connectors): readonly Definition[] {
  return connectors.definitions.flatMap((definition) =>
    definition.operations.flatMap((operation) => definitionsOf(connectors, definition, operation)),
  )
}

function definitionsOf(
  connectors: Connectors,
  definition: ConnectorDefinition,
  operation: ConnectorOperationContract,
): readonly Definition[] {
  const name = `${definition.name}.${operation.name}`
  const { compensation, read_back, idempotency } = operation
  const effectClass = operation.side_effect_class === 'none' ? 'read' : operation.side_effect_class
  const call = callsTo(connectors, definition.name)
  const undoOf = (undone: NonNullable<typeof compensation>) => {
    const undoing = definition.operations.find((each) => each.name === undone.operation)
    const undoClass = undoing?.side_effect_class ?? 'opaque'
    const inputOf = ({ undone: { payload, result }, idempotencyKey: key }: UndoCall) =>
      // A stored result is JSON.
      filled(undone.input, { input: payload, output: result as JsonValue, key })
    const asked = undoing?.read_back
    const undoName = undone.name ?? `${name}.undo`
    return {
      name: undoName,
      class: undoClass === 'none' ? ('opaque' as const) : undoClass,
      timeout_ms: (undoing?.timeout_ms ?? operation.timeout_ms) + GATE_MS,
      do: async (from: UndoCall) => {
        const done = await call(undone.operation, from, inputOf(from))
        from.emit(undoName)
        return done
      },
      ...(asked && { find: (from: UndoCall) => lookUp(call, asked, from, inputOf(from)) }),
    }
  }
  return [
    defineConnectorOperation({
      connector: definition.name,
      operation: operation.name,
      side_effect: effectClass !== 'read',
      idempotency_required: idempotency.required,
      idempotency_key_template: idempotency.key_template,
      approval_required: operation.approval_required,
      output_trust: operation.output_trust,
    }),
    registerRetry(
      defineRetryPolicy({
        operation: name,
        retryable: operation.retryable,
        max_attempts: operation.attempts_max,
        requires_idempotency_key: idempotency.required,
        ...(operation.backoff_seconds === null ? {} : { backoff_seconds: operation.backoff_seconds }),
      }),
    ),
    defineEffect({
      effect_type: `connector.${name}`,
      class: effectClass,
      risk_level: higherRisk(definition.risk_level, operation.risk_level),
      timeout_ms: operation.timeout_ms + GATE_MS,
      do: async (from) => keepOutput(operation, from, await call(operation.name, from, from.payload)),
      ...(read_back && { find: (from: EffectCall) => lookUp(call, read_back, from, from.payload) }),
      ...(compensation && { undo: undoOf(compensation), requires_compensation: true }),
    }),
  ]
}

/** What is long, or about people, does not stay in the result of an effect, which is kept for ever. */
async function keepOutput(
  { name, output_artifact: type, output_classes }: ConnectorOperationContract,
  { artifacts }: Pick<EffectCall, 'artifacts'>,
  output: JsonValue,
): Promise<JsonValue> {
  if (type === null || !isJsonObject(output)) return output
  const parts = Object.entries(output)
  const isKept = (value: JsonValue | undefined) => typeof value === 'object' && value !== null
  const content = Object.fromEntries(parts.filter(([, value]) => isKept(value)))
  const rest = parts.filter(([, value]) => typeof value === 'number' || typeof value === 'boolean')
  const data_class = highestClass(output, output_classes)
  const { artifact_id } = await artifacts.write({ type, title: name, content: { json: content }, data_class })
  return { artifact_id: encodeId('artifact', artifact_id), ...Object.fromEntries(rest) }
}

type CallOperation = (operation: string, from: EffectCall, input: JsonObject) => Promise<JsonValue>

function callsTo(connectors: Connectors, connector_name: string): CallOperation {
  return async (capability, from, input) => {
    const { commandId: command_id, workspaceId: workspace_id, effectId: domain_effect_id, traceId: trace_id } = from
    const { attempt, idempotencyKey: idempotency_key, signal } = from
    const context = { workspace_id, domain_effect_id, trace_id, attempt, idempotency_key, signal }
    const { ok, output, error } = await connectors.call({ connector_name, capability, input, command_id, context })
    if (ok) return output
    throw new EffectFailure(
      error?.error_class ?? 'internal_error',
      error?.message ?? 'The call failed.',
      error?.happened ?? 'unknown',
      error?.retry_after_ms,
    )
  }
}

async function lookUp(call: CallOperation, asked: ReadBack, from: EffectCall, of: JsonObject): Promise<LookupResult> {
  const input = filled(asked.input, { input: of, output: null, key: from.idempotencyKey })
  const output = await call(asked.operation, from, input).catch((error: unknown) => {
    // A failed lookup changed nothing, but it leaves the outcome of the effect unknown.
    throw error instanceof EffectFailure ? new EffectFailure(error.errorClass, error.message, 'unknown') : error
  })
  const at = valueIn(output, asked.found.split('.'))
  const isThere = at !== undefined && at !== null && at !== false && !(Array.isArray(at) && at.length === 0)
  if (!isThere) return { found: false }
  const result = asked.result === undefined ? output : valueIn(output, asked.result.split('.'))
  return { found: true, result: result ?? output }
}

function filled(template: JsonObject, facts: Parameters<typeof fillTemplate>[1]): JsonObject {
  const input = fillTemplate(template, facts)
  if (input.ok) return input.value
  throw new EffectFailure('validation_error', input.reason, 'no')
}
