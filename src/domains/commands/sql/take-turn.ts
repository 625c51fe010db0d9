/**
 * A driver takes its turn: the token of a later turn stands from now on, and whoever wrote under an earlier one writes
 * nothing more. A turn that nobody has renewed is open to everybody, so that no row outlives the numbers of a runtime that
 * was set up anew.
 *
 * The effects are read by a statement of their own, after the row is ours: a statement that had to wait for the row sees the
 * row as it is now, but every other table as it was when it began. A driver that waited for the planning one saw a running
 * command without effects, and ended it as done.
 */
import { statement } from '#store'
import { columnsOf, type StoredCommand } from '../command-row.ts'

/** $1 command, $2 token, $3 how long the turn is believed to live, in ms. */
export const takeTurn = statement<StoredCommand>(
  'commands_take_turn',
  `update concord.commands as c set turn_token = $2::uuid, turn_until = statement_timestamp() + make_interval(secs => $3::double precision / 1000)
  where c.command_id = $1::uuid and (c.turn_token is null or c.turn_token <= $2::uuid or c.turn_until < statement_timestamp())
    and (c.completed_at is null or (c.status = 'compensated' and c.cancellation_requested))
  returning ${columnsOf('c')}`,
)

/**
 * The same for a turn on the spot, whose token is above every number: only the row that still bears it, never one that a later turn has
 * taken over.
 */
export const keepTurn = statement<StoredCommand>(
  'commands_keep_turn',
  `update concord.commands as c set turn_until = statement_timestamp() + make_interval(secs => $3::double precision / 1000)
  where c.command_id = $1::uuid and c.turn_token = $2::uuid
    and (c.completed_at is null or (c.status = 'compensated' and c.cancellation_requested))
  returning ${columnsOf('c')}`,
)

/**
 * $1 command, $2 the lowest token of a turn on the spot, $3 the one of an abort, which is above all of them. When the turn that has the command will be over unless it is renewed; null where it
 * has just ended.
 */
export const findSpotTurn = statement<{ readonly turn_until: Date | null }>(
  'commands_find_spot_turn',
  `select c.turn_until from concord.commands as c
  where c.command_id = $1::uuid and (c.turn_token is null or (c.turn_token >= $2::uuid and c.turn_token < $3::uuid))
    and c.completed_at is null`,
)

/**
 * $1 commands, $2 tokens, $3 ms. All turns on the spot of one process at once; gives those that are lost. A row that somebody holds is left
 * for the next time: waiting for it would keep the others from being renewed, and their writes waiting too.
 */
export const renewTurns = statement<{ readonly turn_token: string }>(
  'commands_renew_turns',
  `with ours as materialized (
  select c.command_id from concord.commands as c
  where c.command_id = any($1::uuid[]) and c.turn_token = any($2::uuid[]) for no key update skip locked
), renewed as (
  update concord.commands as c
  set turn_until = greatest(c.turn_until, statement_timestamp() + make_interval(secs => $3::double precision / 1000))
  where c.command_id = any(array(select o.command_id from ours as o))
)
select t.turn_token from unnest($2::uuid[]) as t(turn_token)
where t.turn_token not in (
  select c.turn_token from concord.commands as c where c.command_id = any($1::uuid[]) and c.turn_token is not null)`,
)

/** $1 command, $2 token. Given up by its own holder: the next one need not wait for its time to run out. */
export const dropTurn = statement<{ readonly command_id: string }>(
  'commands_drop_turn',
  `update concord.commands as c set turn_token = null, turn_until = null
where c.command_id = $1::uuid and c.turn_token = $2::uuid returning c.command_id`,
)

export type AroundRow = { readonly effects: readonly EffectJson[]; readonly has_parents: boolean }

/** $1 command. Only for whoever holds the row: its turn or its lock. */
export const readAround = statement<AroundRow>(
  'commands_read_around',
  `select coalesce((select jsonb_agg(to_jsonb(e) order by e.declaration_order, e.created_at)
    from concord.domain_effects as e where e.command_id = $1::uuid), '[]') as effects,
  exists (select from concord.command_dependencies as d where d.child_command_id = $1::uuid) as has_parents`,
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
