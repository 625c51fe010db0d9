/** Counts the commands of a workspace by status and by error class, for people. Each answer says when it was counted, and is exact for that time. */
import type { Clock } from '#kernel/clock'
import { uuidV7 } from '#kernel/ids'
import { statesOf } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/command'
import { type Db, scoped, statement } from '#store'

type WorkspaceCounts = {
  /** The commands that were submitted since this time. */
  readonly since: Date
  readonly countedAt: Date
  readonly commands: Readonly<Record<string, number>>
  readonly errors: Readonly<Record<string, number>>
  readonly effectsOpen: number
}

export type CountCommands = (workspaceId: string) => Promise<WorkspaceCounts>

const WINDOW_MS = 30 * 24 * 3_600_000
/** A count that takes longer is kept for this many times as long, so counting takes at most a fiftieth of one connection. */
const SLOW_MS = 20
const KEEP_TIMES = 50
const KEEP_MS_MAX = 60_000

const states = statesOf(commandMachine)
const openStates = states.filter((state) => commandMachine.states[state] !== 'terminal')

/** A small workspace is counted for every request. The count of a large one is kept, and shared by the requests that come meanwhile. */
export function openCounts({ db, now }: { readonly db: Db; readonly now: Clock }): CountCommands {
  const kept = new Map<string, { readonly counted: Promise<WorkspaceCounts>; untilMs: number }>()

  async function count(workspaceId: string): Promise<WorkspaceCounts> {
    const countedAt = now()
    try {
      const counted = await countNow(db, workspaceId, countedAt)
      const tookMs = now().getTime() - countedAt.getTime()
      if (tookMs < SLOW_MS) kept.delete(workspaceId)
      else
        kept.set(workspaceId, {
          counted: Promise.resolve(counted),
          untilMs: countedAt.getTime() + Math.min(KEEP_MS_MAX, tookMs * KEEP_TIMES),
        })
      return counted
    } catch (error) {
      kept.delete(workspaceId)
      throw error
    }
  }

  return (workspaceId) => {
    const known = kept.get(workspaceId)
    const leftMs = known ? known.untilMs - now().getTime() : 0
    // A clock that was set back would keep it for too long.
    if (known && leftMs > 0 && (leftMs <= KEEP_MS_MAX || leftMs === Number.POSITIVE_INFINITY)) return known.counted
    const counted = count(workspaceId)
    // Only of a workspace that was slow before: a request must see what was committed before it, where that costs nothing.
    if (known) kept.set(workspaceId, { counted, untilMs: Number.POSITIVE_INFINITY })
    return counted
  }
}

function countNow(db: Db, workspaceId: string, countedAt: Date): Promise<WorkspaceCounts> {
  const since = new Date(countedAt.getTime() - WINDOW_MS)
  return scoped(db, workspaceId).read(async (tx) => {
    // All states are named, so that the index of states answers it alone.
    const rows = await tx.query<{ status: string; error_class: string | null; count: number }>(
      `select c.status, c.error_class, count(*)::integer as count from concord.commands as c
       where c.workspace_id = $1 and c.status = any($2) and c.command_id >= $3 group by 1, 2 order by 1, 2`,
      [workspaceId, states, uuidV7(Math.max(0, since.getTime()), 0, new Uint8Array(8))],
    )
    const [open] = await tx.query<{ count: number }>(
      `select count(*)::integer as count from concord.commands as c join concord.domain_effects as e on e.command_id = c.command_id
       where c.workspace_id = $1 and c.status = any($2) and e.completed_at is null`,
      [workspaceId, openStates],
    )
    const commands: Record<string, number> = {}
    const errors: Record<string, number> = {}
    for (const { status, error_class, count } of rows) {
      commands[status] = (commands[status] ?? 0) + count
      if (error_class !== null) errors[error_class] = (errors[error_class] ?? 0) + count
    }
    return { since, countedAt, commands, errors, effectsOpen: open?.count ?? 0 }
  })
}

type OpenCounts = {
  /** Every status that is not an end, also with 0. */
  readonly commands: Readonly<Record<string, number>>
  /** Effects of which nobody knows whether they happened, and for which a person was asked. */
  readonly effectsInDoubt: number
}

/** $1 statuses, $2 the highest count. It reads at most so many entries of the index for each status. */
const countOpenRows = statement<{ readonly status: string; readonly count: number }>(
  'commands_count_open',
  `select s.status, (select count(*)::integer from (
     select from concord.commands as c where c.status = s.status limit $2::integer) as bounded) as count
from unnest($1::text[]) as s (status)`,
)

/** $1 the statuses in which an effect can be in doubt, $2 the highest number of commands to look at. */
const countDoubts = statement<{ readonly count: number }>(
  'commands_count_doubts',
  `select count(*)::integer as count from (
     select c.command_id from concord.commands as c where c.status = any($1::text[]) limit $2::integer) as open
join concord.domain_effects as e on e.command_id = open.command_id
where e.status = 'executing' and e.read_back->>'asked' = 'true'`,
)
const mayDoubt = ['blocked', 'cancelling', 'compensating']

/** Counts the open commands of all workspaces, each status up to `max`, for metrics. */
export async function countOpen(db: Db, max: number): Promise<OpenCounts> {
  const [rows, [doubts]] = await db.transaction(async (tx) => {
    // With a limit a planner expects to find enough rows early. For a status that no command has it would read the whole table.
    await tx.query('set local enable_seqscan = off')
    return [await tx.run(countOpenRows, [openStates, max]), await tx.run(countDoubts, [mayDoubt, max])]
  })
  const commands = Object.fromEntries(rows.map(({ status, count }) => [status, count]))
  return { commands, effectsInDoubt: doubts?.count ?? 0 }
}
