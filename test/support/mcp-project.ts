/** A project for journeys: an MCP server that writes lines, mounted, and a task that calls it. */
import { z } from 'zod'
import { defineCommandType, defineFunction, defineProject, defineTask, mcpConnector } from '../../src/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'

const folder = process.env['MCP_FOLDER'] ?? ''
const packaged = new URL('../../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url)

export default defineProject({
  connectors: [
    mcpConnector({
      name: 'lines',
      description: 'Writes lines.',
      server: {
        stdio: {
          command: process.execPath,
          args: [
            new URL('./mcp-server.ts', import.meta.url).pathname,
            `${folder}/script.json`,
            `${folder}/deeds.jsonl`,
          ],
        },
      },
      tools: { write_line: { tool: 'write-line' } },
    }),
    mcpConnector({
      name: 'everything',
      description: 'The reference server.',
      server: { stdio: { command: process.execPath, args: [packaged.pathname] } },
      tools: { echo: { side_effect_class: 'none' } },
    }),
  ],
  catalog: [
    defineFunction({
      name: 'say',
      plan: ({ to, text }) =>
        to === 'everything'
          ? [{ effect_type: 'connector.everything.echo', payload: { message: text ?? '' } }]
          : [{ effect_type: 'connector.lines.write_line', payload: { line: text ?? '' } }],
      result: ([first]) => first,
    }),
    defineCommandType({
      name: 'say',
      description: 'Says something to a server.',
      payload: z.strictObject({ to: z.enum(['everything', 'lines']), text: z.string() }),
      side_effects: ['connector.everything.echo', 'connector.lines.write_line'],
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated'],
    }),
    defineTask({
      name: 'Say',
      description: 'Says something.',
      command_type: 'say',
      function_name: 'say',
      ingress_types: ['user_request'],
      async_required: true,
      connector_requirements: ['everything', 'lines'],
      policy_checks: ['permission'],
    }),
  ],
})
