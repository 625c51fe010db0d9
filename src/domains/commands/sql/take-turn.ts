/**
 * A driver takes its turn: the token of a later turn stands from now on, and whoever wrote under an earlier one writes
 * nothing more. A turn that nobody has renewed is open to everybody, so that no row outlives the numbers of a runtime that
 * was set up anew. The answer is the whole case: a turn begins with one round trip.
 */
import { statement } from '#store'
import { columnsOf, type StoredCommand } from '../command-row.ts'

/** $1 command, $2 token, $3 how long the turn is believed to live, in ms. */
export const takeTurn = statement<StoredCommand & { readonly effects: readonly EffectJson[] }>(
  'commands_take_turn',
  `with taken as (
  update concord.commands as c set turn_token = $2::uuid, turn_until = statement_timestamp() + make_interval(secs => $3::double precision / 1000)
  where c.command_id = $1::uuid and (c.turn_token is null or c.turn_token <= $2::uuid or c.turn_until < statement_timestamp())
    and (c.completed_at is null or (c.status = 'compensated' and c.cancellation_requested))
  returning ${columnsOf('c')}
)
select taken.*, coalesce((select jsonb_agg(to_jsonb(e) order by e.declaration_order, e.created_at)
  from concord.domain_effects as e where e.command_id = taken.command_id), '[]') as effects
from taken`,
)

/** The turn lives on while a long call is under way; nobody else's does. */
export const renewTurn = statement<{ readonly held: boolean }>(
  'commands_renew_turn',
  `update concord.commands as c
set turn_until = greatest(c.turn_until, statement_timestamp() + make_interval(secs => $3::double precision / 1000))
where c.command_id = $1::uuid and c.turn_token = $2::uuid returning true as held`,
)

/** Times come as text inside jsonb. */
export type EffectJson = Readonly<Record<string, unknown>> & {
  readonly created_at: string
  readonly completed_at: string | null
  readonly run_after: string | null
}
