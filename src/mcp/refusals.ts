/** The refusal codes of this room, each with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const mcpRefusals = {
  'mcp.state.invalid': ['invalid', 'Call the tool again without `requestState`.'],
  'mcp.argument.invalid': ['invalid', 'Correct the argument and call the tool again.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    mcp: typeof mcpRefusals
  }
}
