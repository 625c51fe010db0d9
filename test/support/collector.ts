/**
 * An OTLP/HTTP receiver as a process: it keeps every span and the last value of every metric of each sender, and shows them at GET /seen.
 * It is also the outside system of the payments project: it keeps the `traceparent` of each call.
 */
import { createServer, type IncomingMessage } from 'node:http'

type Value = { readonly stringValue?: string; readonly intValue?: string | number; readonly boolValue?: boolean }
type Keyed = readonly { readonly key: string; readonly value: Value }[]
type Span = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly attributes: Keyed
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
}
type Point = { readonly attributes: Keyed; readonly asDouble?: number; readonly asInt?: string | number }
type Metric = {
  readonly name: string
  readonly sum?: { readonly dataPoints: readonly Point[] }
  readonly gauge?: { readonly dataPoints: readonly Point[] }
}
type Resource = { readonly attributes: Keyed }
type Sent = {
  readonly resourceSpans?: readonly {
    readonly resource: Resource
    readonly scopeSpans: readonly { readonly spans: readonly Span[] }[]
  }[]
  readonly resourceMetrics?: readonly {
    readonly resource: Resource
    readonly scopeMetrics: readonly { readonly metrics: readonly Metric[] }[]
  }[]
}

type SeenSpan = Omit<Span, 'attributes'> & {
  readonly process: string
  readonly attributes: Readonly<Record<string, string>>
}
export type Seen = {
  readonly spans: readonly SeenSpan[]
  /** The last value by process, name and labels: `<process> <name>{status=queued}`. */
  readonly metrics: Readonly<Record<string, number>>
  /** The `traceparent` of each call of the outside system. */
  readonly calls: readonly string[]
}

const spans: SeenSpan[] = []
const metrics: Record<string, number> = {}
const calls: string[] = []

const read = ({ stringValue, intValue, boolValue }: Value) => String(stringValue ?? intValue ?? boolValue ?? '')
const record = (attributes: Keyed) => Object.fromEntries(attributes.map(({ key, value }) => [key, read(value)]))
const processOf = ({ attributes }: Resource) => record(attributes)['service.name'] ?? ''

function receive({ resourceSpans = [], resourceMetrics = [] }: Sent): void {
  for (const { resource, scopeSpans } of resourceSpans)
    for (const span of scopeSpans.flatMap((scope) => scope.spans))
      spans.push({ ...span, attributes: record(span.attributes), process: processOf(resource) })
  for (const { resource, scopeMetrics } of resourceMetrics)
    for (const { name, sum, gauge } of scopeMetrics.flatMap((scope) => scope.metrics))
      for (const { attributes, asDouble, asInt } of (sum ?? gauge)?.dataPoints ?? []) {
        const labels = Object.entries(record(attributes)).map(([label, value]) => `${label}=${value}`)
        metrics[`${processOf(resource)} ${name}{${labels.join()}}`] = Number(asDouble ?? asInt)
      }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

const server = createServer((request, response) => {
  void bodyOf(request).then((body) => {
    const path = new URL(request.url ?? '/', 'http://collector').pathname
    if (path === '/seen') return response.end(JSON.stringify({ spans, metrics, calls } satisfies Seen))
    if (path === '/v1/traces' || path === '/v1/metrics') {
      receive(JSON.parse(body) as Sent)
      return response.end('{}')
    }
    calls.push(String(request.headers['traceparent']))
    // A call that is lost, one that is refused, and one that is answered.
    if (path === '/blind') return request.socket.destroy()
    return response.writeHead(path === '/held' ? 503 : 200, { 'content-type': 'application/json' }).end('{}')
  })
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  process.stdout.write(`http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}\n`)
})
