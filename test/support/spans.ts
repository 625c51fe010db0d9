/** Collects the spans of this process in memory. */
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'

export type TestSpans = {
  /** Runs the work in a span of the program that embeds Concord, and returns the trace of the span. */
  within(name: string, work: () => Promise<unknown>): Promise<string>
  finished(): readonly ReadableSpan[]
  close(): Promise<void>
}

export function openTestSpans(): TestSpans {
  const exporter = new InMemorySpanExporter()
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  trace.setGlobalTracerProvider(provider)
  return {
    within: (name, work) =>
      trace.getTracer('program').startActiveSpan(name, { root: true }, async (span) => {
        await work()
        span.end()
        return span.spanContext().traceId
      }),
    finished: () => exporter.getFinishedSpans(),
    async close() {
      trace.disable()
      context.disable()
      await provider.shutdown()
    },
  }
}

/** A span as `KIND name`. */
export const sayOf = ({ kind, name }: Pick<ReadableSpan, 'kind' | 'name'>) => `${SpanKind[kind]} ${name}`

export const isFailed = ({ status }: ReadableSpan) => status.code === SpanStatusCode.ERROR
