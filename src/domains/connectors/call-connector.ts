/** The gate: the only way to call a connector. It checks the request, writes the row, calls under the limits, cleans the answer and completes the row. */
import { checkSecrets, dataClasses, highestClass, redactPayload } from '#kernel/data-class'
import type { JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { accept } from '#kernel/refusal'
import { activeTraceparent } from '#telemetry'
import {
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorOperationContract,
  type ConnectorRequest,
  type ConnectorResult,
  unsupported,
} from './connector.ts'
import { currentContract, openConfirm, type StoredDefinition } from './definitions.ts'
import type { ConnectorDeps, OpenedConnector } from './deps.ts'
import { beginCall, completeCall, digestOf } from './invocation.ts'
import { callInTime, judgeAnswer } from './judge-answer.ts'
import { openScrubber, openSecretAccess } from './secrets.ts'
import { traceCall } from './trace-call.ts'

/** A refused request has no row: the effect of the command records the reason. */
export async function callConnector(
  deps: ConnectorDeps,
  opened: OpenedConnector | undefined,
  request: ConnectorRequest,
): Promise<ConnectorResult> {
  const declared = opened?.definition.operations.find(({ name }) => name === request.capability)
  if (!opened || !declared) return unsupported(request.capability)
  try {
    const { operation, stored } = await currentContract(deps, opened.definition, declared, request.context.workspace_id)
    const input = checkInput(opened.definition, operation, request)
    passBreaker(deps, opened)
    const fitted = { ...request, input }
    return await traceCall(opened.definition, request, () => callOperation(deps, opened, operation, stored, fitted))
  } catch (error) {
    if (error instanceof ConnectorFailure) return error.toResult()
    throw error
  }
}

async function callOperation(
  deps: ConnectorDeps,
  { definition, connector, breaker }: OpenedConnector,
  operation: ConnectorOperationContract,
  stored: StoredDefinition | undefined,
  request: ConnectorRequest,
): Promise<{ readonly result: ConnectorResult; readonly answer: unknown }> {
  const { context } = request
  const called = { definition, operation }
  let isBegun = false
  try {
    const scrubber = openScrubber()
    const secrets = await openSecretAccess(deps.secrets, definition, scrubber)
    const recorded = redactPayload(request.input, operation.input_classes, 'confidential')
    const kept = operation.record === 'digest' ? digestOf(request.input) : scrubber.value(recorded)
    const invocationId = await beginCall(deps, called, request, kept)
    isBegun = true
    const confirmDefinition = openConfirm(deps, called, context, stored, scrubber)
    const startedAt = deps.now()
    const { timeout_ms, output_max_bytes } = operation
    const answer = await callInTime(deps, timeout_ms, context.signal, (signal) => {
      const traceparent = activeTraceparent()
      const given = { ...secrets, confirmDefinition, signal, timeout_ms, output_max_bytes, traceparent }
      return connector.call({ ...request, context: { ...context, ...given } })
    })
    const result = judgeAnswer(operation, answer, scrubber)
    // A cancelled call proves nothing about the health of the provider.
    if (!result.ok && context.signal.aborted) breaker.release()
    else breaker.record(result.error?.error_class, deps.now())
    return { result: await completeCall(deps, called, request, invocationId, startedAt, result), answer }
  } finally {
    // Without a call, the next one may probe the provider.
    if (!isBegun) breaker.release()
  }
}

function passBreaker({ now }: ConnectorDeps, { definition, breaker }: OpenedConnector): void {
  const passed = breaker.ask(now())
  if (passed.t === 'go') return
  const message = `Circuit breaker open for ${definition.name}; retry in ${passed.waitMs} ms.`
  throw new ConnectorFailure('transient_connector_error', message, 'no', passed.waitMs)
}

/** Returns the input in the shape of its contract. Throws `ConnectorFailure`. */
function checkInput(
  { name, connector_type, data_class_max }: ConnectorDefinition,
  operation: ConnectorOperationContract,
  { input, context }: ConnectorRequest,
): JsonObject {
  const subject = `${name}.${operation.name}`
  const no = (message: string) => new ConnectorFailure('validation_error', message, 'no')
  if (operation.idempotency.required && (context.idempotency_key ?? '') === '')
    throw no(`${subject} requires an idempotency key.`)
  const parsed = operation.input.safeParse(input)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const path = issue?.path.join('.') || 'the top level'
    // The message of a project's own rule may repeat the value.
    const keyword: unknown = issue?.code === 'custom' ? issue.params?.['keyword'] : undefined
    const why = typeof keyword === 'string' ? keyword : issue?.code
    throw no(`The input of ${subject} does not match its schema at ${path}: ${why}.`)
  }
  const guarded = guardValue(parsed.data)
  if (!guarded.ok) throw no(`The input of ${subject} is not valid: ${guarded.reason}`)
  // The check at start-up requires an object.
  const fitted = guarded.value as JsonObject
  // A conversation may speak of secrets without being refused: a model connector removes what looks like one, and no row keeps it.
  const isConversation = connector_type === 'model' && operation.record === 'digest'
  const secrets = isConversation ? accept(fitted) : checkSecrets(fitted, operation.input_classes)
  if (!secrets.ok) throw no(`The input of ${subject} is not valid: ${secrets.reason}`)
  const classes = Object.fromEntries(Object.entries(operation.input_classes).filter(([, of]) => of !== 'secret'))
  const highest = highestClass(fitted, classes)
  if (dataClasses.indexOf(highest) > dataClasses.indexOf(data_class_max))
    throw new ConnectorFailure('permission_denied', `${name} does not carry ${highest} data.`, 'no')
  return fitted
}
