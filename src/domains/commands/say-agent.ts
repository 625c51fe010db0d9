/** Names the agent that proposed a command. Pure. */
import { encodeId } from '#kernel/ids'
import { showQuoted } from '#kernel/visible-text'
import type { StoredCommand } from './command-table.ts'

/** Who proposed a command of an agent: the run, the agent of a key, or an agent without a name. */
export function sayAgent({ context, agent_run_id }: Pick<StoredCommand, 'context' | 'agent_run_id'>): string {
  const { agent_name: name } = context.metadata
  // Only Concord writes the metadata of a command of a run.
  if (agent_run_id !== null && typeof name === 'string')
    return `the agent ${showQuoted(name)} (${encodeId('agent_run', agent_run_id)})`
  return context.agent === undefined ? 'an agent' : `the agent ${context.agent}`
}
