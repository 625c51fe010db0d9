/** Nothing leaves the process unless the standard variables ask for it; then it really arrives. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { inSpan } from '#telemetry'
import { counters, gauges, histograms } from './metrics.ts'
import { telemetrySettings } from './settings.ts'
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

test('the guide and the settings name every metric and every variable', async () => {
  const guide = await readFile(new URL('../../docs/guides/telemetry.md', import.meta.url), 'utf8')
  const named = [
    ...Object.keys(counters).map((name) => `${name}_total`),
    ...Object.keys(histograms),
    ...Object.keys(gauges),
    ...telemetrySettings.map(({ variable }) => variable),
  ]
  assert.deepEqual(
    named.filter((name) => !guide.includes(`\`${name}\``)),
    [],
  )
})

/** Opens telemetry with a collector and these variables, makes spans, and returns the paths that the collector was sent. */
async function sentWith(variables: Readonly<Record<string, string>>, spans = 1): Promise<readonly string[]> {
  const arrived: string[] = []
  const collector = createServer((request, response) => {
    arrived.push(request.url ?? '')
    request.resume().on('end', () => response.end('{}'))
  }).listen(0, '127.0.0.1')
  await once(collector, 'listening')
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`
  // The exporter reads the process's own variable; it is taken back before the test ends.
  process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = endpoint
  const telemetry = await openTelemetry({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...variables }, '0.0.0')
  assert.equal(telemetry.tracing, true)
  for (let n = 0; n < spans; n++)
    await inSpan(
      () => ({ name: 'one', kind: 'INTERNAL', attributes: {} }),
      async () => {},
    )
  await telemetry.close()
  delete process.env['OTEL_EXPORTER_OTLP_ENDPOINT']
  collector.close()
  return arrived
}

test('a span reaches a collector on this machine when the variable names it', async () => {
  assert.ok((await sentWith({})).includes('/v1/traces'))
})

test('the sampler decides which traces are sent; a wrong value of it sends all', async () => {
  const sends = async (sampler: string, ratio = '') =>
    (await sentWith({ OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: ratio }, 20)).includes('/v1/traces')
  assert.deepEqual(
    [
      await sends('always_off'),
      await sends('parentbased_always_off'),
      await sends('traceidratio', '0'),
      await sends('parentbased_traceidratio', '1'),
      await sends('parentbased_traceidratio', 'half'),
      await sends('xray'),
    ],
    [false, false, false, true, true, true],
  )
})
