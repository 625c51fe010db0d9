/** Opens the room: its lanes, its approval types and its world, and closes the lanes again. */
import { type ApprovalTypes, openApprovalTypes } from '#domains/approvals'
import { openInsertLane } from '#store'
import { approvalTypesOf } from './approval-types.ts'
import { newCommands } from './insert-command.ts'
import { openSpotTurns, type Places } from './spot-turns.ts'
import type { CommandWorld } from './world.ts'
import { openWriteLane } from './write-lane.ts'

export type CommandDeps = Omit<CommandWorld, 'inserts' | 'writes' | 'approvalTypes' | 'facts' | 'spot'> &
  Partial<Pick<CommandWorld, 'facts'>> & {
    readonly approvalTypes?: ApprovalTypes
    /** Where this process has room for a turn of its own; left out, every turn is the runtime's. */
    readonly offerPlace?: Places
  }

export type Commands = {
  readonly world: CommandWorld
  /** Every `SPOT_RENEW_MS`, while it is open. */
  renewTurns(): Promise<void>
  /** Lets the turns on the spot end, before the runtime closes: what they have not ended they hand on to it. */
  drain(): Promise<void>
  close(): Promise<void>
}

const DRAIN_MS = 10_000

export function openCommands(deps: CommandDeps): Commands {
  const inserts = openInsertLane(deps.db, newCommands)
  const writes = openWriteLane(deps.db)
  const approvalTypes = deps.approvalTypes ?? openApprovalTypes(approvalTypesOf(deps.catalog))
  const { offerPlace, ...rest } = deps
  const plain: CommandWorld = { facts: {}, ...rest, approvalTypes, inserts, writes }
  const spot = offerPlace && openSpotTurns(plain, offerPlace)
  return {
    world: spot ? { ...plain, spot } : plain,
    renewTurns: async () => spot?.renew(),
    drain: async () => spot?.close(DRAIN_MS),
    async close() {
      await inserts.close()
      await writes.close()
    },
  }
}
