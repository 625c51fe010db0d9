/**
 * Spans through the OpenTelemetry API. They go to the tracer provider of the process: the one of `src/app/telemetry.ts`, or the one of
 * the program that embeds Concord. Without a provider nothing is made and nothing is stored.
 *
 * A span holds names, ids, counts and classes. It never holds a payload, a result, a message or a credential.
 */
import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  type Link,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api'

export type SpanTerms = {
  readonly name: string
  readonly kind: keyof typeof SpanKind
  /** A W3C traceparent. Null: the span begins a trace. Omitted: the span that is active. */
  readonly parent?: string | null | undefined
  readonly attributes: Attributes
}

/** The part of a span that rooms use. */
export type OpenSpan = {
  name(name: string): void
  set(attributes: Attributes): void
  /** Marks the span as failed with a class of error, never with its text. */
  fail(errorType: string): void
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/
const TRACE = /^trace_(?!0{32})([0-9a-f]{32})$/

/** Runs the work in a span. Without a provider the terms are not read, and the work gets no span. */
export function inSpan<T>(termsOf: () => SpanTerms, work: (span?: OpenSpan) => Promise<T>): Promise<T> {
  const tracer = findTracer()
  if (!tracer) return work()
  const { span, within } = start(tracer, termsOf())
  return context.with(within, async () => {
    try {
      return await work(openSpan(span))
    } catch (error) {
      fail(span, error instanceof Error ? error.name : 'unknown')
      throw error
    } finally {
      span.end()
    }
  })
}

/** Makes a span of something that has already happened. */
export function recordSpan(termsOf: () => SpanTerms & { readonly from: Date; readonly to: Date }): void {
  const tracer = findTracer()
  if (!tracer) return
  const terms = termsOf()
  start(tracer, terms, terms.from).span.end(terms.to)
}

/** The provider itself is asked each time: a tracer that is kept would outlive its provider. */
function findTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider ? provider.getDelegateTracer('concord') : provider.getTracer('concord')
}

function start(tracer: Tracer, terms: SpanTerms, startTime?: Date): { readonly span: Span; readonly within: Context } {
  const { name, kind, parent, attributes } = terms
  const active = context.active()
  const given = typeof parent === 'string' ? readTraceparent(parent) : undefined
  const from = given ? trace.setSpanContext(ROOT_CONTEXT, given) : parent === null ? ROOT_CONTEXT : active
  const span = tracer.startSpan(
    name,
    {
      kind: SpanKind[kind],
      attributes,
      links: from === active ? [] : linksTo(given?.traceId, active),
      ...(startTime && { startTime }),
    },
    from,
  )
  return { span, within: trace.setSpan(from, span) }
}

/** Work that goes on in its own trace, because a request of another trace allowed it, names that request. */
function linksTo(traceId: string | undefined, active: Context): Link[] {
  const cause = spanIn(active)
  return cause && cause.traceId !== traceId ? [{ context: cause }] : []
}

/** Without a provider, the spans of a program have ids of zeros. */
function spanIn(within: Context): SpanContext | undefined {
  const found = trace.getSpanContext(within)
  return found && isSpanContextValid(found) ? found : undefined
}

function openSpan(span: Span): OpenSpan {
  return {
    name: (name) => void span.updateName(name),
    set: (attributes) => void span.setAttributes(attributes),
    fail: (errorType) => fail(span, errorType),
  }
}

function fail(span: Span, errorType: string): void {
  span.setAttribute('error.type', errorType).setStatus({ code: SpanStatusCode.ERROR })
}

function readTraceparent(text: string): SpanContext | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(text) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
}

/** The trace of a request in the form in which Concord stores it. Undefined: the header is not a W3C traceparent. */
export function traceIdIn(traceparent: string): string | undefined {
  const found = readTraceparent(traceparent)
  return found && `trace_${found.traceId}`
}

/** The trace of the active span, in the same form. Undefined: there is none. */
export function activeTraceId(): string | undefined {
  const active = spanIn(context.active())
  return active && `trace_${active.traceId}`
}

/** The active span, to be stored with work that goes on elsewhere or sent to a provider. With `traceId`: only if it is of this trace. */
export function activeTraceparent(traceId?: string): string | undefined {
  const active = spanIn(context.active())
  if (!active || (traceId !== undefined && traceId !== `trace_${active.traceId}`)) return undefined
  return `00-${active.traceId}-${active.spanId}-0${active.traceFlags & 1}`
}

/** The parent of work that was stored without one: a span that does not exist, in the trace that was stored. */
export function traceparentOf(traceId: string, uuid: string): string | undefined {
  const trace = TRACE.exec(traceId)?.[1]
  // The last half of a UUID begins with its variant, so it is never zero.
  return trace && `00-${trace}-${uuid.replaceAll('-', '').slice(16)}-01`
}
