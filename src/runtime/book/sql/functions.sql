-- The changes to the row of a process, one round trip each. test/support/reference-runtime/process-row.ts is the same logic in memory, and
-- a test compares the two move by move. Every function locks the row first, so a wake and the begin or end of a turn are serialized: the
-- second sees what the first committed. No function names an engine: a turn that does not start in the process that asked for it waits
-- here until a relay hands it over.

-- Functions of version 3 that are no longer called.
drop function if exists runtime.claim_turns(text, integer, text, text, jsonb);
drop function if exists runtime.begin_turn(text, text, bigint, integer);
drop function if exists runtime.reopen_lost(bigint, integer);
drop function if exists runtime.give_turn(runtime.processes, text, text);
drop function if exists runtime.engine_enqueue(text, text, bigint, timestamptz, text, integer, text);
drop function if exists runtime.engine_start(text, text, bigint, text, integer, text, text);
drop function if exists runtime.engine_hasten(text, text, bigint, timestamptz);
drop function if exists runtime.engine_claim(text, integer, text, text);
drop function if exists runtime.abort(text, text, text);
-- Of version 5, without p_queue.
drop function if exists runtime.end_turn(text, text, bigint, text, timestamptz, text, text);

-- p_executor: the caller is this worker and has a slot, so the turn starts there after the commit. p_owner: a program of version 3, which
-- would start the turn in the engine; for such a program the turn waits. `elsewhere`: the turn is due now, in the queue in which the process
-- already waited.
create or replace function runtime.wake(p_kind text, p_id text, p_delay_ms bigint, p_queue text, p_priority integer, p_partition text,
  p_moves boolean, p_schedule text default null, p_executor text default null, p_owner text default null)
returns table (outcome text, turn bigint, fence bigint, wait_ms double precision)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_now timestamptz := clock_timestamp();
  v_at timestamptz := v_now + make_interval(secs => p_delay_ms / 1000.0);
  v_starts boolean := p_executor is not null and p_owner is null and p_delay_ms = 0;
  v_outcome text := case when v_starts then 'started' when p_delay_ms > 0 then 'delayed' else 'opened' end;
  r runtime.processes;
begin
  loop
    insert into runtime.processes as p (kind, id, state, turn, due_at, fence, attempt, executor, queue, priority, partition, schedule)
    values (p_kind, p_id, case when v_starts then 'running' else 'queued' end, nextval('runtime.turn_numbers'), v_at,
      case when v_starts then nextval('runtime.fence_numbers') else 0 end, case when v_starts then 1 else 0 end,
      case when v_starts then p_executor end, p_queue, p_priority, p_partition, p_schedule)
    on conflict do nothing returning p.* into r;
    if found then
      return query select v_outcome, r.turn, r.fence, p_delay_ms::double precision;
      return;
    end if;
    select * into r from runtime.processes p where p.kind = p_kind and p.id = p_id for update;
    exit when found;
  end loop;
  if r.state = 'idle' then
    update runtime.processes p set state = case when v_starts then 'running' else 'queued' end, turn = nextval('runtime.turn_numbers'),
      due_at = v_at, again_at = null, fence = case when v_starts then nextval('runtime.fence_numbers') else p.fence end,
      attempt = case when v_starts then 1 else 0 end, executor = case when v_starts then p_executor end, delivery = 0, given_at = null,
      gives = 0, why = null, detail = null, queue = p_queue, priority = p_priority, partition = p_partition, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    return query select v_outcome, r.turn, r.fence, p_delay_ms::double precision;
  elsif r.state = 'queued' and v_at < r.due_at and r.failures = 0 and r.given_at is null then
    -- Only when the row is in the queue that the slot belongs to.
    v_starts := v_starts and r.queue = p_queue and r.attempt = 0;
    update runtime.processes p set due_at = v_at, state = case when v_starts then 'running' else p.state end,
      fence = case when v_starts then nextval('runtime.fence_numbers') else p.fence end,
      attempt = case when v_starts then 1 else p.attempt end, executor = case when v_starts then p_executor end,
      refused_since = case when v_starts then null else p.refused_since end, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    return query select case when v_starts then 'started' when p_delay_ms > 0 then 'delayed' when r.queue <> p_queue then 'elsewhere'
      else 'opened' end, r.turn, r.fence, p_delay_ms::double precision;
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

-- Returns whether a living worker other than this one drives the kind and takes the queue.
create or replace function runtime.is_driven(p_kind text, p_queue text, p_executor text) returns boolean language sql stable as $$
  select exists (
    select from runtime.executors e
    where e.lease_until > clock_timestamp() and e.executor_id <> p_executor and (e.kinds is null or p_kind = any (e.kinds))
      and (e.queues is null or p_queue = any (e.queues)))
$$;

-- Returns the partitions of all turns that are with the engine or running.
create or replace function runtime.busy_turns(p_queue text) returns setof text language sql stable as $$
  select p.partition from runtime.processes p where p.queue = p_queue and p.state = 'running'
  union all
  select p.partition from runtime.processes p where p.queue = p_queue and p.state = 'queued' and p.given_at is not null
$$;

-- Returns the next due turns of a queue, for a relay that hands them to the engine: smallest priority first, then longest due. The three
-- limits apply to the whole installation. With a limit, relays take an advisory lock, and a turn counts from its hand-over to its end.
-- Kinds that this relay's worker does not drive are left to a living worker that does.
create or replace function runtime.take_turns(p_queue text, p_limit integer, p_executor text, p_kinds text[],
  p_concurrency integer default null, p_partition_concurrency integer default null, p_rate_turns integer default null,
  p_rate_ms bigint default null)
returns table (book text, kind text, id text, turn bigint, priority integer)
language plpgsql as $$
declare
  v_now timestamptz;
  v_left integer := p_limit;
  v_priority integer := -1;
  v_taken runtime.processes[];
  v_more runtime.processes[];
begin
  -- A hand-over that a server crash loses is repeated, so the commit need not wait for the flush.
  perform set_config('synchronous_commit', 'off', true);
  if p_concurrency is not null or p_partition_concurrency is not null or p_rate_turns is not null then
    perform pg_advisory_xact_lock(hashtextextended('concord.queue:' || p_queue, 0));
  end if;
  v_now := clock_timestamp();
  if p_concurrency is not null then
    v_left := least(v_left, p_concurrency - (select count(*) from runtime.busy_turns(p_queue))::integer);
  end if;
  if p_rate_turns is not null then
    delete from runtime.rate_marks m where m.queue = p_queue and m.at <= v_now - make_interval(secs => p_rate_ms / 1000.0);
    v_left := least(v_left, p_rate_turns - (select count(*) from runtime.rate_marks m where m.queue = p_queue)::integer);
  end if;
  if p_partition_concurrency is not null and v_left > 0 then
    select array_agg(t.p) into v_taken from (
      select p from runtime.processes p
      join (
        select w.kind, w.id, row_number() over (partition by w.partition order by w.priority, w.due_at) as place, w.partition
        from runtime.processes w
        where w.queue = p_queue and w.state = 'queued' and w.given_at is null and w.due_at <= v_now
          and (w.kind = any (p_kinds) or not runtime.is_driven(w.kind, p_queue, p_executor))
      ) as waiting on waiting.kind = p.kind and waiting.id = p.id
      where waiting.place <= p_partition_concurrency
        - (select count(*) from runtime.busy_turns(p_queue) as busy (part) where busy.part is not distinct from waiting.partition)
      order by p.priority, p.due_at limit v_left for update of p skip locked
    ) as t;
    v_left := 0;
  end if;
  while v_left > 0 loop
    -- One probe per waiting priority: due turns are found without reading turns that are not due.
    select min(p.priority) into v_priority from runtime.processes p
    where p.queue = p_queue and p.state = 'queued' and p.given_at is null and p.priority > v_priority;
    exit when v_priority is null;
    select array_agg(t.p) into v_more from (
      select p from runtime.processes p
      where p.queue = p_queue and p.state = 'queued' and p.given_at is null and p.priority = v_priority and p.due_at <= v_now
        and (p.kind = any (p_kinds) or not runtime.is_driven(p.kind, p_queue, p_executor))
      order by p.due_at limit v_left for update skip locked
    ) as t;
    v_taken := v_taken || v_more;
    v_left := v_left - coalesce(cardinality(v_more), 0);
  end loop;
  if v_taken is null then return; end if;
  if p_rate_turns is not null then
    insert into runtime.rate_marks (queue, at) select p_queue, v_now from unnest(v_taken);
  end if;
  return query
    with given as (
      update runtime.processes p set given_at = v_now, gives = p.gives + 1, changed_at = v_now
      from unnest(v_taken) as t where p.kind = t.kind and p.id = t.id returning p.*
    )
    select b.id, g.kind, g.id, g.turn, g.priority from given g, runtime.book b order by g.priority, g.due_at;
end
$$;

-- Begins the turn in this worker. A wrong turn number, another book and a delivery that is not newer than the one that began are
-- leftovers of the engine.
create or replace function runtime.begin_turn(p_book text, p_kind text, p_id text, p_turn bigint, p_delivery integer, p_executor text,
  p_attempts_max integer)
returns table (outcome text, fence bigint, attempt integer)
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  r runtime.processes;
begin
  select p.* into r from runtime.processes p, runtime.book b where b.id = p_book and p.kind = p_kind and p.id = p_id for update of p;
  if not found or r.turn <> p_turn or r.state not in ('queued', 'running') or p_delivery <= r.delivery then
    return query select 'stale', 0::bigint, 0;
  elsif r.state = 'queued' and r.due_at > v_now then
    update runtime.processes p set turn = nextval('runtime.turn_numbers'), given_at = null, gives = 0, delivery = 0
    where p.kind = p_kind and p.id = p_id;
    return query select 'early', 0::bigint, 0;
  elsif r.attempt >= p_attempts_max then
    update runtime.processes p set state = 'stuck', again_at = null, why = 'crashing', executor = null, given_at = null, gives = 0,
      refused_since = null,
      detail = p.attempt || ' workers ended in this turn', fence = nextval('runtime.fence_numbers'), changed_at = v_now
    where p.kind = p_kind and p.id = p_id;
    return query select 'stuck', 0::bigint, 0;
  else
    update runtime.processes p set state = 'running', again_at = case when p.again_at > v_now then p.again_at end,
      fence = nextval('runtime.fence_numbers'), attempt = p.attempt + 1, delivery = p_delivery, executor = p_executor, given_at = null,
      gives = 0, refused_since = null, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    return query select 'begun', r.fence, r.attempt;
  end if;
end
$$;

-- Returns a turn to the book under a new number: the engine did not accept it, or delivered it to a worker that cannot run it.
-- p_is_driven false: this worker does not drive the kind. When no living worker does, the process is stuck. The pause moves due_at, so
-- refused_since keeps the time since when the turn has been due.
create or replace function runtime.return_turn(p_kind text, p_id text, p_turn bigint, p_is_driven boolean, p_executor text)
returns table (outcome text, wait_ms double precision, queue text)
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_wait_ms double precision;
  r runtime.processes;
begin
  select * into r from runtime.processes p where p.kind = p_kind and p.id = p_id for update;
  if not found or r.turn <> p_turn or r.state <> 'queued' or r.given_at is null then
    return query select 'stale', 0::double precision, ''::text;
  elsif p_is_driven or runtime.is_driven(p_kind, r.queue, p_executor) then
    v_wait_ms := least(2000, 10 * 2 ^ least(r.gives, 10));
    update runtime.processes p set turn = nextval('runtime.turn_numbers'), given_at = null, delivery = 0,
      due_at = v_now + make_interval(secs => v_wait_ms / 1000), refused_since = coalesce(p.refused_since, p.due_at), changed_at = v_now
    where p.kind = p_kind and p.id = p_id;
    return query select 'returned', v_wait_ms, r.queue;
  else
    update runtime.processes p set state = 'stuck', again_at = null, why = 'no_driver', given_at = null, gives = 0, refused_since = null,
      detail = 'nothing drives processes of kind ' || p_kind, changed_at = v_now
    where p.kind = p_kind and p.id = p_id;
    return query select 'stuck', 0::double precision, r.queue;
  end if;
end
$$;

-- Hands a turn over again under a new number when it was handed over and did not begin: the engine lost it. The pauses double.
create or replace function runtime.regive_turns(p_pause_ms bigint, p_pause_longest_ms bigint, p_limit integer)
returns setof text language sql as $$
  update runtime.processes p set turn = nextval('runtime.turn_numbers'), given_at = null, delivery = 0
  from (
    select g.kind, g.id from runtime.processes g
    where g.state = 'queued' and g.given_at is not null
      and g.given_at < clock_timestamp() - make_interval(secs => p_pause_ms / 1000.0)
      and g.given_at < clock_timestamp() - make_interval(secs => least(p_pause_longest_ms, p_pause_ms * 2 ^ least(g.gives - 1, 20)) / 1000.0)
    limit p_limit for update skip locked
  ) as lost
  where p.kind = lost.kind and p.id = lost.id returning p.queue;
$$;

-- Returns the turns of a dead worker to the book; the attempts stay counted.
create or replace function runtime.take_over(p_executor text) returns setof text language sql as $$
  update runtime.processes p set state = 'queued', turn = nextval('runtime.turn_numbers'), due_at = clock_timestamp(), executor = null,
    delivery = 0, given_at = null, gives = 0, changed_at = clock_timestamp()
  where p.state = 'running' and p.executor = p_executor returning p.queue;
$$;

-- p_next: done, again or wait. With p_executor a turn that follows at once starts in the same worker, but only in the queue p_queue, in
-- which that worker has a slot: a wake may have moved the process to another queue, whose limits apply. p_owner as in runtime.wake.
create or replace function runtime.end_turn(p_kind text, p_id text, p_fence bigint, p_next text, p_until timestamptz,
  p_executor text default null, p_owner text default null, p_queue text default null)
returns table (outcome text, turn bigint, fence bigint, wait_ms double precision, queue text)
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_at timestamptz;
  v_starts boolean;
  r runtime.processes;
begin
  -- The most common end in one statement: the process is done and was not woken meanwhile.
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
    v_starts := p_executor is not null and p_owner is null and v_at <= v_now and r.queue is not distinct from p_queue;
    update runtime.processes p set state = case when v_starts then 'running' else 'queued' end, turn = nextval('runtime.turn_numbers'),
      due_at = v_at, again_at = null, fence = case when v_starts then nextval('runtime.fence_numbers') else p.fence end,
      attempt = case when v_starts then 1 else 0 end, executor = case when v_starts then p_executor end, delivery = 0, failures = 0,
      why = null, detail = null, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    return query select case when v_starts then 'started' when v_at > v_now then 'delayed' else 'opened' end, r.turn, r.fence,
      (extract(epoch from greatest(v_at, v_now) - v_now) * 1000)::double precision, r.queue;
    return;
  end if;
  if p_next = 'wait' and r.schedule is not null then
    update runtime.processes p set state = 'idle', again_at = null, attempt = 0, failures = 0, executor = null, delivery = 0,
      changed_at = v_now
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
      executor = null, changed_at = v_now
    where p.kind = p_kind and p.id = p_id;
    return query select 'stuck', r.turn, 0::double precision, r.queue;
  else
    v_wait_ms := least(60000, 500 * 2 ^ r.failures);
    update runtime.processes p set state = 'queued', turn = nextval('runtime.turn_numbers'),
      due_at = v_now + make_interval(secs => v_wait_ms / 1000), again_at = null, attempt = 0, failures = p.failures + 1, executor = null,
      delivery = 0, why = null, detail = p_detail, changed_at = v_now
    where p.kind = p_kind and p.id = p_id returning p.* into r;
    return query select 'delayed', r.turn, v_wait_ms, r.queue;
  end if;
end
$$;

create or replace function runtime.resume(p_kind text, p_id text) returns table (turn bigint, queue text)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update runtime.processes p set state = 'queued', turn = nextval('runtime.turn_numbers'), due_at = clock_timestamp(), again_at = null,
    attempt = 0, failures = 0, executor = null, delivery = 0, given_at = null, gives = 0, why = null, detail = null,
    changed_at = clock_timestamp()
  where p.kind = p_kind and p.id = p_id and p.state in ('stuck', 'aborted') returning p.turn, p.queue;
$$;

-- Aborts a process. Its queued or running turn becomes stale, and a later wake finds the process aborted.
-- p_queue is for a process that the runtime does not know: the queue in which it is resumed.
create or replace function runtime.abort(p_kind text, p_id text, p_detail text, p_queue text default 'concord_default') returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into runtime.processes as p (kind, id, state, turn, due_at, fence, why, detail, queue, priority)
  values (p_kind, p_id, 'aborted', 0, clock_timestamp(), nextval('runtime.fence_numbers'), 'aborted', p_detail, p_queue, 0)
  on conflict (kind, id) do update set state = 'aborted', again_at = null, why = 'aborted', detail = excluded.detail,
    fence = excluded.fence, executor = null, given_at = null, gives = 0, refused_since = null, changed_at = clock_timestamp();
$$;

-- Call after a restore from a backup: the engine may remember turns with the numbers that come next. Returns the new id.
create or replace function runtime.renew_book() returns text language sql as $$
  update runtime.processes set given_at = null, delivery = 0 where state = 'queued' and given_at is not null;
  update runtime.book set id = substr(md5(gen_random_uuid()::text), 1, 10), changed_at = clock_timestamp() returning id;
$$;
