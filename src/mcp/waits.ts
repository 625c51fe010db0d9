/** Waits for commands. One statement asks for all commands that requests of this process wait for, whatever their number. */
import type { CommandDeps } from '#domains/commands'
import { statement } from '#store'

/** $1 commands. */
const listAtRest = statement<{ command_id: string }>(
  'mcp.list_at_rest',
  `select command_id from concord.commands
    where command_id = any($1::uuid[]) and (completed_at is not null or status = 'waiting_for_input')`,
)

const POLL_MS = 200

export type Waits = {
  /** Settles when the command has ended or waits for input, when the time is over, or when the signal is aborted. */
  wait(commandId: string, holdMs: number, signal: AbortSignal): Promise<void>
}

export function openWaits({ db, sleep }: Pick<CommandDeps, 'db' | 'sleep'>, closing: AbortSignal): Waits {
  const waiting = new Map<string, Set<AbortController>>()
  let isAsking = false

  async function ask(): Promise<void> {
    if (isAsking) return
    isAsking = true
    try {
      while (waiting.size > 0) {
        const rows = await db.run(listAtRest, [[...waiting.keys()]])
        for (const { command_id } of rows) for (const held of waiting.get(command_id) ?? []) held.abort()
        await sleep(POLL_MS, closing)
      }
    } catch {
      // The requests answer with what they read themselves, and report the database that cannot answer.
      for (const held of [...waiting.values()].flatMap((all) => [...all])) held.abort()
    } finally {
      isAsking = false
    }
  }

  return {
    async wait(commandId, holdMs, signal) {
      const held = new AbortController()
      const all = waiting.get(commandId) ?? new Set()
      waiting.set(commandId, all.add(held))
      void ask()
      await sleep(holdMs, AbortSignal.any([signal, closing, held.signal]))
      all.delete(held)
      if (all.size === 0) waiting.delete(commandId)
    },
  }
}
