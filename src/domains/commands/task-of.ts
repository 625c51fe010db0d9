/** The task that a command runs as, in the catalog of this process. */
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import type { StoredCommand } from './command-row.ts'

type Of = {
  readonly deps: { readonly catalog: Catalog }
  readonly command: Pick<StoredCommand, 'task_name' | 'command_type'>
}

/** Undefined after a deploy that took the task away. */
export function taskOf({ deps: { catalog }, command: { task_name, command_type } }: Of): CompiledTask | undefined {
  return (task_name === null ? undefined : catalog.tasks.get(task_name)) ?? catalog.taskOfType.get(command_type)
}

/**
 * Where a wake goes. The runtime forgets a process that waits for a wake, and has never heard of one whose turns were all on the spot: without
 * the queue such a wake would lead past its limits.
 */
export function queueOf(of: Of): { readonly queue?: string } {
  const queue = taskOf(of)?.queue
  return queue === undefined ? {} : { queue }
}
