/** Commits what steps have decided: one by one inside a transaction, or together with whatever else is due, in one commit. */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type Db, openLane, type Sql, statement } from '#store'
import type { StoredCommand } from './command-row.ts'
import type { Write } from './draft-write.ts'
import { isOpen, type Written, writeCase } from './sql/write-case.ts'

export type WriteResult = {
  readonly command: StoredCommand
  readonly touched: ReadonlySet<string>
  readonly dependents: readonly string[]
}

const findEvent = statement<{ readonly event_id: string }>(
  'commands_find_event',
  `select event_id from concord.domain_events where event_id = any($1::uuid[])`,
)
const markDue = statement<{ readonly command_id: string }>(
  'commands_mark_due',
  `update concord.commands as c set run_after = $2 where c.command_id = any($1::uuid[]) and ${isOpen} returning c.command_id`,
)

/** The statement for these writes, and its values. */
function sendWrites(sql: Sql, writes: readonly Write[]): Promise<Written[]> {
  const place = <T extends object>(pick: (write: Write) => readonly T[]) =>
    writes.flatMap((write, n) => pick(write).map((each, at) => ({ ...each, n, place: at })))
  const moves = place((write) => write.effectMoves)
  const docs = writes.map(({ command, hold, from, to, releases, takes, at, set }, n) => ({
    n,
    id: command.command_id,
    workspace_id: command.workspace_id,
    from_status: from,
    status: to,
    token: typeof hold === 'object' ? hold.held : null,
    keeps_ms: (typeof hold === 'object' && hold.leaseMs) || null,
    is_free: hold === 'free',
    releases,
    takes: takes?.token ?? null,
    takes_ms: takes?.leaseMs ?? null,
    at,
    set,
  }))
  const effects = place((write) => write.newEffects)
  const parts = { plans: effects.length > 0, touches: moves.length > 0, moves: writes.some(({ to }) => to !== null) }
  return sql.run(writeCase(parts), [
    JSON.stringify(docs),
    writes.map(({ command }) => command.command_id),
    JSON.stringify(place((write) => write.events)),
    ...(parts.plans ? [JSON.stringify(effects)] : []),
    ...(parts.touches ? [JSON.stringify(moves), moves.map(({ domain_effect_id }) => domain_effect_id)] : []),
  ])
}

function resultOf(write: Write, { n: _n, new_status: _status, touched, dependents, ...row }: Written): WriteResult {
  const done = new Set(touched)
  const missed = write.effectMoves.find(
    ({ domain_effect_id, requires_status }) => requires_status === null && !done.has(domain_effect_id),
  )
  // The row was ours and its effect was not where we had read it: somebody writes effects without holding their command.
  if (missed)
    throw new KernelFault('commands.effect.torn', 'an effect changed outside its turn', {
      domain_effect_id: missed.domain_effect_id,
    })
  return { command: row, touched: done, dependents }
}

export function refuseMoved(write: Write): Refusal {
  const state = write.from ?? 'held'
  return refuse('commands.command.moved', 'this command has changed meanwhile', { facts: { expected: state } })
}

/** For steps that write more than one table: inside the caller's transaction. */
export async function commitWrite(sql: Sql, write: Write): Promise<Decision<WriteResult>> {
  const [row] = await sendWrites(sql, [write])
  return row ? accept(resultOf(write, row)) : refuseMoved(write)
}

export type WriteLane = {
  /** Settles after the commit of this write. A refusal says that the row was no longer as it had been read. */
  commit(write: Write): Promise<Decision<WriteResult>>
  close(): Promise<void>
}

export function openWriteLane(db: Db): WriteLane {
  const lane = openLane<Write, Decision<WriteResult>>(db, {
    name: 'commands',
    // A write is ten rows or more: 64 in one batch hold one core and leave the other idle. 1,720 commands/s in flight of 64, and 2,400 with 16.
    batchMax: 16,
    keyOf: ({ command }) => command.command_id,
    retrySafe: true,
    async flush(sql, items) {
      const writes = items.map(({ item }) => item)
      const rows = new Map((await sendWrites(sql, writes)).map((row) => [row.n, row]))
      await markTogether(sql, writes, rows)
      const lost = items
        .filter(({ retried }, n) => retried && !rows.has(n))
        .flatMap(({ item }) => item.events.slice(0, 1))
      const seen = lost.length === 0 ? [] : await sql.run(findEvent, [lost.map(({ event_id }) => event_id)])
      return writes.map((write, n) => {
        const row = rows.get(n)
        if (row) return accept(resultOf(write, row))
        // Our own commit before the connection broke; the driver reads the row again and finds it so.
        const isOurs = seen.some(({ event_id }) => event_id === write.events[0]?.event_id)
        return isOurs
          ? refuse('commands.command.moved', 'this write was committed before its connection broke')
          : refuseMoved(write)
      })
    },
  })
  return {
    commit: (write) => lane.submit(write),
    close: () => lane.close(),
  }
}

/** A command and one that waits for it in one batch: the statement cannot touch a row twice, so the mark follows. */
async function markTogether(sql: Sql, writes: readonly Write[], rows: ReadonlyMap<number, Written>): Promise<void> {
  const here = new Set(writes.map(({ command }) => command.command_id))
  const both = [...rows.values()].flatMap(({ dependents }) => dependents.filter((id) => here.has(id)))
  if (both.length > 0) await sql.run(markDue, [both, writes[0]?.at ?? null])
}
