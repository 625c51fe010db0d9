/** Nothing leaves the process unless the standard variables ask for it; then it really arrives. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { trace } from '@opentelemetry/api'
import { openTelemetry, planTelemetry } from './telemetry.ts'

test('the standard variables decide what is sent', () => {
  assert.deepEqual(planTelemetry({}), { traces: false, metrics: false })
  assert.deepEqual(planTelemetry({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c' }), { traces: true, metrics: true })
  assert.deepEqual(planTelemetry({ OTEL_TRACES_EXPORTER: 'otlp' }), { traces: true, metrics: false })
  assert.deepEqual(planTelemetry({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_METRICS_EXPORTER: 'none' }), {
    traces: true,
    metrics: false,
  })
  assert.deepEqual(planTelemetry({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_SDK_DISABLED: 'true' }), {
    traces: false,
    metrics: false,
  })
})

test('metrics read as Prometheus text without any exporter', async (t) => {
  const telemetry = await openTelemetry({}, '0.0.0')
  t.after(() => telemetry.close())
  telemetry.metrics.meter.createCounter('concord_test_things').add(3)
  const text = await telemetry.metrics.render()
  assert.match(text, /concord_test_things(_total)?\{[^}]*\} 3/)
  assert.match(text, /concord_process_resident_memory_bytes/)
})

test('a span reaches a collector on this machine when the variable names it', async () => {
  const arrived: string[] = []
  const collector = createServer((request, response) => {
    arrived.push(request.url ?? '')
    request.resume().on('end', () => response.end('{}'))
  }).listen(0, '127.0.0.1')
  await once(collector, 'listening')
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`
  // The exporter reads the process's own variable; it is taken back before the test ends.
  process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = endpoint
  const telemetry = await openTelemetry({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }, '0.0.0')
  assert.equal(telemetry.tracing, true)
  trace.getTracer('test').startSpan('one').end()
  await telemetry.close()
  delete process.env['OTEL_EXPORTER_OTLP_ENDPOINT']
  collector.close()
  assert.ok(arrived.includes('/v1/traces'), arrived.join())
})
