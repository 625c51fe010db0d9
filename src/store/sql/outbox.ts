/**
 * The statements of an outbox. The table has no lock column: a claim moves `available_at` forward, and that time is
 * the fence, since a row that was claimed again has another. It is passed as text: a JavaScript date would lose its
 * microseconds and never be equal.
 */
import type { OutboxRow, OutboxTable } from '../outbox.ts'
import { statement, type Statement } from '../statement.ts'
import { statementName } from './names.ts'

export type OutboxStatements = {
  /** $1 kinds, $2 payloads. */
  readonly write: Statement<{ readonly id: string }>
  /** $1 limit, $2 visibility in ms, $3 kinds or null. */
  readonly claim: Statement<OutboxRow>
  /** The same, for rows whose drainer died: the claim counts as a failed attempt. */
  readonly reclaim: Statement<OutboxRow>
  /** $1 ids, $2 fence. */
  readonly finish: Statement<{ readonly id: string }>
  /** $1 ids, $2 fence, $3 errors, $4 waits in ms (null: no further attempt), $5 attempts. */
  readonly fail: Statement<{ readonly id: string }>
}

const NOW = 'statement_timestamp()'
const BACK = `t.id::text, t.kind, t.payload, t.attempts, t.last_error, t.created_at, t.available_at::text as fence`

export function compileOutbox({ table }: OutboxTable): OutboxStatements {
  const make = <Row>(label: string, text: string) =>
    statement<Row>(statementName(`outbox_${label}_${table}`, text), text)
  const claim = (status: string, counted: string) => `with next as materialized (
  select id from ${table}
  where status = '${status}' and available_at <= ${NOW} and ($3::text[] is null or kind = any($3))
  order by available_at, id
  limit $1::integer
  for update skip locked
)
update ${table} as t set status = 'Processing', available_at = ${NOW} + $2::integer * interval '1 millisecond'${counted}
where t.id = any(array(select id from next))
returning ${BACK}`
  const held = `t.id = any($1::bigint[]) and t.status = 'Processing' and t.available_at = $2::timestamptz`
  return {
    write: make(
      'write',
      `insert into ${table} (kind, payload)
select kind, payload from unnest($1::text[], $2::jsonb[]) with ordinality as r(kind, payload, n) order by n
returning id::text`,
    ),
    claim: make('claim', claim('Pending', '')),
    reclaim: make(
      'reclaim',
      claim('Processing', `, attempts = t.attempts + 1, last_error = 'the drainer did not come back'`),
    ),
    finish: make(
      'finish',
      `update ${table} as t set status = 'Done', processed_at = ${NOW}\nwhere ${held}\nreturning t.id::text`,
    ),
    fail: make(
      'fail',
      `update ${table} as t set
  status = case when f.wait_ms is null then 'Failed' else 'Pending' end,
  attempts = f.attempts,
  last_error = f.error,
  available_at = case when f.wait_ms is null then t.available_at else ${NOW} + f.wait_ms * interval '1 millisecond' end
from unnest($1::bigint[], $3::text[], $4::integer[], $5::integer[]) as f(id, error, wait_ms, attempts)
where f.id = t.id and ${held}
returning t.id::text`,
    ),
  }
}
