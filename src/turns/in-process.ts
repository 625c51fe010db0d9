/**
 * Turns that begin in the process whose write made them necessary, as part of that write: no wake, no queue and no second read.
 * The row looks the same as in any other turn, but only this process knows of the turn. The process therefore renews the lease. When the process dies, the lease
 * expires and the reconciler hands the row to the runtime.
 */
import type { NewId } from '#kernel/clock'
import type { Decision } from '#kernel/refusal'
import type { Next, Process, Runtime } from '#runtime'
import { failpoint, type Tx } from '#store'
import { inProcessToken } from './turn-table.ts'
import { IN_PROCESS_TURN_MS, openTurn, type Turn, type TurnDeps, type TurnRoom } from './turn.ts'

/** The turn that a write takes if no other turn is alive on the row. */
export type Taking = { readonly token: string; readonly leaseMs: number }

type TurnOffer<Found> = Taking & {
  /** Call when the write is committed and the row has the token. */
  start(id: string, found: Found): void
  /** Call when the write did not happen or took no turn. */
  release(): void
}

export type InProcessTurns<Found> = {
  /** Returns undefined when no slot is free, so that the process has to be woken. */
  offer(queue: string): TurnOffer<Found> | undefined
  /** Call every `RENEW_MS`: renews the turns that were already running at the previous call, and aborts lost ones. */
  renew(): Promise<void>
  /** Stops offering, lets turns end within the time, and leaves the rest to other processes. */
  close(drainMs: number): Promise<void>
}

export type ReserveSlot = Runtime['reserveSlot']

/** A quarter of the lease: three renewals can fail before it expires. */
export const RENEW_MS = IN_PROCESS_TURN_MS / 4
const HAND_ON_MS = 500
/** The longest delay of a wake; the reconciler handles later times. */
const DELAY_MS_MAX = 365 * 86_400_000

/** The runtime's turns count from 1. */
export function inProcessTurnName({ kind, id }: Process): string {
  return `turn:${kind}:${id}:0`
}

type UnderWay = { readonly id: string; readonly lost: AbortController; readonly ended: Promise<void> }

export function openInProcessTurns<Row, Found>(
  deps: TurnDeps & { readonly newId: NewId },
  { kind, table }: TurnRoom<Row, Found>,
  drive: (turn: Turn<Found>) => Promise<Next>,
  reserveSlot: ReserveSlot,
): InProcessTurns<Found> {
  const underWay = new Map<string, UnderWay>()
  let isClosing = false

  /** A turn that began since the previous call needs no renewal yet: a short turn never costs an extra write. */
  let looked = new Set<string>()
  async function renew(): Promise<void> {
    const tokens = [...underWay.keys()].filter((token) => looked.has(token))
    looked = new Set(underWay.keys())
    if (tokens.length === 0) return
    const ids = tokens.map((token) => underWay.get(token)?.id)
    const gone = await deps.db.run(table.renewAll, [ids, tokens, IN_PROCESS_TURN_MS])
    for (const { turn_token } of gone) underWay.get(turn_token)?.lost.abort('the turn is lost')
  }

  function start(id: string, token: string, queue: string, found: Found, leave: () => void): void {
    const lost = new AbortController()
    const ended = run(id, token, queue, found, lost.signal).finally(() => {
      underWay.delete(token)
      leave()
    })
    underWay.set(token, { id, lost, ended })
  }

  async function run(id: string, token: string, queue: string, found: Found, signal: AbortSignal): Promise<void> {
    try {
      await failpoint('turns.begun')
      const name = inProcessTurnName({ kind, id })
      const turn = openTurn({ kind, id }, { token, turn: name, signal }, found, deps.now())
      const next = await drive(turn)
      // The row may have no other turn: a fact may have taken it without starting one.
      await handOn(id, token, queue, turn.isLost ? { t: 'again' } : next)
    } catch {
      // The runtime counts failures: its turn meets the same one.
      await handOn(id, token, queue, { t: 'again' }).catch(() => {})
    }
  }

  async function handOn(id: string, token: string, queue: string, next: Next): Promise<void> {
    if (next.t === 'done' || (next.t === 'wait' && next.until === null)) return
    // `again` still holds the row; a wait has already released it.
    if (next.t === 'again') await deps.db.run(table.drop, [id, token])
    const waitMs = next.t === 'wait' && next.until ? next.until.getTime() - deps.now().getTime() : 0
    const delayMs = Math.min(DELAY_MS_MAX, Math.max(0, Math.ceil(waitMs)))
    await failpoint('turns.handing')
    await deps.wake({ kind, id }, { queue, delayMs })
  }

  async function drained(withinMs: number): Promise<void> {
    const over = new AbortController()
    const all = Promise.all([...underWay.values()].map(({ ended }) => ended))
    await Promise.race([all, deps.sleep(withinMs, over.signal)])
    over.abort('waited long enough')
  }

  return {
    renew,
    offer(queue) {
      const slot = isClosing ? undefined : reserveSlot(queue)
      if (!slot) return undefined
      const token = inProcessToken(deps.newId())
      return {
        token,
        leaseMs: IN_PROCESS_TURN_MS,
        start: (id, found) => start(id, token, queue, found, slot.begin()),
        release: () => slot.release(),
      }
    },
    async close(drainMs) {
      isClosing = true
      await drained(drainMs)
      for (const { lost } of underWay.values()) lost.abort('the process closes')
      // Turns that react to the signal hand over their rows; the reconciler finds the others when their leases expire.
      await drained(HAND_ON_MS)
    },
  }
}

type Resumed<Found> = { readonly turnToken: string | null; readonly found: Found }

/**
 * Commits a fact that lets a process continue, inside the caller's transaction. When this process has a free slot, the same write takes the
 * turn and the turn begins with the commit; otherwise the transaction wakes the process.
 */
export async function commitAndResume<Found, T extends Resumed<Found>>(
  deps: { readonly turns?: InProcessTurns<Found> | undefined; readonly wake: TurnDeps['wake'] },
  tx: Tx,
  { process, queue, continues }: { process: Process; queue: string | undefined; continues: boolean },
  write: (takes: Taking | undefined) => Promise<Decision<T>>,
): Promise<Decision<T>> {
  const offer = continues && queue !== undefined ? deps.turns?.offer(queue) : undefined
  const written = await write(offer).catch((error: unknown) => {
    // The transaction may be retried at once and then needs the slot.
    offer?.release()
    throw error
  })
  if (offer && written.ok && written.value.turnToken === offer.token) {
    const { found } = written.value
    tx.afterRollback(() => offer.release())
    tx.afterCommit(() => offer.start(process.id, found))
    return written
  }
  offer?.release()
  if (written.ok) await deps.wake(process, { tx, ...(queue === undefined ? {} : { queue }) })
  return written
}
