/**
 * The rows on which turns are taken. A room's table has `turn_token`, `turn_until` and `run_after`; only the statements here
 * take, renew and release a turn on it. Times come from the database, so a worker with a wrong clock cannot take a second turn.
 */
import { KernelFault } from '#kernel/errors'
import { hexOfUuid, uuidOfHex } from '#kernel/ids'
import { type Sql, statement, type Statement } from '#store'

/** In-process tokens are above every token of a runtime: no turn of a runtime takes the row while such a turn is alive. */
const LOWEST_IN_PROCESS_TOKEN = 'ffffffff-ffff-8000-8000-000000000000'

/** The token of a row that an operator has taken from every turn: above all other tokens, and never held by a turn. */
export const ABORT_TOKEN = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Builds the token from a version 7 id, whose last 62 bits are random and make the token unique. */
export function inProcessToken(id: string): string {
  const token = uuidOfHex(`ffffffffffff8${hexOfUuid(id)?.slice(13) ?? ''}`)
  if (token === undefined) throw new KernelFault('turns.token', 'A token can only be made from an id.')
  return token
}

export function isInProcessToken(token: string): boolean {
  return token >= LOWEST_IN_PROCESS_TOKEN && token < ABORT_TOKEN
}

export type TurnTable<Row> = {
  /** $1 id, $2 token, $3 lease in ms. */
  readonly take: Statement<Row>
  /** The same for an in-process turn: matches only the row that still has its token, never one that a later turn has taken over. */
  readonly keep: Statement<Row>
  /** $1 id, $2 token, $3 lease in ms. */
  readonly renew: Statement<{ readonly held: boolean }>
  /** $1 ids, $2 tokens, $3 lease in ms. Returns the tokens that are lost. */
  readonly renewAll: Statement<{ readonly turn_token: string }>
  /** $1 id, $2 token. Releases the turn, so that the next one need not wait for the lease to expire. */
  readonly drop: Statement<{ readonly id: string }>
  /** $1 and $2 the leases of an in-process turn and of any other, $3 the tolerance, in ms. Shortens a lease that is longer: the clock was ahead when it was given. */
  readonly cap: Statement<{ readonly id: string; readonly ahead_ms: number }>
  /** $1 id, $2 lowest in-process token, $3 abort token. */
  readonly findInProcess: Statement<{ readonly turn_until: Date | null }>
}

type TurnTableSpec = {
  /** Prefix of the statements' names. */
  readonly room: string
  readonly table: string
  readonly id: string
  /** The columns that `take` and `keep` return, for the alias `t`. */
  readonly columns: string
  /** SQL over the alias `t`: the row can still get a turn. */
  readonly mayTake: string
  /** SQL over the alias `t`: the row has not ended. */
  readonly isOpen: string
}

const leaseOf = (ms: string) => `statement_timestamp() + make_interval(secs => (${ms})::double precision / 1000)`
/** $1 and $2 as in `cap`. */
const ownLease = `case when t.turn_token >= '${LOWEST_IN_PROCESS_TOKEN}' then $1::double precision else $2::double precision end`

export function turnTable<Row>({ room, table, id, columns, mayTake, isOpen }: TurnTableSpec): TurnTable<Row> {
  return {
    take: statement(
      `${room}_take_turn`,
      `update ${table} as t set turn_token = $2::uuid, turn_until = ${leaseOf('$3')}
  where t.${id} = $1::uuid and (t.turn_token is null or t.turn_token <= $2::uuid or t.turn_until < statement_timestamp())
    and (${mayTake})
  returning ${columns}`,
    ),
    keep: statement(
      `${room}_keep_turn`,
      `update ${table} as t set turn_until = ${leaseOf('$3')}
  where t.${id} = $1::uuid and t.turn_token = $2::uuid and (${mayTake})
  returning ${columns}`,
    ),
    renew: statement(
      `${room}_renew_turn`,
      `update ${table} as t set turn_until = greatest(t.turn_until, ${leaseOf('$3')})
where t.${id} = $1::uuid and t.turn_token = $2::uuid returning true as held`,
    ),
    // A locked row is skipped until the next call: waiting for it would delay the renewal of the other turns.
    renewAll: statement(
      `${room}_renew_turns`,
      `with ours as materialized (
  select t.${id} as id from ${table} as t
  where t.${id} = any($1::uuid[]) and t.turn_token = any($2::uuid[]) for no key update skip locked
), renewed as (
  update ${table} as t set turn_until = greatest(t.turn_until, ${leaseOf('$3')})
  where t.${id} = any(array(select o.id from ours as o))
)
select u.turn_token from unnest($2::uuid[]) as u(turn_token)
where u.turn_token not in (
  select t.turn_token from ${table} as t where t.${id} = any($1::uuid[]) and t.turn_token is not null)`,
    ),
    drop: statement(
      `${room}_drop_turn`,
      `update ${table} as t set turn_token = null, turn_until = null
where t.${id} = $1::uuid and t.turn_token = $2::uuid returning t.${id} as id`,
    ),
    cap: statement(
      `${room}_cap_turns`,
      `with ahead as materialized (
  select t.${id} as id, (extract(epoch from t.turn_until - statement_timestamp()) * 1000)::double precision as ahead_ms
  from ${table} as t
  where (${isOpen}) and t.turn_token < '${ABORT_TOKEN}' and t.turn_until > ${leaseOf(`${ownLease} + $3::double precision`)}
  for no key update
)
update ${table} as t set turn_until = ${leaseOf(ownLease)} from ahead as a
where t.${id} = a.id returning t.${id} as id, a.ahead_ms`,
    ),
    findInProcess: statement(
      `${room}_find_in_process_turn`,
      `select t.turn_until from ${table} as t
  where t.${id} = $1::uuid and (t.turn_token is null or (t.turn_token >= $2::uuid and t.turn_token < $3::uuid)) and (${isOpen})`,
    ),
  }
}

/** Returns when the lease of an in-process turn expires; null if it has just ended; undefined if ended, aborted, or taken over. */
export async function findInProcessTurn(
  sql: Sql,
  { findInProcess }: Pick<TurnTable<unknown>, 'findInProcess'>,
  id: string,
): Promise<Date | null | undefined> {
  const [held] = await sql.run(findInProcess, [id, LOWEST_IN_PROCESS_TOKEN, ABORT_TOKEN])
  return held?.turn_until
}
