/** The span of a connector call. It holds names, figures and classes, never content. */
import { encodeId } from '#kernel/ids'
import { inSpan } from '#telemetry'
import type { ConnectorDefinition, ConnectorRequest, ConnectorResult } from './connector.ts'

/** The metadata of an answer that go on the span. A model call has the figures of a model. */
const names: Readonly<Record<string, 'number' | 'string'>> = {
  'http.response.status_code': 'number',
  'mcp.method.name': 'string',
  'gen_ai.operation.name': 'string',
  'gen_ai.provider.name': 'string',
  'gen_ai.request.model': 'string',
  'gen_ai.response.model': 'string',
  'gen_ai.tool.name': 'string',
  'gen_ai.usage.input_tokens': 'number',
  'gen_ai.usage.output_tokens': 'number',
}
/** A name, not a sentence: a connector of a third party could put content here. */
const NAME = /^[\w.:/@-]{1,100}$/

export function traceCall(
  { name, connector_type }: Pick<ConnectorDefinition, 'name' | 'connector_type'>,
  { capability, command_id, context }: ConnectorRequest,
  call: () => Promise<{ readonly result: ConnectorResult; readonly answer: unknown }>,
): Promise<ConnectorResult> {
  const termsOf = () => ({
    name: `call ${name}.${capability}`,
    kind: 'CLIENT' as const,
    attributes: {
      'concord.command.id': encodeId('command', command_id),
      'concord.effect.attempt': context.attempt,
      'concord.connector.name': name,
      'concord.connector.type': connector_type,
      'concord.connector.operation': capability,
    },
  })
  return inSpan(termsOf, async (span) => {
    const { result, answer } = await call()
    if (span) {
      span.set(figuresIn(answer))
      if (result.error) span.fail(result.error.error_class)
    }
    return result
  })
}

/** The answer is as the connector gave it: it can be anything. */
function figuresIn(answer: unknown): Record<string, string | number> {
  const metadata = fieldOf(answer, 'metadata')
  return Object.fromEntries(
    Object.entries(names).flatMap(([name, type]) => figure(name, type, fieldOf(metadata, name))),
  )
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined
}

function figure(name: string, type: 'number' | 'string', value: unknown): [string, string | number][] {
  if (type === 'number') return typeof value === 'number' && Number.isFinite(value) ? [[name, value]] : []
  return typeof value === 'string' && NAME.test(value) ? [[name, value]] : []
}
