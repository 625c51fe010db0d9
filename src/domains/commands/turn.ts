/** One turn of a driver: the case as it stands, and the only way in which a turn writes. Every write names the turn's token. */
import type { StoredCommand, StoredEffect } from './command-row.ts'
import { type HeldCase, keepTurn, takeTurn } from './command-repository.ts'
import { draftWrite, type NewEffect, type Write, type WriteDraft } from './draft-write.ts'
import { renewTurn } from './sql/take-turn.ts'
import type { WriteResult } from './write-lane.ts'
import { commitWrite } from './write-lane.ts'
import { isSpotToken } from './spot-token.ts'
import { type CommandDeps, processOf } from './deps.ts'
import type { ArtifactWriter } from '#domains/artifacts'
import type { Decision } from '#kernel/refusal'
import { failpoint, type Tx } from '#store'

/** Long enough for the slowest step between two renewals; a later token takes over at once, whatever is left of it. */
export const TURN_MS = 30_000
/** A turn that no runtime knows of: whoever finds it must not have to wait long, so it is renewed while it lasts. */
export const SPOT_TURN_MS = 2_500

export type Turn = {
  readonly deps: CommandDeps
  readonly token: string
  readonly runtimeWorkflowId: string
  readonly signal: AbortSignal
  /** How long it is believed to live after it was last renewed. */
  readonly leaseMs: number
  command: StoredCommand
  effects: readonly StoredEffect[]
  hasParents: boolean
  /** Effects that this very turn has begun: whatever else is executing was left behind by an earlier one. */
  readonly begun: Set<string>
  /** What the latest call of each effect has written; saved with its outcome. */
  readonly pens: Map<string, ArtifactWriter>
  /** Set when a later turn has the row: nothing is written any more. */
  isLost: boolean
  /** When the row was last known to be ours: the moment before it was asked. */
  heldAt: Date
}

export function openTurn(
  deps: CommandDeps,
  fence: { token: string; turn: string; signal: AbortSignal },
  found: HeldCase,
  heldAt: Date,
): Turn {
  return {
    deps,
    token: fence.token,
    runtimeWorkflowId: fence.turn,
    signal: fence.signal,
    leaseMs: isSpotToken(fence.token) ? SPOT_TURN_MS : TURN_MS,
    ...found,
    begun: new Set(),
    pens: new Map(),
    isLost: false,
    heldAt,
  }
}

export function draftOf(turn: Turn): WriteDraft {
  const { deps, command, token, leaseMs } = turn
  return draftWrite(command, { held: token, leaseMs }, { at: deps.now(), newId: deps.newId })
}

/** True: written, and the turn knows it. False: the row had moved; the turn has read it again, or is lost. */
export async function commitTurn(turn: Turn, write: Write): Promise<boolean> {
  return settle(turn, write, await turn.deps.writes.commit(write))
}

/** For steps that also write tables of other rooms. */
export async function commitTurnWith(turn: Turn, write: Write, work: (tx: Tx) => Promise<void>): Promise<boolean> {
  const result = await turn.deps.db.transaction(async (tx) => {
    const written = await commitWrite(tx, write)
    if (written.ok) await work(tx)
    return written
  })
  return settle(turn, write, result)
}

async function settle(turn: Turn, write: Write, result: Decision<WriteResult>): Promise<boolean> {
  if (!result.ok) {
    await refresh(turn)
    return false
  }
  const { command, touched, dependents } = result.value
  turn.command = command
  turn.heldAt = write.at
  turn.effects = applyWrite(turn.effects, write, touched)
  if (dependents.length > 0) {
    await failpoint('commands.dependents_marked')
  }
  for (const id of dependents) await turn.deps.wake(processOf(id))
  return true
}

/** The same token may take the turn again; a later one has it otherwise, or the command has ended. */
export async function refresh(turn: Turn): Promise<void> {
  const take = isSpotToken(turn.token) ? keepTurn : takeTurn
  const found = await take(turn.deps.db, turn.command.command_id, turn.token, turn.leaseMs)
  if (!found) turn.isLost = true
  else Object.assign(turn, found)
}

/**
 * Half of the shortest time in which another process may take a turn over. A process that was frozen or cut off for longer, between
 * the record of a beginning and the call, would otherwise do what its heir has done already.
 */
const TRUST_MS = 400
/** A database that always takes longer to answer must not keep its commands from being done. */
const TRUST_TRIES = 3

/** True: the turn is still ours, or was a moment ago. Asked right before every call: nothing of ours stands between the two. */
export async function isStillHeld(turn: Turn): Promise<boolean> {
  for (let tries = 0; tries < TRUST_TRIES && !turn.isLost; tries++) {
    const asked = turn.deps.now()
    const ageMs = asked.getTime() - turn.heldAt.getTime()
    if (ageMs >= 0 && ageMs < TRUST_MS) return true
    const [row] = await turn.deps.db.run(renewTurn, [turn.command.command_id, turn.token, turn.leaseMs])
    turn.heldAt = asked
    turn.isLost = row === undefined
  }
  return !turn.isLost
}

/** What the rows look like after the write, without asking for them again. */
export function applyWrite(
  effects: readonly StoredEffect[],
  write: Write,
  touched: ReadonlySet<string>,
): readonly StoredEffect[] {
  const changed = effects.map((effect) => {
    const moves = write.effectMoves.filter(
      (move) => move.domain_effect_id === effect.domain_effect_id && touched.has(effect.domain_effect_id),
    )
    return moves.reduce<StoredEffect>((row, { status, set }) => ({ ...row, ...set, status }), effect)
  })
  return [...changed, ...write.newEffects.map((effect) => asStored(effect, write.at))]
}

export function asStored(effect: NewEffect, at: Date): StoredEffect {
  return { ...effect, error: null, error_class: null, run_after: null, read_back: null, created_at: at }
}
