/** The one clock that decides about deadlines: every process may have another, the database has one. */
import { statement } from '#store'

export const databaseTime = statement<{ readonly at: Date }>(
  'approvals.database_time',
  'select statement_timestamp() as at',
)
