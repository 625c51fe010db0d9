/**
 * Turns on the spot: a command that is written down here begins here, in the very write that makes it necessary, without a wake, a queue
 * and two looks in between. What stands on the row is the same as in any other turn; only nobody but this process knows of it. So it is
 * renewed while it lasts, and if the process dies, its time runs out and the reconciler hands the command to the runtime.
 */
import type { Next, TurnPlace } from '#runtime'
import { failpoint } from '#store'
import type { HeldCase } from './command-repository.ts'
import { driveTurn } from './drive-command.ts'
import { dropTurn, renewTurns } from './sql/take-turn.ts'
import { spotToken } from './spot-token.ts'
import { openTurn, SPOT_TURN_MS } from './turn.ts'
import { type CommandDeps, processOf } from './deps.ts'

export type SpotOffer = {
  /** For the write that makes the turn necessary. */
  readonly token: string
  readonly leaseMs: number
  /** The write is committed and the row bears the token: off it goes. */
  start(found: HeldCase): void
  /** Nothing came of it. */
  release(): void
}

export type SpotTurns = {
  /** Undefined: the command has to be woken, and waits for its place. */
  offer(queue: string): SpotOffer | undefined
  /** Every `SPOT_RENEW_MS`: those that were under way the last time too live on; those that are no longer ours are told to stop. */
  renew(): Promise<void>
  /** No more from now on. What is under way may end; what has not ended then is left to others. */
  close(drainMs: number): Promise<void>
}

type UnderWay = { readonly commandId: string; readonly lost: AbortController; readonly ended: Promise<void> }

export type Places = (queue: string) => TurnPlace | undefined

/** So often a turn is renewed three times before anybody else may have it. */
export const SPOT_RENEW_MS = SPOT_TURN_MS / 4
const HAND_MS = 500
/** The longest time that a wake may be put off for; the reconciler comes back to what is due after it. */
const DELAY_MS_MAX = 365 * 86_400_000

export function openSpotTurns(deps: CommandDeps, offerPlace: Places): SpotTurns {
  const underWay = new Map<string, UnderWay>()
  let isClosing = false

  /** What began since the last look lives long enough without; so a short turn never costs a write of its own. */
  let looked = new Set<string>()
  async function renew(): Promise<void> {
    const tokens = [...underWay.keys()].filter((token) => looked.has(token))
    looked = new Set(underWay.keys())
    if (tokens.length === 0) return
    const ids = tokens.map((token) => underWay.get(token)?.commandId)
    const gone = await deps.db.run(renewTurns, [ids, tokens, SPOT_TURN_MS])
    for (const { turn_token } of gone) underWay.get(turn_token)?.lost.abort('the turn is lost')
  }

  function start(token: string, queue: string, found: HeldCase, leave: () => void): void {
    const { command_id: commandId } = found.command
    const lost = new AbortController()
    const ended = run(token, queue, found, lost.signal).finally(() => {
      underWay.delete(token)
      leave()
    })
    underWay.set(token, { commandId, lost, ended })
  }

  async function run(token: string, queue: string, found: HeldCase, signal: AbortSignal): Promise<void> {
    const { command_id: commandId } = found.command
    try {
      await failpoint('commands.spot_begun')
      const fence = { token, turn: `turn:command:${commandId}:0`, signal }
      const turn = openTurn(deps, fence, found, deps.now())
      const next = await driveTurn(turn)
      // Who has the row now, and whether anybody has, is not known here: a dependency takes it and gives it to nobody.
      await hand(commandId, token, queue, turn.isLost ? { t: 'again' } : next)
    } catch {
      // Its failures are counted where turns are given: the next one is the runtime's, and meets the same.
      await hand(commandId, token, queue, { t: 'again' }).catch(() => {})
    }
  }

  async function hand(commandId: string, token: string, queue: string, next: Next): Promise<void> {
    if (next.t === 'done' || (next.t === 'wait' && next.until === null)) return
    // Going on means that the row is still ours; waiting has given it back already.
    if (next.t === 'again') await deps.db.run(dropTurn, [commandId, token])
    const waitMs = next.t === 'wait' && next.until ? next.until.getTime() - deps.now().getTime() : 0
    const delayMs = Math.min(DELAY_MS_MAX, Math.max(0, Math.ceil(waitMs)))
    await failpoint('commands.spot_handing')
    await deps.wake(processOf(commandId), { queue, delayMs })
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
      const place = isClosing ? undefined : offerPlace(queue)
      if (!place) return undefined
      const token = spotToken(deps.newId())
      return {
        token,
        leaseMs: SPOT_TURN_MS,
        start: (found) => start(token, queue, found, place.begin()),
        release: () => place.release(),
      }
    },
    async close(drainMs) {
      isClosing = true
      await drained(drainMs)
      for (const { lost } of underWay.values()) lost.abort('the process closes')
      // Those that listen hand their commands on; the others are found when their time has run out.
      await drained(HAND_MS)
    },
  }
}
