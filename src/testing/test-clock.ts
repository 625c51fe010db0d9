/** A clock that a test moves: that of the program, and that of its database. */
import type { Clock } from '#kernel/clock'
import type { Sql } from '#store'

export type TestClock = {
  readonly now: Clock
  /** How far the clock is ahead of the real one. */
  readonly aheadMs: () => number
  move(sql: Sql, ms: number): Promise<void>
}

/** The functions of Postgres that read the clock. In this schema they come before those of the system. */
const FUNCTIONS = ['now', 'clock_timestamp', 'statement_timestamp', 'transaction_timestamp']

const INSTALL = `
create schema concord_clock;
grant usage on schema concord_clock to public;
create table concord_clock.ahead (ms bigint not null);
insert into concord_clock.ahead values (0);
grant select on concord_clock.ahead to public;
${FUNCTIONS.map(
  (name) => `create function concord_clock.${name}() returns timestamptz language sql stable as
  $$ select pg_catalog.${name}() + (select ms from concord_clock.ahead) * interval '1 millisecond' $$;`,
).join('\n')}`

/** Installs the clock in a database. Connections that are opened afterwards read it. */
export async function installClock(sql: Sql): Promise<TestClock> {
  await sql.query(INSTALL)
  const [row] = await sql.query<{ name: string }>('select current_database() as name')
  await sql.query(`alter database ${row?.name ?? ''} set search_path = concord_clock, pg_catalog, public`)
  let ahead = 0
  return {
    now: () => new Date(Date.now() + ahead),
    aheadMs: () => ahead,
    async move(to, ms) {
      if (!Number.isInteger(ms) || ms < 0) throw new RangeError('A test clock moves forward by whole milliseconds.')
      // The database first: it must not be behind the program.
      await to.query('update concord_clock.ahead set ms = ms + $1', [ms])
      ahead += ms
    },
  }
}
