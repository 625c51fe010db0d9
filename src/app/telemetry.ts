/**
 * Traces and metrics leave the process only when the standard OpenTelemetry variables ask for it
 * (OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_TRACES_EXPORTER / OTEL_METRICS_EXPORTER = otlp); nothing is sent by default.
 */
import { context, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources'
import type { MetricReader } from '@opentelemetry/sdk-metrics'
import type { Environment } from './config.ts'
import { type Metrics, openMetrics } from './metrics.ts'

export type Telemetry = {
  readonly metrics: Metrics
  readonly tracing: boolean
  close(): Promise<void>
}

type TelemetryPlan = { readonly traces: boolean; readonly metrics: boolean }

/** What the standard variables ask for. */
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
  const metrics = openMetrics(resource, plan.metrics ? [await otlpMetricReader()] : [])
  if (!plan.traces) return { metrics, tracing: false, close: () => metrics.close() }

  const { BatchSpanProcessor, TracerProvider } = await import('@opentelemetry/sdk-trace')
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http')
  const provider = new TracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
  })
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  trace.setGlobalTracerProvider(provider)
  return {
    metrics,
    tracing: true,
    async close() {
      await provider.shutdown()
      await metrics.close()
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
