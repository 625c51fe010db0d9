-- 0023 list_filters: a list by task and state, and the audit by event type, read a page and not the workspace.
-- Why: at a million commands a page by task and state read every command of the task, and a page of the audit by a rare event type read every
--   row of the journal.
-- Commands: the state stands before the id in the indexes of task and requester. A page with a state reads one range; a page without one merges
--   the ranges of all states. The fact commands_last_hour counts over all states.
-- Journal: audit_type is the type of the row's audit events, of which a row holds one, beside the three types that every command has
--   (command_created, policy_evaluated, effect_executed). Those have no entry in the index: a page of them is found by reading the newest rows.
--   A row from before with several types is divided; its events keep their ids and numbers. The index of incidents compares the column and no
--   longer searches the text of every row that is written.
-- Locks: commands and journal, for as long as the indexes take and every journal row is read once (about 15 s for a million events).
-- Reverse: as it was; divided rows stay divided.
drop index concord.commands_task_ix;
drop index concord.commands_requester_ix;
create index commands_task_ix on concord.commands (task_name, workspace_id, status, command_id);
create index commands_requester_ix on concord.commands (requested_by, workspace_id, status, command_id);

alter table concord.journal add column audit_type text;
comment on column concord.journal.audit_type is 'The type of the audit events of this row, apart from the three types that every command has.';

-- The owner of the table may not be a member of the role that sees all rows.
alter table concord.journal no force row level security;
alter table concord.journal disable trigger journal_append_only;
-- The types of a row, then those rows that have several.
update concord.journal as j set audit_type = t.types
from (
  select j.entry_id, string_agg(distinct e.type, ',') as types
  from concord.journal as j cross join lateral json_to_recordset(j.events) as e(type text, purpose text)
  where e.purpose = 'audit' and e.type not in ('command_created', 'policy_evaluated', 'effect_executed')
  group by j.entry_id
) as t where t.entry_id = j.entry_id;

with mixed as (
  delete from concord.journal as j where strpos(j.audit_type, ',') > 0 returning j.*
), listed as (
  select j.entry_id, e.event, e.n - 1 as place,
    case when e.event->>'purpose' = 'audit' and e.event->>'type' not in ('command_created', 'policy_evaluated', 'effect_executed')
      then e.event->>'type' end as type
  from mixed as j cross join lateral json_array_elements(j.events) with ordinality as e(event, n)
), changes as (
  select l.entry_id, l.place, lag(l.type) over (partition by l.entry_id order by l.place) <> l.type as is_new
  from listed as l where l.type is not null
), parted as (
  select l.*, count(*) filter (where c.is_new) over (partition by l.entry_id order by l.place) as part
  from listed as l left join changes as c on c.entry_id = l.entry_id and c.place = l.place
), parts as (
  select p.entry_id, p.part, min(p.place) as place, min(p.type) as type, json_agg(p.event order by p.place) as events
  from parted as p group by p.entry_id, p.part
)
insert into concord.journal (entry_id, workspace_id, command_id, agent_run_id, swarm_run_id, step_index, trace_id, created_at, seq, xid,
  audit_type, events)
  overriding system value
select coalesce((p.events->0->>'id')::uuid, overlay(j.entry_id::text placing
    lpad(to_hex((('x' || right(j.entry_id::text, 4))::bit(16)::integer + p.place::integer) & 65535), 4, '0') from 33)::uuid),
  j.workspace_id, j.command_id, j.agent_run_id, j.swarm_run_id, j.step_index, j.trace_id, j.created_at, j.seq + p.place, j.xid,
  p.type, p.events
from parts as p join mixed as j on j.entry_id = p.entry_id;
alter table concord.journal enable always trigger journal_append_only;
alter table concord.journal force row level security;

create index journal_audit_ix on concord.journal (audit_type, workspace_id, xid, seq) where audit_type is not null;
drop index concord.journal_incidents_ix;
create index journal_incidents_ix on concord.journal (created_at) where audit_type = 'compensation_drift';
grant insert (audit_type) on concord.journal to concord_engine, concord_app;

-- down
drop index concord.journal_incidents_ix;
drop index concord.journal_audit_ix;
alter table concord.journal drop column audit_type;
create index journal_incidents_ix on concord.journal (created_at) where strpos(events::text, '"compensation_drift"') > 0;
drop index concord.commands_task_ix;
drop index concord.commands_requester_ix;
create index commands_task_ix on concord.commands (task_name, workspace_id, command_id);
create index commands_requester_ix on concord.commands (requested_by, workspace_id, command_id);
