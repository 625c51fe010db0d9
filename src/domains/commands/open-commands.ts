/** Opens the room: its lanes, its approval types and its world, and closes the lanes again. */
import { type ApprovalTypes, openApprovalTypes } from '#domains/approvals'
import { openInsertLane } from '#store'
import { approvalTypesOf } from './approval-types.ts'
import { compensationFacts } from './compensate-task.ts'
import { newCommands } from './insert-command.ts'
import type { CommandWorld } from './world.ts'
import { openWriteLane } from './write-lane.ts'

export type CommandDeps = Omit<CommandWorld, 'inserts' | 'writes' | 'approvalTypes' | 'facts'> &
  Partial<Pick<CommandWorld, 'facts'>> & { readonly approvalTypes?: ApprovalTypes }

export type Commands = { readonly world: CommandWorld; close(): Promise<void> }

export function openCommands(deps: CommandDeps): Commands {
  const inserts = openInsertLane(deps.db, newCommands)
  const writes = openWriteLane(deps.db)
  const approvalTypes = deps.approvalTypes ?? openApprovalTypes(approvalTypesOf(deps.catalog))
  return {
    world: { ...deps, facts: { ...compensationFacts, ...deps.facts }, approvalTypes, inserts, writes },
    async close() {
      await inserts.close()
      await writes.close()
    },
  }
}
