-- The schema that the migrations make, drawn from the catalogue of a migrated database.
-- Written by scripts/schema.ts and compared by a test; change a migration, not this file.

create role concord_app nologin nosuperuser nobypassrls nocreaterole nocreatedb;
create role concord_engine nologin nosuperuser nobypassrls nocreaterole nocreatedb;
grant concord_app to concord_engine;

create schema concord;
grant usage on schema concord to concord_app;
grant usage on schema concord to concord_engine;
create domain concord.agent_invocation_status as text constraint agent_invocation_status_ck CHECK ((VALUE = ANY (ARRAY['created'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'expired'::text])));
create domain concord.agent_run_end_reason as text constraint agent_run_end_reason_ck CHECK ((VALUE = ANY (ARRAY['final_answer_created'::text, 'human_cancelled'::text, 'max_steps_reached'::text, 'policy_denied'::text, 'budget_exhausted'::text, 'deadline_passed'::text, 'loop_detected'::text, 'stopped'::text, 'failed'::text, 'parent_ended'::text, 'join_decided'::text])));
create domain concord.agent_run_status as text constraint agent_run_status_ck CHECK ((VALUE = ANY (ARRAY['running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'expired'::text, 'created'::text, 'queued'::text, 'waiting_for_tool'::text, 'waiting_for_approval'::text, 'waiting_for_input'::text, 'waiting_for_children'::text, 'cancelling'::text])));
create domain concord.approval_status as text constraint approval_status_ck CHECK ((VALUE = ANY (ARRAY['pending'::text, 'approved'::text, 'rejected'::text, 'changes_requested'::text, 'expired'::text, 'cancelled'::text])));
create domain concord.artifact_location as text constraint artifact_location_ck CHECK (((VALUE ~ '^(disk|s3|removed):[0-9a-f]{64}$'::text) OR ((VALUE ~~ 'data:%'::text) AND (octet_length(VALUE) <= 16384))));
create domain concord.artifact_status as text constraint artifact_status_ck CHECK ((VALUE = ANY (ARRAY['draft'::text, 'ready'::text, 'published'::text, 'unpublished'::text, 'superseded'::text, 'cancelled'::text, 'archived'::text])));
create domain concord.artifact_visibility as text constraint artifact_visibility_ck CHECK ((VALUE = ANY (ARRAY['private'::text, 'workspace'::text])));
create domain concord.budget_entry_kind as text constraint budget_entry_kind_ck CHECK ((VALUE = ANY (ARRAY['opened'::text, 'carved'::text, 'reserved'::text, 'settled'::text, 'raised'::text, 'closed'::text, 'returned'::text])));
create domain concord.cancellation_mode as text constraint cancellation_mode_ck CHECK ((VALUE = ANY (ARRAY['graceful'::text, 'compensate_then_stop'::text])));
create domain concord.command_status as text constraint command_status_ck CHECK ((VALUE = ANY (ARRAY['created'::text, 'validated'::text, 'waiting_for_input'::text, 'waiting_for_approval'::text, 'approved'::text, 'queued'::text, 'running'::text, 'blocked'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'expired'::text, 'compensating'::text, 'compensated'::text, 'cancelling'::text])));
create domain concord.confidence as numeric constraint confidence_ck CHECK (((VALUE >= (0)::numeric) AND (VALUE <= (1)::numeric)));
create domain concord.connector_invocation_status as text constraint connector_invocation_status_ck CHECK ((VALUE = ANY (ARRAY['started'::text, 'succeeded'::text, 'failed'::text])));
create domain concord.content_checksum as text constraint content_checksum_ck CHECK ((VALUE ~ '^sha256:[0-9a-f]{64}$'::text));
create domain concord.cost_change as numeric constraint cost_change_ck CHECK (((VALUE > '-Infinity'::numeric) AND (VALUE < 'Infinity'::numeric) AND (VALUE = round(VALUE, 6))));
create domain concord.cost_excess as numeric constraint cost_excess_ck CHECK (((VALUE >= (0)::numeric) AND (VALUE < 'Infinity'::numeric) AND (VALUE = round(VALUE, 6))));
create domain concord.cost_limit as numeric constraint cost_limit_ck CHECK (((VALUE > (0)::numeric) AND (VALUE <= 999999999.999999) AND (VALUE = round(VALUE, 6))));
create domain concord.cost_units as numeric constraint cost_units_ck CHECK (((VALUE >= (0)::numeric) AND (VALUE <= 999999999.999999) AND (VALUE = round(VALUE, 6))));
create domain concord.count_from_one as integer constraint count_from_one_ck CHECK ((VALUE >= 1));
create domain concord.count_from_zero as integer constraint count_from_zero_ck CHECK ((VALUE >= 0));
create domain concord.decider as text constraint decider_ck CHECK ((VALUE ~~ 'user:_%'::text));
create domain concord.effect_status as text constraint effect_status_ck CHECK ((VALUE = ANY (ARRAY['planned'::text, 'executing'::text, 'succeeded'::text, 'failed'::text])));
create domain concord.error_class as text constraint error_class_ck CHECK ((VALUE = ANY (ARRAY['transient_connector_error'::text, 'rate_limited'::text, 'timeout'::text, 'temporary_database_error'::text, 'validation_error'::text, 'policy_denied'::text, 'approval_rejected'::text, 'permission_denied'::text, 'malformed_payload'::text, 'internal_error'::text])));
create domain concord.event_purpose as text constraint event_purpose_ck CHECK ((VALUE = ANY (ARRAY['event'::text, 'audit'::text, 'agent_step'::text])));
create domain concord.execution_mode as text constraint execution_mode_ck CHECK ((VALUE = ANY (ARRAY['sequential'::text, 'parallel'::text, 'competitive'::text, 'review_driven'::text, 'hierarchical'::text])));
create domain concord.filled_text as text constraint filled_text_ck CHECK ((VALUE <> ''::text));
create domain concord.finite_time as timestamp with time zone constraint finite_time_ck CHECK (isfinite(VALUE));
create domain concord.ingress as text constraint ingress_ck CHECK ((VALUE = ANY (ARRAY['user_request'::text, 'scheduled_trigger'::text, 'webhook'::text, 'system_event'::text, 'agent_action'::text, 'connector_event'::text, 'human_decision'::text])));
create domain concord.invocation_type as text constraint invocation_type_ck CHECK ((VALUE = ANY (ARRAY['spawn'::text, 'delegate'::text, 'review'::text, 'evaluate'::text])));
create domain concord.join_strategy as text constraint join_strategy_ck CHECK ((VALUE = ANY (ARRAY['all_success'::text, 'first_success'::text, 'quorum'::text, 'coordinator_synthesis'::text, 'evaluator_selection'::text, 'human_review'::text, 'best_of_n'::text, 'map_reduce'::text, 'consensus'::text, 'ranked_review'::text])));
create domain concord.list_json as jsonb constraint list_json_ck CHECK ((jsonb_typeof(VALUE) = 'array'::text));
create domain concord.memory_candidate_status as text constraint memory_candidate_status_ck CHECK ((VALUE = ANY (ARRAY['proposed'::text, 'awaiting_approval'::text, 'accepted'::text, 'rejected'::text, 'expired'::text])));
create domain concord.memory_erasure_outcome as text constraint memory_erasure_outcome_ck CHECK ((VALUE = ANY (ARRAY['erased'::text, 'dropped'::text])));
create domain concord.memory_query_kind as text constraint memory_query_kind_ck CHECK ((VALUE = ANY (ARRAY['id'::text, 'subject'::text, 'task_type'::text, 'connector'::text, 'semantic'::text])));
create domain concord.memory_record_status as text constraint memory_record_status_ck CHECK ((VALUE = ANY (ARRAY['active'::text, 'superseded'::text, 'expired'::text, 'deleted'::text])));
create domain concord.memory_scope as text constraint memory_scope_ck CHECK ((VALUE = ANY (ARRAY['user'::text, 'team'::text, 'project'::text, 'workspace'::text, 'tenant'::text, 'agent_role'::text, 'workflow_type'::text, 'global'::text])));
create domain concord.memory_sensitivity as text constraint memory_sensitivity_ck CHECK ((VALUE = ANY (ARRAY['public'::text, 'internal'::text, 'confidential'::text, 'pii'::text, 'payment'::text])));
create domain concord.memory_type as text constraint memory_type_ck CHECK ((VALUE = ANY (ARRAY['preference'::text, 'workflow_preference'::text, 'business_rule'::text, 'safety_rule'::text, 'connector_hint'::text, 'approval_routing'::text, 'fact'::text])));
create domain concord.message_role as text constraint message_role_ck CHECK ((VALUE = ANY (ARRAY['system'::text, 'user'::text, 'assistant'::text, 'tool'::text, 'agent'::text])));
create domain concord.message_type as text constraint message_type_ck CHECK ((VALUE = ANY (ARRAY['instruction'::text, 'question'::text, 'answer'::text, 'observation'::text, 'critique'::text, 'result'::text])));
create domain concord.object_json as jsonb constraint object_json_ck CHECK ((jsonb_typeof(VALUE) = 'object'::text));
create domain concord.reversibility as text constraint reversibility_ck CHECK ((VALUE = ANY (ARRAY['reversible'::text, 'compensatable'::text, 'irreversible'::text])));
create domain concord.sha256_hex as text constraint sha256_hex_ck CHECK ((VALUE ~ '^[0-9a-f]{64}$'::text));
create domain concord.stop_scope as text constraint stop_scope_ck CHECK ((VALUE = ANY (ARRAY['all'::text, 'agent'::text, 'run'::text, 'swarm'::text])));
create domain concord.swarm_end_reason as text constraint swarm_end_reason_ck CHECK ((VALUE = ANY (ARRAY['joined'::text, 'human_cancelled'::text, 'max_agents'::text, 'max_depth'::text, 'max_total_steps'::text, 'max_cost_units'::text, 'deadline_passed'::text, 'spawn_denied'::text, 'child_failed'::text, 'plan_refused'::text, 'stopped'::text])));
create domain concord.swarm_run_status as text constraint swarm_run_status_ck CHECK ((VALUE = ANY (ARRAY['created'::text, 'running'::text, 'joining'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'partially_succeeded'::text, 'expired'::text, 'waiting_for_approval'::text, 'cancelling'::text])));
CREATE OR REPLACE FUNCTION concord.agent_labels(of_workspace uuid, of_requester text, of_agent text, of_run uuid, at timestamp with time zone)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select case when of_run is not null
    then coalesce((select r.labels::jsonb from concord.agent_runs r where r.workspace_id = of_workspace and r.agent_run_id = of_run), '[]')
    else coalesce((select jsonb_agg(s.label) from (
      select distinct on (split_part(l.label, '>', 1)) l.label from (
        select c.labels from concord.commands c
         where c.requested_by = of_requester and c.workspace_id = of_workspace and c.labels <> '[]' and c.agent_run_id is null and c.ingress = 'agent_action'
           and c.context->>'agent' is not distinct from of_agent and c.created_at > at - interval '30 days'
         order by c.command_id desc limit 100) as c cross join jsonb_array_elements_text(c.labels) as l(label)
      order by split_part(l.label, '>', 1), length(l.label), l.label) as s), '[]') end
$function$;
CREATE OR REPLACE FUNCTION concord.are_events(events json, step_index integer)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
begin
  return (select coalesce(bool_and((btrim(e.type) <> '' and btrim(e.actor) <> '' and json_typeof(e.payload) = 'object' and case
      when e.purpose = 'agent_step' then step_index is not null and coalesce(e.latency_ms::integer, 0) >= 0
        and coalesce(e.cost_units::numeric, 0) >= 0 and coalesce(e.cost_units::numeric, 0) < 'Infinity'
      else (e.purpose is null or e.purpose in ('event', 'audit')) and step_index is null
        and e.tool_name is null and e.latency_ms is null and e.token_usage is null and e.cost_units is null end) is true), false)
      and count(*) <= 65536
    from json_to_recordset(events) as e(id uuid, type text, actor text, payload json, purpose text,
      tool_name text, latency_ms text, token_usage text, cost_units text));
end
$function$;
CREATE OR REPLACE FUNCTION concord.carry_labels(held jsonb, more jsonb, place text)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (more = '[]'::jsonb) THEN held ELSE (held || COALESCE((SELECT jsonb_agg(CASE WHEN ((cardinality(string_to_array(n.label, '>'::text)) > 12) OR (n.label ~~ ('%>'::text || carry_labels.place))) THEN n.label ELSE ((n.label || '>'::text) || carry_labels.place) END) AS jsonb_agg FROM (SELECT DISTINCT ON ((split_part(m.label, '>'::text, 1))) m.label FROM jsonb_array_elements_text(carry_labels.more) m(label) ORDER BY (split_part(m.label, '>'::text, 1)), m.label) n WHERE (NOT (EXISTS (SELECT FROM jsonb_array_elements_text(carry_labels.held) h(label) WHERE (split_part(h.label, '>'::text, 1) = split_part(n.label, '>'::text, 1)))))), '[]'::jsonb)) END;
CREATE OR REPLACE FUNCTION concord.find_stops(of_workspace uuid, of_agent text, of_run uuid)
 RETURNS SETOF concord.stops
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return query
  with recursive chain as (
    select r.agent_run_id, r.parent_agent_run_id, r.swarm_run_id, r.agent_name from concord.agent_runs r
     where r.workspace_id = of_workspace and r.agent_run_id = of_run
    union all
    select p.* from chain c cross join lateral (
      select r.agent_run_id, r.parent_agent_run_id, r.swarm_run_id, r.agent_name from concord.agent_runs r
       where r.workspace_id = of_workspace and r.agent_run_id = c.parent_agent_run_id limit 1) as p
  )
  select s.* from concord.stops s
   where s.workspace_id = of_workspace and s.lifted_at is null and case s.scope
     when 'agent' then s.target = of_agent or exists (select from chain where chain.agent_name = s.target)
     when 'run' then exists (select from chain where chain.agent_run_id::text = s.target)
     when 'swarm' then exists (select from chain where chain.swarm_run_id::text = s.target)
     else true end
   order by s.created_at;
end
$function$;
CREATE OR REPLACE FUNCTION concord.label_command()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  more jsonb;
begin
  -- As in agent_labels, which costs more than the rest of the trigger.
  if new.agent_run_id is not null then
    select r.labels into more from concord.agent_runs r where r.workspace_id = new.workspace_id and r.agent_run_id = new.agent_run_id;
  else
    more := concord.agent_labels(new.workspace_id, new.requested_by, new.context->>'agent', null, new.created_at);
  end if;
  -- Most agents have read nothing untrusted.
  if more <> '[]' then
    new.labels := concord.carry_labels(coalesce(new.labels, '[]'), more, concord.shown_id('cmd', new.command_id));
  end if;
  return new;
end
$function$;
CREATE OR REPLACE FUNCTION concord.label_command_of_run()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update concord.commands c set labels = concord.carry_labels(c.labels, new.labels, concord.shown_id('cmd', c.command_id))
   where c.workspace_id = new.workspace_id and c.command_id = new.command_id
     and c.labels <> concord.carry_labels(c.labels, new.labels, concord.shown_id('cmd', c.command_id));
  return null;
end
$function$;
CREATE OR REPLACE FUNCTION concord.label_message()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  more jsonb := (select r.labels from concord.agent_runs r where r.workspace_id = new.workspace_id and r.agent_run_id = new.agent_run_id);
begin
  if more <> '[]' then
    new.labels := concord.carry_labels(coalesce(new.labels, '[]'), more, concord.shown_id('msg', new.agent_message_id));
  end if;
  return new;
end
$function$;
CREATE OR REPLACE FUNCTION concord.label_of_command()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.labels := concord.carry_labels(coalesce(new.labels, '[]'),
    coalesce((select c.labels from concord.commands c where c.workspace_id = new.workspace_id and c.command_id = new.command_id), '[]'),
    concord.shown_id(tg_argv[0], (to_jsonb(new)->>tg_argv[1])::uuid));
  return new;
end
$function$;
CREATE OR REPLACE FUNCTION concord.label_run_of_command()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update concord.agent_runs r set labels = concord.carry_labels(r.labels, new.labels, concord.shown_id('agent', r.agent_run_id))
   where r.workspace_id = new.workspace_id and r.agent_run_id = new.agent_run_id
     and r.labels::jsonb <> concord.carry_labels(r.labels, new.labels, concord.shown_id('agent', r.agent_run_id));
  return null;
end
$function$;
CREATE OR REPLACE FUNCTION concord.lock_stops()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock(concord.stop_lock(new.workspace_id));
  return new;
end
$function$;
CREATE OR REPLACE FUNCTION concord.may_agent_act(of_workspace uuid, of_agent text, of_run uuid)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock_shared(concord.stop_lock(of_workspace));
  -- A statement of its own has a snapshot of its own: it sees every stop that was committed before the lock was granted.
  -- Most workspaces have none, and this look costs a quarter of the whole question (23 µs of 90).
  if not exists (select from concord.stops s where s.workspace_id = of_workspace and s.lifted_at is null) then
    return true;
  end if;
  return not exists (select from concord.find_stops(of_workspace, of_agent, of_run));
end
$function$;
CREATE OR REPLACE FUNCTION concord.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if tg_op = 'DELETE' and current_setting('concord.retention', true) = 'on'
    and pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'USAGE') then
    return null;
  end if;
  raise exception '% is append-only: % refused', tg_table_name, lower(tg_op)
    using errcode = 'insufficient_privilege',
      hint = 'Retention deletes as the owner of the table, in a transaction with concord.retention set to on.';
end
$function$;
CREATE OR REPLACE FUNCTION concord.refuse_rewrite()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  raise exception '%: % is written once', tg_table_name, tg_argv[0] using errcode = 'insufficient_privilege';
end
$function$;
CREATE OR REPLACE FUNCTION concord.shown_id(prefix text, id uuid)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((prefix || '_'::text) || replace((id)::text, '-'::text, ''::text));
CREATE OR REPLACE FUNCTION concord.stop_lock(of_workspace uuid)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN hashtextextended(('concord.stops:'::text || (of_workspace)::text), (0)::bigint);
CREATE OR REPLACE FUNCTION concord.unpack(entry_id uuid, events json)
 RETURNS TABLE(event_id uuid, place integer, purpose concord.event_purpose, event_type text, payload jsonb, actor text, tool_name text, latency_ms integer, token_usage jsonb, cost_units numeric)
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  select coalesce(e.id, overlay(unpack.entry_id::text placing
      lpad(to_hex((('x' || right(unpack.entry_id::text, 4))::bit(16)::integer + e.n - 1) & 65535), 4, '0') from 33)::uuid), (e.n - 1)::integer,
    coalesce(e.purpose, 'event')::concord.event_purpose, e.type, e.payload, e.actor, e.tool_name, e.latency_ms, e.token_usage, e.cost_units
  from rows from (json_to_recordset(unpack.events) as (id uuid, type text, purpose text, payload jsonb, actor text, tool_name text,
    latency_ms integer, token_usage jsonb, cost_units numeric)) with ordinality
    as e(id, type, purpose, payload, actor, tool_name, latency_ms, token_usage, cost_units, n)
$function$;

create schema flow;
grant usage on schema flow to concord_app;
grant usage on schema flow to concord_engine;
create domain flow.activation as text constraint activation_ck CHECK ((VALUE = ANY (ARRAY['source'::text, 'reactive'::text])));
create domain flow.execution_strategy as text constraint execution_strategy_ck CHECK ((VALUE = ANY (ARRAY['PerUpdate'::text, 'PerPartition'::text])));
create domain flow.inputs_when as text constraint inputs_when_ck CHECK ((VALUE = ANY (ARRAY['any'::text, 'all'::text])));
create domain flow.job_runtime as text constraint job_runtime_ck CHECK ((VALUE = ANY (ARRAY['lambda'::text, 'ecs_platform'::text, 'ecs_udf'::text, 'dispatcher'::text])));
create domain flow.outbox_kind as text constraint outbox_kind_ck CHECK ((VALUE = ANY (ARRAY['enqueue_task'::text, 'route_event'::text, 'emit_lineage'::text])));
create domain flow.outbox_status as text constraint outbox_status_ck CHECK ((VALUE = ANY (ARRAY['Pending'::text, 'Processing'::text, 'Done'::text, 'Failed'::text])));
create domain flow.task_status as text constraint task_status_ck CHECK ((VALUE = ANY (ARRAY['Queued'::text, 'Running'::text, 'Completed'::text, 'Failed'::text, 'Canceled'::text])));
create domain flow.update_strategy as text constraint update_strategy_ck CHECK ((VALUE = ANY (ARRAY['append'::text, 'replace'::text])));
create sequence flow.outbox_id_seq;

create schema identity;
grant usage on schema identity to concord_app;
grant usage on schema identity to concord_engine;
CREATE OR REPLACE FUNCTION identity.current_org_id()
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (SELECT w.org_id FROM identity.workspaces w WHERE (w.id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
CREATE OR REPLACE FUNCTION identity.raise_access_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update identity.access_version set version = version + 1 where only_row;
  perform pg_notify('concord_access', '');
  return null;
end
$function$;

create schema missions;
grant usage on schema missions to concord_app;
grant usage on schema missions to concord_engine;
create domain missions.actor_type as character varying(20) constraint actor_type_ck CHECK (((VALUE)::text = ANY ((ARRAY['system'::character varying, 'coordinator'::character varying, 'agent'::character varying, 'verifier'::character varying, 'human'::character varying, 'reconciler'::character varying])::text[])));
create domain missions.agent_type as character varying(20) constraint agent_type_ck CHECK (((VALUE)::text = ANY ((ARRAY['roster'::character varying, 'contractor'::character varying])::text[])));
create domain missions.auxiliary_kind as character varying(20) constraint auxiliary_kind_ck CHECK (((VALUE)::text = ANY ((ARRAY['planner'::character varying, 'before_run'::character varying, 'after_run'::character varying, 'verifier'::character varying])::text[])));
create domain missions.card_status as character varying(20) constraint card_status_ck CHECK (((VALUE)::text = ANY ((ARRAY['inbox'::character varying, 'assigned'::character varying, 'in_progress'::character varying, 'review'::character varying, 'done'::character varying])::text[])));
create domain missions.cost as numeric(10,6) constraint cost_ck CHECK (((VALUE >= (0)::numeric) AND (VALUE <= 9999.999999)));
create domain missions.dependency_type as character varying(20) constraint dependency_type_ck CHECK (((VALUE)::text = ANY ((ARRAY['data'::character varying, 'ordering'::character varying])::text[])));
create domain missions.event_type as character varying(50) constraint event_type_ck CHECK (((VALUE)::text = ANY ((ARRAY['run_created'::character varying, 'run_planning_started'::character varying, 'run_plan_ready'::character varying, 'run_approved'::character varying, 'run_rejected'::character varying, 'run_started'::character varying, 'run_paused'::character varying, 'run_resumed'::character varying, 'run_budget_warning'::character varying, 'run_budget_exceeded'::character varying, 'run_budget_increased'::character varying, 'run_completed'::character varying, 'run_failed'::character varying, 'run_cancelled'::character varying, 'task_created'::character varying, 'task_queued'::character varying, 'task_assigned'::character varying, 'task_started'::character varying, 'task_continuing'::character varying, 'task_resumed'::character varying, 'task_output_submitted'::character varying, 'task_verification_started'::character varying, 'task_verification_passed'::character varying, 'task_verification_failed'::character varying, 'task_human_review_requested'::character varying, 'task_human_approved'::character varying, 'task_human_rejected'::character varying, 'task_retrying'::character varying, 'task_crashed'::character varying, 'task_failed'::character varying, 'task_skipped'::character varying, 'task_cancelled'::character varying, 'stall_detected'::character varying, 'model_fallback'::character varying, 'cost_snapshot'::character varying, 'plan_change_rejected'::character varying])::text[])));
create domain missions.failure_type as character varying(20) constraint failure_type_ck CHECK (((VALUE)::text = ANY ((ARRAY['infrastructure'::character varying, 'quality'::character varying])::text[])));
create domain missions.ordinal as smallint constraint ordinal_ck CHECK ((VALUE >= 1));
create domain missions.report_type as character varying(20) constraint report_type_ck CHECK (((VALUE)::text = ANY ((ARRAY['standup'::character varying, 'research'::character varying, 'incident'::character varying, 'summary'::character varying, 'delivery'::character varying, 'audit'::character varying])::text[])));
create domain missions.review_mode as character varying(20) constraint review_mode_ck CHECK (((VALUE)::text = ANY ((ARRAY['manual'::character varying, 'auto'::character varying])::text[])));
create domain missions.run_state as character varying(30) constraint run_state_ck CHECK (((VALUE)::text = ANY ((ARRAY['pending'::character varying, 'planning'::character varying, 'awaiting_approval'::character varying, 'running'::character varying, 'paused'::character varying, 'budget_exceeded'::character varying, 'completed'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[])));
create domain missions.score as numeric(3,2) constraint score_ck CHECK (((VALUE >= (0)::numeric) AND (VALUE <= (1)::numeric)));
create domain missions.state_type as character varying(10) constraint state_type_ck CHECK (((VALUE)::text = ANY ((ARRAY['pending'::character varying, 'running'::character varying, 'paused'::character varying, 'terminal'::character varying])::text[])));
create domain missions.task_state as character varying(30) constraint task_state_ck CHECK (((VALUE)::text = ANY ((ARRAY['pending'::character varying, 'queued'::character varying, 'awaiting_retry'::character varying, 'assigned'::character varying, 'running'::character varying, 'continuing'::character varying, 'verifying'::character varying, 'awaiting_human'::character varying, 'completed'::character varying, 'failed'::character varying, 'cancelled'::character varying, 'skipped'::character varying])::text[])));
create domain missions.task_type as character varying(30) constraint task_type_ck CHECK (((VALUE)::text = ANY ((ARRAY['research'::character varying, 'analysis'::character varying, 'writing'::character varying, 'coding'::character varying, 'verification'::character varying, 'review'::character varying, 'synthesis'::character varying, 'other'::character varying])::text[])));
create domain missions.trigger_rule as character varying(30) constraint trigger_rule_ck CHECK (((VALUE)::text = ANY ((ARRAY['all_success'::character varying, 'all_done'::character varying, 'none_failed'::character varying, 'always'::character varying])::text[])));
create domain missions.turn_count as smallint constraint turn_count_ck CHECK ((VALUE >= 0));
create sequence missions.orchestration_events_id_seq;

create schema schedules;
grant usage on schema schedules to concord_app;
grant usage on schema schedules to concord_engine;
create domain schedules.creator_role as text constraint creator_role_ck CHECK ((VALUE = ANY (ARRAY['system'::text, 'writer'::text, 'admin'::text])));
create domain schedules.jitter as integer constraint jitter_ck CHECK (((VALUE >= 0) AND (VALUE <= 3600000)));
create domain schedules.misfire as text constraint misfire_ck CHECK ((VALUE = ANY (ARRAY['skip'::text, 'last'::text, 'all'::text])));
create domain schedules.origin as text constraint origin_ck CHECK ((VALUE = ANY (ARRAY['catalog'::text, 'person'::text])));
create domain schedules.overlap as text constraint overlap_ck CHECK ((VALUE = ANY (ARRAY['skip'::text, 'queue'::text, 'allow'::text])));

create table concord.agent_invocations (
  invocation_id       uuid                            not null,
  swarm_run_id        uuid                            not null,
  parent_agent_run_id uuid                            not null,
  child_agent_run_id  uuid                            not null,
  invocation_type     concord.invocation_type         not null,
  delegated_goal      text                            not null,
  constraints         concord.object_json             not null default '{}'::jsonb,
  allowed_tools       concord.list_json               not null default '[]'::jsonb,
  allowed_connectors  concord.list_json               not null default '[]'::jsonb,
  memory_scope        concord.object_json             not null default '{}'::jsonb,
  status              concord.agent_invocation_status not null default 'created'::text,
  created_at          concord.finite_time             not null default now(),
  completed_at        concord.finite_time,
  workspace_id        uuid                            not null,
  command_id          uuid                            not null,
  context_scope       concord.object_json             not null default '{}'::jsonb,
  max_steps           concord.count_from_one          not null,
  spawn_depth         concord.count_from_one          not null,
  constraint agent_invocations_pk PRIMARY KEY (invocation_id),
  constraint agent_invocations_child_uq UNIQUE (workspace_id, invocation_id, child_agent_run_id),
  constraint agent_invocations_child_fk FOREIGN KEY (workspace_id, child_agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint agent_invocations_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint agent_invocations_parent_fk FOREIGN KEY (workspace_id, parent_agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint agent_invocations_swarm_run_fk FOREIGN KEY (workspace_id, swarm_run_id) REFERENCES concord.swarm_runs(workspace_id, swarm_run_id),
  constraint agent_invocations_ended_ck CHECK ((((status)::text = ANY ('{succeeded,failed,cancelled,expired}'::text[])) = (completed_at IS NOT NULL))),
  constraint agent_invocations_other_ck CHECK ((parent_agent_run_id <> child_agent_run_id))
) with (fillfactor=80);
CREATE INDEX agent_invocations_command_ix ON concord.agent_invocations USING btree (command_id);
CREATE INDEX agent_invocations_parent_ix ON concord.agent_invocations USING btree (parent_agent_run_id);
CREATE INDEX agent_invocations_swarm_run_ix ON concord.agent_invocations USING btree (swarm_run_id);
CREATE UNIQUE INDEX agent_invocations_child_ix ON concord.agent_invocations USING btree (child_agent_run_id);
CREATE TRIGGER agent_invocations_terms_fixed BEFORE UPDATE OF swarm_run_id, parent_agent_run_id, child_agent_run_id, invocation_type, delegated_goal, constraints, allowed_tools, allowed_connectors, memory_scope, workspace_id, command_id, context_scope, max_steps, spawn_depth ON concord.agent_invocations FOR EACH ROW EXECUTE FUNCTION concord.refuse_rewrite('the terms of an invocation');
alter table concord.agent_invocations enable row level security, force row level security;
create policy agent_invocations_app on concord.agent_invocations as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy agent_invocations_engine on concord.agent_invocations as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.agent_invocations to concord_app;
grant insert, select, update on concord.agent_invocations to concord_engine;
comment on table concord.agent_invocations is 'What a parent agent asked of a child: goal, limits and scopes. One row per child, written with it.';

create table concord.agent_messages (
  agent_message_id    uuid                    not null,
  workspace_id        uuid                    not null,
  agent_run_id        uuid                    not null,
  swarm_run_id        uuid,
  parent_agent_run_id uuid,
  position            concord.count_from_zero not null,
  turn                concord.count_from_zero not null,
  step_index          concord.count_from_zero,
  message_role        concord.message_role    not null,
  message_type        concord.message_type    not null,
  content             text                    not null,
  digest              concord.sha256_hex      not null,
  size_bytes          concord.count_from_zero not null,
  labels              concord.list_json       not null default '[]'::jsonb,
  metadata            concord.object_json     not null default '{}'::jsonb,
  created_at          concord.finite_time     not null default now(),
  erased_at           concord.finite_time,
  constraint agent_messages_pk PRIMARY KEY (agent_message_id),
  constraint agent_messages_position_uq UNIQUE (agent_run_id, "position"),
  constraint agent_messages_agent_run_fk FOREIGN KEY (workspace_id, agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint agent_messages_parent_fk FOREIGN KEY (workspace_id, parent_agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint agent_messages_swarm_run_fk FOREIGN KEY (workspace_id, swarm_run_id) REFERENCES concord.swarm_runs(workspace_id, swarm_run_id),
  constraint agent_messages_erased_ck CHECK (((erased_at IS NOT NULL) = (content = ''::text)))
);
CREATE INDEX agent_messages_age_ix ON concord.agent_messages USING btree (created_at) WHERE (erased_at IS NULL);
CREATE INDEX agent_messages_parent_ix ON concord.agent_messages USING btree (parent_agent_run_id) WHERE (parent_agent_run_id IS NOT NULL);
CREATE INDEX agent_messages_signature_ix ON concord.agent_messages USING btree (agent_run_id, (((metadata)::jsonb ->> 'signature'::text))) WHERE ((metadata)::jsonb ? 'signature'::text);
CREATE INDEX agent_messages_swarm_run_ix ON concord.agent_messages USING btree (swarm_run_id) WHERE (swarm_run_id IS NOT NULL);
CREATE TRIGGER agent_messages_content_fixed BEFORE UPDATE OF content ON concord.agent_messages FOR EACH ROW WHEN (((new.content IS DISTINCT FROM old.content) AND (new.content <> ''::text))) EXECUTE FUNCTION concord.refuse_rewrite('content');
CREATE TRIGGER agent_messages_labelled BEFORE INSERT ON concord.agent_messages FOR EACH ROW EXECUTE FUNCTION concord.label_message();
alter table concord.agent_messages enable row level security, force row level security;
create policy agent_messages_app on concord.agent_messages as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy agent_messages_engine on concord.agent_messages as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update (content, erased_at) on concord.agent_messages to concord_app;
grant insert, select, update (content, erased_at) on concord.agent_messages to concord_engine;
comment on table concord.agent_messages is 'The conversation of a run. Never the only record: decisions are commands and events, results are artifacts.';
comment on column concord.agent_messages.content is 'JSON, written once; empty after it was erased.';
comment on column concord.agent_messages.digest is 'SHA-256 of the content as it was written.';

create table concord.agent_runs (
  agent_run_id          uuid                         not null,
  command_id            uuid                         not null,
  swarm_run_id          uuid,
  parent_agent_run_id   uuid,
  agent_name            text                         not null,
  agent_role            text                         not null,
  agent_version         text,
  status                concord.agent_run_status     not null,
  goal                  text                         not null,
  allowed_tools         concord.list_json            not null default '[]'::jsonb,
  allowed_connectors    concord.list_json            not null default '[]'::jsonb,
  memory_scope          jsonb                        not null default '{}'::jsonb,
  context_scope         jsonb                        not null default '{}'::jsonb,
  max_steps             concord.count_from_one       not null default 20,
  step_count            concord.count_from_zero      not null default 0,
  spawn_depth           concord.count_from_zero      not null default 0,
  model_config          jsonb                        not null default '{}'::jsonb,
  runtime_config        jsonb                        not null default '{}'::jsonb,
  metadata              concord.object_json          not null default '{}'::jsonb,
  created_at            concord.finite_time          not null default now(),
  started_at            concord.finite_time,
  completed_at          concord.finite_time,
  cancelled_at          concord.finite_time,
  workspace_id          uuid                         not null,
  run_after             concord.finite_time          default now(),
  turn_token            uuid,
  turn_until            concord.finite_time,
  manifest              concord.object_json          not null default '{}'::jsonb,
  manifest_hash         concord.sha256_hex,
  authority_hash        concord.sha256_hex,
  parent_authority_hash concord.sha256_hex,
  forbidden_tools       concord.list_json            not null default '[]'::jsonb,
  delegable_tools       concord.list_json            not null default '[]'::jsonb,
  termination           concord.object_json          not null default '{}'::jsonb,
  labels                concord.list_json            not null default '[]'::jsonb,
  end_reason            concord.agent_run_end_reason,
  cost_units            concord.cost_units           not null default 0,
  deadline_at           concord.finite_time,
  budget_account_id     uuid,
  invocation_id         uuid,
  erasures              integer                      not null default 0,
  constraint agent_runs_pk PRIMARY KEY (agent_run_id),
  constraint agent_runs_workspace_uq UNIQUE (workspace_id, agent_run_id),
  constraint agent_runs_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint agent_runs_invocation_fk FOREIGN KEY (workspace_id, invocation_id, agent_run_id) REFERENCES concord.agent_invocations(workspace_id, invocation_id, child_agent_run_id) DEFERRABLE INITIALLY DEFERRED,
  constraint agent_runs_parent_fk FOREIGN KEY (workspace_id, parent_agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint agent_runs_swarm_run_fk FOREIGN KEY (workspace_id, swarm_run_id) REFERENCES concord.swarm_runs(workspace_id, swarm_run_id),
  constraint agent_runs_depth_ck CHECK (((parent_agent_run_id IS NULL) = ((spawn_depth)::integer = 0))),
  constraint agent_runs_end_reason_ck CHECK (((end_reason IS NOT NULL) = ((completed_at IS NOT NULL) OR (cancelled_at IS NOT NULL)))),
  constraint agent_runs_ended_ck CHECK ((((status)::text = ANY ('{succeeded,failed,cancelled,expired}'::text[])) = ((completed_at IS NOT NULL) OR (cancelled_at IS NOT NULL)))),
  constraint agent_runs_invocation_ck CHECK (((invocation_id IS NULL) = (parent_agent_run_id IS NULL))),
  constraint agent_runs_parent_hash_ck CHECK (((authority_hash IS NULL) OR (parent_agent_run_id IS NULL) OR (parent_authority_hash IS NOT NULL))),
  constraint agent_runs_steps_ck CHECK (((step_count)::integer <= (max_steps)::integer)),
  constraint agent_runs_swarm_ck CHECK (((parent_agent_run_id IS NULL) OR (swarm_run_id IS NOT NULL))),
  constraint agent_runs_turn_ck CHECK (((turn_token IS NULL) = (turn_until IS NULL)))
) with (fillfactor=70);
CREATE INDEX agent_runs_command_ix ON concord.agent_runs USING btree (command_id);
CREATE INDEX agent_runs_due_ix ON concord.agent_runs USING btree (run_after) WHERE ((completed_at IS NULL) AND (cancelled_at IS NULL));
CREATE INDEX idx_agent_runs_parent_agent_run_id ON concord.agent_runs USING btree (parent_agent_run_id);
CREATE INDEX idx_agent_runs_status ON concord.agent_runs USING btree (status, workspace_id);
CREATE INDEX idx_agent_runs_swarm_run_id ON concord.agent_runs USING btree (swarm_run_id);
CREATE UNIQUE INDEX agent_runs_living_uq ON concord.agent_runs USING btree (command_id) WHERE ((completed_at IS NULL) AND (cancelled_at IS NULL));
CREATE TRIGGER agent_runs_authority_fixed BEFORE UPDATE OF command_id, workspace_id, swarm_run_id, parent_agent_run_id, agent_name, agent_role, agent_version, goal, allowed_tools, allowed_connectors, memory_scope, context_scope, max_steps, spawn_depth, model_config, runtime_config, manifest, manifest_hash, authority_hash, parent_authority_hash, forbidden_tools, delegable_tools, termination, deadline_at, budget_account_id ON concord.agent_runs FOR EACH ROW WHEN ((((((((((((((((((((((((((new.command_id IS DISTINCT FROM old.command_id) OR (new.workspace_id IS DISTINCT FROM old.workspace_id)) OR (new.swarm_run_id IS DISTINCT FROM old.swarm_run_id)) OR (new.parent_agent_run_id IS DISTINCT FROM old.parent_agent_run_id)) OR (new.agent_name IS DISTINCT FROM old.agent_name)) OR (new.agent_role IS DISTINCT FROM old.agent_role)) OR (new.agent_version IS DISTINCT FROM old.agent_version)) OR (new.goal IS DISTINCT FROM old.goal)) OR ((new.allowed_tools)::jsonb IS DISTINCT FROM (old.allowed_tools)::jsonb)) OR ((new.allowed_connectors)::jsonb IS DISTINCT FROM (old.allowed_connectors)::jsonb)) OR (new.memory_scope IS DISTINCT FROM old.memory_scope)) OR (new.context_scope IS DISTINCT FROM old.context_scope)) OR ((new.max_steps)::integer IS DISTINCT FROM (old.max_steps)::integer)) OR ((new.spawn_depth)::integer IS DISTINCT FROM (old.spawn_depth)::integer)) OR (new.model_config IS DISTINCT FROM old.model_config)) OR (new.runtime_config IS DISTINCT FROM old.runtime_config)) OR ((new.manifest)::jsonb IS DISTINCT FROM (old.manifest)::jsonb)) OR ((new.manifest_hash)::text IS DISTINCT FROM (old.manifest_hash)::text)) OR ((new.authority_hash)::text IS DISTINCT FROM (old.authority_hash)::text)) OR ((new.parent_authority_hash)::text IS DISTINCT FROM (old.parent_authority_hash)::text)) OR ((new.forbidden_tools)::jsonb IS DISTINCT FROM (old.forbidden_tools)::jsonb)) OR ((new.delegable_tools)::jsonb IS DISTINCT FROM (old.delegable_tools)::jsonb)) OR ((new.termination)::jsonb IS DISTINCT FROM (old.termination)::jsonb)) OR ((new.deadline_at)::timestamp with time zone IS DISTINCT FROM (old.deadline_at)::timestamp with time zone)) OR (new.budget_account_id IS DISTINCT FROM old.budget_account_id))) EXECUTE FUNCTION concord.refuse_rewrite('authority');
CREATE TRIGGER agent_runs_invocation_fixed BEFORE UPDATE OF invocation_id ON concord.agent_runs FOR EACH ROW WHEN ((new.invocation_id IS DISTINCT FROM old.invocation_id)) EXECUTE FUNCTION concord.refuse_rewrite('invocation_id');
CREATE TRIGGER agent_runs_labelled BEFORE INSERT ON concord.agent_runs FOR EACH ROW EXECUTE FUNCTION concord.label_of_command('agent', 'agent_run_id');
CREATE TRIGGER agent_runs_labels_kept BEFORE UPDATE OF labels ON concord.agent_runs FOR EACH ROW WHEN ((NOT ((new.labels)::jsonb @> (old.labels)::jsonb))) EXECUTE FUNCTION concord.refuse_rewrite('a label');
CREATE TRIGGER agent_runs_labels_passed AFTER UPDATE OF labels ON concord.agent_runs FOR EACH ROW WHEN (((new.labels)::jsonb <> (old.labels)::jsonb)) EXECUTE FUNCTION concord.label_command_of_run();
alter table concord.agent_runs enable row level security, force row level security;
create policy agent_runs_app on concord.agent_runs as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy agent_runs_engine on concord.agent_runs as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.agent_runs to concord_app;
grant insert, select, update on concord.agent_runs to concord_engine;
comment on column concord.agent_runs.run_after is 'When the next turn is due; null: nothing is due.';
comment on column concord.agent_runs.manifest is 'All that the agent sees: its skills, tools and scopes. Frozen with the row.';
comment on column concord.agent_runs.authority_hash is 'SHA-256 of the columns that fix what the run may do, and of the hash of its parent.';
comment on column concord.agent_runs.delegable_tools is 'Tools that a child may get although the run itself has no right to call them.';
comment on column concord.agent_runs.labels is 'What the run has read that must be known when it acts; only added to.';
comment on column concord.agent_runs.cost_units is 'Spent by the run itself.';
comment on column concord.agent_runs.invocation_id is 'The request of the parent; null for a run that a command started.';
comment on column concord.agent_runs.erasures is 'How often messages of the run were erased while it was open.';

create table concord.approvals (
  approval_id           uuid                    not null,
  command_id            uuid                    not null,
  requested_by          concord.filled_text     not null,
  approver              concord.filled_text     not null,
  approval_type         concord.filled_text     not null,
  request_payload       concord.object_json     not null,
  review_packet         concord.object_json     not null,
  status                concord.approval_status not null default 'pending'::text,
  expires_at            concord.finite_time,
  created_at            concord.finite_time     not null default now(),
  decided_at            concord.finite_time,
  workspace_id          uuid                    not null,
  decided_by            concord.decider,
  decision_reason       text,
  idempotency_key       concord.filled_text,
  payload_hash          concord.filled_text     not null,
  self_decision_allowed boolean                 not null default false,
  superseded_by         uuid,
  approvals_required    concord.count_from_one  not null default 1,
  approver_roles        text[]                  not null default '{}'::text[],
  approved_by           text[]                  not null default '{}'::text[],
  domain_effect_id      uuid,
  vote_key_id           uuid,
  vote_key_is_agent     boolean                 not null default false,
  approved_for          text[]                  not null default '{}'::text[],
  constraint approvals_pk PRIMARY KEY (approval_id),
  constraint approvals_idempotency_key_uq UNIQUE (idempotency_key, workspace_id),
  constraint approvals_workspace_uq UNIQUE (workspace_id, approval_id),
  constraint approvals_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint approvals_domain_effect_fk FOREIGN KEY (domain_effect_id, workspace_id) REFERENCES concord.domain_effects(domain_effect_id, workspace_id),
  constraint approvals_superseded_by_fk FOREIGN KEY (workspace_id, superseded_by) REFERENCES concord.approvals(workspace_id, approval_id),
  constraint approvals_vote_key_fk FOREIGN KEY (vote_key_id, vote_key_is_agent) REFERENCES identity.api_keys(id, is_agent),
  constraint approvals_approved_for_ck CHECK ((cardinality(approved_for) <= cardinality(approved_by))),
  constraint approvals_decided_at_ck CHECK (((((status)::text = ANY ('{approved,rejected,changes_requested}'::text[])) = (decided_at IS NOT NULL)) AND ((decided_at IS NULL) = (decided_by IS NULL)))),
  constraint approvals_in_time_ck CHECK (((decided_at)::timestamp with time zone < (expires_at)::timestamp with time zone)),
  constraint approvals_quorum_ck CHECK ((((status)::text <> 'approved'::text) OR ((approvals_required)::integer = 1) OR (cardinality(approved_by) >= (approvals_required)::integer))),
  constraint approvals_reconcile_ck CHECK ((((approval_type)::text <> 'reconcile_effect'::text) OR (domain_effect_id IS NOT NULL))),
  constraint approvals_self_decision_ck CHECK ((self_decision_allowed OR (((decided_by)::text IS DISTINCT FROM (requested_by)::text) AND (NOT ((requested_by)::text = ANY (approved_by)))))),
  constraint approvals_superseded_by_ck CHECK ((superseded_by <> approval_id)),
  constraint approvals_vote_key_ck CHECK ((NOT vote_key_is_agent)),
  constraint approvals_voters_ck CHECK ((array_to_string(approved_by, ','::text) ~ '^(user:[^,]+(,|$))*$'::text))
) with (fillfactor=80);
CREATE INDEX approvals_command_ix ON concord.approvals USING btree (command_id);
CREATE INDEX approvals_expiry_ix ON concord.approvals USING btree (expires_at) WHERE ((status)::text = 'pending'::text);
CREATE INDEX approvals_inbox_ix ON concord.approvals USING btree (workspace_id, created_at) WHERE ((status)::text = 'pending'::text);
alter table concord.approvals enable row level security, force row level security;
create policy approvals_app on concord.approvals as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy approvals_engine on concord.approvals as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.approvals to concord_app;
grant insert, select, update on concord.approvals to concord_engine;
comment on column concord.approvals.approver is 'The person or role that was asked.';
comment on column concord.approvals.payload_hash is 'payload_hash of the command as the approver saw it; another hash voids the approval.';
comment on column concord.approvals.self_decision_allowed is 'Copied from the approval type when asked.';
comment on column concord.approvals.approver_roles is 'Org roles whose members may decide beside the approver.';
comment on column concord.approvals.approved_by is 'Distinct persons who approved so far, where more than one must.';
comment on column concord.approvals.vote_key_id is 'Key of the last vote; null for a token of the identity provider.';
comment on column concord.approvals.approved_for is 'In whose place each of approved_by approved: their own, or that of the person they stand in for. A missing entry is their own.';

create table concord.artifacts (
  artifact_id      uuid                        not null,
  command_id       uuid                        not null,
  artifact_type    concord.filled_text         not null,
  location         concord.artifact_location   not null,
  version          concord.count_from_one      not null default 1,
  status           concord.artifact_status     not null,
  metadata         concord.object_json         not null default '{}'::jsonb,
  lineage          concord.object_json         not null default '{}'::jsonb,
  created_by       concord.filled_text         not null,
  created_at       concord.finite_time         not null default now(),
  agent_run_id     uuid,
  swarm_run_id     uuid,
  checksum         concord.content_checksum    not null,
  idempotency_key  concord.filled_text,
  workspace_id     uuid                        not null,
  domain_effect_id uuid,
  content_type     concord.filled_text         not null,
  size_bytes       concord.count_from_zero     not null,
  visibility       concord.artifact_visibility not null default 'workspace'::text,
  published_to     concord.filled_text,
  superseded_by    uuid,
  retain_until     concord.finite_time,
  hold_reason      concord.filled_text,
  publications     concord.list_json           not null default '[]'::jsonb,
  labels           jsonb                       not null default '[]'::jsonb,
  constraint artifacts_pk PRIMARY KEY (artifact_id),
  constraint artifacts_idempotency_key_uq UNIQUE (idempotency_key, workspace_id),
  constraint artifacts_superseded_by_uq UNIQUE (superseded_by, workspace_id),
  constraint artifacts_workspace_uq UNIQUE (workspace_id, artifact_id),
  constraint artifacts_agent_run_fk FOREIGN KEY (workspace_id, agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint artifacts_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint artifacts_domain_effect_fk FOREIGN KEY (domain_effect_id, workspace_id) REFERENCES concord.domain_effects(domain_effect_id, workspace_id),
  constraint artifacts_superseded_by_fk FOREIGN KEY (workspace_id, superseded_by) REFERENCES concord.artifacts(workspace_id, artifact_id),
  constraint artifacts_swarm_run_fk FOREIGN KEY (workspace_id, swarm_run_id) REFERENCES concord.swarm_runs(workspace_id, swarm_run_id),
  constraint artifacts_held_ck CHECK ((((status)::text <> 'archived'::text) OR (hold_reason IS NULL))),
  constraint artifacts_published_to_ck CHECK ((((status)::text <> 'published'::text) OR (published_to IS NOT NULL))),
  constraint artifacts_removed_ck CHECK ((((status)::text = 'archived'::text) OR ((location)::text !~~ 'removed:%'::text))),
  constraint artifacts_superseded_by_ck CHECK ((superseded_by <> artifact_id)),
  constraint artifacts_superseded_ck CHECK ((((status)::text <> 'superseded'::text) OR (superseded_by IS NOT NULL)))
) with (fillfactor=80);
CREATE INDEX artifacts_archive_ix ON concord.artifacts USING btree (workspace_id, created_at DESC, artifact_id DESC) WHERE ((status)::text = 'archived'::text);
CREATE INDEX artifacts_command_ix ON concord.artifacts USING btree (command_id);
CREATE INDEX artifacts_lineage_ix ON concord.artifacts USING gin (lineage jsonb_path_ops);
CREATE INDEX artifacts_list_ix ON concord.artifacts USING btree (workspace_id, created_at DESC, artifact_id DESC) WHERE ((status)::text <> 'archived'::text);
CREATE INDEX artifacts_location_ix ON concord.artifacts USING btree (location) WHERE ((location)::text !~~ 'data:%'::text);
CREATE INDEX artifacts_retention_ix ON concord.artifacts USING btree (retain_until) WHERE ((retain_until IS NOT NULL) AND ((status)::text <> 'archived'::text));
CREATE INDEX artifacts_swarm_ix ON concord.artifacts USING btree (swarm_run_id) WHERE (swarm_run_id IS NOT NULL);
CREATE TRIGGER artifacts_labelled BEFORE INSERT ON concord.artifacts FOR EACH ROW EXECUTE FUNCTION concord.label_of_command('art', 'artifact_id');
CREATE TRIGGER artifacts_labels_kept BEFORE UPDATE OF labels ON concord.artifacts FOR EACH ROW WHEN ((NOT (new.labels @> old.labels))) EXECUTE FUNCTION concord.refuse_rewrite('a label');
alter table concord.artifacts enable row level security, force row level security;
create policy artifacts_app on concord.artifacts as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy artifacts_engine on concord.artifacts as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.artifacts to concord_app;
grant insert, select, update on concord.artifacts to concord_engine;
comment on column concord.artifacts.location is 'disk:<sha-256>, s3:<sha-256>, a data: URI of a small text, or removed:<sha-256> after retention.';
comment on column concord.artifacts.lineage is 'The command, effect and runs it came from, and its sources by kind and id.';
comment on column concord.artifacts.hold_reason is 'While set, retention does not touch the row.';
comment on column concord.artifacts.publications is 'Where it is published now: destination, command, effect and time of each.';

create table concord.budget_accounts (
  account_id        uuid                not null,
  workspace_id      uuid                not null,
  command_id        uuid                not null,
  parent_account_id uuid,
  limit_units       concord.cost_limit  not null,
  reserved_units    concord.cost_units  not null default 0,
  spent_units       concord.cost_units  not null default 0,
  carved_units      concord.cost_units  not null default 0,
  excess_units      concord.cost_excess not null default 0,
  created_at        concord.finite_time not null,
  closed_at         concord.finite_time,
  constraint budget_accounts_pk PRIMARY KEY (account_id, workspace_id),
  constraint budget_accounts_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint budget_accounts_parent_fk FOREIGN KEY (parent_account_id, workspace_id) REFERENCES concord.budget_accounts(account_id, workspace_id),
  constraint budget_accounts_closed_ck CHECK (((closed_at IS NULL) OR (((reserved_units)::numeric + (carved_units)::numeric) = (0)::numeric))),
  constraint budget_accounts_limit_ck CHECK (((((reserved_units)::numeric + (spent_units)::numeric) + (carved_units)::numeric) <= (limit_units)::numeric)),
  constraint budget_accounts_self_ck CHECK ((parent_account_id <> account_id))
) with (fillfactor=70);
CREATE INDEX budget_accounts_command_ix ON concord.budget_accounts USING btree (command_id);
CREATE INDEX budget_accounts_parent_ix ON concord.budget_accounts USING btree (parent_account_id) WHERE (parent_account_id IS NOT NULL);
alter table concord.budget_accounts enable row level security, force row level security;
create policy budget_accounts_app on concord.budget_accounts as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy budget_accounts_engine on concord.budget_accounts as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.budget_accounts to concord_app;
grant insert, select, update on concord.budget_accounts to concord_engine;
comment on table concord.budget_accounts is 'What work may cost, what it has reserved and spent. The account of a run has the id of the run.';
comment on column concord.budget_accounts.carved_units is 'The limits of its open children.';
comment on column concord.budget_accounts.excess_units is 'What calls cost above their reservations.';

create table concord.budget_entries (
  account_id      uuid                      not null,
  workspace_id    uuid                      not null,
  kind            concord.budget_entry_kind not null,
  key             concord.filled_text       not null,
  limit_change    concord.cost_change       not null default 0,
  reserved_change concord.cost_change       not null default 0,
  spent_change    concord.cost_change       not null default 0,
  carved_change   concord.cost_change       not null default 0,
  excess_change   concord.cost_change       not null default 0,
  created_at      concord.finite_time       not null,
  constraint budget_entries_pk PRIMARY KEY (account_id, workspace_id, kind, key),
  constraint budget_entries_account_fk FOREIGN KEY (account_id, workspace_id) REFERENCES concord.budget_accounts(account_id, workspace_id)
);
CREATE TRIGGER budget_entries_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON concord.budget_entries FOR EACH STATEMENT EXECUTE FUNCTION concord.refuse_change() ENABLE ALWAYS;
alter table concord.budget_entries enable row level security, force row level security;
create policy budget_entries_app on concord.budget_entries as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy budget_entries_engine on concord.budget_entries as permissive for all to concord_engine using (true) with check (true);
grant insert, select on concord.budget_entries to concord_app;
grant insert, select on concord.budget_entries to concord_engine;
comment on table concord.budget_entries is 'Append-only: every change of an account, in the statement of the change. Their sums are its balances.';

create table concord.command_dependencies (
  child_command_id       uuid                   not null,
  parent_command_id      uuid                   not null,
  required_status        concord.command_status not null default 'succeeded'::text,
  propagate_cancellation boolean                not null default true,
  created_at             concord.finite_time    not null default now(),
  workspace_id           uuid                   not null,
  constraint command_dependencies_pk PRIMARY KEY (child_command_id, parent_command_id),
  constraint command_dependencies_child_fk FOREIGN KEY (workspace_id, child_command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint command_dependencies_parent_fk FOREIGN KEY (workspace_id, parent_command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint command_dependencies_self_ck CHECK ((child_command_id <> parent_command_id))
);
CREATE INDEX idx_command_deps_parent ON concord.command_dependencies USING btree (parent_command_id);
alter table concord.command_dependencies enable row level security, force row level security;
create policy command_dependencies_app on concord.command_dependencies as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy command_dependencies_engine on concord.command_dependencies as permissive for all to concord_engine using (true) with check (true);
grant insert, select on concord.command_dependencies to concord_app;
grant insert, select on concord.command_dependencies to concord_engine;

create table concord.commands (
  command_id              uuid                      not null,
  command_type            concord.filled_text       not null,
  requested_by            concord.filled_text       not null,
  ingress                 concord.ingress           not null,
  payload                 concord.object_json       not null,
  context                 concord.object_json       not null,
  status                  concord.command_status    not null,
  cancellation_mode       concord.cancellation_mode not null default 'graceful'::text,
  idempotency_key         concord.filled_text,
  runtime_workflow_id     concord.filled_text,
  result                  jsonb,
  error                   text,
  created_at              concord.finite_time       not null default now(),
  updated_at              concord.finite_time       not null default now(),
  completed_at            concord.finite_time,
  workspace_id            uuid                      not null,
  request_fingerprint     text,
  payload_hash            concord.filled_text       not null,
  task_name               text,
  plan                    jsonb,
  cancellation_requested  boolean                   not null default false,
  command_type_version_id uuid,
  error_class             concord.error_class,
  attempt                 concord.count_from_one    not null default 1,
  run_after               concord.finite_time       default now(),
  turn_token              uuid,
  turn_until              concord.finite_time,
  contract_key            concord.filled_text,
  agent_run_id            uuid,
  labels                  jsonb                     not null default '[]'::jsonb,
  constraint commands_pk PRIMARY KEY (command_id),
  constraint commands_workspace_uq UNIQUE (workspace_id, command_id),
  constraint commands_agent_run_fk FOREIGN KEY (workspace_id, agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint commands_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id),
  constraint commands_agent_run_ck CHECK (((agent_run_id IS NULL) OR ((ingress)::text = 'agent_action'::text))),
  constraint commands_completed_at_ck CHECK ((((status)::text = ANY ('{succeeded,failed,cancelled,expired,compensated}'::text[])) = (completed_at IS NOT NULL))),
  constraint commands_request_fingerprint_ck CHECK (((COALESCE(idempotency_key, contract_key) IS NULL) OR (request_fingerprint IS NOT NULL))),
  constraint commands_runtime_workflow_id_ck CHECK ((split_part((runtime_workflow_id)::text, ':'::text, 2) = (command_id)::text)),
  constraint commands_turn_ck CHECK (((turn_token IS NULL) = (turn_until IS NULL)))
) with (fillfactor=100);
CREATE INDEX commands_agent_run_ix ON concord.commands USING btree (agent_run_id) WHERE (agent_run_id IS NOT NULL);
CREATE INDEX commands_due_ix ON concord.commands USING btree (run_after) WHERE (completed_at IS NULL);
CREATE INDEX commands_labels_ix ON concord.commands USING btree (requested_by, workspace_id, command_id) WHERE ((labels <> '[]'::jsonb) AND (agent_run_id IS NULL) AND ((ingress)::text = 'agent_action'::text));
CREATE INDEX commands_requester_ix ON concord.commands USING btree (requested_by, workspace_id, status, command_id);
CREATE INDEX commands_status_ix ON concord.commands USING btree (status, workspace_id, command_id) INCLUDE (error_class);
CREATE INDEX commands_task_ix ON concord.commands USING btree (task_name, workspace_id, status, command_id);
CREATE UNIQUE INDEX commands_contract_key_uq ON concord.commands USING btree (contract_key, workspace_id) WHERE (contract_key IS NOT NULL);
CREATE UNIQUE INDEX commands_idempotency_key_uq ON concord.commands USING btree (idempotency_key, workspace_id) WHERE (idempotency_key IS NOT NULL);
CREATE TRIGGER commands_agent_run_fixed AFTER UPDATE OF agent_run_id ON concord.commands FOR EACH ROW WHEN ((new.agent_run_id IS DISTINCT FROM old.agent_run_id)) EXECUTE FUNCTION concord.refuse_rewrite('agent_run_id');
CREATE TRIGGER commands_labelled BEFORE INSERT ON concord.commands FOR EACH ROW WHEN (((new.ingress)::text = 'agent_action'::text)) EXECUTE FUNCTION concord.label_command();
CREATE TRIGGER commands_labels_kept AFTER UPDATE OF labels ON concord.commands FOR EACH ROW WHEN ((NOT (new.labels @> old.labels))) EXECUTE FUNCTION concord.refuse_rewrite('a label');
CREATE TRIGGER commands_labels_passed AFTER UPDATE OF labels ON concord.commands FOR EACH ROW WHEN (((new.agent_run_id IS NOT NULL) AND (new.labels <> old.labels))) EXECUTE FUNCTION concord.label_run_of_command();
alter table concord.commands enable row level security, force row level security;
create policy commands_app on concord.commands as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy commands_engine on concord.commands as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.commands to concord_app;
grant insert, select, update on concord.commands to concord_engine;
comment on table concord.commands is 'One row per governed request; the control surface of everything that follows from it.';
comment on column concord.commands.idempotency_key is 'Unique per workspace; another workspace may use the same key and learns nothing.';
comment on column concord.commands.runtime_workflow_id is 'Id in the runtime, command:{command_id} or command:{command_id}:r{n} after a retry.';
comment on column concord.commands.request_fingerprint is 'Hash of the request that first used the key; a different one is refused.';
comment on column concord.commands.payload_hash is 'Hash of the canonical validated payload; changes with the payload.';
comment on column concord.commands.attempt is 'Number of this run; a retry from failed counts up.';
comment on column concord.commands.run_after is 'When the next turn is due; set with the fact that makes one necessary. Null: nothing is due.';
comment on column concord.commands.turn_token is 'Fence of the turn under way: every write of a turn names it, a driver that lost it writes nothing.';
comment on column concord.commands.turn_until is 'After this time another driver may take the turn over.';
comment on column concord.commands.contract_key is 'Names the thing done, made by the template of the contract; unique per workspace. Null: none, or free again.';
comment on column concord.commands.agent_run_id is 'The run that proposed it; null for every other command.';
comment on column concord.commands.labels is 'Untrusted sources that it has read from, and the way from each; only added to.';

create table concord.connector_definitions (
  workspace_id        uuid                not null,
  connector_name      concord.filled_text not null,
  operation           concord.filled_text not null,
  seen_definition     concord.object_json not null,
  seen_hash           concord.filled_text not null,
  seen_at             concord.finite_time not null,
  approved_definition concord.object_json,
  approved_hash       concord.filled_text,
  approved_by         concord.filled_text,
  approved_at         concord.finite_time,
  constraint connector_definitions_pk PRIMARY KEY (workspace_id, connector_name, operation),
  constraint connector_definitions_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id),
  constraint connector_definitions_approved_ck CHECK ((num_nonnulls(approved_definition, approved_hash, approved_by, approved_at) = ANY (ARRAY[0, 4])))
);
alter table concord.connector_definitions enable row level security, force row level security;
create policy connector_definitions_app on concord.connector_definitions as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy connector_definitions_engine on concord.connector_definitions as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.connector_definitions to concord_app;
grant insert, select, update on concord.connector_definitions to concord_engine;
comment on column concord.connector_definitions.seen_hash is 'sha256 of the canonical JSON of seen_definition.';
comment on column concord.connector_definitions.approved_by is 'The user who approved it.';

create table concord.connector_invocations (
  connector_invocation_id uuid                                not null,
  command_id              uuid                                not null,
  connector_name          concord.filled_text                 not null,
  operation               concord.filled_text                 not null,
  side_effect             boolean                             not null default false,
  idempotency_key         concord.filled_text,
  status                  concord.connector_invocation_status not null,
  request_payload         concord.object_json                 not null,
  response_payload        jsonb,
  error                   text,
  created_at              concord.finite_time                 not null default now(),
  completed_at            concord.finite_time,
  domain_effect_id        uuid,
  trace_id                text,
  latency_ms              concord.count_from_zero,
  attempt                 concord.count_from_one,
  error_class             concord.error_class,
  workspace_id            uuid                                not null,
  constraint connector_invocations_pk PRIMARY KEY (connector_invocation_id),
  constraint connector_invocations_workspace_uq UNIQUE (workspace_id, connector_invocation_id),
  constraint connector_invocations_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint connector_invocations_domain_effect_fk FOREIGN KEY (domain_effect_id, workspace_id) REFERENCES concord.domain_effects(domain_effect_id, workspace_id),
  constraint connector_invocations_completed_at_ck CHECK ((((status)::text = 'started'::text) = (completed_at IS NULL))),
  constraint connector_invocations_error_class_ck CHECK ((((status)::text = 'failed'::text) = (error_class IS NOT NULL)))
) with (fillfactor=80);
CREATE INDEX connector_invocations_command_ix ON concord.connector_invocations USING btree (command_id);
CREATE INDEX connector_invocations_limits_ix ON concord.connector_invocations USING btree (connector_name, created_at);
CREATE INDEX connector_invocations_list_ix ON concord.connector_invocations USING btree (connector_name, workspace_id, connector_invocation_id);
CREATE UNIQUE INDEX connector_invocations_model_try_uq ON concord.connector_invocations USING btree (command_id, idempotency_key, attempt) WHERE ((idempotency_key)::text ~ '^agent:[0-9a-f-]{36}:model:[0-9]+:[0-9]+$'::text);
alter table concord.connector_invocations enable row level security, force row level security;
create policy connector_invocations_app on concord.connector_invocations as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy connector_invocations_engine on concord.connector_invocations as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.connector_invocations to concord_app;
grant insert, select, update on concord.connector_invocations to concord_engine;
comment on column concord.connector_invocations.idempotency_key is 'The key as the provider got it.';
comment on column concord.connector_invocations.request_payload is 'The input without what is classed above confidential, and without anything that has the shape of a secret.';
comment on column concord.connector_invocations.response_payload is 'A summary: the answer itself where it is short, else its size, hash and keys.';

create table concord.domain_effects (
  domain_effect_id                uuid                    not null,
  command_id                      uuid                    not null,
  effect_type                     concord.filled_text     not null,
  effect_payload                  concord.object_json     not null,
  idempotency_key                 concord.filled_text,
  status                          concord.effect_status   not null default 'planned'::text,
  executed_by_runtime_workflow_id text,
  result                          jsonb,
  error                           text,
  compensates_effect_id           uuid,
  declared_compensation           text,
  created_at                      concord.finite_time     not null default now(),
  completed_at                    concord.finite_time,
  workspace_id                    uuid                    not null,
  declaration_order               concord.count_from_zero not null,
  attempt                         concord.count_from_zero not null default 0,
  max_attempts                    concord.count_from_one  not null default 3,
  error_class                     concord.error_class,
  run_after                       concord.finite_time,
  turn_token                      uuid,
  reversibility                   concord.reversibility,
  read_back                       jsonb,
  constraint domain_effects_pk PRIMARY KEY (domain_effect_id, workspace_id),
  constraint domain_effects_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint domain_effects_compensates_fk FOREIGN KEY (compensates_effect_id, workspace_id) REFERENCES concord.domain_effects(domain_effect_id, workspace_id),
  constraint domain_effects_completed_at_ck CHECK ((((status)::text = ANY ('{succeeded,failed}'::text[])) = (completed_at IS NOT NULL))),
  constraint domain_effects_self_ck CHECK ((compensates_effect_id <> domain_effect_id))
) with (fillfactor=80);
CREATE INDEX domain_effects_compensates_ix ON concord.domain_effects USING btree (compensates_effect_id) WHERE (compensates_effect_id IS NOT NULL);
CREATE INDEX idx_domain_effects_command ON concord.domain_effects USING btree (command_id, declaration_order);
CREATE UNIQUE INDEX idx_domain_effects_idem ON concord.domain_effects USING btree (workspace_id, idempotency_key) WHERE (idempotency_key IS NOT NULL);
alter table concord.domain_effects enable row level security, force row level security;
create policy domain_effects_app on concord.domain_effects as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy domain_effects_engine on concord.domain_effects as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.domain_effects to concord_app;
grant insert, select, update on concord.domain_effects to concord_engine;
comment on column concord.domain_effects.idempotency_key is 'Handed to the provider; the truth of "this one deed", apart from the key of the command.';
comment on column concord.domain_effects.attempt is 'Executions begun so far.';
comment on column concord.domain_effects.run_after is 'Set while a failed attempt waits for its repeat.';
comment on column concord.domain_effects.reversibility is 'Whether it can be undone exactly, made good by a counter-deed, or neither.';
comment on column concord.domain_effects.read_back is 'What the provider showed when it was asked afterwards.';

create table concord.domain_event_seals (
  workspace_id     uuid                not null,
  seal_no          bigint              not null,
  xid_from         xid8                not null,
  xid_to           xid8                not null,
  first_seq        bigint              not null,
  last_seq         bigint              not null,
  row_count        integer             not null,
  root_hash        bytea               not null,
  previous_seal_no bigint,
  previous_hash    bytea               not null,
  seal_hash        bytea               not null,
  sealed_at        concord.finite_time not null default now(),
  constraint domain_event_seals_pk PRIMARY KEY (workspace_id, seal_no),
  constraint domain_event_seals_link_uq UNIQUE (workspace_id, seal_no, xid_to, seal_hash),
  constraint domain_event_seals_previous_fk FOREIGN KEY (workspace_id, previous_seal_no, xid_from, previous_hash) REFERENCES concord.domain_event_seals(workspace_id, seal_no, xid_to, seal_hash),
  constraint domain_event_seals_hashes_ck CHECK (((octet_length(root_hash) = 32) AND (octet_length(previous_hash) = 32) AND (octet_length(seal_hash) = 32))),
  constraint domain_event_seals_number_ck CHECK (
CASE
    WHEN (seal_no = 1) THEN (previous_seal_no IS NULL)
    ELSE ((seal_no > 1) AND (previous_seal_no IS NOT NULL) AND (previous_seal_no = (seal_no - 1)))
END),
  constraint domain_event_seals_range_ck CHECK (((xid_from < xid_to) AND (first_seq <= last_seq) AND (row_count >= 1)))
);
CREATE TRIGGER domain_event_seals_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON concord.domain_event_seals FOR EACH STATEMENT EXECUTE FUNCTION concord.refuse_change() ENABLE ALWAYS;
alter table concord.domain_event_seals enable row level security, force row level security;
create policy domain_event_seals_app on concord.domain_event_seals as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy domain_event_seals_engine on concord.domain_event_seals as permissive for all to concord_engine using (true) with check (true);
grant insert, select on concord.domain_event_seals to concord_app;
grant insert, select on concord.domain_event_seals to concord_engine;
comment on table concord.domain_event_seals is 'Per workspace a chain; a seal covers the rows with xid_from <= xid < xid_to, in order of xid, seq.';
comment on column concord.domain_event_seals.root_hash is 'Merkle root over the hashes of the covered rows.';
comment on column concord.domain_event_seals.previous_hash is 'seal_hash of the seal before; 32 zero bytes for the first.';

create table concord.envelope_calls (
  envelope_id  uuid                not null,
  workspace_id uuid                not null,
  task_name    concord.filled_text not null,
  calls_used   integer             not null,
  calls_max    integer             not null,
  constraint envelope_calls_pk PRIMARY KEY (envelope_id, task_name),
  constraint envelope_calls_command_fk FOREIGN KEY (workspace_id, envelope_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint envelope_calls_used_ck CHECK (((calls_used >= 1) AND (calls_used <= calls_max)))
);
CREATE TRIGGER envelope_calls_used_counted BEFORE UPDATE ON concord.envelope_calls FOR EACH ROW WHEN (((new.calls_used <> (old.calls_used + 1)) OR ((((new.envelope_id IS DISTINCT FROM old.envelope_id) OR (new.workspace_id IS DISTINCT FROM old.workspace_id)) OR ((new.task_name)::text IS DISTINCT FROM (old.task_name)::text)) OR (new.calls_max IS DISTINCT FROM old.calls_max)))) EXECUTE FUNCTION concord.refuse_rewrite('a use');
alter table concord.envelope_calls enable row level security, force row level security;
create policy envelope_calls_app on concord.envelope_calls as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy envelope_calls_engine on concord.envelope_calls as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.envelope_calls to concord_app;
grant insert, select, update on concord.envelope_calls to concord_engine;
comment on table concord.envelope_calls is 'The uses of envelopes: calls of agents that people approved before the run started.';
comment on column concord.envelope_calls.envelope_id is 'The command of the envelope.';

create table concord.history_archives (
  history_archive_id uuid                   not null,
  workspace_id       uuid                   not null,
  file               concord.filled_text    not null,
  content_hash       bytea                  not null,
  event_count        concord.count_from_one not null,
  command_ids        uuid[]                 not null,
  first_xid          xid8                   not null,
  first_seq          bigint                 not null,
  last_xid           xid8                   not null,
  last_seq           bigint                 not null,
  ended_before       concord.finite_time    not null,
  archived_at        concord.finite_time    not null default now(),
  constraint history_archives_pk PRIMARY KEY (history_archive_id),
  constraint history_archives_file_uq UNIQUE (file),
  constraint history_archives_age_ck CHECK (((ended_before)::timestamp with time zone <= (archived_at)::timestamp with time zone)),
  constraint history_archives_hash_ck CHECK ((octet_length(content_hash) = 32)),
  constraint history_archives_range_ck CHECK ((ROW(first_xid, first_seq) <= ROW(last_xid, last_seq)))
);
CREATE INDEX history_archives_commands_ix ON concord.history_archives USING gin (command_ids);
CREATE INDEX history_archives_place_ix ON concord.history_archives USING btree (workspace_id, last_xid, last_seq);
CREATE TRIGGER history_archives_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON concord.history_archives FOR EACH STATEMENT EXECUTE FUNCTION concord.refuse_change() ENABLE ALWAYS;
alter table concord.history_archives enable row level security, force row level security;
create policy history_archives_app on concord.history_archives as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy history_archives_engine on concord.history_archives as permissive for all to concord_engine using (true) with check (true);
grant select on concord.history_archives to concord_app;
grant select on concord.history_archives to concord_engine;
comment on table concord.history_archives is 'Append-only. Events that moved into a file: written with their deletion.';
comment on column concord.history_archives.file is 'Below the folder of the archive.';
comment on column concord.history_archives.content_hash is 'SHA-256 of the lines, before compression.';
comment on column concord.history_archives.ended_before is 'What was moved had ended before this time.';

create table concord.journal (
  entry_id     uuid                    not null,
  workspace_id uuid                    not null,
  command_id   uuid,
  agent_run_id uuid,
  swarm_run_id uuid,
  step_index   concord.count_from_zero,
  trace_id     concord.filled_text     not null,
  created_at   concord.finite_time     not null default now(),
  seq          bigint                  not null generated always as identity (increment by 65536),
  xid          xid8                    not null default pg_current_xact_id(),
  events       json                    not null,
  audit_type   text,
  constraint journal_pk PRIMARY KEY (entry_id),
  constraint journal_agent_run_fk FOREIGN KEY (workspace_id, agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint journal_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint journal_swarm_run_fk FOREIGN KEY (workspace_id, swarm_run_id) REFERENCES concord.swarm_runs(workspace_id, swarm_run_id),
  constraint journal_agent_step_ck CHECK (((step_index IS NULL) OR (agent_run_id IS NOT NULL))),
  constraint journal_events_ck CHECK (concord.are_events(events, (step_index)::integer))
) with (toast_tuple_target=8160);
CREATE INDEX journal_audit_ix ON concord.journal USING btree (audit_type, workspace_id, xid, seq) WHERE (audit_type IS NOT NULL);
CREATE INDEX journal_command_ix ON concord.journal USING btree (command_id, seq);
CREATE INDEX journal_incidents_ix ON concord.journal USING btree (created_at) WHERE (audit_type = ANY (ARRAY['compensation_drift'::text, 'budget_breached'::text, 'model_quarantined'::text, 'agents_stopped'::text]));
CREATE INDEX journal_workspace_ix ON concord.journal USING btree (workspace_id, xid, seq);
CREATE UNIQUE INDEX journal_agent_ix ON concord.journal USING btree (agent_run_id, step_index) WHERE (agent_run_id IS NOT NULL);
CREATE TRIGGER journal_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON concord.journal FOR EACH STATEMENT EXECUTE FUNCTION concord.refuse_change() ENABLE ALWAYS;
alter table concord.journal enable row level security, force row level security;
create policy journal_app on concord.journal as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy journal_engine on concord.journal as permissive for all to concord_engine using (true) with check (true);
grant insert (entry_id, workspace_id, command_id, agent_run_id, swarm_run_id, step_index, trace_id, created_at, events, audit_type), select on concord.journal to concord_app;
grant insert (entry_id, workspace_id, command_id, agent_run_id, swarm_run_id, step_index, trace_id, created_at, events, audit_type), select on concord.journal to concord_engine;
comment on table concord.journal is 'Append-only. One row per commit and thing: all its events, in order. Replaces command_events, domain_audit_log and agent_steps.';
comment on column concord.journal.seq is 'Order within a transaction, and of one command; has gaps, never a cursor on its own.';
comment on column concord.journal.xid is 'Transaction that wrote the row; below the oldest running one it is final.';
comment on column concord.journal.audit_type is 'The type of the audit events of this row, apart from the three types that every command has.';

create table concord.memory_candidates (
  memory_candidate_id uuid                            not null,
  command_id          uuid                            not null,
  agent_run_id        uuid,
  subject_type        concord.filled_text             not null,
  subject_id          concord.filled_text             not null,
  scope               concord.memory_scope            not null,
  memory_type         concord.memory_type             not null,
  content             concord.object_json             not null,
  confidence          concord.confidence,
  expires_at          concord.finite_time,
  created_by          concord.filled_text             not null,
  sensitivity         concord.memory_sensitivity      not null,
  status              concord.memory_candidate_status not null,
  approval_id         uuid,
  memory_id           uuid,
  created_at          concord.finite_time             not null default now(),
  decided_at          concord.finite_time,
  workspace_id        uuid                            not null,
  fact_key            concord.filled_text             not null,
  schema_name         concord.filled_text,
  task_type           concord.filled_text,
  connector           concord.filled_text,
  derived_from        uuid[]                          not null default '{}'::uuid[],
  supersedes          uuid,
  erased_at           concord.finite_time,
  labels              jsonb                           not null default '[]'::jsonb,
  constraint memory_candidates_pk PRIMARY KEY (memory_candidate_id),
  constraint memory_candidates_workspace_uq UNIQUE (workspace_id, memory_candidate_id),
  constraint memory_candidates_agent_run_fk FOREIGN KEY (workspace_id, agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint memory_candidates_approval_fk FOREIGN KEY (workspace_id, approval_id) REFERENCES concord.approvals(workspace_id, approval_id),
  constraint memory_candidates_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint memory_candidates_accepted_ck CHECK ((((status)::text = 'accepted'::text) = (memory_id IS NOT NULL))),
  constraint memory_candidates_decided_at_ck CHECK ((((status)::text = ANY (ARRAY['accepted'::text, 'rejected'::text])) = (decided_at IS NOT NULL))),
  constraint memory_candidates_erased_ck CHECK (((erased_at IS NOT NULL) = ((content)::jsonb = '{}'::jsonb)))
) with (fillfactor=80);
CREATE INDEX memory_candidates_command_ix ON concord.memory_candidates USING btree (command_id);
CREATE INDEX memory_candidates_derived_ix ON concord.memory_candidates USING gin (derived_from) WHERE (derived_from <> '{}'::uuid[]);
CREATE INDEX memory_candidates_open_ix ON concord.memory_candidates USING btree (workspace_id, created_at) WHERE ((status)::text = ANY (ARRAY['proposed'::text, 'awaiting_approval'::text]));
CREATE INDEX memory_candidates_subject_ix ON concord.memory_candidates USING btree (subject_id, subject_type, workspace_id);
CREATE TRIGGER memory_candidates_content_fixed BEFORE UPDATE OF content ON concord.memory_candidates FOR EACH ROW WHEN ((((new.content)::jsonb IS DISTINCT FROM (old.content)::jsonb) AND ((new.content)::jsonb <> '{}'::jsonb))) EXECUTE FUNCTION concord.refuse_rewrite('content');
CREATE TRIGGER memory_candidates_labelled BEFORE INSERT ON concord.memory_candidates FOR EACH ROW EXECUTE FUNCTION concord.label_of_command('memc', 'memory_candidate_id');
CREATE TRIGGER memory_candidates_labels_kept BEFORE UPDATE OF labels ON concord.memory_candidates FOR EACH ROW WHEN ((NOT (new.labels @> old.labels))) EXECUTE FUNCTION concord.refuse_rewrite('a label');
alter table concord.memory_candidates enable row level security, force row level security;
create policy memory_candidates_app on concord.memory_candidates as permissive for all to concord_app using (((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid) AND ((COALESCE(current_setting('concord.memory_subject'::text, true), ''::text) = ''::text) OR (COALESCE(current_setting('concord.memory_subject'::text, true), ''::text) = (((subject_type)::text || ':'::text) || (subject_id)::text))))) with check (((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid) AND ((COALESCE(current_setting('concord.memory_subject'::text, true), ''::text) = ''::text) OR (COALESCE(current_setting('concord.memory_subject'::text, true), ''::text) = (((subject_type)::text || ':'::text) || (subject_id)::text)))));
create policy memory_candidates_engine on concord.memory_candidates as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.memory_candidates to concord_app;
grant insert, select, update on concord.memory_candidates to concord_engine;

create table concord.memory_consents (
  memory_consent_id uuid                 not null,
  workspace_id      uuid                 not null,
  subject_type      concord.filled_text  not null,
  subject_id        concord.filled_text  not null,
  memory_type       concord.memory_type  not null,
  scope             concord.memory_scope not null,
  granted_by        concord.filled_text  not null,
  granted_at        concord.finite_time  not null default now(),
  expires_at        concord.finite_time,
  revoked_at        concord.finite_time,
  revoked_by        concord.filled_text,
  constraint memory_consents_pk PRIMARY KEY (memory_consent_id),
  constraint memory_consents_revoked_ck CHECK (((revoked_at IS NULL) = (revoked_by IS NULL)))
);
CREATE INDEX memory_consents_subject_ix ON concord.memory_consents USING btree (workspace_id, subject_type, subject_id);
CREATE UNIQUE INDEX memory_consents_standing_uq ON concord.memory_consents USING btree (workspace_id, subject_type, subject_id, memory_type, scope) WHERE (revoked_at IS NULL);
alter table concord.memory_consents enable row level security, force row level security;
create policy memory_consents_app on concord.memory_consents as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy memory_consents_engine on concord.memory_consents as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.memory_consents to concord_app;
grant insert, select, update on concord.memory_consents to concord_engine;

create table concord.memory_derivations (
  workspace_id     uuid                not null,
  memory_id        uuid                not null,
  source_memory_id uuid                not null,
  created_at       concord.finite_time not null default now(),
  constraint memory_derivations_pk PRIMARY KEY (memory_id, source_memory_id),
  constraint memory_derivations_memory_fk FOREIGN KEY (workspace_id, memory_id) REFERENCES concord.memory_records(workspace_id, memory_id),
  constraint memory_derivations_source_fk FOREIGN KEY (workspace_id, source_memory_id) REFERENCES concord.memory_records(workspace_id, memory_id),
  constraint memory_derivations_self_ck CHECK ((memory_id <> source_memory_id))
);
CREATE INDEX memory_derivations_source_ix ON concord.memory_derivations USING btree (source_memory_id);
alter table concord.memory_derivations enable row level security, force row level security;
create policy memory_derivations_app on concord.memory_derivations as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy memory_derivations_engine on concord.memory_derivations as permissive for all to concord_engine using (true) with check (true);
grant insert, select on concord.memory_derivations to concord_app;
grant insert, select on concord.memory_derivations to concord_engine;

create table concord.memory_embeddings (
  workspace_id uuid                not null,
  memory_id    uuid                not null,
  model        concord.filled_text not null,
  embedding    real[],
  created_at   concord.finite_time not null default now(),
  constraint memory_embeddings_pk PRIMARY KEY (memory_id, model),
  constraint memory_embeddings_memory_fk FOREIGN KEY (workspace_id, memory_id) REFERENCES concord.memory_records(workspace_id, memory_id),
  constraint memory_embeddings_embedding_ck CHECK ((cardinality(embedding) > 0))
);
CREATE INDEX memory_embeddings_model_ix ON concord.memory_embeddings USING btree (workspace_id, model) WHERE (embedding IS NOT NULL);
alter table concord.memory_embeddings enable row level security, force row level security;
create policy memory_embeddings_app on concord.memory_embeddings as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy memory_embeddings_engine on concord.memory_embeddings as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.memory_embeddings to concord_app;
grant insert, select, update on concord.memory_embeddings to concord_engine;
comment on column concord.memory_embeddings.embedding is 'Null: erased.';

create table concord.memory_erasures (
  memory_erasure_id uuid                           not null,
  workspace_id      uuid                           not null,
  command_id        uuid                           not null,
  subject_type      concord.filled_text            not null,
  subject_id        concord.filled_text,
  subject_digest    concord.filled_text            not null,
  requested_by      concord.filled_text            not null,
  requested_at      concord.finite_time            not null default now(),
  outcome           concord.memory_erasure_outcome,
  closed_at         concord.finite_time,
  certificate       concord.object_json,
  certificate_hash  concord.filled_text,
  constraint memory_erasures_pk PRIMARY KEY (memory_erasure_id),
  constraint memory_erasures_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint memory_erasures_certificate_ck CHECK ((((NOT ((outcome)::text IS DISTINCT FROM 'erased'::text)) = (certificate IS NOT NULL)) AND ((certificate IS NULL) = (certificate_hash IS NULL)))),
  constraint memory_erasures_closed_ck CHECK ((((outcome IS NULL) = (closed_at IS NULL)) AND ((outcome IS NULL) = (subject_id IS NOT NULL))))
);
CREATE INDEX memory_erasures_open_ix ON concord.memory_erasures USING btree (command_id) WHERE (outcome IS NULL);
CREATE INDEX memory_erasures_workspace_ix ON concord.memory_erasures USING btree (workspace_id, requested_at);
alter table concord.memory_erasures enable row level security, force row level security;
create policy memory_erasures_app on concord.memory_erasures as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy memory_erasures_engine on concord.memory_erasures as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.memory_erasures to concord_app;
grant insert, select, update on concord.memory_erasures to concord_engine;
comment on column concord.memory_erasures.certificate is 'What was erased: ids, digests and counts; never content.';

create table concord.memory_holds (
  memory_hold_id uuid                not null,
  workspace_id   uuid                not null,
  subject_type   concord.filled_text not null,
  subject_id     concord.filled_text not null,
  reason         concord.filled_text not null,
  placed_by      concord.filled_text not null,
  placed_at      concord.finite_time not null default now(),
  released_at    concord.finite_time,
  released_by    concord.filled_text,
  constraint memory_holds_pk PRIMARY KEY (memory_hold_id),
  constraint memory_holds_released_ck CHECK (((released_at IS NULL) = (released_by IS NULL)))
);
CREATE INDEX memory_holds_subject_ix ON concord.memory_holds USING btree (workspace_id, subject_type, subject_id) WHERE (released_at IS NULL);
alter table concord.memory_holds enable row level security, force row level security;
create policy memory_holds_app on concord.memory_holds as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy memory_holds_engine on concord.memory_holds as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.memory_holds to concord_app;
grant insert, select, update on concord.memory_holds to concord_engine;

create table concord.memory_reads (
  memory_read_id uuid                      not null,
  workspace_id   uuid                      not null,
  reader         concord.filled_text       not null,
  agent_run_id   uuid,
  query_kind     concord.memory_query_kind not null,
  memory_ids     uuid[]                    not null,
  trace_id       concord.filled_text       not null,
  read_at        concord.finite_time       not null default now(),
  constraint memory_reads_pk PRIMARY KEY (memory_read_id),
  constraint memory_reads_agent_run_fk FOREIGN KEY (workspace_id, agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id)
);
CREATE INDEX memory_reads_workspace_ix ON concord.memory_reads USING btree (workspace_id, read_at);
alter table concord.memory_reads enable row level security, force row level security;
create policy memory_reads_app on concord.memory_reads as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy memory_reads_engine on concord.memory_reads as permissive for all to concord_engine using (true) with check (true);
grant insert, select on concord.memory_reads to concord_app;
grant insert, select on concord.memory_reads to concord_engine;
comment on table concord.memory_reads is 'Append-only: who got which memories, and how they were asked for; never what was asked.';

create table concord.memory_records (
  memory_id           uuid                         not null,
  subject_type        concord.filled_text          not null,
  subject_id          concord.filled_text          not null,
  scope               concord.memory_scope         not null,
  memory_type         concord.memory_type          not null,
  content             concord.object_json          not null,
  confidence          concord.confidence,
  status              concord.memory_record_status not null,
  superseded_by       uuid,
  expires_at          concord.finite_time,
  command_id          uuid,
  created_by          concord.filled_text          not null,
  created_at          concord.finite_time          not null default now(),
  updated_at          concord.finite_time          not null default now(),
  workspace_id        uuid                         not null,
  fact_key            concord.filled_text          not null,
  sensitivity         concord.memory_sensitivity   not null default 'internal'::text,
  schema_name         concord.filled_text,
  task_type           concord.filled_text,
  connector           concord.filled_text,
  memory_candidate_id uuid,
  labels              jsonb                        not null default '[]'::jsonb,
  constraint memory_records_pk PRIMARY KEY (memory_id),
  constraint memory_records_candidate_uq UNIQUE (memory_candidate_id, workspace_id),
  constraint memory_records_workspace_uq UNIQUE (workspace_id, memory_id),
  constraint memory_records_candidate_fk FOREIGN KEY (workspace_id, memory_candidate_id) REFERENCES concord.memory_candidates(workspace_id, memory_candidate_id),
  constraint memory_records_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint memory_records_superseded_by_fk FOREIGN KEY (workspace_id, superseded_by) REFERENCES concord.memory_records(workspace_id, memory_id) DEFERRABLE INITIALLY DEFERRED,
  constraint memory_records_erased_ck CHECK ((((status)::text = 'deleted'::text) = ((content)::jsonb = '{}'::jsonb))),
  constraint memory_records_superseded_by_ck CHECK ((superseded_by <> memory_id)),
  constraint memory_records_superseded_ck CHECK (
CASE status
    WHEN 'superseded'::text THEN (superseded_by IS NOT NULL)
    WHEN 'deleted'::text THEN true
    ELSE (superseded_by IS NULL)
END)
) with (fillfactor=80);
CREATE INDEX memory_records_command_ix ON concord.memory_records USING btree (command_id);
CREATE INDEX memory_records_connector_ix ON concord.memory_records USING btree (workspace_id, connector) WHERE (((status)::text = 'active'::text) AND (connector IS NOT NULL));
CREATE INDEX memory_records_expiry_ix ON concord.memory_records USING btree (expires_at) WHERE (((status)::text = 'active'::text) AND (expires_at IS NOT NULL));
CREATE INDEX memory_records_subject_ix ON concord.memory_records USING btree (subject_id, subject_type, workspace_id, created_at);
CREATE INDEX memory_records_superseded_by_ix ON concord.memory_records USING btree (superseded_by) WHERE (superseded_by IS NOT NULL);
CREATE INDEX memory_records_task_type_ix ON concord.memory_records USING btree (workspace_id, task_type) WHERE (((status)::text = 'active'::text) AND (task_type IS NOT NULL));
CREATE INDEX memory_records_text_ix ON concord.memory_records USING gin (to_tsvector('simple'::regconfig, (content)::jsonb)) WHERE ((status)::text = 'active'::text);
CREATE UNIQUE INDEX memory_records_fact_uq ON concord.memory_records USING btree (workspace_id, scope, subject_type, subject_id, fact_key) WHERE ((status)::text = 'active'::text);
CREATE TRIGGER memory_records_content_fixed BEFORE UPDATE OF content ON concord.memory_records FOR EACH ROW WHEN ((((new.content)::jsonb IS DISTINCT FROM (old.content)::jsonb) AND ((new.content)::jsonb <> '{}'::jsonb))) EXECUTE FUNCTION concord.refuse_rewrite('content');
CREATE TRIGGER memory_records_labelled BEFORE INSERT ON concord.memory_records FOR EACH ROW EXECUTE FUNCTION concord.label_of_command('mem', 'memory_id');
CREATE TRIGGER memory_records_labels_kept BEFORE UPDATE OF labels ON concord.memory_records FOR EACH ROW WHEN ((NOT (new.labels @> old.labels))) EXECUTE FUNCTION concord.refuse_rewrite('a label');
alter table concord.memory_records enable row level security, force row level security;
create policy memory_records_app on concord.memory_records as permissive for all to concord_app using (((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid) AND ((COALESCE(current_setting('concord.memory_subject'::text, true), ''::text) = ''::text) OR (COALESCE(current_setting('concord.memory_subject'::text, true), ''::text) = (((subject_type)::text || ':'::text) || (subject_id)::text))) AND ((COALESCE(current_setting('concord.memory_types'::text, true), ''::text) = ''::text) OR ((memory_type)::text = ANY (string_to_array(current_setting('concord.memory_types'::text, true), ','::text)))))) with check (((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid) AND ((COALESCE(current_setting('concord.memory_subject'::text, true), ''::text) = ''::text) OR (COALESCE(current_setting('concord.memory_subject'::text, true), ''::text) = (((subject_type)::text || ':'::text) || (subject_id)::text)))));
create policy memory_records_engine on concord.memory_records as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.memory_records to concord_app;
grant insert, select, update on concord.memory_records to concord_engine;
comment on column concord.memory_records.fact_key is 'What the fact is about, within its subject and scope; one active record each.';

create table concord.model_quarantines (
  quarantine_id uuid                not null,
  workspace_id  uuid                not null,
  model         concord.filled_text not null,
  command_id    uuid                not null,
  account_id    uuid                not null,
  key           concord.filled_text not null,
  excess_units  concord.cost_excess not null,
  created_at    concord.finite_time not null,
  lifted_at     concord.finite_time,
  lifted_by     concord.filled_text,
  lift_reason   concord.filled_text,
  constraint model_quarantines_pk PRIMARY KEY (quarantine_id, workspace_id),
  constraint model_quarantines_account_fk FOREIGN KEY (account_id, workspace_id) REFERENCES concord.budget_accounts(account_id, workspace_id),
  constraint model_quarantines_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint model_quarantines_lifted_ck CHECK ((num_nulls(lifted_at, lifted_by, lift_reason) = ANY (ARRAY[0, 3])))
);
CREATE UNIQUE INDEX model_quarantines_open_uq ON concord.model_quarantines USING btree (workspace_id, model) WHERE (lifted_at IS NULL);
alter table concord.model_quarantines enable row level security, force row level security;
create policy model_quarantines_app on concord.model_quarantines as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy model_quarantines_engine on concord.model_quarantines as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.model_quarantines to concord_app;
grant insert, select, update on concord.model_quarantines to concord_engine;
comment on table concord.model_quarantines is 'Models that no call may begin with, because a call cost more than it had reserved.';
comment on column concord.model_quarantines.key is 'The key of the reservation of the call.';

create table concord.notification_reads (
  connector_invocation_id uuid                not null,
  user_id                 uuid                not null,
  read_at                 concord.finite_time not null,
  workspace_id            uuid                not null,
  constraint notification_reads_pk PRIMARY KEY (connector_invocation_id, user_id),
  constraint notification_reads_invocation_fk FOREIGN KEY (workspace_id, connector_invocation_id) REFERENCES concord.connector_invocations(workspace_id, connector_invocation_id),
  constraint notification_reads_user_fk FOREIGN KEY (user_id) REFERENCES identity.users(id)
);
alter table concord.notification_reads enable row level security, force row level security;
create policy notification_reads_app on concord.notification_reads as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy notification_reads_engine on concord.notification_reads as permissive for all to concord_engine using (true) with check (true);
grant insert, select on concord.notification_reads to concord_app;
grant insert, select on concord.notification_reads to concord_engine;
comment on column concord.notification_reads.connector_invocation_id is 'The call that sent the message.';

create table concord.signal_waits (
  domain_effect_id uuid                not null,
  workspace_id     uuid                not null,
  command_id       uuid                not null,
  name             concord.filled_text not null,
  key              concord.filled_text not null,
  sent_by          concord.filled_text,
  signal_id        uuid,
  created_at       concord.finite_time not null,
  constraint signal_waits_pk PRIMARY KEY (domain_effect_id, workspace_id),
  constraint signal_waits_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint signal_waits_effect_fk FOREIGN KEY (domain_effect_id, workspace_id) REFERENCES concord.domain_effects(domain_effect_id, workspace_id),
  constraint signal_waits_signal_fk FOREIGN KEY (signal_id, workspace_id) REFERENCES concord.signals(signal_id, workspace_id)
);
CREATE INDEX signal_waits_age_ix ON concord.signal_waits USING btree (created_at);
CREATE INDEX signal_waits_open_ix ON concord.signal_waits USING btree (workspace_id, name, key) WHERE (signal_id IS NULL);
CREATE INDEX signal_waits_signal_ix ON concord.signal_waits USING btree (signal_id) WHERE (signal_id IS NOT NULL);
alter table concord.signal_waits enable row level security, force row level security;
create policy signal_waits_app on concord.signal_waits as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy signal_waits_engine on concord.signal_waits as permissive for all to concord_engine using (true) with check (true);
grant delete, insert, select, update on concord.signal_waits to concord_engine;
grant select on concord.signal_waits to concord_app;
comment on table concord.signal_waits is 'Effects that wait for a signal. A wait whose time has passed is deleted.';
comment on column concord.signal_waits.sent_by is 'The only sender whose signal counts. Null: any.';
comment on column concord.signal_waits.signal_id is 'The signal that ends the wait.';

create table concord.signals (
  signal_id    uuid                not null,
  workspace_id uuid                not null,
  name         concord.filled_text not null,
  key          concord.filled_text not null,
  payload      concord.object_json not null,
  sent_id      concord.filled_text not null,
  content_hash concord.filled_text not null,
  sent_by      concord.filled_text not null,
  created_at   concord.finite_time not null,
  taken_at     concord.finite_time,
  constraint signals_pk PRIMARY KEY (signal_id, workspace_id),
  constraint signals_sent_uq UNIQUE (sent_id, sent_by, workspace_id),
  constraint signals_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id),
  constraint signals_key_ck CHECK ((char_length((key)::text) <= 255)),
  constraint signals_name_ck CHECK ((char_length((name)::text) <= 100)),
  constraint signals_sent_ck CHECK ((char_length((sent_id)::text) <= 500))
);
CREATE INDEX signals_age_ix ON concord.signals USING btree (created_at);
CREATE INDEX signals_kept_ix ON concord.signals USING btree (workspace_id, name, key, created_at, signal_id) WHERE (taken_at IS NULL);
alter table concord.signals enable row level security, force row level security;
create policy signals_app on concord.signals as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy signals_engine on concord.signals as permissive for all to concord_engine using (true) with check (true);
grant delete, insert, select, update on concord.signals to concord_engine;
grant select on concord.signals to concord_app;
comment on table concord.signals is 'Events from outside, each received once.';
comment on column concord.signals.sent_id is 'The id that the sender gave it.';
comment on column concord.signals.taken_at is 'When it ended its first wait. Null: it is kept, unless a wait that is not over has it.';

create table concord.stops (
  stop_id         uuid                not null,
  workspace_id    uuid                not null,
  command_id      uuid                not null,
  scope           concord.stop_scope  not null,
  target          concord.filled_text,
  ends_runs       boolean             not null,
  reason          concord.filled_text not null,
  stopped_by      concord.filled_text not null,
  created_at      concord.finite_time not null,
  lifted_at       concord.finite_time,
  lifted_by       concord.filled_text,
  lift_reason     concord.filled_text,
  lift_command_id uuid,
  constraint stops_pk PRIMARY KEY (stop_id, workspace_id),
  constraint stops_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint stops_lift_command_fk FOREIGN KEY (workspace_id, lift_command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint stops_lifted_ck CHECK ((num_nulls(lifted_at, lifted_by, lift_reason, lift_command_id) = ANY (ARRAY[0, 4]))),
  constraint stops_target_ck CHECK ((((scope)::text = 'all'::text) = (target IS NULL)))
);
CREATE INDEX stops_open_ix ON concord.stops USING btree (workspace_id) WHERE (lifted_at IS NULL);
CREATE TRIGGER stops_fixed BEFORE UPDATE OF stop_id, workspace_id, command_id, scope, target, ends_runs, reason, stopped_by, created_at ON concord.stops FOR EACH ROW EXECUTE FUNCTION concord.refuse_rewrite('a stop');
CREATE TRIGGER stops_lifted_once BEFORE UPDATE ON concord.stops FOR EACH ROW WHEN ((old.lifted_at IS NOT NULL)) EXECUTE FUNCTION concord.refuse_rewrite('a lifted stop');
CREATE TRIGGER stops_locked BEFORE INSERT ON concord.stops FOR EACH ROW EXECUTE FUNCTION concord.lock_stops();
alter table concord.stops enable row level security, force row level security;
create policy stops_app on concord.stops as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy stops_engine on concord.stops as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.stops to concord_engine;
grant select on concord.stops to concord_app;
comment on table concord.stops is 'Stops of agents, in force until they are lifted.';
comment on column concord.stops.target is 'The name of the agent, or the id of the run or swarm. Null: everything.';
comment on column concord.stops.ends_runs is 'Runs under way end. Otherwise they wait and go on when the stop is lifted.';

create table concord.swarm_runs (
  swarm_run_id             uuid                     not null,
  command_id               uuid                     not null,
  workflow_run_id          uuid,
  coordinator_agent_run_id uuid,
  status                   concord.swarm_run_status not null,
  objective                text                     not null,
  execution_mode           concord.execution_mode   not null,
  join_strategy            concord.join_strategy    not null,
  max_agents               concord.count_from_one   not null default 5,
  max_depth                concord.count_from_zero  not null default 2,
  max_total_steps          concord.count_from_one   not null default 100,
  max_cost_units           concord.cost_limit,
  metadata                 concord.object_json      not null default '{}'::jsonb,
  created_at               concord.finite_time      not null default now(),
  started_at               concord.finite_time,
  completed_at             concord.finite_time,
  cancelled_at             concord.finite_time,
  workspace_id             uuid                     not null,
  run_after                concord.finite_time      default now(),
  turn_token               uuid,
  turn_until               concord.finite_time,
  definition               concord.object_json      not null default '{}'::jsonb,
  plan                     concord.list_json,
  joined                   concord.object_json,
  end_reason               concord.swarm_end_reason,
  deadline_at              concord.finite_time,
  max_parallel             concord.count_from_one,
  constraint swarm_runs_pk PRIMARY KEY (swarm_run_id),
  constraint swarm_runs_workspace_uq UNIQUE (workspace_id, swarm_run_id),
  constraint swarm_runs_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint swarm_runs_coordinator_fk FOREIGN KEY (workspace_id, coordinator_agent_run_id) REFERENCES concord.agent_runs(workspace_id, agent_run_id),
  constraint swarm_runs_ended_ck CHECK ((((status)::text = ANY ('{succeeded,failed,cancelled,partially_succeeded,expired}'::text[])) = ((completed_at IS NOT NULL) OR (cancelled_at IS NOT NULL)))),
  constraint swarm_runs_turn_ck CHECK (((turn_token IS NULL) = (turn_until IS NULL)))
) with (fillfactor=80);
CREATE INDEX idx_swarm_runs_command_id ON concord.swarm_runs USING btree (command_id);
CREATE INDEX idx_swarm_runs_status ON concord.swarm_runs USING btree (status, workspace_id);
CREATE INDEX swarm_runs_due_ix ON concord.swarm_runs USING btree (run_after) WHERE ((completed_at IS NULL) AND (cancelled_at IS NULL));
CREATE UNIQUE INDEX swarm_runs_living_uq ON concord.swarm_runs USING btree (command_id) WHERE ((completed_at IS NULL) AND (cancelled_at IS NULL));
CREATE TRIGGER swarm_runs_limits_fixed BEFORE UPDATE OF command_id, workspace_id, objective, execution_mode, join_strategy, max_agents, max_depth, max_total_steps, max_cost_units, definition, deadline_at, max_parallel ON concord.swarm_runs FOR EACH ROW WHEN (((((((((((((new.command_id IS DISTINCT FROM old.command_id) OR (new.workspace_id IS DISTINCT FROM old.workspace_id)) OR (new.objective IS DISTINCT FROM old.objective)) OR ((new.execution_mode)::text IS DISTINCT FROM (old.execution_mode)::text)) OR ((new.join_strategy)::text IS DISTINCT FROM (old.join_strategy)::text)) OR ((new.max_agents)::integer IS DISTINCT FROM (old.max_agents)::integer)) OR ((new.max_depth)::integer IS DISTINCT FROM (old.max_depth)::integer)) OR ((new.max_total_steps)::integer IS DISTINCT FROM (old.max_total_steps)::integer)) OR ((new.max_cost_units)::numeric IS DISTINCT FROM (old.max_cost_units)::numeric)) OR ((new.definition)::jsonb IS DISTINCT FROM (old.definition)::jsonb)) OR ((new.deadline_at)::timestamp with time zone IS DISTINCT FROM (old.deadline_at)::timestamp with time zone)) OR ((new.max_parallel)::integer IS DISTINCT FROM (old.max_parallel)::integer))) EXECUTE FUNCTION concord.refuse_rewrite('a limit of a swarm');
CREATE TRIGGER swarm_runs_written_once BEFORE UPDATE OF plan, joined, end_reason, coordinator_agent_run_id ON concord.swarm_runs FOR EACH ROW WHEN ((((old.plan IS NOT NULL) AND ((new.plan)::jsonb IS DISTINCT FROM (old.plan)::jsonb)) OR ((old.joined IS NOT NULL) AND ((new.joined)::jsonb IS DISTINCT FROM (old.joined)::jsonb)) OR ((old.end_reason IS NOT NULL) AND ((new.end_reason)::text IS DISTINCT FROM (old.end_reason)::text)) OR ((old.coordinator_agent_run_id IS NOT NULL) AND (new.coordinator_agent_run_id IS DISTINCT FROM old.coordinator_agent_run_id)))) EXECUTE FUNCTION concord.refuse_rewrite('what a swarm decided');
alter table concord.swarm_runs enable row level security, force row level security;
create policy swarm_runs_app on concord.swarm_runs as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy swarm_runs_engine on concord.swarm_runs as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on concord.swarm_runs to concord_app;
grant insert, select, update on concord.swarm_runs to concord_engine;
comment on column concord.swarm_runs.workflow_run_id is 'Instance of a registered workflow type, null until there are any; never an id of the runtime.';
comment on column concord.swarm_runs.run_after is 'When the next turn is due; null: nothing is due.';
comment on column concord.swarm_runs.definition is 'The swarm as it was declared: agents, settings of the join, runtimes. Frozen with the row.';
comment on column concord.swarm_runs.plan is 'The agents to start, as the planner returned them; null until then.';
comment on column concord.swarm_runs.joined is 'The five fields of the join and the runs that lost.';
comment on column concord.swarm_runs.end_reason is 'Why it ends. Set before the end: its agents are stopped in between.';

create table flow.column_lineage (
  output_dataset_uuid uuid                not null,
  output_column       concord.filled_text not null,
  input_dataset_uuid  uuid                not null,
  input_column        concord.filled_text not null,
  job_id              uuid,
  constraint column_lineage_pk PRIMARY KEY (output_dataset_uuid, output_column, input_dataset_uuid, input_column),
  constraint column_lineage_input_fk FOREIGN KEY (input_dataset_uuid) REFERENCES flow.datasets(id),
  constraint column_lineage_job_fk FOREIGN KEY (job_id) REFERENCES flow.jobs(id),
  constraint column_lineage_output_fk FOREIGN KEY (output_dataset_uuid) REFERENCES flow.datasets(id)
);
CREATE INDEX column_lineage_input_ix ON flow.column_lineage USING btree (input_dataset_uuid, input_column);
alter table flow.column_lineage enable row level security, force row level security;
create policy column_lineage_app on flow.column_lineage as permissive for select to concord_app using ((EXISTS ( SELECT
   FROM flow.datasets d
  WHERE (d.id = column_lineage.output_dataset_uuid)))) with check ();
create policy column_lineage_engine on flow.column_lineage as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.column_lineage to concord_engine;
grant select on flow.column_lineage to concord_app;
comment on table flow.column_lineage is 'From which input column each output column comes, as the job declares it.';

create table flow.dag_current_versions (
  org_id         uuid                not null,
  dag_name       concord.filled_text not null,
  dag_version_id uuid                not null,
  updated_at     concord.finite_time not null default now(),
  constraint dag_current_versions_pk PRIMARY KEY (org_id, dag_name),
  constraint dag_current_versions_org_fk FOREIGN KEY (org_id) REFERENCES identity.orgs(id),
  constraint dag_current_versions_version_fk FOREIGN KEY (org_id, dag_name, dag_version_id) REFERENCES flow.dag_versions(org_id, dag_name, id)
);
CREATE INDEX dag_current_versions_version_ix ON flow.dag_current_versions USING btree (dag_version_id);
alter table flow.dag_current_versions enable row level security, force row level security;
create policy dag_current_versions_app on flow.dag_current_versions as permissive for select to concord_app using ((org_id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy dag_current_versions_engine on flow.dag_current_versions as permissive for all to concord_engine using (true) with check (true);
grant delete, insert, select, update on flow.dag_current_versions to concord_engine;
grant select on flow.dag_current_versions to concord_app;
comment on table flow.dag_current_versions is 'The version of each DAG that serves reads and dispatch.';

create table flow.dag_version_datasets (
  dag_version_id  uuid not null,
  dataset_uuid    uuid not null,
  dataset_version uuid not null,
  constraint dag_version_datasets_pk PRIMARY KEY (dag_version_id, dataset_uuid),
  constraint dag_version_datasets_dag_fk FOREIGN KEY (dag_version_id) REFERENCES flow.dag_versions(id),
  constraint dag_version_datasets_dataset_fk FOREIGN KEY (dataset_uuid) REFERENCES flow.datasets(id),
  constraint dag_version_datasets_version_fk FOREIGN KEY (dataset_uuid, dataset_version) REFERENCES flow.dataset_versions(dataset_uuid, id)
);
CREATE INDEX dag_version_datasets_dataset_ix ON flow.dag_version_datasets USING btree (dataset_uuid, dataset_version);
alter table flow.dag_version_datasets enable row level security, force row level security;
create policy dag_version_datasets_app on flow.dag_version_datasets as permissive for select to concord_app using ((EXISTS ( SELECT
   FROM flow.datasets d
  WHERE (d.id = dag_version_datasets.dataset_uuid)))) with check ();
create policy dag_version_datasets_engine on flow.dag_version_datasets as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.dag_version_datasets to concord_engine;
grant select on flow.dag_version_datasets to concord_app;
comment on table flow.dag_version_datasets is 'The dataset version that readers of a DAG version see.';

create table flow.dag_versions (
  id           uuid                not null default gen_random_uuid(),
  org_id       uuid                not null,
  dag_name     concord.filled_text not null,
  yaml_hash    concord.filled_text not null,
  created_at   concord.finite_time not null default now(),
  workspace_id uuid                not null,
  command_id   uuid,
  constraint dag_versions_pk PRIMARY KEY (id),
  constraint dag_versions_dag_uq UNIQUE (org_id, dag_name, id),
  constraint dag_versions_yaml_uq UNIQUE (org_id, dag_name, yaml_hash),
  constraint dag_versions_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint dag_versions_org_fk FOREIGN KEY (org_id) REFERENCES identity.orgs(id),
  constraint dag_versions_workspace_fk FOREIGN KEY (org_id, workspace_id) REFERENCES identity.workspaces(org_id, id)
);
alter table flow.dag_versions enable row level security, force row level security;
create policy dag_versions_app on flow.dag_versions as permissive for select to concord_app using (((org_id = ( SELECT identity.current_org_id() AS current_org_id)) AND (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text) IS NOT NULL))) with check ();
create policy dag_versions_engine on flow.dag_versions as permissive for all to concord_engine using (true) with check (true);
grant insert, select on flow.dag_versions to concord_engine;
grant select on flow.dag_versions to concord_app;
comment on table flow.dag_versions is 'The versions of each DAG: one per content of its YAML, never changed.';

create table flow.dataset_partitions (
  dataset_version uuid                   not null,
  partition_key   concord.filled_text    not null,
  materialized_at concord.finite_time    not null,
  generation      concord.count_from_one not null,
  task_id         uuid                   not null,
  rows            bigint,
  metrics         concord.object_json    not null default '{}'::jsonb,
  constraint dataset_partitions_pk PRIMARY KEY (dataset_version, partition_key),
  constraint dataset_partitions_task_fk FOREIGN KEY (task_id) REFERENCES flow.tasks(id),
  constraint dataset_partitions_version_fk FOREIGN KEY (dataset_version) REFERENCES flow.dataset_versions(id)
) with (fillfactor=70);
CREATE INDEX dataset_partitions_task_ix ON flow.dataset_partitions USING btree (task_id);
alter table flow.dataset_partitions enable row level security, force row level security;
create policy dataset_partitions_app on flow.dataset_partitions as permissive for select to concord_app using ((EXISTS ( SELECT
   FROM flow.tasks t
  WHERE (t.id = dataset_partitions.task_id)))) with check ();
create policy dataset_partitions_engine on flow.dataset_partitions as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.dataset_partitions to concord_engine;
grant select on flow.dataset_partitions to concord_app;
comment on table flow.dataset_partitions is 'What is materialised in each dataset version. The generation counts how often.';

create table flow.dataset_versions (
  id               uuid                not null default gen_random_uuid(),
  dataset_uuid     uuid                not null,
  created_at       concord.finite_time not null default now(),
  storage_location concord.filled_text not null,
  config_hash      concord.filled_text not null,
  schema_hash      text,
  range_start      bigint,
  range_end        bigint,
  constraint dataset_versions_pk PRIMARY KEY (id),
  constraint dataset_versions_config_uq UNIQUE NULLS NOT DISTINCT (dataset_uuid, config_hash, range_start, range_end),
  constraint dataset_versions_dataset_uq UNIQUE (dataset_uuid, id),
  constraint dataset_versions_dataset_fk FOREIGN KEY (dataset_uuid) REFERENCES flow.datasets(id),
  constraint dataset_versions_range_ck CHECK ((((range_start IS NULL) = (range_end IS NULL)) AND COALESCE((range_start <= range_end), true)))
);
alter table flow.dataset_versions enable row level security, force row level security;
create policy dataset_versions_app on flow.dataset_versions as permissive for select to concord_app using ((EXISTS ( SELECT
   FROM flow.datasets d
  WHERE (d.id = dataset_versions.dataset_uuid)))) with check ();
create policy dataset_versions_engine on flow.dataset_versions as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.dataset_versions to concord_engine;
grant select on flow.dataset_versions to concord_app;
comment on table flow.dataset_versions is 'The versions of a dataset. A rebuilt one is written beside the one that serves.';

create table flow.datasets (
  id                    uuid                    not null default gen_random_uuid(),
  org_id                uuid                    not null,
  name                  concord.filled_text     not null,
  producer_dag_name     concord.filled_text     not null,
  producer_job_name     concord.filled_text     not null,
  producer_output_index concord.count_from_zero not null,
  storage               concord.object_json     not null default '{}'::jsonb,
  read_roles            text[]                  not null default '{}'::text[],
  created_at            concord.finite_time     not null default now(),
  updated_at            concord.finite_time     not null default now(),
  constraint datasets_pk PRIMARY KEY (id),
  constraint datasets_name_uq UNIQUE (org_id, name),
  constraint datasets_producer_uq UNIQUE (org_id, producer_dag_name, producer_job_name, producer_output_index),
  constraint datasets_org_fk FOREIGN KEY (org_id) REFERENCES identity.orgs(id)
);
alter table flow.datasets enable row level security, force row level security;
create policy datasets_app on flow.datasets as permissive for select to concord_app using ((org_id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy datasets_engine on flow.datasets as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.datasets to concord_engine;
grant select on flow.datasets to concord_app;
comment on table flow.datasets is 'The datasets of an org. A name is one UUID for ever, and has one producer.';

create table flow.jobs (
  id                        uuid                    not null default gen_random_uuid(),
  org_id                    uuid                    not null,
  name                      concord.filled_text     not null,
  dag_name                  concord.filled_text     not null,
  dag_version_id            uuid                    not null,
  activation                flow.activation         not null,
  runtime                   flow.job_runtime        not null,
  operator                  concord.filled_text     not null,
  source                    concord.object_json,
  bootstrap                 concord.object_json,
  execution_strategy        flow.execution_strategy,
  idle_timeout              concord.filled_text,
  config                    concord.object_json     not null default '{}'::jsonb,
  config_hash               concord.filled_text     not null,
  input_datasets            text[],
  output_datasets           text[],
  update_strategy           flow.update_strategy    not null,
  unique_key                text[],
  scaling                   concord.object_json,
  timeout_seconds           concord.count_from_one,
  heartbeat_timeout_seconds concord.count_from_one,
  max_attempts              concord.count_from_one  not null default 3,
  created_at                concord.finite_time     not null default now(),
  updated_at                concord.finite_time     not null default now(),
  inputs_when               flow.inputs_when        not null default 'any'::text,
  output_versions           uuid[]                  not null default '{}'::uuid[],
  constraint jobs_pk PRIMARY KEY (id),
  constraint jobs_name_uq UNIQUE (dag_version_id, name),
  constraint jobs_org_uq UNIQUE (org_id, id),
  constraint jobs_org_fk FOREIGN KEY (org_id) REFERENCES identity.orgs(id),
  constraint jobs_version_fk FOREIGN KEY (org_id, dag_name, dag_version_id) REFERENCES flow.dag_versions(org_id, dag_name, id),
  constraint jobs_activation_ck CHECK (
CASE activation
    WHEN 'source'::text THEN ((source IS NOT NULL) AND (execution_strategy IS NULL) AND (idle_timeout IS NULL) AND (cardinality(COALESCE(input_datasets, '{}'::text[])) = 0))
    ELSE ((source IS NULL) AND (bootstrap IS NULL) AND (execution_strategy IS NOT NULL) AND (cardinality(COALESCE(input_datasets, '{}'::text[])) > 0))
END),
  constraint jobs_outputs_ck CHECK ((cardinality(output_versions) = cardinality(COALESCE(output_datasets, '{}'::text[])))),
  constraint jobs_unique_key_ck CHECK ((((update_strategy)::text <> 'append'::text) OR (cardinality(COALESCE(unique_key, '{}'::text[])) > 0)))
);
CREATE INDEX idx_jobs_dag_version ON flow.jobs USING btree (dag_version_id);
CREATE INDEX jobs_dag_ix ON flow.jobs USING btree (org_id, dag_name, name);
CREATE INDEX jobs_input_datasets_ix ON flow.jobs USING gin (input_datasets);
alter table flow.jobs enable row level security, force row level security;
create policy jobs_app on flow.jobs as permissive for select to concord_app using ((org_id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy jobs_engine on flow.jobs as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.jobs to concord_engine;
grant select on flow.jobs to concord_app;
comment on table flow.jobs is 'The jobs of each version of a DAG: one row per job and version.';
comment on column flow.jobs.output_versions is 'The dataset versions that its tasks write, by output index.';

create table flow.operator_state (
  org_id     uuid                not null,
  job_id     uuid                not null,
  state_key  concord.filled_text not null default 'default'::text,
  state      concord.object_json not null default '{}'::jsonb,
  updated_at concord.finite_time not null default now(),
  constraint operator_state_pk PRIMARY KEY (org_id, job_id, state_key),
  constraint operator_state_job_fk FOREIGN KEY (org_id, job_id) REFERENCES flow.jobs(org_id, id),
  constraint operator_state_org_fk FOREIGN KEY (org_id) REFERENCES identity.orgs(id)
);
alter table flow.operator_state enable row level security, force row level security;
create policy operator_state_app on flow.operator_state as permissive for select to concord_app using ((org_id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy operator_state_engine on flow.operator_state as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.operator_state to concord_engine;
grant select on flow.operator_state to concord_app;
comment on table flow.operator_state is 'What an operator remembers between tasks. It is written with the completion of the task that changed it.';

create table flow.outbox (
  id           bigint                  not null default nextval('flow.outbox_id_seq'::regclass),
  kind         flow.outbox_kind        not null,
  payload      concord.object_json     not null,
  status       flow.outbox_status      not null default 'Pending'::text,
  available_at concord.finite_time     not null default now(),
  attempts     concord.count_from_zero not null default 0,
  last_error   text,
  created_at   concord.finite_time     not null default now(),
  processed_at concord.finite_time,
  constraint outbox_pk PRIMARY KEY (id),
  constraint outbox_processed_ck CHECK ((((status)::text = 'Done'::text) = (processed_at IS NOT NULL)))
) with (fillfactor=70);
CREATE INDEX idx_outbox_pending ON flow.outbox USING btree (status, available_at) WHERE ((status)::text = 'Pending'::text);
CREATE INDEX outbox_lineage_ix ON flow.outbox USING btree (id) WHERE ((kind)::text = 'emit_lineage'::text);
CREATE INDEX outbox_processing_ix ON flow.outbox USING btree (available_at) WHERE ((status)::text = 'Processing'::text);
alter table flow.outbox enable row level security, force row level security;
create policy outbox_app on flow.outbox as permissive for select to concord_app using (((EXISTS ( SELECT
   FROM flow.tasks t
  WHERE (t.id = (((outbox.payload)::jsonb ->> 'task_id'::text))::uuid))) OR (EXISTS ( SELECT
   FROM flow.datasets d
  WHERE (d.id = (((outbox.payload)::jsonb ->> 'dataset_uuid'::text))::uuid))))) with check ();
create policy outbox_engine on flow.outbox as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.outbox to concord_engine;
grant select on flow.outbox to concord_app;
comment on table flow.outbox is 'Effects that follow a commit, at least once. A claim moves available_at forward: that time is its fence.';

create table flow.task_inputs (
  task_id             uuid                not null,
  input_dataset_uuid  uuid                not null,
  input_partition_key text                not null,
  input_version       concord.finite_time not null,
  constraint task_inputs_pk PRIMARY KEY (task_id, input_dataset_uuid, input_partition_key),
  constraint task_inputs_dataset_fk FOREIGN KEY (input_dataset_uuid) REFERENCES flow.datasets(id),
  constraint task_inputs_task_fk FOREIGN KEY (task_id) REFERENCES flow.tasks(id)
);
CREATE INDEX task_inputs_dataset_ix ON flow.task_inputs USING btree (input_dataset_uuid, input_partition_key);
alter table flow.task_inputs enable row level security, force row level security;
create policy task_inputs_app on flow.task_inputs as permissive for select to concord_app using ((EXISTS ( SELECT
   FROM flow.tasks t
  WHERE (t.id = task_inputs.task_id)))) with check ();
create policy task_inputs_engine on flow.task_inputs as permissive for all to concord_engine using (true) with check (true);
grant insert, select on flow.task_inputs to concord_engine;
grant select on flow.task_inputs to concord_app;
comment on table flow.task_inputs is 'What each task read: the partition, and when it was materialised.';

create table flow.tasks (
  id               uuid                   not null default gen_random_uuid(),
  job_id           uuid                   not null,
  dedupe_key       concord.filled_text,
  status           flow.task_status       not null default 'Queued'::text,
  attempt          concord.count_from_one not null default 1,
  partitions       text[],
  input_versions   concord.object_json,
  outputs          concord.list_json,
  worker_id        text,
  lease_token      uuid,
  lease_expires_at concord.finite_time,
  last_heartbeat   concord.finite_time,
  started_at       concord.finite_time,
  completed_at     concord.finite_time,
  next_retry_at    concord.finite_time,
  error_message    text,
  created_at       concord.finite_time    not null default now(),
  caused_by        concord.object_json,
  memo_of          uuid,
  command_id       uuid,
  constraint tasks_pk PRIMARY KEY (id),
  constraint tasks_command_fk FOREIGN KEY (command_id) REFERENCES concord.commands(command_id),
  constraint tasks_job_fk FOREIGN KEY (job_id) REFERENCES flow.jobs(id),
  constraint tasks_memo_fk FOREIGN KEY (memo_of) REFERENCES flow.tasks(id),
  constraint tasks_ended_ck CHECK ((((status)::text = ANY (ARRAY['Completed'::text, 'Canceled'::text])) = (completed_at IS NOT NULL))),
  constraint tasks_free_ck CHECK ((((status)::text <> ALL (ARRAY['Queued'::text, 'Canceled'::text])) OR ((worker_id IS NULL) AND (lease_token IS NULL) AND (lease_expires_at IS NULL)))),
  constraint tasks_lease_ck CHECK ((((status)::text <> 'Running'::text) OR ((worker_id IS NOT NULL) AND (lease_token IS NOT NULL) AND (lease_expires_at IS NOT NULL) AND (started_at IS NOT NULL)))),
  constraint tasks_memo_ck CHECK (((memo_of IS NULL) OR ((status)::text = 'Completed'::text))),
  constraint tasks_retry_ck CHECK (((next_retry_at IS NULL) OR ((status)::text = 'Failed'::text)))
) with (fillfactor=70);
CREATE INDEX idx_tasks_lease_expiry ON flow.tasks USING btree (lease_expires_at) WHERE ((status)::text = 'Running'::text);
CREATE INDEX idx_tasks_next_retry ON flow.tasks USING btree (next_retry_at) WHERE ((status)::text = 'Failed'::text);
CREATE INDEX idx_tasks_status ON flow.tasks USING btree (status) WHERE ((status)::text = ANY (ARRAY['Queued'::text, 'Running'::text]));
CREATE INDEX tasks_queued_ix ON flow.tasks USING btree (job_id, created_at, id) WHERE ((status)::text = 'Queued'::text);
CREATE INDEX tasks_running_ix ON flow.tasks USING btree (job_id) WHERE ((status)::text = 'Running'::text);
CREATE UNIQUE INDEX idx_tasks_job_dedupe ON flow.tasks USING btree (job_id, dedupe_key) WHERE (dedupe_key IS NOT NULL);
alter table flow.tasks enable row level security, force row level security;
create policy tasks_app on flow.tasks as permissive for select to concord_app using ((EXISTS ( SELECT
   FROM flow.jobs j
  WHERE (j.id = tasks.job_id)))) with check ();
create policy tasks_engine on flow.tasks as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on flow.tasks to concord_engine;
grant select on flow.tasks to concord_app;
comment on table flow.tasks is 'The executions of jobs. A failed task without next_retry_at is final.';
comment on column flow.tasks.caused_by is 'The event, due time or request that made it.';
comment on column flow.tasks.command_id is 'The governed command that does the work of this attempt.';

create table identity.access_version (
  only_row boolean not null default true,
  version  bigint  not null,
  constraint access_version_pk PRIMARY KEY (only_row),
  constraint access_version_only_row_ck CHECK (only_row)
);
alter table identity.access_version enable row level security, force row level security;
create policy access_version_engine on identity.access_version as permissive for all to concord_engine using (true) with check (true);
grant select, update on identity.access_version to concord_engine;
comment on table identity.access_version is 'One row; its number grows in every transaction that changes what a credential may do.';

create table identity.api_keys (
  id            uuid                     not null default gen_random_uuid(),
  org_id        uuid                     not null,
  user_id       uuid                     not null,
  workspace_id  uuid,
  name          text                     not null,
  prefix        text                     not null,
  key_hash      bytea                    not null,
  role          text                     not null,
  created_at    timestamp with time zone not null default now(),
  expires_at    timestamp with time zone,
  revoked_at    timestamp with time zone,
  last_used_at  timestamp with time zone,
  is_invitation boolean                  not null default false,
  agent         text,
  tools         text[],
  is_agent      boolean                  not null generated always as ((agent IS NOT NULL)),
  issuers       uuid[]                   not null default '{}'::uuid[],
  is_held       boolean                  not null default false,
  constraint api_keys_access TRIGGER DEFERRABLE INITIALLY DEFERRED,
  constraint api_keys_pk PRIMARY KEY (id),
  constraint api_keys_agent_uq UNIQUE (id, is_agent),
  constraint api_keys_key_hash_uq UNIQUE (key_hash),
  constraint api_keys_prefix_uq UNIQUE (prefix),
  constraint api_keys_user_fk FOREIGN KEY (org_id, user_id) REFERENCES identity.users(org_id, id),
  constraint api_keys_workspace_fk FOREIGN KEY (org_id, workspace_id) REFERENCES identity.workspaces(org_id, id),
  constraint api_keys_agent_ck CHECK (((agent <> ''::text) AND ((agent IS NULL) = (tools IS NULL)) AND ((agent IS NULL) OR ((cardinality(tools) > 0) AND (role <> 'admin'::text) AND (NOT is_invitation))))),
  constraint api_keys_invitation_ck CHECK (((NOT is_invitation) OR ((expires_at IS NOT NULL) AND (workspace_id IS NULL)))),
  constraint api_keys_issuers_ck CHECK ((is_invitation OR ((issuers = '{}'::uuid[]) AND (NOT is_held)))),
  constraint api_keys_key_hash_ck CHECK ((octet_length(key_hash) = 32)),
  constraint api_keys_name_ck CHECK (((name <> ''::text) AND (prefix <> ''::text))),
  constraint api_keys_role_ck CHECK ((role = ANY (ARRAY['reader'::text, 'writer'::text, 'admin'::text]))),
  constraint api_keys_times_ck CHECK ((isfinite(created_at) AND isfinite(expires_at) AND isfinite(revoked_at) AND isfinite(last_used_at)))
) with (fillfactor=50);
CREATE INDEX api_keys_user_ix ON identity.api_keys USING btree (user_id);
CREATE CONSTRAINT TRIGGER api_keys_access AFTER DELETE OR UPDATE OF org_id, user_id, workspace_id, prefix, key_hash, role, expires_at, revoked_at, is_invitation ON identity.api_keys DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION identity.raise_access_version();
alter table identity.api_keys enable row level security, force row level security;
create policy api_keys_engine on identity.api_keys as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on identity.api_keys to concord_engine;
comment on column identity.api_keys.workspace_id is 'Null: every workspace that the user may enter.';
comment on column identity.api_keys.key_hash is 'SHA-256 of the key; the key itself is shown once and never stored.';
comment on column identity.api_keys.role is 'Upper bound; at use time the lower of this and the role of the user counts.';
comment on column identity.api_keys.is_invitation is 'Opens nothing; exchanged once for a key of the same person.';
comment on column identity.api_keys.agent is 'Name of the agent that holds the key; null: the person holds it.';
comment on column identity.api_keys.tools is 'Tasks that the agent may propose.';
comment on column identity.api_keys.issuers is 'Of an invitation: who made it, and the issuers of that person.';
comment on column identity.api_keys.is_held is 'Of an invitation: it cannot be redeemed until the person or a second administrator agrees.';

create table identity.delegations (
  id           uuid                     not null,
  org_id       uuid                     not null,
  from_user_id uuid                     not null,
  to_user_id   uuid                     not null,
  until        timestamp with time zone not null,
  made_by      uuid[]                   not null,
  created_at   timestamp with time zone not null,
  ended_at     timestamp with time zone,
  constraint delegations_pk PRIMARY KEY (id),
  constraint delegations_from_fk FOREIGN KEY (org_id, from_user_id) REFERENCES identity.users(org_id, id),
  constraint delegations_to_fk FOREIGN KEY (org_id, to_user_id) REFERENCES identity.users(org_id, id),
  constraint delegations_made_by_ck CHECK (((cardinality(made_by) > 0) AND (made_by[1] <> to_user_id))),
  constraint delegations_self_ck CHECK ((from_user_id <> to_user_id)),
  constraint delegations_times_ck CHECK ((isfinite(created_at) AND isfinite(until) AND isfinite(ended_at) AND (until > created_at)))
);
CREATE INDEX delegations_to_ix ON identity.delegations USING btree (to_user_id) WHERE (ended_at IS NULL);
alter table identity.delegations enable row level security, force row level security;
create policy delegations_app on identity.delegations as permissive for select to concord_app using ((org_id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy delegations_engine on identity.delegations as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on identity.delegations to concord_engine;
grant select on identity.delegations to concord_app;
comment on table identity.delegations is 'Until when a person may decide in the place of another.';
comment on column identity.delegations.made_by is 'Who made it, and the issuers of that person.';

create table identity.installation (
  only_row boolean not null default true,
  secret   text    not null,
  constraint installation_pk PRIMARY KEY (only_row),
  constraint installation_only_row_ck CHECK (only_row),
  constraint installation_secret_ck CHECK ((secret ~ '^[0-9a-f]{64}$'::text))
);
alter table identity.installation enable row level security, force row level security;
create policy installation_engine on identity.installation as permissive for all to concord_engine using (true) with check (true);
grant select on identity.installation to concord_engine;
comment on table identity.installation is 'One row. Its secret signs what every process of the installation must be able to read.';

create table identity.messages (
  id         uuid                     not null,
  org_id     uuid                     not null,
  user_id    uuid                     not null,
  subject    text                     not null,
  text       text                     not null,
  created_at timestamp with time zone not null,
  read_at    timestamp with time zone,
  constraint messages_pk PRIMARY KEY (id),
  constraint messages_user_fk FOREIGN KEY (org_id, user_id) REFERENCES identity.users(org_id, id),
  constraint messages_times_ck CHECK ((isfinite(created_at) AND isfinite(read_at)))
);
CREATE INDEX messages_user_ix ON identity.messages USING btree (user_id, id);
alter table identity.messages enable row level security, force row level security;
create policy messages_engine on identity.messages as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on identity.messages to concord_engine;
comment on table identity.messages is 'Messages to a person about people, in the inbox of every workspace. They belong to no command.';

create table identity.org_role_memberships (
  role_id    uuid                     not null,
  user_id    uuid                     not null,
  created_at timestamp with time zone not null default now(),
  org_id     uuid                     not null,
  granted_by uuid[]                   not null default '{}'::uuid[],
  constraint org_role_memberships_access TRIGGER DEFERRABLE INITIALLY DEFERRED,
  constraint org_role_memberships_pk PRIMARY KEY (role_id, user_id),
  constraint org_role_memberships_role_fk FOREIGN KEY (org_id, role_id) REFERENCES identity.org_roles(org_id, id),
  constraint org_role_memberships_user_fk FOREIGN KEY (org_id, user_id) REFERENCES identity.users(org_id, id),
  constraint org_role_memberships_times_ck CHECK (isfinite(created_at))
);
CREATE INDEX idx_org_role_memberships_user ON identity.org_role_memberships USING btree (user_id);
CREATE CONSTRAINT TRIGGER org_role_memberships_access AFTER INSERT OR DELETE OR UPDATE ON identity.org_role_memberships DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION identity.raise_access_version();
alter table identity.org_role_memberships enable row level security, force row level security;
create policy org_role_memberships_app on identity.org_role_memberships as permissive for select to concord_app using ((org_id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy org_role_memberships_engine on identity.org_role_memberships as permissive for all to concord_engine using (true) with check (true);
grant delete, insert, select on identity.org_role_memberships to concord_engine;
grant select on identity.org_role_memberships to concord_app;
comment on column identity.org_role_memberships.granted_by is 'Who granted the role, and the issuers of that person; empty for Concord itself.';

create table identity.org_roles (
  id         uuid                     not null default gen_random_uuid(),
  org_id     uuid                     not null,
  slug       text                     not null,
  name       text                     not null,
  created_at timestamp with time zone not null default now(),
  constraint org_roles_access TRIGGER DEFERRABLE INITIALLY DEFERRED,
  constraint org_roles_pk PRIMARY KEY (id),
  constraint org_roles_org_uq UNIQUE (org_id, id),
  constraint org_roles_slug_uq UNIQUE (slug, org_id),
  constraint org_roles_org_fk FOREIGN KEY (org_id) REFERENCES identity.orgs(id),
  constraint org_roles_name_ck CHECK (((name <> ''::text) AND (slug <> ''::text))),
  constraint org_roles_times_ck CHECK (isfinite(created_at))
);
CREATE CONSTRAINT TRIGGER org_roles_access AFTER DELETE OR UPDATE ON identity.org_roles DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION identity.raise_access_version();
alter table identity.org_roles enable row level security, force row level security;
create policy org_roles_app on identity.org_roles as permissive for select to concord_app using ((org_id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy org_roles_engine on identity.org_roles as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on identity.org_roles to concord_engine;
grant select on identity.org_roles to concord_app;

create table identity.orgs (
  id         uuid                     not null default gen_random_uuid(),
  name       text                     not null,
  slug       text                     not null,
  settings   jsonb                    not null default '{}'::jsonb,
  created_at timestamp with time zone not null default now(),
  constraint orgs_access TRIGGER DEFERRABLE INITIALLY DEFERRED,
  constraint orgs_pk PRIMARY KEY (id),
  constraint orgs_slug_uq UNIQUE (slug),
  constraint orgs_name_ck CHECK (((name <> ''::text) AND (slug <> ''::text))),
  constraint orgs_settings_ck CHECK ((jsonb_typeof(settings) = 'object'::text)),
  constraint orgs_times_ck CHECK (isfinite(created_at))
);
CREATE CONSTRAINT TRIGGER orgs_access AFTER DELETE OR UPDATE ON identity.orgs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION identity.raise_access_version();
alter table identity.orgs enable row level security, force row level security;
create policy orgs_app on identity.orgs as permissive for select to concord_app using ((id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy orgs_engine on identity.orgs as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on identity.orgs to concord_engine;
grant select on identity.orgs to concord_app;

create table identity.users (
  id             uuid                     not null default gen_random_uuid(),
  org_id         uuid                     not null,
  external_id    text                     not null,
  email          text,
  role           text                     not null,
  created_at     timestamp with time zone not null default now(),
  deactivated_at timestamp with time zone,
  issuers        uuid[]                   not null default '{}'::uuid[],
  constraint users_access TRIGGER DEFERRABLE INITIALLY DEFERRED,
  constraint users_pk PRIMARY KEY (id),
  constraint users_external_id_uq UNIQUE (external_id),
  constraint users_org_uq UNIQUE (org_id, id),
  constraint users_org_fk FOREIGN KEY (org_id) REFERENCES identity.orgs(id),
  constraint users_deactivated_at_ck CHECK (isfinite(deactivated_at)),
  constraint users_external_id_ck CHECK ((external_id <> ''::text)),
  constraint users_role_ck CHECK ((role = ANY (ARRAY['reader'::text, 'writer'::text, 'admin'::text]))),
  constraint users_times_ck CHECK (isfinite(created_at))
);
CREATE CONSTRAINT TRIGGER users_access AFTER DELETE OR UPDATE ON identity.users DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION identity.raise_access_version();
alter table identity.users enable row level security, force row level security;
create policy users_app on identity.users as permissive for select to concord_app using ((org_id = ( SELECT identity.current_org_id() AS current_org_id))) with check ();
create policy users_engine on identity.users as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on identity.users to concord_engine;
grant select on identity.users to concord_app;
comment on column identity.users.external_id is 'Subject at the identity provider; unique over all orgs, so an identity has one org.';
comment on column identity.users.role is 'Platform permission; org roles decide visibility and are separate.';
comment on column identity.users.deactivated_at is 'Since when no credential of this person works; null: they may sign in.';
comment on column identity.users.issuers is 'Everybody through whose hands the credentials of the person came; empty for the identity provider.';

create table identity.workspaces (
  id             uuid                     not null default gen_random_uuid(),
  org_id         uuid                     not null,
  slug           text                     not null,
  name           text                     not null,
  owner_user_id  uuid,
  access_role_id uuid,
  created_at     timestamp with time zone not null default now(),
  archived_at    timestamp with time zone,
  constraint workspaces_access TRIGGER DEFERRABLE INITIALLY DEFERRED,
  constraint workspaces_pk PRIMARY KEY (id),
  constraint workspaces_org_uq UNIQUE (org_id, id),
  constraint workspaces_slug_uq UNIQUE (slug, org_id),
  constraint workspaces_access_role_fk FOREIGN KEY (org_id, access_role_id) REFERENCES identity.org_roles(org_id, id),
  constraint workspaces_org_fk FOREIGN KEY (org_id) REFERENCES identity.orgs(id),
  constraint workspaces_owner_fk FOREIGN KEY (org_id, owner_user_id) REFERENCES identity.users(org_id, id),
  constraint workspaces_name_ck CHECK (((name <> ''::text) AND (slug <> ''::text))),
  constraint workspaces_times_ck CHECK ((isfinite(created_at) AND isfinite(archived_at)))
);
CREATE CONSTRAINT TRIGGER workspaces_access AFTER DELETE OR UPDATE ON identity.workspaces DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION identity.raise_access_version();
alter table identity.workspaces enable row level security, force row level security;
create policy workspaces_app on identity.workspaces as permissive for select to concord_app using ((id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ();
create policy workspaces_engine on identity.workspaces as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on identity.workspaces to concord_engine;
grant select on identity.workspaces to concord_app;
comment on column identity.workspaces.access_role_id is 'When set, only its members and the owner may enter; null lets everyone of the org in.';

create table missions.agent_reports (
  id                    integer                not null generated always as identity,
  workspace_id          uuid                   not null,
  agent_id              integer,
  report_type           missions.report_type   not null,
  title                 character varying(500) not null,
  artifact_id           uuid,
  heartbeat_result_id   integer,
  created_at            concord.finite_time    not null default now(),
  orchestration_task_id uuid,
  constraint agent_reports_pk PRIMARY KEY (id),
  constraint agent_reports_workspace_uq UNIQUE (workspace_id, id),
  constraint agent_reports_agent_fk FOREIGN KEY (workspace_id, agent_id) REFERENCES missions.agents(workspace_id, id) ON DELETE SET NULL (agent_id),
  constraint agent_reports_task_fk FOREIGN KEY (workspace_id, orchestration_task_id) REFERENCES missions.orchestration_tasks(workspace_id, id) ON DELETE SET NULL (orchestration_task_id),
  constraint agent_reports_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id) ON DELETE CASCADE
);
CREATE INDEX agent_reports_agent_ix ON missions.agent_reports USING btree (agent_id) WHERE (agent_id IS NOT NULL);
CREATE INDEX ix_agent_reports_orch_task ON missions.agent_reports USING btree (orchestration_task_id) WHERE (orchestration_task_id IS NOT NULL);
alter table missions.agent_reports enable row level security, force row level security;
create policy agent_reports_app on missions.agent_reports as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy agent_reports_engine on missions.agent_reports as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on missions.agent_reports to concord_app;
grant insert, select, update on missions.agent_reports to concord_engine;
comment on table missions.agent_reports is 'What agents and missions report. The content of a report is an artifact.';

create table missions.agents (
  id            integer                not null generated always as identity,
  workspace_id  uuid                   not null,
  name          character varying(255) not null,
  adapter       character varying(50)  not null,
  manifest_name character varying(255),
  created_at    concord.finite_time    not null default now(),
  constraint agents_pk PRIMARY KEY (id),
  constraint agents_name_uq UNIQUE (workspace_id, name),
  constraint agents_workspace_uq UNIQUE (workspace_id, id),
  constraint agents_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id) ON DELETE CASCADE
);
alter table missions.agents enable row level security, force row level security;
create policy agents_app on missions.agents as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy agents_engine on missions.agents as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on missions.agents to concord_app;
grant insert, select, update on missions.agents to concord_engine;
comment on table missions.agents is 'The roster: agents that missions may assign work to.';

create table missions.board_tasks (
  id                integer                 not null generated always as identity,
  workspace_id      uuid                    not null,
  title             character varying(600)  not null,
  description       text,
  status            missions.card_status    not null default 'inbox'::character varying,
  priority          character varying(20)   not null default 'medium'::character varying,
  review_mode       missions.review_mode    not null default 'auto'::character varying,
  assigned_agent_id integer,
  created_by_type   character varying(30)   not null default 'user'::character varying,
  created_by_id     character varying(255)  not null,
  parent_task_id    integer,
  source_type       character varying(30)   not null default 'user'::character varying,
  source_id         character varying(255),
  tags              concord.list_json       not null default '[]'::jsonb,
  planning_data     concord.object_json     not null default '{}'::jsonb,
  result            character varying(4000),
  error_message     text,
  started_at        concord.finite_time,
  completed_at      concord.finite_time,
  created_at        concord.finite_time     not null default now(),
  updated_at        concord.finite_time     not null default now(),
  constraint board_tasks_pk PRIMARY KEY (id),
  constraint board_tasks_workspace_uq UNIQUE (workspace_id, id),
  constraint board_tasks_agent_fk FOREIGN KEY (workspace_id, assigned_agent_id) REFERENCES missions.agents(workspace_id, id) ON DELETE SET NULL (assigned_agent_id),
  constraint board_tasks_parent_fk FOREIGN KEY (workspace_id, parent_task_id) REFERENCES missions.board_tasks(workspace_id, id) ON DELETE SET NULL (parent_task_id),
  constraint board_tasks_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id) ON DELETE CASCADE
) with (fillfactor=80);
CREATE INDEX board_tasks_agent_ix ON missions.board_tasks USING btree (assigned_agent_id) WHERE (assigned_agent_id IS NOT NULL);
CREATE INDEX board_tasks_parent_ix ON missions.board_tasks USING btree (parent_task_id) WHERE (parent_task_id IS NOT NULL);
CREATE INDEX board_tasks_top_ix ON missions.board_tasks USING btree (workspace_id, id) WHERE (parent_task_id IS NULL);
CREATE UNIQUE INDEX uq_board_tasks_orchestration_run ON missions.board_tasks USING btree (source_id) WHERE ((source_type)::text = 'orchestration'::text);
CREATE UNIQUE INDEX uq_board_tasks_orchestration_task ON missions.board_tasks USING btree (source_id) WHERE ((source_type)::text = 'orchestration_task'::text);
alter table missions.board_tasks enable row level security, force row level security;
create policy board_tasks_app on missions.board_tasks as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy board_tasks_engine on missions.board_tasks as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on missions.board_tasks to concord_app;
grant insert, select, update on missions.board_tasks to concord_engine;
comment on table missions.board_tasks is 'The cards of the board. The cards of a mission follow its rows and never steer them.';

create table missions.orchestration_auxiliaries (
  key          character varying(255)  not null,
  run_id       uuid                    not null,
  workspace_id uuid                    not null,
  kind         missions.auxiliary_kind not null,
  task_id      uuid,
  attempt      missions.ordinal,
  command_id   uuid,
  cost         missions.cost           not null default 0,
  tokens       concord.count_from_zero not null default 0,
  error        text,
  settled_at   concord.finite_time,
  constraint orchestration_auxiliaries_pk PRIMARY KEY (key),
  constraint orchestration_auxiliaries_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint orchestration_auxiliaries_run_fk FOREIGN KEY (run_id, workspace_id) REFERENCES missions.orchestration_runs(id, workspace_id) ON DELETE CASCADE,
  constraint orchestration_auxiliaries_task_fk FOREIGN KEY (task_id, run_id) REFERENCES missions.orchestration_tasks(id, run_id) ON DELETE CASCADE,
  constraint orchestration_auxiliaries_task_ck CHECK (((((kind)::text = 'planner'::text) = (task_id IS NULL)) AND ((task_id IS NULL) = (attempt IS NULL))))
);
CREATE INDEX orchestration_auxiliaries_command_ix ON missions.orchestration_auxiliaries USING btree (command_id) WHERE (command_id IS NOT NULL);
CREATE INDEX orchestration_auxiliaries_open_ix ON missions.orchestration_auxiliaries USING btree (run_id, kind) WHERE (settled_at IS NULL);
CREATE INDEX orchestration_auxiliaries_run_ix ON missions.orchestration_auxiliaries USING btree (run_id);
CREATE INDEX orchestration_auxiliaries_task_ix ON missions.orchestration_auxiliaries USING btree (task_id) WHERE (task_id IS NOT NULL);
alter table missions.orchestration_auxiliaries enable row level security, force row level security;
create policy orchestration_auxiliaries_app on missions.orchestration_auxiliaries as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy orchestration_auxiliaries_engine on missions.orchestration_auxiliaries as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on missions.orchestration_auxiliaries to concord_app;
grant insert, select, update on missions.orchestration_auxiliaries to concord_engine;
comment on table missions.orchestration_auxiliaries is 'The commands of a mission beside its attempts, from their to-do until their cost is counted.';
comment on column missions.orchestration_auxiliaries.key is 'The idempotency key of the command.';
comment on column missions.orchestration_auxiliaries.command_id is 'Null: the command has yet to be submitted.';
comment on column missions.orchestration_auxiliaries.error is 'Why the command could not be submitted.';

create table missions.orchestration_events (
  id         bigint                 not null default nextval('missions.orchestration_events_id_seq'::regclass),
  run_id     uuid                   not null,
  task_id    uuid,
  event_type missions.event_type    not null,
  payload    concord.object_json    not null default '{}'::jsonb,
  actor_type missions.actor_type    not null default 'system'::character varying,
  actor_id   character varying(255),
  created_at concord.finite_time    not null default now(),
  xid        xid8                   not null default pg_current_xact_id(),
  constraint orchestration_events_pk PRIMARY KEY (id),
  constraint orchestration_events_run_fk FOREIGN KEY (run_id) REFERENCES missions.orchestration_runs(id) ON DELETE CASCADE,
  constraint orchestration_events_task_fk FOREIGN KEY (task_id, run_id) REFERENCES missions.orchestration_tasks(id, run_id) ON DELETE CASCADE
);
CREATE INDEX ix_orch_events_created ON missions.orchestration_events USING brin (created_at);
CREATE INDEX ix_orch_events_run ON missions.orchestration_events USING btree (run_id, id);
CREATE INDEX ix_orch_events_task ON missions.orchestration_events USING btree (task_id) WHERE (task_id IS NOT NULL);
CREATE INDEX ix_orch_events_type ON missions.orchestration_events USING btree (event_type);
CREATE INDEX orchestration_events_feed_ix ON missions.orchestration_events USING btree (xid, id);
CREATE TRIGGER orchestration_events_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON missions.orchestration_events FOR EACH STATEMENT EXECUTE FUNCTION concord.refuse_change() ENABLE ALWAYS;
alter table missions.orchestration_events enable row level security, force row level security;
create policy orchestration_events_app on missions.orchestration_events as permissive for all to concord_app using ((EXISTS ( SELECT
   FROM missions.orchestration_runs r
  WHERE (r.id = orchestration_events.run_id)))) with check ((EXISTS ( SELECT
   FROM missions.orchestration_runs r
  WHERE (r.id = orchestration_events.run_id))));
create policy orchestration_events_engine on missions.orchestration_events as permissive for all to concord_engine using (true) with check (true);
grant insert (run_id, task_id, event_type, payload, actor_type, actor_id, created_at), select on missions.orchestration_events to concord_app;
grant insert (run_id, task_id, event_type, payload, actor_type, actor_id, created_at), select on missions.orchestration_events to concord_engine;
comment on table missions.orchestration_events is 'Append-only: what happened to missions and their tasks. No state is rebuilt from it.';

create table missions.orchestration_events_archive (
  id         bigint                 not null,
  run_id     uuid                   not null,
  task_id    uuid,
  event_type missions.event_type    not null,
  payload    concord.object_json    not null,
  actor_type missions.actor_type    not null,
  actor_id   character varying(255),
  created_at concord.finite_time    not null,
  constraint orchestration_events_archive_pk PRIMARY KEY (id)
);
CREATE INDEX orchestration_events_archive_created_ix ON missions.orchestration_events_archive USING btree (created_at);
CREATE INDEX orchestration_events_archive_run_ix ON missions.orchestration_events_archive USING btree (run_id);
alter table missions.orchestration_events_archive enable row level security, force row level security;
create policy orchestration_events_archive_app on missions.orchestration_events_archive as permissive for all to concord_app using ((EXISTS ( SELECT
   FROM missions.orchestration_runs r
  WHERE (r.id = orchestration_events_archive.run_id)))) with check ();
create policy orchestration_events_archive_engine on missions.orchestration_events_archive as permissive for all to concord_engine using (true) with check (true);
grant select on missions.orchestration_events_archive to concord_app;
grant select on missions.orchestration_events_archive to concord_engine;
comment on table missions.orchestration_events_archive is 'Events that retention has moved out of orchestration_events. It has no foreign keys.';

create table missions.orchestration_runs (
  id                   uuid                    not null default gen_random_uuid(),
  workspace_id         uuid                    not null,
  title                character varying(500)  not null,
  description          text,
  goal                 text                    not null,
  state                missions.run_state      not null default 'pending'::character varying,
  state_type           missions.state_type     not null default 'pending'::character varying,
  plan                 jsonb,
  config               jsonb                   not null default '{}'::jsonb,
  result_summary       text,
  error_message        text,
  created_by           character varying(255)  not null,
  coordinator_agent_id integer,
  total_tokens         concord.count_from_zero not null default 0,
  total_cost           missions.cost           not null default 0,
  task_count           concord.count_from_zero not null default 0,
  tasks_completed      concord.count_from_zero not null default 0,
  tasks_failed         concord.count_from_zero not null default 0,
  started_at           concord.finite_time,
  completed_at         concord.finite_time,
  duration_ms          bigint,
  version_id           concord.count_from_one  not null default 1,
  created_at           concord.finite_time     not null default now(),
  updated_at           concord.finite_time     not null default now(),
  tags                 jsonb                   not null default '{}'::jsonb,
  command_id           uuid                    not null,
  gate_command_id      uuid,
  run_after            concord.finite_time,
  account_id           uuid,
  forked_from_id       uuid,
  report_id            integer,
  constraint orchestration_runs_pk PRIMARY KEY (id),
  constraint orchestration_runs_command_uq UNIQUE (command_id),
  constraint orchestration_runs_workspace_uq UNIQUE (id, workspace_id),
  constraint orchestration_runs_account_fk FOREIGN KEY (account_id, workspace_id) REFERENCES concord.budget_accounts(account_id, workspace_id),
  constraint orchestration_runs_agent_fk FOREIGN KEY (workspace_id, coordinator_agent_id) REFERENCES missions.agents(workspace_id, id) ON DELETE SET NULL (coordinator_agent_id),
  constraint orchestration_runs_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint orchestration_runs_fork_fk FOREIGN KEY (forked_from_id, workspace_id) REFERENCES missions.orchestration_runs(id, workspace_id) ON DELETE SET NULL (forked_from_id),
  constraint orchestration_runs_gate_fk FOREIGN KEY (workspace_id, gate_command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint orchestration_runs_report_fk FOREIGN KEY (workspace_id, report_id) REFERENCES missions.agent_reports(workspace_id, id) ON DELETE SET NULL (report_id),
  constraint orchestration_runs_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id) ON DELETE CASCADE,
  constraint orchestration_runs_ended_ck CHECK ((((state_type)::text = 'terminal'::text) = (completed_at IS NOT NULL))),
  constraint orchestration_runs_state_type_ck CHECK (((state_type)::text =
CASE
    WHEN ((state)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[])) THEN 'terminal'::text
    WHEN ((state)::text = ANY ((ARRAY['paused'::character varying, 'budget_exceeded'::character varying])::text[])) THEN 'paused'::text
    WHEN ((state)::text = 'running'::text) THEN 'running'::text
    ELSE 'pending'::text
END))
) with (fillfactor=70);
CREATE INDEX ix_orch_runs_active ON missions.orchestration_runs USING btree (workspace_id) WHERE ((state_type)::text <> 'terminal'::text);
CREATE INDEX ix_orch_runs_created_by ON missions.orchestration_runs USING btree (created_by);
CREATE INDEX ix_orch_runs_ws_created ON missions.orchestration_runs USING btree (workspace_id, created_at DESC);
CREATE INDEX orchestration_runs_account_ix ON missions.orchestration_runs USING btree (account_id) WHERE (account_id IS NOT NULL);
CREATE INDEX orchestration_runs_agent_ix ON missions.orchestration_runs USING btree (coordinator_agent_id) WHERE (coordinator_agent_id IS NOT NULL);
CREATE INDEX orchestration_runs_due_ix ON missions.orchestration_runs USING btree (run_after) WHERE (run_after IS NOT NULL);
CREATE INDEX orchestration_runs_fork_ix ON missions.orchestration_runs USING btree (forked_from_id) WHERE (forked_from_id IS NOT NULL);
CREATE INDEX orchestration_runs_goal_ix ON missions.orchestration_runs USING gin (to_tsvector('simple'::regconfig, goal));
CREATE INDEX orchestration_runs_tags_ix ON missions.orchestration_runs USING gin (tags);
CREATE TRIGGER orchestration_runs_terms_fixed BEFORE UPDATE OF workspace_id, goal, command_id, created_by ON missions.orchestration_runs FOR EACH ROW WHEN (((((new.workspace_id IS DISTINCT FROM old.workspace_id) OR (new.goal IS DISTINCT FROM old.goal)) OR (new.command_id IS DISTINCT FROM old.command_id)) OR ((new.created_by)::text IS DISTINCT FROM (old.created_by)::text))) EXECUTE FUNCTION concord.refuse_rewrite('the request of a mission');
alter table missions.orchestration_runs enable row level security, force row level security;
create policy orchestration_runs_app on missions.orchestration_runs as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy orchestration_runs_engine on missions.orchestration_runs as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on missions.orchestration_runs to concord_app;
grant insert, select, update on missions.orchestration_runs to concord_engine;
comment on table missions.orchestration_runs is 'One row is one mission: its goal, its plan, its state and its counters.';
comment on column missions.orchestration_runs.goal is 'The words of the requester; never changed.';

create table missions.orchestration_task_dependencies (
  task_id         uuid                     not null,
  depends_on_id   uuid                     not null,
  dependency_type missions.dependency_type not null default 'data'::character varying,
  created_at      concord.finite_time      not null default now(),
  run_id          uuid                     not null,
  constraint orchestration_task_dependencies_pk PRIMARY KEY (task_id, depends_on_id),
  constraint orchestration_task_dependencies_task_fk FOREIGN KEY (task_id, run_id) REFERENCES missions.orchestration_tasks(id, run_id) ON DELETE CASCADE,
  constraint orchestration_task_dependencies_upstream_fk FOREIGN KEY (depends_on_id, run_id) REFERENCES missions.orchestration_tasks(id, run_id) ON DELETE CASCADE,
  constraint orchestration_task_dependencies_self_ck CHECK ((task_id <> depends_on_id))
);
CREATE INDEX ix_orch_deps_reverse ON missions.orchestration_task_dependencies USING btree (depends_on_id);
CREATE INDEX orchestration_task_dependencies_run_ix ON missions.orchestration_task_dependencies USING btree (run_id);
alter table missions.orchestration_task_dependencies enable row level security, force row level security;
create policy orchestration_task_dependencies_app on missions.orchestration_task_dependencies as permissive for all to concord_app using ((EXISTS ( SELECT
   FROM missions.orchestration_runs r
  WHERE (r.id = orchestration_task_dependencies.run_id)))) with check ((EXISTS ( SELECT
   FROM missions.orchestration_runs r
  WHERE (r.id = orchestration_task_dependencies.run_id))));
create policy orchestration_task_dependencies_engine on missions.orchestration_task_dependencies as permissive for all to concord_engine using (true) with check (true);
grant insert, select on missions.orchestration_task_dependencies to concord_app;
grant insert, select on missions.orchestration_task_dependencies to concord_engine;
comment on table missions.orchestration_task_dependencies is 'task_id waits for depends_on_id. Both are of the same run.';

create table missions.orchestration_tasks (
  id                 uuid                    not null default gen_random_uuid(),
  run_id             uuid                    not null,
  workspace_id       uuid                    not null,
  sequence_number    missions.ordinal        not null,
  title              character varying(500)  not null,
  description        text,
  task_type          missions.task_type      not null,
  state              missions.task_state     not null default 'pending'::character varying,
  state_type         missions.state_type     not null default 'pending'::character varying,
  trigger_rule       missions.trigger_rule   not null default 'all_success'::character varying,
  agent_id           integer,
  agent_type         missions.agent_type,
  model_override     character varying(255),
  tools_requested    concord.list_json,
  success_criteria   text,
  output_summary     character varying(2000),
  output_ref         character varying(500),
  verifier_score     missions.score,
  verified_by        character varying(255),
  error_message      text,
  attempt_number     missions.ordinal        not null default 1,
  continuation_count missions.turn_count     not null default 0,
  tokens_used        concord.count_from_zero not null default 0,
  cost               missions.cost           not null default 0,
  board_task_id      integer,
  started_at         concord.finite_time,
  completed_at       concord.finite_time,
  duration_ms        bigint,
  version_id         concord.count_from_one  not null default 1,
  created_at         concord.finite_time     not null default now(),
  updated_at         concord.finite_time     not null default now(),
  due_at             concord.finite_time,
  last_heartbeat_at  concord.finite_time,
  spec               concord.object_json     not null,
  remaining          concord.count_from_zero not null,
  command_id         uuid,
  review_command_id  uuid,
  output_checksum    character varying(64),
  checks_passed      missions.turn_count     not null default 0,
  lease_token        uuid,
  lease_until        concord.finite_time,
  worker_id          character varying(255),
  submission         concord.object_json,
  carried_from_id    uuid,
  returns            missions.turn_count     not null default 0,
  attempt_started_at concord.finite_time,
  failure_type       missions.failure_type,
  receipt            concord.object_json,
  constraint orchestration_tasks_pk PRIMARY KEY (id),
  constraint orchestration_tasks_run_uq UNIQUE (id, run_id),
  constraint orchestration_tasks_sequence_uq UNIQUE (run_id, sequence_number),
  constraint orchestration_tasks_workspace_uq UNIQUE (id, workspace_id),
  constraint orchestration_tasks_agent_fk FOREIGN KEY (workspace_id, agent_id) REFERENCES missions.agents(workspace_id, id) ON DELETE SET NULL (agent_id),
  constraint orchestration_tasks_board_fk FOREIGN KEY (workspace_id, board_task_id) REFERENCES missions.board_tasks(workspace_id, id) ON DELETE SET NULL (board_task_id),
  constraint orchestration_tasks_carried_fk FOREIGN KEY (carried_from_id, workspace_id) REFERENCES missions.orchestration_tasks(id, workspace_id) ON DELETE SET NULL (carried_from_id),
  constraint orchestration_tasks_command_fk FOREIGN KEY (workspace_id, command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint orchestration_tasks_review_fk FOREIGN KEY (workspace_id, review_command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint orchestration_tasks_run_fk FOREIGN KEY (run_id, workspace_id) REFERENCES missions.orchestration_runs(id, workspace_id) ON DELETE CASCADE,
  constraint orchestration_tasks_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id) ON DELETE CASCADE,
  constraint orchestration_tasks_ended_ck CHECK ((((state_type)::text = 'terminal'::text) = (completed_at IS NOT NULL))),
  constraint orchestration_tasks_lease_ck CHECK ((((lease_token IS NULL) = (lease_until IS NULL)) AND ((lease_token IS NULL) OR (worker_id IS NOT NULL)))),
  constraint orchestration_tasks_state_type_ck CHECK (((state_type)::text =
CASE
    WHEN ((state)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying, 'skipped'::character varying])::text[])) THEN 'terminal'::text
    WHEN ((state)::text = ANY ((ARRAY['verifying'::character varying, 'awaiting_human'::character varying])::text[])) THEN 'paused'::text
    WHEN ((state)::text = ANY ((ARRAY['assigned'::character varying, 'running'::character varying, 'continuing'::character varying])::text[])) THEN 'running'::text
    ELSE 'pending'::text
END))
) with (fillfactor=70);
CREATE INDEX ix_orch_tasks_active ON missions.orchestration_tasks USING btree (state, updated_at) WHERE ((state_type)::text <> 'terminal'::text);
CREATE INDEX ix_orch_tasks_agent ON missions.orchestration_tasks USING btree (agent_id) WHERE (agent_id IS NOT NULL);
CREATE INDEX ix_orch_tasks_board ON missions.orchestration_tasks USING btree (board_task_id) WHERE (board_task_id IS NOT NULL);
CREATE INDEX ix_orch_tasks_run ON missions.orchestration_tasks USING btree (run_id);
CREATE INDEX ix_orch_tasks_ws_state ON missions.orchestration_tasks USING btree (workspace_id, state);
CREATE INDEX orchestration_tasks_carried_ix ON missions.orchestration_tasks USING btree (carried_from_id) WHERE (carried_from_id IS NOT NULL);
CREATE INDEX orchestration_tasks_claim_ix ON missions.orchestration_tasks USING btree (workspace_id, (((spec)::jsonb #>> '{run,worker}'::text[])), created_at, sequence_number) WHERE (((state)::text = ANY ((ARRAY['queued'::character varying, 'awaiting_retry'::character varying])::text[])) AND (((spec)::jsonb #>> '{run,worker}'::text[]) IS NOT NULL));
CREATE INDEX orchestration_tasks_command_ix ON missions.orchestration_tasks USING btree (command_id) WHERE (command_id IS NOT NULL);
CREATE INDEX orchestration_tasks_due_ix ON missions.orchestration_tasks USING btree (due_at) WHERE ((due_at IS NOT NULL) AND ((state_type)::text <> 'terminal'::text));
CREATE INDEX orchestration_tasks_review_ix ON missions.orchestration_tasks USING btree (review_command_id) WHERE (review_command_id IS NOT NULL);
CREATE INDEX orchestration_tasks_run_order_ix ON missions.orchestration_tasks USING btree (run_id, state, sequence_number) WHERE ((state_type)::text <> 'terminal'::text);
CREATE INDEX orchestration_tasks_run_state_ix ON missions.orchestration_tasks USING btree (run_id, state, remaining, command_id) WHERE ((state_type)::text <> 'terminal'::text);
CREATE TRIGGER orchestration_tasks_terms_fixed BEFORE UPDATE OF run_id, workspace_id, spec ON missions.orchestration_tasks FOR EACH ROW WHEN ((((new.run_id IS DISTINCT FROM old.run_id) OR (new.workspace_id IS DISTINCT FROM old.workspace_id)) OR ((new.spec)::jsonb IS DISTINCT FROM (old.spec)::jsonb))) EXECUTE FUNCTION concord.refuse_rewrite('what a mission task runs');
alter table missions.orchestration_tasks enable row level security, force row level security;
create policy orchestration_tasks_app on missions.orchestration_tasks as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy orchestration_tasks_engine on missions.orchestration_tasks as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on missions.orchestration_tasks to concord_app;
grant insert, select, update on missions.orchestration_tasks to concord_engine;
comment on table missions.orchestration_tasks is 'One piece of work of a mission. Each attempt is a command.';
comment on column missions.orchestration_tasks.spec is 'What to run and under which temporary id of the plan; written once.';
comment on column missions.orchestration_tasks.remaining is 'How many upstream ends its rule still waits for. A pending task with none is ready.';
comment on column missions.orchestration_tasks.submission is 'What a worker has submitted, until the turn of the mission has settled it.';
comment on column missions.orchestration_tasks.returns is 'How often this attempt was claimed and not started.';
comment on column missions.orchestration_tasks.receipt is 'The last submission that was accepted: its lease, attempt and digest. The same one again gets the same answer.';

create table missions.workflow_recipes (
  id                  integer                not null generated always as identity,
  workspace_id        uuid                   not null,
  name                character varying(500) not null,
  description         text,
  steps               concord.list_json      not null default '[]'::jsonb,
  execution_config    concord.object_json    not null default '{}'::jsonb,
  template_definition concord.object_json    not null default '{}'::jsonb,
  template_id         character varying(255),
  owner_type          character varying(30)  not null default 'user'::character varying,
  tags                concord.list_json      not null default '[]'::jsonb,
  created_by          character varying(255) not null,
  created_at          concord.finite_time    not null default now(),
  constraint workflow_recipes_pk PRIMARY KEY (id),
  constraint workflow_recipes_template_uq UNIQUE (workspace_id, template_id),
  constraint workflow_recipes_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id) ON DELETE CASCADE
);
alter table missions.workflow_recipes enable row level security, force row level security;
create policy workflow_recipes_app on missions.workflow_recipes as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy workflow_recipes_engine on missions.workflow_recipes as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on missions.workflow_recipes to concord_app;
grant insert, select, update on missions.workflow_recipes to concord_engine;
comment on table missions.workflow_recipes is 'Plans that can be run again.';

create table public.concord_migrations (
  number     integer                  not null,
  name       text                     not null,
  checksum   text                     not null,
  applied_at timestamp with time zone not null default clock_timestamp(),
  applied_by text                     not null default SESSION_USER,
  is_pending boolean                  not null default false,
  constraint concord_migrations_pk PRIMARY KEY (number),
  constraint concord_migrations_name_uq UNIQUE (name)
);
grant select on public.concord_migrations to concord_engine;

create table schedules.command_schedules (
  schedule_id     uuid                   not null,
  workspace_id    uuid                   not null,
  name            concord.filled_text    not null,
  origin          schedules.origin       not null,
  command_type    concord.filled_text    not null,
  payload         concord.object_json    not null default '{}'::jsonb,
  cron            concord.filled_text    not null,
  time_zone       concord.filled_text    not null default 'UTC'::text,
  queue           concord.filled_text    not null,
  overlap         schedules.overlap      not null,
  misfire         schedules.misfire      not null,
  jitter_ms       schedules.jitter       not null default 0,
  enabled         boolean                not null default true,
  created_by      concord.filled_text    not null,
  created_role    schedules.creator_role not null,
  created_at      concord.finite_time    not null default now(),
  updated_at      concord.finite_time    not null default now(),
  removed_at      concord.finite_time,
  last_due_at     concord.finite_time,
  last_command_id uuid,
  last_refusal    text,
  constraint command_schedules_pk PRIMARY KEY (schedule_id),
  constraint command_schedules_last_command_fk FOREIGN KEY (workspace_id, last_command_id) REFERENCES concord.commands(workspace_id, command_id),
  constraint command_schedules_workspace_fk FOREIGN KEY (workspace_id) REFERENCES identity.workspaces(id),
  constraint command_schedules_creator_ck CHECK ((((origin)::text = 'catalog'::text) = ((created_role)::text = 'system'::text))),
  constraint command_schedules_last_ck CHECK (((last_due_at IS NOT NULL) OR ((last_command_id IS NULL) AND (last_refusal IS NULL))))
);
CREATE UNIQUE INDEX command_schedules_name_uq ON schedules.command_schedules USING btree (workspace_id, name) WHERE (removed_at IS NULL);
alter table schedules.command_schedules enable row level security, force row level security;
create policy command_schedules_app on schedules.command_schedules as permissive for all to concord_app using ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid)) with check ((workspace_id = (NULLIF(current_setting('concord.workspace_id'::text, true), ''::text))::uuid));
create policy command_schedules_engine on schedules.command_schedules as permissive for all to concord_engine using (true) with check (true);
grant insert, select, update on schedules.command_schedules to concord_app;
grant insert, select, update on schedules.command_schedules to concord_engine;
comment on column schedules.command_schedules.created_role is 'The most that a firing may do, whatever its creator may do today.';
comment on column schedules.command_schedules.last_due_at is 'The newest due time that led to a command or was turned away; for people, nothing is decided by it.';

create view concord.domain_events with (security_invoker=true) as  SELECT e.event_id,
    j.command_id,
    j.agent_run_id,
    j.swarm_run_id,
    e.purpose,
    e.event_type,
    e.payload,
    e.actor,
    j.trace_id,
        CASE
            WHEN ((e.purpose)::text = 'agent_step'::text) THEN (j.step_index)::integer
            ELSE NULL::integer
        END AS step_index,
    e.tool_name,
    e.latency_ms,
    e.token_usage,
    e.cost_units,
    j.created_at,
    j.workspace_id,
    (j.seq + e.place) AS seq,
    j.xid,
    j.entry_id,
    j.seq AS entry_seq
   FROM (concord.journal j
     CROSS JOIN LATERAL concord.unpack(j.entry_id, j.events) e(event_id, place, purpose, event_type, payload, actor, tool_name, latency_ms, token_usage, cost_units));
grant select on concord.domain_events to concord_app;
grant select on concord.domain_events to concord_engine;
comment on view concord.domain_events is 'The events of the journal, one row each.';
comment on column concord.domain_events.entry_id is 'The row of the journal that holds the event.';
comment on column concord.domain_events.entry_seq is 'seq of that row: indexed, where seq of the event is not.';

create view missions.event_feed with (security_invoker=true) as  SELECT r.workspace_id,
    e.xid,
    e.id AS seq,
    e.run_id,
    e.task_id,
    e.event_type,
    e.payload,
    e.actor_type,
    e.actor_id,
    e.created_at
   FROM (missions.orchestration_events e
     JOIN missions.orchestration_runs r ON ((r.id = e.run_id)))
  WHERE (e.xid < pg_snapshot_xmin(pg_current_snapshot()));
grant select on missions.event_feed to concord_app;
grant select on missions.event_feed to concord_engine;
comment on view missions.event_feed is 'Events that are final. Read those after (xid, seq) of the last one, in that order. Archived events are not in it.';

create view missions.mission_results with (security_invoker=true) as  SELECT workspace_id,
    id AS run_id,
    state,
    ((plan ->> 'estimated_cost'::text))::numeric AS estimated_cost,
    total_cost,
    started_at,
    completed_at
   FROM missions.orchestration_runs r
  WHERE ((state_type)::text = 'terminal'::text);
grant select on missions.mission_results to concord_app;
grant select on missions.mission_results to concord_engine;
comment on view missions.mission_results is 'Missions that ended, with what their plan said that they would cost.';

create view missions.task_failures with (security_invoker=true) as  SELECT t.workspace_id,
    e.run_id,
    e.task_id,
    t.task_type,
    e.event_type,
    COALESCE(a.name, (((t.spec)::jsonb #>> '{run,agent}'::text[]))::character varying, (((t.spec)::jsonb #>> '{run,task}'::text[]))::character varying, (('worker:'::text || ((t.spec)::jsonb #>> '{run,worker}'::text[])))::character varying) AS agent,
    (COALESCE(((e.payload)::jsonb ->> 'attempt_number'::text), ((e.payload)::jsonb ->> 'total_attempts'::text)))::integer AS attempt,
    COALESCE(((e.payload)::jsonb ->> 'error_message'::text), ((e.payload)::jsonb ->> 'reason'::text)) AS reason,
        CASE e.event_type
            WHEN 'task_failed'::text THEN 'quality'::text
            ELSE ((e.payload)::jsonb ->> 'failure_type'::text)
        END AS failure_type,
    COALESCE((((e.payload)::jsonb ->> 'final'::text))::boolean, true) AS is_final,
    e.created_at
   FROM ((missions.orchestration_events e
     JOIN missions.orchestration_tasks t ON ((t.id = e.task_id)))
     LEFT JOIN missions.agents a ON ((a.id = COALESCE((((e.payload)::jsonb ->> 'agent_id'::text))::integer, t.agent_id))))
  WHERE ((e.event_type)::text = ANY ((ARRAY['task_failed'::character varying, 'task_crashed'::character varying])::text[]));
grant select on missions.task_failures to concord_app;
grant select on missions.task_failures to concord_engine;
comment on view missions.task_failures is 'Each failure of an attempt, with who made it, why, and whether it ended the task.';

create view missions.task_results with (security_invoker=true) as  SELECT t.workspace_id,
    t.run_id,
    t.id AS task_id,
    t.task_type,
    t.state,
    l.assigned_at,
    t.completed_at,
    l.retries,
    COALESCE(a.name, (((t.spec)::jsonb #>> '{run,agent}'::text[]))::character varying, (((t.spec)::jsonb #>> '{run,task}'::text[]))::character varying, (('worker:'::text || ((t.spec)::jsonb #>> '{run,worker}'::text[])))::character varying) AS agent,
    t.model_override AS model,
    t.cost,
    t.verifier_score AS score,
    l.human,
    ( SELECT count(*) AS count
           FROM missions.orchestration_task_dependencies d
          WHERE (d.depends_on_id = t.id)) AS blocks
   FROM ((missions.orchestration_tasks t
     LEFT JOIN missions.agents a ON ((a.id = t.agent_id)))
     CROSS JOIN LATERAL ( SELECT min((e.created_at)::timestamp with time zone) FILTER (WHERE ((e.event_type)::text = 'task_assigned'::text)) AS assigned_at,
            count(*) FILTER (WHERE ((e.event_type)::text = 'task_retrying'::text)) AS retries,
            (array_agg(substr((e.event_type)::text, 12) ORDER BY e.id DESC) FILTER (WHERE ((e.event_type)::text = ANY ((ARRAY['task_human_approved'::character varying, 'task_human_rejected'::character varying])::text[]))))[1] AS human
           FROM missions.orchestration_events e
          WHERE (e.task_id = t.id)) l)
  WHERE (((t.state)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying])::text[])) AND (t.carried_from_id IS NULL));
grant select on missions.task_results to concord_app;
grant select on missions.task_results to concord_engine;
comment on view missions.task_results is 'Tasks that completed or failed: first assignment, retries, who did it with which model, cost, score, the last decision of a person, and how many tasks wait for it.';
