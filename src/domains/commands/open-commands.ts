/** Opens the room: its lanes, its approval types and its world, and closes the lanes again. */
import { type ApprovalTypes, openApprovalTypes } from '#domains/approvals'
import { openInsertLane } from '#store'
import { approvalTypesOf } from './approval-types.ts'
import { compensationFacts } from './compensate-task.ts'
import { newCommands } from './insert-command.ts'
import { openSpotTurns, type Places } from './spot-turns.ts'
import type { CommandDeps } from './deps.ts'
import { openWriteLane } from './write-lane.ts'

export type CommandOptions = Omit<CommandDeps, 'inserts' | 'writes' | 'approvalTypes' | 'facts' | 'spot'> &
  Partial<Pick<CommandDeps, 'facts'>> & {
    readonly approvalTypes?: ApprovalTypes
    /** Where this process has room for a turn of its own; left out, every turn is the runtime's. */
    readonly offerPlace?: Places
  }

export type Commands = {
  readonly deps: CommandDeps
  /** Every `SPOT_RENEW_MS`, while it is open. */
  renewTurns(): Promise<void>
  /** Lets the turns on the spot end, before the runtime closes: what they have not ended they hand on to it. */
  drain(): Promise<void>
  close(): Promise<void>
}

const DRAIN_MS = 10_000

export function openCommands(options: CommandOptions): Commands {
  const inserts = openInsertLane(options.db, newCommands)
  const writes = openWriteLane(options.db)
  const approvalTypes = options.approvalTypes ?? openApprovalTypes(approvalTypesOf(options.catalog))
  const { offerPlace, ...rest } = options
  const facts = { ...compensationFacts, ...options.facts }
  const plain: CommandDeps = { ...rest, facts, approvalTypes, inserts, writes }
  const spot = offerPlace && openSpotTurns(plain, offerPlace)
  return {
    deps: spot ? { ...plain, spot } : plain,
    renewTurns: async () => spot?.renew(),
    drain: async () => spot?.close(DRAIN_MS),
    async close() {
      await inserts.close()
      await writes.close()
    },
  }
}
