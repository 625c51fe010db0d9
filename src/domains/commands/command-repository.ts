/** Reads commands and their effects; the only place that knows how effects travel inside a row. */
import { isUuid } from '#kernel/uuid'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, together, type Tx } from '#store'
import type { CommandWithEffects, StoredCommand, StoredEffect } from './command-row.ts'
import type { ParentFact } from './dependencies.ts'
import {
  type AwaitedRow,
  findAwaited as findAwaitedStatement,
  insertWait as insertWaitStatement,
} from './sql/await-command.ts'
import { findCase as findCaseStatement, lockCase as lockCaseStatement } from './sql/find-case.ts'
import { listParents as listParentsStatement } from './sql/list-parents.ts'
import {
  type AroundRow,
  type EffectJson,
  findSpotTurn as findSpotTurnStatement,
  keepTurn as keepTurnStatement,
  readAround,
  takeTurn as takeTurnStatement,
} from './sql/take-turn.ts'
import { ABORT_TOKEN, LOWEST_SPOT_TOKEN } from './spot-token.ts'

/** A case whose row is held, so that it can be acted upon. */
export type HeldCase = CommandWithEffects & {
  /** It waits, or has waited, for other commands. */
  readonly hasParents: boolean
}

type Found = StoredCommand & { readonly effects: readonly EffectJson[] }

function caseOf({ effects, ...command }: Found): CommandWithEffects {
  return { command, effects: effects.map(effectOf) }
}

function effectOf(json: EffectJson): StoredEffect {
  const time = (text: string | null) => (text === null ? null : new Date(text))
  // The columns of the table by name; only times change their form on the way through jsonb.
  const row = json as unknown as StoredEffect
  return {
    ...row,
    created_at: new Date(json.created_at),
    completed_at: time(json.completed_at),
    run_after: time(json.run_after),
  }
}

export async function takeTurn(
  sql: Sql,
  commandId: string,
  token: string,
  leaseMs: number,
): Promise<HeldCase | undefined> {
  const [command] = await sql.run(takeTurnStatement, [commandId, token, leaseMs])
  return command && readHeld(sql, command)
}

/** For a turn on the spot: the row as it is now, while it is still its own. */
export async function keepTurn(
  sql: Sql,
  commandId: string,
  token: string,
  leaseMs: number,
): Promise<HeldCase | undefined> {
  const [command] = await sql.run(keepTurnStatement, [commandId, token, leaseMs])
  return command && readHeld(sql, command)
}

/** When the time of a turn on the spot runs out, null where it has given the row back; undefined: ended, aborted, or a later turn has it. */
export async function findSpotTurn(sql: Sql, commandId: string): Promise<Date | null | undefined> {
  const [held] = await sql.run(findSpotTurnStatement, [commandId, LOWEST_SPOT_TOKEN, ABORT_TOKEN])
  return held?.turn_until
}

/** The row is held, so nobody adds or changes an effect between the two statements and is still able to write. */
async function readHeld(sql: Sql, command: StoredCommand): Promise<HeldCase> {
  return heldCase(command, await sql.run(readAround, [command.command_id]))
}

function heldCase(command: StoredCommand, [around]: readonly AroundRow[]): HeldCase {
  return { command, effects: (around?.effects ?? []).map(effectOf), hasParents: around?.has_parents ?? false }
}

export async function findCase(
  sql: Sql,
  workspaceId: string,
  commandId: string,
): Promise<CommandWithEffects | undefined> {
  if (!isUuid(commandId)) return undefined
  const [found] = await sql.run(findCaseStatement, [commandId, workspaceId])
  return found && caseOf(found)
}

export async function lockCase(tx: Tx, workspaceId: string, commandId: string): Promise<HeldCase | undefined> {
  if (!isUuid(commandId)) return undefined
  // Both in one round trip; the second begins when the first has its lock, and sees what was committed before it.
  const [[command], around] = await together([
    tx.run(lockCaseStatement, [commandId, workspaceId]),
    tx.run(readAround, [commandId]),
  ])
  return command && heldCase(command, around)
}

export async function getCase(sql: Sql, workspaceId: string, commandId: string): Promise<Decision<CommandWithEffects>> {
  const found = await findCase(sql, workspaceId, commandId)
  return found ? accept(found) : refuseMissing()
}

/** What a command waits for, each with where it stands. */
export function listParents(sql: Sql, commandId: string): Promise<readonly ParentFact[]> {
  return sql.run(listParentsStatement, [commandId])
}

/** The wait is a dependency like any other; written twice it is one. */
export async function insertWait(
  tx: Tx,
  { command_id, workspace_id }: Pick<StoredCommand, 'command_id' | 'workspace_id'>,
  awaitedId: string,
  at: Date,
): Promise<void> {
  await tx.run(insertWaitStatement, [command_id, awaitedId, workspace_id, at])
}

export async function findAwaited(sql: Sql, workspaceId: string, commandId: string): Promise<AwaitedRow | undefined> {
  const [row] = await sql.run(findAwaitedStatement, [commandId, workspaceId])
  return row
}

export function refuseMissing(): Decision<never> {
  return refuse('commands.command.not_found', 'There is no such command.')
}
