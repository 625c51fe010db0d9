-- The runtime's schema as version 3 installed it, for the test of the upgrade.
create schema if not exists runtime;

create table if not exists runtime.installed (
  version integer not null
);

create sequence if not exists runtime.turn_numbers;
create sequence if not exists runtime.fence_numbers;

create table if not exists runtime.processes (
  kind        text        not null,
  id          text        not null,
  state       text        not null,
  turn        bigint      not null,
  due_at      timestamptz not null,
  again_at    timestamptz,
  fence       bigint      not null default 0,
  attempt     integer     not null default 0,
  failures    integer     not null default 0,
  why         text,
  detail      text,
  queue       text        not null,
  priority    integer     not null,
  partition   text,
  schedule    text,
  changed_at  timestamptz not null default clock_timestamp(),
  constraint processes_pk primary key (kind, id),
  constraint processes_state_ck check (state in ('idle', 'queued', 'running', 'stuck', 'aborted')),
  constraint processes_why_ck check (why in ('failing', 'crashing', 'no_driver', 'aborted')),
  constraint processes_times_ck check (isfinite(due_at) and isfinite(again_at))
) with (fillfactor = 70);
create index if not exists processes_due_ix on runtime.processes (due_at);
create index if not exists processes_stuck_ix on runtime.processes (changed_at) where state in ('stuck', 'aborted');
create index if not exists processes_schedule_ix on runtime.processes (schedule) where schedule is not null;

create table if not exists runtime.schedules (
  name          text        not null,
  spec          jsonb       not null,
  decided_until timestamptz not null,
  last_due_at   timestamptz,
  held_due_at   timestamptz,
  fired_count   bigint      not null default 0,
  missed_count  bigint      not null default 0,
  constraint schedules_pk primary key (name)
);

create table if not exists runtime.executors (
  executor_id text        not null,
  started_at  timestamptz not null default clock_timestamp(),
  lease_until timestamptz not null,
  constraint executors_pk primary key (executor_id)
);

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

create or replace function runtime.give_turn(p runtime.processes, p_executor text, p_owner text) returns text
language plpgsql as $$
begin
  if p_owner is not null and p.state = 'running' then
    perform runtime.engine_start(p.kind, p.id, p.turn, p.queue, p.priority, p_executor, p_owner);
    return 'started';
  end if;
  perform runtime.engine_enqueue(p.kind, p.id, p.turn, p.due_at, p.queue, p.priority, p.partition);
  return case when p.due_at > clock_timestamp() then 'delayed' else 'opened' end;
end
$$;

create or replace function runtime.wake(p_kind text, p_id text, p_delay_ms bigint, p_queue text, p_priority integer, p_partition text,
  p_moves boolean, p_schedule text default null, p_executor text default null, p_owner text default null)
returns table (outcome text, turn bigint, fence bigint, wait_ms double precision)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_now timestamptz := clock_timestamp();
  v_at timestamptz := v_now + make_interval(secs => p_delay_ms / 1000.0);
  v_starts boolean := p_owner is not null and p_delay_ms = 0;
  r runtime.processes;
begin
  loop
    insert into runtime.processes as p (kind, id, state, turn, due_at, fence, attempt, queue, priority, partition, schedule)
    values (p_kind, p_id, case when v_starts then 'running' else 'queued' end, nextval('runtime.turn_numbers'), v_at,
      case when v_starts then nextval('runtime.fence_numbers') else 0 end, case when v_starts then 1 else 0 end,
      p_queue, p_priority, p_partition, p_schedule)
    on conflict do nothing returning p.* into r;
    if found then
      return query select runtime.give_turn(r, p_executor, p_owner), r.turn, r.fence, p_delay_ms::double precision;
      return;
    end if;
    select * into r from runtime.processes p where p.kind = p_kind and p.id = p_id for update;
    exit when found;
  end loop;
  if r.state = 'idle' then
    update runtime.processes p set state = case when v_starts then 'running' else 'queued' end, turn = nextval('runtime.turn_numbers'),
      due_at = v_at, again_at = null, fence = case when v_starts then nextval('runtime.fence_numbers') else p.fence end,
      attempt = case when v_starts then 1 else 0 end, why = null, detail = null, queue = p_queue, priority = p_priority,
      partition = p_partition, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    return query select runtime.give_turn(r, p_executor, p_owner), r.turn, r.fence, p_delay_ms::double precision;
  elsif r.state = 'queued' and v_at < r.due_at and r.failures = 0 then
    if runtime.engine_hasten(p_kind, p_id, r.turn, v_at) then
      update runtime.processes p set due_at = v_at where p.kind = p_kind and p.id = p_id;
    elsif r.due_at > v_now then
      update runtime.processes p set due_at = v_at, turn = nextval('runtime.turn_numbers')
      where p.kind = p_kind and p.id = p_id returning p.* into r;
      perform runtime.give_turn(r, null, null);
    end if;
    return query select case when p_delay_ms > 0 then 'delayed' else 'hastened' end, r.turn, r.fence, p_delay_ms::double precision;
  elsif r.state = 'running' then
    update runtime.processes p set again_at = least(p.again_at, v_at), queue = case when p_moves then p_queue else p.queue end,
      priority = case when p_moves then p_priority else p.priority end,
      partition = case when p_moves then p_partition else p.partition end
    where p.kind = p_kind and p.id = p_id;
    return query select 'joined', r.turn, r.fence, 0::double precision;
  else
    return query select case when r.state = 'queued' then 'joined' else 'asleep' end, r.turn, r.fence, 0::double precision;
  end if;
end
$$;

create or replace function runtime.begin_turn(p_kind text, p_id text, p_turn bigint, p_attempts_max integer)
returns table (outcome text, fence bigint, attempt integer)
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  r runtime.processes;
begin
  select * into r from runtime.processes p where p.kind = p_kind and p.id = p_id for update;
  if not found or r.turn <> p_turn or r.state not in ('queued', 'running') then
    return query select 'stale', 0::bigint, 0;
  elsif r.state = 'queued' and r.due_at > v_now then
    update runtime.processes p set turn = nextval('runtime.turn_numbers'), again_at = null, attempt = 0
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    perform runtime.give_turn(r, null, null);
    return query select 'early', 0::bigint, 0;
  elsif r.attempt >= p_attempts_max then
    update runtime.processes p set state = 'stuck', again_at = null, why = 'crashing',
      detail = p.attempt || ' workers ended in this turn', fence = nextval('runtime.fence_numbers'), changed_at = v_now
    where p.kind = p_kind and p.id = p_id;
    return query select 'stuck', 0::bigint, 0;
  else
    update runtime.processes p set state = 'running', again_at = case when p.again_at > v_now then p.again_at end,
      fence = nextval('runtime.fence_numbers'), attempt = p.attempt + 1, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    return query select 'begun', r.fence, r.attempt;
  end if;
end
$$;

create or replace function runtime.claim_turns(p_queue text, p_limit integer, p_executor text, p_owner text, p_attempts_max jsonb)
returns table (kind text, id text, turn bigint, outcome text, fence bigint, attempt integer)
language plpgsql as $$
declare
  v_name text;
  v_begun record;
begin
  for v_name in select runtime.engine_claim(p_queue, p_limit, p_executor, p_owner) loop
    kind := split_part(v_name, ':', 2);
    turn := substring(v_name from '[0-9]+$')::bigint;
    id := substr(v_name, 7 + length(kind), length(v_name) - 7 - length(kind) - length(turn::text));
    perform from runtime.processes p where p.kind = claim_turns.kind and p.id = claim_turns.id for update skip locked;
    if found or not exists (select from runtime.processes p where p.kind = claim_turns.kind and p.id = claim_turns.id) then
      select * into v_begun from runtime.begin_turn(kind, id, turn, coalesce((p_attempts_max ->> kind)::integer, 10));
      outcome := v_begun.outcome;
      fence := v_begun.fence;
      attempt := v_begun.attempt;
    else
      outcome := null;
    end if;
    return next;
  end loop;
end
$$;

create or replace function runtime.end_turn(p_kind text, p_id text, p_fence bigint, p_next text, p_until timestamptz,
  p_executor text default null, p_owner text default null)
returns table (outcome text, turn bigint, fence bigint, wait_ms double precision, queue text)
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_at timestamptz;
  v_starts boolean;
  r runtime.processes;
begin
  if p_next = 'done' or p_until is null and p_next = 'wait' then
    delete from runtime.processes p
    where p.kind = p_kind and p.id = p_id and p.state = 'running' and p.fence = p_fence and p.again_at is null and p.schedule is null
    returning p.* into r;
    if found then
      return query select 'over', r.turn, r.fence, 0::double precision, r.queue;
      return;
    end if;
  end if;
  select * into r from runtime.processes p where p.kind = p_kind and p.id = p_id for update;
  if not found or r.state <> 'running' or r.fence <> p_fence then
    return query select 'stale', 0::bigint, 0::bigint, 0::double precision, ''::text;
    return;
  end if;
  v_at := least(case p_next when 'again' then v_now when 'wait' then p_until end, r.again_at);
  if v_at is not null then
    v_starts := p_owner is not null and v_at <= v_now;
    update runtime.processes p set state = case when v_starts then 'running' else 'queued' end, turn = nextval('runtime.turn_numbers'),
      due_at = v_at, again_at = null, fence = case when v_starts then nextval('runtime.fence_numbers') else p.fence end,
      attempt = case when v_starts then 1 else 0 end, failures = 0, why = null, detail = null, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    return query select runtime.give_turn(r, p_executor, p_owner), r.turn, r.fence,
      (extract(epoch from greatest(v_at, v_now) - v_now) * 1000)::double precision, r.queue;
    return;
  end if;
  if p_next = 'wait' and r.schedule is not null then
    update runtime.processes p set state = 'idle', again_at = null, attempt = 0, failures = 0, changed_at = v_now
    where p.kind = p_kind and p.id = p_id;
  else
    delete from runtime.processes p where p.kind = p_kind and p.id = p_id;
    if r.schedule is not null then
      perform runtime.wake('schedule', r.schedule, 0, 'scheduled_maintenance', 0, null, false);
    end if;
  end if;
  return query select 'over', r.turn, r.fence, 0::double precision, r.queue;
end
$$;

create or replace function runtime.fail_turn(p_kind text, p_id text, p_fence bigint, p_why text, p_detail text, p_failures_max integer)
returns table (outcome text, turn bigint, wait_ms double precision, queue text)
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_wait_ms double precision;
  r runtime.processes;
begin
  select * into r from runtime.processes p where p.kind = p_kind and p.id = p_id for update;
  if not found or r.state <> 'running' or r.fence <> p_fence then
    return query select 'stale', 0::bigint, 0::double precision, ''::text;
  elsif r.failures + 1 >= p_failures_max then
    update runtime.processes p set state = 'stuck', again_at = null, why = p_why, detail = p_detail, failures = p.failures + 1,
      changed_at = v_now
    where p.kind = p_kind and p.id = p_id;
    return query select 'stuck', r.turn, 0::double precision, r.queue;
  else
    v_wait_ms := least(60000, 500 * 2 ^ r.failures);
    update runtime.processes p set state = 'queued', turn = nextval('runtime.turn_numbers'),
      due_at = v_now + make_interval(secs => v_wait_ms / 1000), again_at = null, attempt = 0, failures = p.failures + 1, why = null,
      detail = p_detail, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    perform runtime.give_turn(r, null, null);
    return query select 'delayed', r.turn, v_wait_ms, r.queue;
  end if;
end
$$;

create or replace function runtime.resume(p_kind text, p_id text) returns table (turn bigint, queue text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  r runtime.processes;
begin
  update runtime.processes p set state = 'queued', turn = nextval('runtime.turn_numbers'), due_at = clock_timestamp(), again_at = null,
    attempt = 0, failures = 0, why = null, detail = null, changed_at = clock_timestamp()
  where p.kind = p_kind and p.id = p_id and p.state in ('stuck', 'aborted') returning p.* into r;
  if found then
    perform runtime.give_turn(r, null, null);
    return query select r.turn, r.queue;
  end if;
end
$$;

drop function if exists runtime.abort(text, text, text);
create or replace function runtime.abort(p_kind text, p_id text, p_detail text, p_queue text default 'concord_default') returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into runtime.processes as p (kind, id, state, turn, due_at, fence, why, detail, queue, priority)
  values (p_kind, p_id, 'aborted', 0, clock_timestamp(), nextval('runtime.fence_numbers'), 'aborted', p_detail, p_queue, 0)
  on conflict (kind, id) do update set state = 'aborted', again_at = null, why = 'aborted', detail = excluded.detail,
    fence = excluded.fence, changed_at = clock_timestamp();
$$;

create or replace function runtime.reopen_lost(p_older_ms bigint, p_limit integer) returns bigint
language plpgsql as $$
declare
  r runtime.processes;
  v_count bigint := 0;
begin
  for r in
    select p.* from runtime.processes p
    where p.due_at < clock_timestamp() - make_interval(secs => p_older_ms / 1000.0) and p.state in ('queued', 'running')
      and p.changed_at < clock_timestamp() - make_interval(secs => p_older_ms / 1000.0)
      and not exists (
        select from "dbos".workflow_status w
        where w.workflow_uuid = 'turn:' || p.kind || ':' || p.id || ':' || p.turn and w.status in ('ENQUEUED', 'DELAYED', 'PENDING'))
    order by p.due_at limit p_limit for update of p skip locked
  loop
    update runtime.processes p set state = 'queued', turn = nextval('runtime.turn_numbers'), attempt = 0, changed_at = clock_timestamp()
    where p.kind = r.kind and p.id = r.id returning p.* into r;
    perform runtime.give_turn(r, null, null);
    v_count := v_count + 1;
  end loop;
  return v_count;
end
$$;
revoke all on all functions in schema runtime from public;
do $grants$
declare
  v_role text;
begin
  for v_role in select rolname from pg_roles where rolname in ('concord_engine', 'concord_app') loop
    execute format('grant usage on schema runtime to %I', v_role);
    execute format('grant execute on function runtime.wake to %I', v_role);
    if v_role = 'concord_engine' then
      execute format('grant execute on function runtime.abort, runtime.resume to %I', v_role);
    end if;
  end loop;
end
$grants$;
insert into runtime.installed (version) values (3);
