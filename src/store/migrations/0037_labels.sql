-- 0037 labels: what came from an untrusted source is known wherever it goes.
-- Why: an agent acts on what it has read. A label names the source and the way from there: `untrusted:web.fetch>inv_…>cmd_…>art_…`. The database passes labels on,
--   so that no path of the code can forget it: from a command to its artifacts and memories, to the run that proposed it, from a run to the command that
--   waits for it, and from there to the run above. A new run has the labels of its command, a new command of an agent those of its run. An agent without a
--   run is one conversation: its commands have the labels of its commands of the last 30 days. Each of them has those of the earlier ones, so the last
--   hundred are enough.
-- Labels are only added. A holder has one label per source, and a way has at most 12 places.
-- Additions to the printed tables: labels on commands, artifacts, memory_candidates and memory_records.
-- Index: commands_labels_ix for the labelled commands of an agent without a run. Locks: short exclusive locks on the four tables; none is rewritten
--   or read. Reverse: drop what was added.
create function concord.carry_labels(held jsonb, more jsonb, place text) returns jsonb
  language sql immutable parallel safe
  return case when more = '[]' then held else held || coalesce((
    select jsonb_agg(case when cardinality(string_to_array(n.label, '>')) > 12 or n.label like '%>' || place then n.label else n.label || '>' || place end)
      from (select distinct on (split_part(m.label, '>', 1)) m.label from jsonb_array_elements_text(more) as m(label) order by split_part(m.label, '>', 1), m.label) as n
     where not exists (select from jsonb_array_elements_text(held) as h(label) where split_part(h.label, '>', 1) = split_part(n.label, '>', 1))
  ), '[]') end;
comment on function concord.carry_labels is 'The labels of `held`, and those of `more` from sources that `held` does not have, with one more place on their way.';

create function concord.shown_id(prefix text, id uuid) returns text
  language sql immutable parallel safe return prefix || '_' || replace(id::text, '-', '');

alter table concord.commands add column labels jsonb not null default '[]';
alter table concord.artifacts add column labels jsonb not null default '[]';
alter table concord.memory_candidates add column labels jsonb not null default '[]';
alter table concord.memory_records add column labels jsonb not null default '[]';
create index commands_labels_ix on concord.commands (requested_by, workspace_id, command_id) where labels <> '[]' and agent_run_id is null and ingress = 'agent_action';
comment on column concord.commands.labels is 'Untrusted sources that it has read from, and the way from each; only added to.';

-- After the update, as commands_agent_run_fixed in 0032.
create trigger commands_labels_kept after update of labels on concord.commands
  for each row when (not new.labels @> old.labels) execute function concord.refuse_rewrite('a label');
create trigger artifacts_labels_kept before update of labels on concord.artifacts
  for each row when (not new.labels @> old.labels) execute function concord.refuse_rewrite('a label');
create trigger memory_candidates_labels_kept before update of labels on concord.memory_candidates
  for each row when (not new.labels @> old.labels) execute function concord.refuse_rewrite('a label');
create trigger memory_records_labels_kept before update of labels on concord.memory_records
  for each row when (not new.labels @> old.labels) execute function concord.refuse_rewrite('a label');

create function concord.agent_labels(of_workspace uuid, of_requester text, of_agent text, of_run uuid, at timestamptz) returns jsonb
  language sql stable as $$
  select case when of_run is not null
    then coalesce((select r.labels::jsonb from concord.agent_runs r where r.workspace_id = of_workspace and r.agent_run_id = of_run), '[]')
    else coalesce((select jsonb_agg(s.label) from (
      select distinct on (split_part(l.label, '>', 1)) l.label from (
        select c.labels from concord.commands c
         where c.requested_by = of_requester and c.workspace_id = of_workspace and c.labels <> '[]' and c.agent_run_id is null and c.ingress = 'agent_action'
           and c.context->>'agent' is not distinct from of_agent and c.created_at > at - interval '30 days'
         order by c.command_id desc limit 100) as c cross join jsonb_array_elements_text(c.labels) as l(label)
      order by split_part(l.label, '>', 1), length(l.label), l.label) as s), '[]') end
$$;
comment on function concord.agent_labels is 'The labels of a run, or of an agent without a run.';

create function concord.label_command() returns trigger
  language plpgsql as $$
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
$$;
create trigger commands_labelled before insert on concord.commands
  for each row when (new.ingress = 'agent_action') execute function concord.label_command();

create function concord.label_run_of_command() returns trigger
  language plpgsql as $$
begin
  update concord.agent_runs r set labels = concord.carry_labels(r.labels, new.labels, concord.shown_id('agent', r.agent_run_id))
   where r.workspace_id = new.workspace_id and r.agent_run_id = new.agent_run_id
     and r.labels::jsonb <> concord.carry_labels(r.labels, new.labels, concord.shown_id('agent', r.agent_run_id));
  return null;
end
$$;
create trigger commands_labels_passed after update of labels on concord.commands
  for each row when (new.agent_run_id is not null and new.labels <> old.labels) execute function concord.label_run_of_command();

create function concord.label_command_of_run() returns trigger
  language plpgsql as $$
begin
  update concord.commands c set labels = concord.carry_labels(c.labels, new.labels, concord.shown_id('cmd', c.command_id))
   where c.workspace_id = new.workspace_id and c.command_id = new.command_id
     and c.labels <> concord.carry_labels(c.labels, new.labels, concord.shown_id('cmd', c.command_id));
  return null;
end
$$;
create trigger agent_runs_labels_passed after update of labels on concord.agent_runs
  for each row when (new.labels::jsonb <> old.labels::jsonb) execute function concord.label_command_of_run();

-- A row of a command has the labels of the command. The argument is the prefix of its id.
create function concord.label_of_command() returns trigger
  language plpgsql as $$
begin
  new.labels := concord.carry_labels(coalesce(new.labels, '[]'),
    coalesce((select c.labels from concord.commands c where c.workspace_id = new.workspace_id and c.command_id = new.command_id), '[]'),
    concord.shown_id(tg_argv[0], (to_jsonb(new)->>tg_argv[1])::uuid));
  return new;
end
$$;
create trigger agent_runs_labelled before insert on concord.agent_runs for each row execute function concord.label_of_command('agent', 'agent_run_id');
create trigger artifacts_labelled before insert on concord.artifacts for each row execute function concord.label_of_command('art', 'artifact_id');
create trigger memory_candidates_labelled before insert on concord.memory_candidates
  for each row execute function concord.label_of_command('memc', 'memory_candidate_id');
create trigger memory_records_labelled before insert on concord.memory_records for each row execute function concord.label_of_command('mem', 'memory_id');

create function concord.label_message() returns trigger
  language plpgsql as $$
declare
  more jsonb := (select r.labels from concord.agent_runs r where r.workspace_id = new.workspace_id and r.agent_run_id = new.agent_run_id);
begin
  if more <> '[]' then
    new.labels := concord.carry_labels(coalesce(new.labels, '[]'), more, concord.shown_id('msg', new.agent_message_id));
  end if;
  return new;
end
$$;
create trigger agent_messages_labelled before insert on concord.agent_messages for each row execute function concord.label_message();

-- down
drop trigger agent_messages_labelled on concord.agent_messages;
drop function concord.label_message();
drop trigger memory_records_labelled on concord.memory_records;
drop trigger memory_candidates_labelled on concord.memory_candidates;
drop trigger artifacts_labelled on concord.artifacts;
drop trigger agent_runs_labelled on concord.agent_runs;
drop function concord.label_of_command();
drop trigger agent_runs_labels_passed on concord.agent_runs;
drop function concord.label_command_of_run();
drop trigger commands_labels_passed on concord.commands;
drop function concord.label_run_of_command();
drop trigger commands_labelled on concord.commands;
drop function concord.label_command();
drop function concord.agent_labels(uuid, text, text, uuid, timestamptz);
drop trigger memory_records_labels_kept on concord.memory_records;
drop trigger memory_candidates_labels_kept on concord.memory_candidates;
drop trigger artifacts_labels_kept on concord.artifacts;
drop trigger commands_labels_kept on concord.commands;
alter table concord.memory_records drop column labels;
alter table concord.memory_candidates drop column labels;
alter table concord.artifacts drop column labels;
alter table concord.commands drop column labels;
drop function concord.shown_id(text, uuid);
drop function concord.carry_labels(jsonb, jsonb, text);
