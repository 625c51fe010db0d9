/** The task that a command runs as, in the catalog of this process. */
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import type { StoredCommand } from './command-row.ts'

type Of = {
  readonly world: { readonly catalog: Catalog }
  readonly command: Pick<StoredCommand, 'task_name' | 'command_type'>
}

/** Undefined after a deploy that took the task away. */
export function taskOf({ world: { catalog }, command: { task_name, command_type } }: Of): CompiledTask | undefined {
  return (task_name === null ? undefined : catalog.tasks.get(task_name)) ?? catalog.taskOfType.get(command_type)
}
