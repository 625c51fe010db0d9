/** What Concord takes from the spans of the program that embeds it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { context, trace } from '@opentelemetry/api'
import { openTestSpans } from '#test/spans'
import { activeTraceId, activeTraceparent } from './index.ts'

test('[EVT-04] the span of a program without a provider has no trace, and that of another system has its own', (t) => {
  const spans = openTestSpans()
  t.after(() => spans.close())
  // The contexts stay.
  trace.disable()
  const seen = () => [activeTraceId(), activeTraceparent()]
  assert.deepEqual(trace.getTracer('program').startActiveSpan('request', seen), [undefined, undefined])
  const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7']
  const given = trace.setSpanContext(context.active(), { traceId, spanId, traceFlags: 1 })
  assert.deepEqual(context.with(given, seen), [`trace_${traceId}`, `00-${traceId}-${spanId}-01`])
})
