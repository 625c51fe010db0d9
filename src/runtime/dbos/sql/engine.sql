-- The only statements that name the engine's tables beyond its public SQL function. What each does without them stands beside it.

-- Puts a turn into its queue, through the engine's public function.
create or replace function runtime.engine_enqueue(p_kind text, p_id text, p_turn bigint, p_due_at timestamptz, p_queue text,
  p_priority integer, p_partition text) returns void language sql as $$
  select "dbos".enqueue_workflow(
    workflow_name => 'concord.turn.v1',
    queue_name => p_queue,
    positional_args => array[to_json(p_kind), to_json(p_id), to_json(p_turn), to_json(p_queue)],
    workflow_id => 'turn:' || p_kind || ':' || p_id || ':' || p_turn,
    app_version => 'concord-turn-1',
    priority => p_priority,
    queue_partition_key => p_partition,
    delay_until_epoch_ms => case when p_due_at > clock_timestamp() then ceil(extract(epoch from p_due_at) * 1000)::bigint end,
    application_name => 'concord');
$$;

-- A turn that its waker starts itself: the row that the engine's own claim would leave behind. Without it: enqueue, then poll.
create or replace function runtime.engine_start(p_kind text, p_id text, p_turn bigint, p_queue text, p_priority integer,
  p_executor text, p_owner text) returns void language sql as $$
  insert into "dbos".workflow_status (workflow_uuid, status, name, queue_name, priority, executor_id, owner_xid,
    application_version, application_name, recovery_attempts, started_at_epoch_ms, created_at, updated_at, serialization,
    authenticated_user, assumed_role, authenticated_roles, application_id)
  select 'turn:' || p_kind || ':' || p_id || ':' || p_turn, 'PENDING', 'concord.turn.v1', p_queue, p_priority, p_executor, p_owner,
    'concord-turn-1', 'concord', 1, now_ms, now_ms, now_ms, 'portable_json', '', '', '[]', ''
  from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms) as clock;
  insert into "dbos".workflow_input (workflow_uuid, inputs)
  values ('turn:' || p_kind || ':' || p_id || ':' || p_turn,
    json_build_object('positionalArgs', json_build_array(p_kind, p_id, p_turn, p_queue), 'namedArgs', json_build_object())::text);
$$;

-- A delayed turn that is due earlier now. Without it: a new turn; the delayed one finds itself stale when its time comes.
create or replace function runtime.engine_hasten(p_kind text, p_id text, p_turn bigint, p_due_at timestamptz) returns boolean
language plpgsql as $$
begin
  update "dbos".workflow_status set
    status = case when p_due_at > clock_timestamp() then 'DELAYED' else 'ENQUEUED' end,
    delay_until_epoch_ms = case when p_due_at > clock_timestamp() then ceil(extract(epoch from p_due_at) * 1000)::bigint end
  where workflow_uuid = 'turn:' || p_kind || ':' || p_id || ':' || p_turn and status = 'DELAYED';
  return found;
end
$$;

-- Takes the next turns of a queue whose only limit is this worker's own places. Without it: the engine's own poll, which takes six round
-- trips and counts a place as taken until the end of the turn before it has been written down.
create or replace function runtime.engine_claim(p_queue text, p_limit integer, p_executor text, p_owner text)
returns setof text language sql as $$
  with picked as (
    select w.workflow_uuid from "dbos".workflow_status w
    where w.status = 'ENQUEUED' and w.queue_name = p_queue and w.application_name = 'concord'
    order by w.priority, w.created_at limit p_limit
    for update skip locked
  )
  update "dbos".workflow_status w set status = 'PENDING', owner_xid = p_owner, executor_id = p_executor,
    application_version = 'concord-turn-1', recovery_attempts = w.recovery_attempts + 1,
    started_at_epoch_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint,
    updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint
  from picked where w.workflow_uuid = picked.workflow_uuid and w.status = 'ENQUEUED'
  returning w.workflow_uuid;
$$;
