/** The gate: the one way to call a connector. Checks, writes the row, calls under its limits, cleans the answer, completes the row. */
import { createHash } from 'node:crypto'
import { checkSecrets, dataClasses, highestClass, redactPayload } from '#kernel/data-class'
import { KernelFault } from '#kernel/errors'
import { isJsonObject, type JsonObject, type JsonValue, utf8Size } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { isLostRace } from '#store'
import { type CallContext, type ConnectorCall, type ConnectorResult, failed, unsupported } from './connector.ts'
import type { ConnectorOperationContract } from './define-connector.ts'
import { currentContract, openConfirm } from './definitions/approve-definition.ts'
import type { ConnectorDeps } from './deps.ts'
import { abandoned, beginCall, invocations } from './invocation.ts'
import { callInTime, judgeAnswer } from './judge-answer.ts'
import type { OpenedConnector } from './opened-connector.ts'
import { openScrubber, openSecretDoor, type Scrubber, type SecretDoor } from './secrets.ts'

const WHOLE_BYTES_MAX = 2_048
const NAMES_MAX = 20

function summarise({ output_classes }: ConnectorOperationContract, output: JsonValue): JsonObject {
  const paths = Object.fromEntries(Object.entries(output_classes).map(([path, of]) => [`output.${path}`, of]))
  const shown = redactPayload({ output }, paths, 'confidential')['output'] ?? null
  const text = JSON.stringify(shown)
  const size_bytes = utf8Size(text)
  if (size_bytes <= WHOLE_BYTES_MAX) return { output: shown }
  const sha256 = createHash('sha256').update(text).digest('hex')
  if (Array.isArray(shown)) return { size_bytes, sha256, items: shown.length }
  return { size_bytes, sha256, ...(isNamed(shown) ? { fields: Object.keys(shown).slice(0, NAMES_MAX) } : {}) }
}

function isNamed(value: JsonValue): value is JsonObject {
  return value !== null && isJsonObject(value)
}

type GivenByGate = 'secret' | 'conceal' | 'confirmDefinition' | 'timeout_ms' | 'output_max_bytes'

/** What is asked of the gate; the rest of the context is the gate's to give. */
export type ConnectorRequest = Omit<ConnectorCall, 'context'> & {
  readonly context: Omit<CallContext, GivenByGate>
}

export async function callConnector(
  deps: ConnectorDeps,
  opened: OpenedConnector | undefined,
  request: ConnectorRequest,
): Promise<ConnectorResult> {
  const declared = opened?.definition.operations.find(({ name }) => name === request.capability)
  if (!opened || !declared) return unsupported(request.capability)
  const { workspace_id, trace_id } = request.context
  const current = await currentContract(deps, opened.definition, declared, workspace_id)
  if (!current.ok) return failed(current.error)
  const { operation, stored } = current
  const checked = checkRequest(opened, operation, request)
  if (!checked.ok) return checked.result
  const passed = opened.breaker.ask(deps.now())
  if (passed.t === 'open')
    return failed({
      error_class: 'transient_connector_error',
      message: `Circuit breaker open for ${opened.definition.name}; retry in ${passed.waitMs} ms.`,
      happened: 'no',
      retry_after_ms: passed.waitMs,
    })
  const scrubber = openScrubber()
  const secrets = await openSecretDoor(deps.secrets, opened.definition, scrubber)
  if (!secrets.ok) {
    opened.breaker.release()
    return failed(secrets.error)
  }
  const begun = await begin(deps, opened, operation, { ...request, input: checked.input }, scrubber).catch(
    (error: unknown) => {
      // A database that breaks here must not leave the one call that may try standing for ever.
      opened.breaker.release()
      throw error
    },
  )
  if (!begun.ok) {
    opened.breaker.release()
    return begun.result
  }
  const call = { ...request, input: checked.input }
  const place = { workspaceId: workspace_id, connectorName: opened.definition.name, operation: operation.name }
  const confirmDefinition = openConfirm(deps, place, stored, scrubber, trace_id)
  const door = { ...secrets.door, confirmDefinition }
  return callBegun(deps, opened, operation, call, { scrubber, door, invocationId: begun.invocationId })
}

type Checked =
  | { readonly ok: true; readonly input: JsonObject }
  | { readonly ok: false; readonly result: ConnectorResult }

function checkRequest(
  { definition }: OpenedConnector,
  operation: ConnectorOperationContract,
  { input, context }: ConnectorRequest,
): Checked {
  const no = (error_class: 'validation_error' | 'permission_denied', message: string): Checked => ({
    ok: false,
    result: failed({ error_class, message, happened: 'no' }),
  })
  const subject = `${definition.name}.${operation.name}`
  if (operation.idempotency.required && (context.idempotency_key ?? '') === '')
    return no('validation_error', `${subject} is not called without an idempotency key`)
  const parsed = operation.input.safeParse(input)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return no(
      'validation_error',
      `the input of ${subject} does not fit at ${issue?.path.join('.') || 'the top'}: ${issue?.code}`,
    )
  }
  const guarded = guardValue(parsed.data)
  if (!guarded.ok) return no('validation_error', `the input of ${subject} cannot be taken: ${guarded.reason}`)
  // The check at start-up has seen that the input is an object.
  const fitted = guarded.value as JsonObject
  const secrets = checkSecrets(fitted, operation.input_classes)
  if (!secrets.ok) return no('validation_error', `the input of ${subject}: ${secrets.reason}`)
  const unclassed = Object.fromEntries(Object.entries(operation.input_classes).filter(([, of]) => of !== 'secret'))
  const highest = highestClass(fitted, unclassed)
  if (dataClasses.indexOf(highest) > dataClasses.indexOf(definition.data_class_max))
    return no('permission_denied', `${definition.name} does not carry ${highest} data`)
  return { ok: true, input: fitted }
}

type BegunRow =
  | { readonly ok: true; readonly invocationId: string }
  | { readonly ok: false; readonly result: ConnectorResult }

async function begin(
  deps: ConnectorDeps,
  { definition }: OpenedConnector,
  operation: ConnectorOperationContract,
  { input, context, command_id }: ConnectorRequest,
  scrubber: Scrubber,
): Promise<BegunRow> {
  const invocationId = deps.newId()
  const recorded = scrubber.value(redactPayload(input, operation.input_classes, 'confidential'))
  const { workspace_id, domain_effect_id, idempotency_key, trace_id, attempt, signal } = context
  const begun = await beginCall(deps, {
    definition,
    operation,
    signal,
    values: [
      invocationId,
      workspace_id,
      command_id,
      domain_effect_id,
      definition.name,
      operation.name,
      operation.side_effect_class !== 'none',
      idempotency_key,
      JSON.stringify(recorded),
      trace_id,
      attempt,
    ],
  })
  if (begun.t === 'begun') return { ok: true, invocationId }
  if (begun.t === 'not_allowed')
    return refused(
      'permission_denied',
      `${definition.name} is called only for an effect that an allowed command executes`,
    )
  return refused('rate_limited', `${definition.name} has reached its limit of calls`, begun.waitMs)
}

function refused(
  error_class: 'permission_denied' | 'rate_limited',
  message: string,
  retry_after_ms?: number,
): BegunRow {
  const more = retry_after_ms === undefined ? {} : { retry_after_ms }
  return { ok: false, result: failed({ error_class, message, happened: 'no', ...more }) }
}

type BegunCall = {
  readonly scrubber: Scrubber
  readonly door: SecretDoor & Pick<CallContext, 'confirmDefinition'>
  readonly invocationId: string
}

async function callBegun(
  deps: ConnectorDeps,
  { definition, connector, breaker }: OpenedConnector,
  operation: ConnectorOperationContract,
  request: ConnectorRequest,
  { scrubber, door, invocationId }: BegunCall,
): Promise<ConnectorResult> {
  const startedAt = deps.now()
  const answer = await callInTime(deps, operation, request.context.signal, (signal) =>
    connector.call({
      ...request,
      context: {
        ...request.context,
        ...door,
        signal,
        timeout_ms: operation.timeout_ms,
        output_max_bytes: operation.output_max_bytes,
      },
    }),
  )
  const result = judgeAnswer(operation, answer, scrubber)
  const at = deps.now()
  // A call that was cancelled says nothing about the provider.
  if (!result.ok && request.context.signal.aborted) breaker.release()
  else breaker.tell(result.error?.error_class, at)
  const latency_ms = Math.max(0, at.getTime() - startedAt.getTime())
  const row = {
    connector_invocation_id: invocationId,
    workspace_id: request.context.workspace_id,
    command_id: request.command_id,
    status: 'started' as const,
  }
  const worker = { id: 'worker', kind: 'worker', traceId: request.context.trace_id } as const
  const settled = await invocations.transition(deps.db, row, result.ok ? 'succeeded' : 'failed', worker, {
    at,
    newId: deps.newId,
    set: {
      latency_ms,
      response_payload: result.ok ? summarise(operation, result.output) : null,
      error: result.error?.message ?? null,
      error_class: result.error?.error_class ?? null,
    },
    payload: {
      connector: definition.name,
      operation: operation.name,
      domain_effect_id: request.context.domain_effect_id,
      attempt: request.context.attempt,
      ok: result.ok,
      error_class: result.error?.error_class ?? null,
      latency_ms,
    },
  })
  // Settled by the sweep: this process was away for so long that it counted as gone. What is on record is what is told.
  if (isLostRace(settled)) return failed(abandoned)
  if (!settled.ok)
    throw new KernelFault('connectors.invocation.lost', `a call could not be completed: ${settled.reason}`)
  return result
}
