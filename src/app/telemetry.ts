/**
 * Traces and metrics. The process serves its metrics as Prometheus text at /metrics. It sends traces and metrics only
 * when the standard OpenTelemetry variables enable it: OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER = otlp.
 */
import { context, type Meter, metrics, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import { defaultResource, type Resource, resourceFromAttributes } from '@opentelemetry/resources'
import { MeterProvider, type MetricReader } from '@opentelemetry/sdk-metrics'
import type { Answered } from '#api'
import type { Environment } from './config.ts'

export type Telemetry = {
  readonly metrics: Metrics
  readonly tracing: boolean
  close(): Promise<void>
}

type TelemetryPlan = { readonly traces: boolean; readonly metrics: boolean }

export function planTelemetry(environment: Environment): TelemetryPlan {
  if (environment['OTEL_SDK_DISABLED']?.toLowerCase() === 'true') return { traces: false, metrics: false }
  const endpoint = environment['OTEL_EXPORTER_OTLP_ENDPOINT']
  const wants = (signal: 'TRACES' | 'METRICS') => {
    const exporter = environment[`OTEL_${signal}_EXPORTER`]
    if (exporter !== undefined) return exporter.split(',').includes('otlp')
    return Boolean(endpoint ?? environment[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`])
  }
  return { traces: wants('TRACES'), metrics: wants('METRICS') }
}

export async function openTelemetry(environment: Environment, version: string): Promise<Telemetry> {
  const plan = planTelemetry(environment)
  const resource = defaultResource().merge(
    resourceFromAttributes({
      'service.name': environment['OTEL_SERVICE_NAME'] ?? 'concord',
      'service.version': version,
    }),
  )
  const opened = openMetrics(resource, plan.metrics ? [await otlpMetricReader()] : [])
  if (!plan.traces) return { metrics: opened, tracing: false, close: () => opened.close() }

  const { BatchSpanProcessor, TracerProvider } = await import('@opentelemetry/sdk-trace')
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http')
  const provider = new TracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
  })
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  trace.setGlobalTracerProvider(provider)
  return {
    metrics: opened,
    tracing: true,
    async close() {
      await provider.shutdown()
      await opened.close()
      trace.disable()
      context.disable()
      propagation.disable()
    },
  }
}

async function otlpMetricReader(): Promise<MetricReader> {
  const { PeriodicExportingMetricReader } = await import('@opentelemetry/sdk-metrics')
  const { OTLPMetricExporter } = await import('@opentelemetry/exporter-metrics-otlp-http')
  return new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })
}

type Metrics = {
  readonly meter: Meter
  /** Returns everything measured so far as Prometheus text. */
  render(): Promise<string>
  close(): Promise<void>
}

function openMetrics(resource: Resource, moreReaders: readonly MetricReader[]): Metrics {
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
