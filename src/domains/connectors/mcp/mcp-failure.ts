/** Turns whatever ends a session badly into a failure of the closed list; before the tool was called nothing has happened. Pure. */
import { ProtocolError, SdkError, SdkHttpError } from '@modelcontextprotocol/client'
import { ConnectorFailure, type Happened } from '../connector.ts'
import { failureOfStatus } from '../http/read-answer.ts'

/** JSON-RPC: the server does not know the method or the tool, or does not take its input. */
const refusals: readonly number[] = [-32_600, -32_601, -32_602]

export function failureOfMcp(error: unknown, first: ConnectorFailure | undefined, isCalled: boolean): ConnectorFailure {
  const { errorClass, message, happened, retryAfterMs } = first ?? classify(error)
  return new ConnectorFailure(errorClass, message, isCalled ? happened : 'no', retryAfterMs)
}

function classify(error: unknown): ConnectorFailure {
  if (error instanceof ConnectorFailure) return error
  if (error instanceof SdkHttpError && typeof error.status === 'number')
    return failureOfStatus({ status: error.status, headers: {} })
  if (error instanceof ProtocolError) {
    const isNo = refusals.includes(error.code)
    const happened: Happened = isNo ? 'no' : 'unknown'
    return new ConnectorFailure(
      isNo ? 'validation_error' : 'transient_connector_error',
      `the server refused the request (${error.code}): ${error.message.slice(0, 200)}`,
      happened,
    )
  }
  if (error instanceof SdkError)
    return new ConnectorFailure(
      'transient_connector_error',
      `the session with the server broke (${error.code})`,
      'unknown',
    )
  return new ConnectorFailure('transient_connector_error', 'the server does not speak MCP as it should', 'unknown')
}
