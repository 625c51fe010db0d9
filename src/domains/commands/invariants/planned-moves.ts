/** The moves that the machines of commands and effects have, as pairs for SQL to compare with. */
import { commandMachine, effectMachine } from '#kernel/machines/command'

export type PlannedMoves = readonly (readonly [from: string, to: string])[]

export const commandMoves: PlannedMoves = commandMachine.moves.map(({ from, to }) => [from, to])
export const effectMoves: PlannedMoves = effectMachine.moves.map(({ from, to }) => [from, to])
