/** Metrics of one process: OpenTelemetry instruments, readable as Prometheus text at /metrics. */
import { metrics, type Meter } from '@opentelemetry/api'
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import { MeterProvider, type MetricReader } from '@opentelemetry/sdk-metrics'
import type { Resource } from '@opentelemetry/resources'
import type { Answered } from '#api'

export type Metrics = {
  readonly meter: Meter
  /** The Prometheus text exposition of everything measured so far. */
  render(): Promise<string>
  close(): Promise<void>
}

export function openMetrics(resource: Resource, moreReaders: readonly MetricReader[] = []): Metrics {
  const exporter = new PrometheusExporter({ preventServerStart: true })
  const provider = new MeterProvider({ resource, readers: [exporter, ...moreReaders] })
  metrics.setGlobalMeterProvider(provider)
  const meter = provider.getMeter('concord')
  observeProcess(meter)
  const serializer = new PrometheusSerializer()
  return {
    meter,
    async render() {
      const { resourceMetrics } = await exporter.collect()
      return serializer.serialize(resourceMetrics)
    },
    async close() {
      await provider.shutdown()
      metrics.disable()
    },
  }
}

function observeProcess(meter: Meter): void {
  meter
    .createObservableGauge('concord_process_resident_memory_bytes', { description: 'Resident memory of this process' })
    .addCallback((result) => result.observe(process.memoryUsage.rss()))
  meter
    .createObservableCounter('concord_process_cpu_seconds', { description: 'User and system CPU time of this process' })
    .addCallback((result) => {
      const { user, system } = process.cpuUsage()
      result.observe((user + system) / 1e6)
    })
}

/** Counts and times the answers of the API by route and status, never by address: the number of series is bounded. */
export function openHttpMetrics(meter: Meter): (answered: Answered) => void {
  const requests = meter.createCounter('concord_http_requests', { description: 'Answers of the API' })
  const duration = meter.createHistogram('concord_http_request_duration_seconds', {
    description: 'Time until an answer of the API began',
    unit: 's',
    advice: { explicitBucketBoundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] },
  })
  return ({ method, route, status, durationMs }) => {
    requests.add(1, { method, route, status })
    duration.record(durationMs / 1_000, { method, route })
  }
}
