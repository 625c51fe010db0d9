/**
 * Traces and metrics. The process serves its metrics as Prometheus text at /metrics. It sends traces and metrics only
 * when the standard OpenTelemetry variables enable it: OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER = otlp.
 */
import { context, type Meter, metrics, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import {
  defaultResource,
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
  serviceInstanceIdDetector,
} from '@opentelemetry/resources'
import type * as Sdk from '@opentelemetry/sdk-trace'
import { MeterProvider, type MetricReader } from '@opentelemetry/sdk-metrics'
import type { Environment } from './config.ts'
import { observeProcess } from './metrics.ts'

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
  const own = { 'service.name': 'concord', 'service.version': version }
  const resource = defaultResource()
    .merge(resourceFromAttributes(own))
    .merge(detectResources({ detectors: [envDetector, serviceInstanceIdDetector] }))
  const opened = openMetrics(resource, plan.metrics ? [await otlpMetricReader(environment)] : [])
  if (!plan.traces) return { metrics: opened, tracing: false, close: () => opened.close() }

  const close = await openTracing(resource, environment)
  return {
    metrics: opened,
    tracing: true,
    async close() {
      await close()
      await opened.close()
    },
  }
}

async function openTracing(resource: Resource, environment: Environment): Promise<() => Promise<void>> {
  const sdk = await import('@opentelemetry/sdk-trace')
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http')
  const provider = new sdk.TracerProvider({
    resource,
    sampler: samplerOf(sdk, environment),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
  })
  const isManaging = context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  // A program that embeds Concord may have registered its own, which then gets the spans.
  const isTracing = trace.setGlobalTracerProvider(provider)
  return async () => {
    if (isTracing) trace.disable()
    if (isManaging) context.disable()
    await provider.shutdown()
  }
}

/** The standard variables of the sampler. The SDK leaves them to its caller. */
function samplerOf(sdk: typeof Sdk, environment: Environment): Sdk.Sampler {
  const name = environment['OTEL_TRACES_SAMPLER'] ?? 'parentbased_always_on'
  const ratio = numberIn(environment['OTEL_TRACES_SAMPLER_ARG'], [0, 1], 1)
  const [ofParent, ofRoot] = name.startsWith('parentbased_') ? [true, name.slice('parentbased_'.length)] : [false, name]
  const samplers: Readonly<Record<string, () => Sdk.Sampler>> = {
    always_off: () => new sdk.AlwaysOffSampler(),
    traceidratio: () => new sdk.TraceIdRatioBasedSampler(ratio),
  }
  const root = samplers[ofRoot]?.() ?? new sdk.AlwaysOnSampler()
  return ofParent ? new sdk.ParentBasedSampler({ root }) : root
}

/** A wrong number has the value of the default, as the specification of OpenTelemetry says. */
function numberIn(text: string | undefined, [min, max]: readonly [number, number], fallback: number): number {
  const value = text === undefined || text.trim() === '' ? Number.NaN : Number(text)
  return value >= min && value <= max ? value : fallback
}

async function otlpMetricReader(environment: Environment): Promise<MetricReader> {
  const { PeriodicExportingMetricReader } = await import('@opentelemetry/sdk-metrics')
  const { OTLPMetricExporter } = await import('@opentelemetry/exporter-metrics-otlp-http')
  const intervalMs = numberIn(environment['OTEL_METRIC_EXPORT_INTERVAL'], [1, 86_400_000], 60_000)
  const timeoutMs = Math.min(intervalMs, 30_000)
  const options = { exportIntervalMillis: intervalMs, exportTimeoutMillis: timeoutMs }
  return new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter(), ...options })
}

const COLLECT_MS = 2_000

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
      // Without an answer of the database, the metrics of the process are still shown.
      const { resourceMetrics } = await exporter.collect({ timeoutMillis: COLLECT_MS })
      return serializer.serialize(resourceMetrics)
    },
    async close() {
      await provider.shutdown()
      metrics.disable()
    },
  }
}
