/** An MCP server in one file that speaks JSON lines. Its script file decides at the start how it behaves and misbehaves. */
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

export type McpMode =
  | 'honest'
  | 'slow'
  | 'hang'
  | 'hang_at_start'
  | 'die'
  | 'die_at_start'
  | 'lie'
  | 'flood'
  | 'oversized'
  | 'not_json'
  | 'echo'
  | 'tool_error'
  | 'stubborn'

/** The content of the script file. */
export type McpScript = {
  readonly mode?: McpMode
  readonly description?: string
  readonly isGone?: boolean
  readonly required?: readonly string[]
  /** Further keywords of the input schema. */
  readonly schema?: object
}

const [scriptFile = '', writesFile = ''] = process.argv.slice(2)
const script = JSON.parse(readFileSync(scriptFile, 'utf8')) as McpScript
const {
  mode = 'honest',
  description = 'Writes a line down.',
  isGone = false,
  required = ['line'],
  schema = {},
} = script

const note = (kind: string, value: unknown) => appendFileSync(writesFile, `${JSON.stringify({ kind, value })}\n`)
const send = (message: object) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)

note('started', process.pid)
if (mode === 'die_at_start') process.exit(3)
if (mode === 'stubborn' || mode === 'hang') {
  // Ignores SIGTERM and has a child that does the same.
  process.on('SIGTERM', () => {})
  setInterval(() => {}, 60_000)
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 60_000)'], { stdio: 'ignore' })
  note('started', child.pid)
}

const string = { type: 'string' }
const tool = {
  name: 'write-line',
  description,
  inputSchema: { type: 'object', properties: { line: string, pattern: string }, required, ...schema },
  outputSchema: { type: 'object', properties: { written: string }, required: ['written'] },
  annotations: { readOnlyHint: true },
}

type Request = {
  readonly id?: number
  readonly method: string
  readonly params?: {
    readonly arguments?: { readonly line?: string }
    readonly _meta?: Record<string, string>
    readonly protocolVersion?: string
  }
}

function callTool({ id, params }: Request): void {
  const line = params?.arguments?.line ?? ''
  const key = params?._meta?.['concord/idempotency-key'] ?? line
  if (params?._meta?.['traceparent'] !== undefined) note('traceparent', params._meta['traceparent'])
  const good = { content: [{ type: 'text', text: `wrote ${line}` }], structuredContent: { written: line } }
  const isKnown =
    existsSync(writesFile) &&
    readFileSync(writesFile, 'utf8').includes(`{"kind":"write","value":${JSON.stringify(key)}}`)
  if (!isKnown && mode !== 'hang') note('write', key)
  switch (mode) {
    case 'slow':
      return void setTimeout(() => send({ id, result: good }), 2_000)
    case 'hang':
      return note('asked', key)
    case 'die':
      return process.exit(1)
    case 'lie':
      return void send({ id, result: { content: [], structuredContent: { written: 7 } } })
    case 'flood': {
      const more = () => void process.stdout.write('x'.repeat(65_536), () => setImmediate(more))
      return more()
    }
    case 'oversized':
      return void send({ id, result: { ...good, structuredContent: { written: 'x'.repeat(2_000_000) } } })
    case 'not_json':
      return void process.stdout.write('all good\n')
    case 'echo': {
      const text = JSON.stringify(process.env)
      const encoded = Buffer.from(text).toString('base64')
      return void send({ id, result: { content: [{ type: 'text', text }], structuredContent: { written: encoded } } })
    }
    case 'tool_error':
      return void send({
        id,
        result: { isError: true, content: [{ type: 'text', text: JSON.stringify(process.env) }] },
      })
    default:
      return void send({ id, result: good })
  }
}

const lines = createInterface({ input: process.stdin })
lines.on('line', (text) => {
  const request = JSON.parse(text) as Request
  const { id, method, params } = request
  if (mode === 'hang_at_start' || id === undefined) return
  if (method === 'initialize') {
    const serverInfo = { name: 'lines', version: '1' }
    const protocolVersion = params?.protocolVersion ?? '2025-06-18'
    return void send({ id, result: { protocolVersion, capabilities: { tools: {} }, serverInfo } })
  }
  if (method === 'tools/list') return void send({ id, result: { tools: isGone ? [] : [tool] } })
  if (method === 'tools/call') return callTool(request)
  send({ id, error: { code: -32_601, message: `no method ${method}` } })
})
lines.on('close', () => {
  if (mode !== 'stubborn' && mode !== 'hang') process.exit(0)
})
