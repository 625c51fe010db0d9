/** Opens the lanes, approval types and dependencies of this room, and closes the lanes again. */
import { type ApprovalTypes, openApprovalTypes } from '#domains/approvals'
import type { ReserveSlot } from '#turns'
import { approvalTypesOf } from './approval-types.ts'
import { openCounts } from './count-commands.ts'
import { undoFacts } from './undo-task.ts'
import { openCommandTurns } from './drive.ts'
import type { CommandDeps } from './deps.ts'
import { openInserts } from './insert-command.ts'
import { openWriter } from './write-command.ts'

type CommandOptions = Omit<CommandDeps, 'counts' | 'inserts' | 'writes' | 'approvalTypes' | 'facts' | 'turns'> &
  Partial<Pick<CommandDeps, 'facts'>> & {
    readonly approvalTypes?: ApprovalTypes
    /** Offers a free slot of this process for a turn. Omitted: every turn is the runtime's. */
    readonly reserveSlot?: ReserveSlot
  }

export type Commands = {
  readonly deps: CommandDeps
  /** Call every `RENEW_MS` while the room is open. */
  renewTurns(): Promise<void>
  /** Lets in-process turns end before the runtime closes. Unfinished commands are handed to the runtime. */
  drain(): Promise<void>
  close(): Promise<void>
}

const DRAIN_MS = 10_000

export function openCommands(options: CommandOptions): Commands {
  const inserts = openInserts(options)
  const writes = openWriter(options)
  const approvalTypes = options.approvalTypes ?? openApprovalTypes(approvalTypesOf(options.catalog))
  const { reserveSlot, ...rest } = options
  const facts = { ...options.facts, ...undoFacts }
  const plain: CommandDeps = { ...rest, facts, approvalTypes, counts: openCounts(options), inserts, writes }
  const turns = reserveSlot && openCommandTurns(plain, reserveSlot)
  return {
    deps: turns ? { ...plain, turns } : plain,
    renewTurns: async () => turns?.renew(),
    drain: async () => turns?.close(DRAIN_MS),
    async close() {
      await inserts.close()
      await writes.close()
    },
  }
}
