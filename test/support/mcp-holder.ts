/** A process that calls an MCP server which never answers, for a test that kills it. */
import { mcpConnector } from '../../src/domains/connectors/index.ts'
import { mcpServerFile } from './mcp-mount.ts'

const [scriptFile = '', writesFile = ''] = process.argv.slice(2)
const connector = mcpConnector({
  name: 'lines',
  description: 'Writes lines.',
  server: { stdio: { command: process.execPath, args: [mcpServerFile, scriptFile, writesFile] } },
  tools: { write_line: { tool: 'write-line' } },
}).open({ now: () => new Date(), sleep: () => new Promise(() => {}) })
await connector.call({
  connector_name: 'lines',
  capability: 'write_line',
  input: { line: 'x' },
  command_id: '',
  context: {
    workspace_id: '',
    domain_effect_id: '',
    trace_id: '',
    attempt: 1,
    idempotency_key: null,
    signal: new AbortController().signal,
    timeout_ms: 600_000,
    output_max_bytes: 1_000,
    secret: () => Promise.reject(new Error('There is no secret.')),
    conceal: () => {},
    confirmDefinition: () => Promise.resolve(),
  },
})
