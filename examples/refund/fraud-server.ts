/** An MCP server with one tool, as a fraud service would provide it. */
import { createInterface } from 'node:readline'

const tool = {
  name: 'score',
  description: 'Returns the risk of a customer, from 0 to 1.',
  inputSchema: { type: 'object', properties: { customer: { type: 'string' } }, required: ['customer'] },
  outputSchema: { type: 'object', properties: { risk: { type: 'number' } }, required: ['risk'] },
}
const answers: Readonly<Record<string, object>> = {
  initialize: {
    protocolVersion: '2025-06-18',
    capabilities: { tools: {} },
    serverInfo: { name: 'fraud', version: '1' },
  },
  'tools/list': { tools: [tool] },
  'tools/call': { content: [{ type: 'text', text: '0.1' }], structuredContent: { risk: 0.1 } },
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line) as { id?: number; method: string }
  const result = answers[method]
  if (id !== undefined)
    process.stdout.write(
      `${JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error: { code: -32_601, message: method } }) })}\n`,
    )
}
