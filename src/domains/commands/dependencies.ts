/** Whether a command may run as far as the commands before it are concerned: all there, still to come, or never. Pure. */
import { isStatusReachable } from '#kernel/dag/reach'
import { type CommandState, commandMachine } from '#kernel/machines/command'

export type ParentFact = {
  readonly parent_command_id: string
  readonly status: CommandState
  readonly required_status: CommandState
  readonly propagate_cancellation: boolean
}

export type DependencyVerdict =
  | { readonly t: 'satisfied' }
  | { readonly t: 'waiting'; readonly on: readonly string[] }
  /** One parent can no longer reach what is required of it. */
  | { readonly t: 'unreachable'; readonly parent: ParentFact }

export function judgeDependencies(parents: readonly ParentFact[]): DependencyVerdict {
  const open = parents.filter(({ status, required_status }) => status !== required_status)
  const hopeless = open.filter(
    ({ status, required_status }) =>
      !isStatusReachable(commandMachine, status, required_status, { isRetryPending: false }),
  )
  // One that cancels goes before one that fails: the stricter word decides.
  const parent = hopeless.find(({ propagate_cancellation }) => propagate_cancellation) ?? hopeless[0]
  if (parent) return { t: 'unreachable', parent }
  return open.length === 0
    ? { t: 'satisfied' }
    : { t: 'waiting', on: open.map(({ parent_command_id }) => parent_command_id) }
}
