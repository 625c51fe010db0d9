/**
 * The tokens that are no runtime's. That of a turn on the spot is above every number that a runtime gives out, so that no turn of a runtime
 * takes the row while this one is alive; and it is nobody else's, so that this one never takes a row back.
 */
import { hexOfUuid, uuidOfHex } from '#kernel/uuid'
import { KernelFault } from '#kernel/errors'

export const LOWEST_SPOT_TOKEN = 'ffffffff-ffff-8000-8000-000000000000'

/** From an id of its own: what is random in one of version 7, its last 62 bits, makes the token. */
export function spotToken(id: string): string {
  const token = uuidOfHex(`ffffffffffff8${hexOfUuid(id)?.slice(13) ?? ''}`)
  if (token === undefined) throw new KernelFault('commands.turn.token', 'a token is made of an id')
  return token
}

/** On a row that an operator has taken from every turn: above every token there is, and no turn ever bears it. */
export const ABORT_TOKEN = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export function isSpotToken(token: string): boolean {
  return token >= LOWEST_SPOT_TOKEN && token < ABORT_TOKEN
}
