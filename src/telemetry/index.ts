/** The exports of the telemetry room: spans, and the trace context that is stored and sent. */
export {
  activeTraceId,
  activeTraceparent,
  inSpan,
  type OpenSpan,
  recordSpan,
  traceIdIn,
  traceparentOf,
} from './spans.ts'
