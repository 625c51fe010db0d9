/** What must hold for every task and its outbox, as one query each, for `concord doctor --deep`. */
import type { Invariant } from '#domains/commands'

const RESTORE = 'Restore the rows from a backup, and ask who can write to the database beside Concord.'

export const flowInvariants: readonly Invariant[] = [
  {
    code: 'F01',
    name: 'a running task has a whole lease',
    meaning: 'A task runs, and nobody holds it, so it would never end.',
    next: RESTORE,
    sql: `select id from flow.tasks where status = 'Running' and (lease_token is null or lease_expires_at is null or worker_id is null)`,
  },
  {
    code: 'F02',
    name: 'a lease token is that of one task',
    meaning: 'Two tasks have the same lease token, so the holder of one could end the other.',
    next: RESTORE,
    sql: `select t.id from flow.tasks as t where t.lease_token in (select lease_token from flow.tasks where lease_token is not null group by 1 having count(*) > 1)`,
  },
  {
    code: 'F03',
    name: 'each output of a completed task is routed once',
    meaning:
      'An output has no event or several, or a task that is not completed has one: consumers have missed an update or got one that is none.',
    next: RESTORE,
    // A task that took the outputs of another one has written nothing.
    sql: `with reported as (
  select t.id, j.output_datasets[(o->>'index')::int + 1] as dataset from flow.tasks as t join flow.jobs as j on j.id = t.job_id cross join lateral jsonb_array_elements(t.outputs) as o
  where t.status = 'Completed' and t.memo_of is null
), routed as (
  select (payload->>'task_id')::uuid as id, payload->>'dataset_uuid' as dataset, count(*) as times from flow.outbox where kind = 'route_event' and payload ? 'task_id' group by 1, 2
)
select coalesce(p.id, r.id) as id from reported as p full join routed as r on r.id = p.id and r.dataset = p.dataset where r.times is distinct from 1 or p.id is null`,
  },
  {
    code: 'F04',
    name: 'a queued task was announced',
    meaning: 'A task is queued, and no outbox row of its attempt tells anybody.',
    next: '`concord up` wakes every queued task again. If it comes back, restore the rows from a backup.',
    sql: `select t.id from flow.tasks as t left join flow.outbox as o on o.kind = 'enqueue_task' and o.payload->>'task_id' = t.id::text and (o.payload->>'attempt')::int = t.attempt
where t.status = 'Queued' and o.id is null`,
  },
  {
    code: 'F05',
    name: 'no outbox row is stuck',
    meaning: 'An effect was due more than a minute ago, and nobody has done it.',
    next: '`concord up` drains the outbox.',
    sql: `select id::text as id from flow.outbox where status in ('Pending', 'Processing') and available_at < statement_timestamp() - interval '1 minute'`,
  },
  {
    code: 'F06',
    name: 'a task has no more attempts than its job allows',
    meaning: 'A task was tried more often than its job allows and people have asked for.',
    next: RESTORE,
    sql: `select t.id from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.attempt > j.max_attempts + coalesce((t.caused_by->>'retried_by_hand')::int, 0)`,
  },
]
