-- 0012 memory: what is remembered about whom, who consented, who read it, what must be kept, and what was erased.
-- Why: memory shapes later behaviour, so each fact has an owner, a consent, a reader list and an end; artifacts are kept apart.
-- Additions to the printed columns of memory_records: workspace_id, fact_key (what the fact is about: two active records with
--   one key contradict each other, and the unique index refuses the second), sensitivity, schema_name, task_type, connector
--   (ways of retrieval), memory_candidate_id (one record per candidate: a repeated effect meets its own row).
-- Additions to memory_candidates: workspace_id, fact_key, schema_name, task_type, connector, derived_from, supersedes, erased_at.
-- Content is in these two tables only, never in a command, an effect, an approval or an event: emptying it is erasing it. It is
--   written once; a trigger refuses every change of it but to '{}'. Embeddings are real[], so no extension is needed: where
--   pgvector exists the search casts to its type. Text search is an index over the content, without a copy of it.
-- No key from a candidate to its record: records may be kept in a store that is not this database.
-- Walls: beside the workspace, concord.memory_subject ('type:id') and concord.memory_types ('a,b') narrow what a run sees.
-- The key superseded_by is looked at when the transaction ends: the old record gives its place up before the new one takes it.
-- An agent run keeps the memory scope it was spawned with: a trigger refuses another.
-- Locks: brief, on agent_runs for its trigger. Reverse: drop the trigger, the tables, the function and the domains.
create domain concord.memory_scope as text constraint memory_scope_ck check (value in (
  'user', 'team', 'project', 'workspace', 'tenant', 'agent_role', 'workflow_type', 'global'));
create domain concord.memory_type as text constraint memory_type_ck check (value in (
  'preference', 'workflow_preference', 'business_rule', 'safety_rule', 'connector_hint', 'approval_routing', 'fact'));
create domain concord.memory_record_status as text constraint memory_record_status_ck check (value in (
  'active', 'superseded', 'expired', 'deleted'));
create domain concord.memory_candidate_status as text constraint memory_candidate_status_ck check (value in (
  'proposed', 'awaiting_approval', 'accepted', 'rejected', 'expired'));
-- A secret is no memory: the strictest class of data is absent here.
create domain concord.memory_sensitivity as text constraint memory_sensitivity_ck check (value in (
  'public', 'internal', 'confidential', 'pii', 'payment'));
create domain concord.confidence as numeric constraint confidence_ck check (value >= 0 and value <= 1);
create domain concord.memory_query_kind as text constraint memory_query_kind_ck check (value in (
  'id', 'subject', 'task_type', 'connector', 'semantic'));
create domain concord.memory_erasure_outcome as text constraint memory_erasure_outcome_ck check (value in ('erased', 'dropped'));

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
  sensitivity         concord.memory_sensitivity   not null default 'internal',
  schema_name         concord.filled_text,
  task_type           concord.filled_text,
  connector           concord.filled_text,
  memory_candidate_id uuid,
  constraint memory_records_pk primary key (memory_id),
  constraint memory_records_workspace_uq unique (workspace_id, memory_id),
  constraint memory_records_candidate_uq unique (memory_candidate_id, workspace_id),
  constraint memory_records_command_fk foreign key (workspace_id, command_id)
    references concord.commands (workspace_id, command_id),
  constraint memory_records_superseded_by_fk foreign key (workspace_id, superseded_by)
    references concord.memory_records (workspace_id, memory_id) deferrable initially deferred,
  constraint memory_records_superseded_ck check (case status when 'superseded' then superseded_by is not null
    when 'deleted' then true else superseded_by is null end),
  constraint memory_records_superseded_by_ck check (superseded_by <> memory_id),
  constraint memory_records_erased_ck check ((status = 'deleted') = (content = '{}'))
) with (fillfactor = 80);
-- The rule that code alone cannot keep: of any number of writers at once, one has the active record of a key.
create unique index memory_records_fact_uq on concord.memory_records (workspace_id, scope, subject_type, subject_id, fact_key)
  where status = 'active';
create index memory_records_subject_ix on concord.memory_records (subject_id, subject_type, workspace_id, created_at);
create index memory_records_task_type_ix on concord.memory_records (workspace_id, task_type) where status = 'active' and task_type is not null;
create index memory_records_connector_ix on concord.memory_records (workspace_id, connector) where status = 'active' and connector is not null;
create index memory_records_text_ix on concord.memory_records using gin (to_tsvector('simple'::regconfig, content::jsonb)) where status = 'active';
create index memory_records_expiry_ix on concord.memory_records (expires_at) where status = 'active' and expires_at is not null;
create index memory_records_command_ix on concord.memory_records (command_id);
create index memory_records_superseded_by_ix on concord.memory_records (superseded_by) where superseded_by is not null;
comment on column concord.memory_records.fact_key is 'What the fact is about, within its subject and scope; one active record each.';

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
  derived_from        uuid[]                          not null default '{}',
  supersedes          uuid,
  erased_at           concord.finite_time,
  constraint memory_candidates_pk primary key (memory_candidate_id),
  constraint memory_candidates_workspace_uq unique (workspace_id, memory_candidate_id),
  constraint memory_candidates_command_fk foreign key (workspace_id, command_id)
    references concord.commands (workspace_id, command_id),
  constraint memory_candidates_agent_run_fk foreign key (workspace_id, agent_run_id)
    references concord.agent_runs (workspace_id, agent_run_id),
  constraint memory_candidates_approval_fk foreign key (workspace_id, approval_id)
    references concord.approvals (workspace_id, approval_id),
  constraint memory_candidates_decided_at_ck check ((status in ('accepted', 'rejected')) = (decided_at is not null)),
  -- A candidate becomes a record only by being accepted, and being accepted is having become one.
  constraint memory_candidates_accepted_ck check ((status = 'accepted') = (memory_id is not null)),
  constraint memory_candidates_erased_ck check ((erased_at is not null) = (content = '{}'))
) with (fillfactor = 80);
create index memory_candidates_command_ix on concord.memory_candidates (command_id);
create index memory_candidates_subject_ix on concord.memory_candidates (subject_id, subject_type, workspace_id);
create index memory_candidates_derived_ix on concord.memory_candidates using gin (derived_from) where derived_from <> '{}';
create index memory_candidates_open_ix on concord.memory_candidates (workspace_id, created_at) where status in ('proposed', 'awaiting_approval');
alter table concord.memory_records add constraint memory_records_candidate_fk foreign key (workspace_id, memory_candidate_id)
  references concord.memory_candidates (workspace_id, memory_candidate_id);

create table concord.memory_derivations (
  workspace_id     uuid                not null,
  memory_id        uuid                not null,
  source_memory_id uuid                not null,
  created_at       concord.finite_time not null default now(),
  constraint memory_derivations_pk primary key (memory_id, source_memory_id),
  constraint memory_derivations_memory_fk foreign key (workspace_id, memory_id)
    references concord.memory_records (workspace_id, memory_id),
  constraint memory_derivations_source_fk foreign key (workspace_id, source_memory_id)
    references concord.memory_records (workspace_id, memory_id),
  constraint memory_derivations_self_ck check (memory_id <> source_memory_id)
);
create index memory_derivations_source_ix on concord.memory_derivations (source_memory_id);

create table concord.memory_embeddings (
  workspace_id uuid                not null,
  memory_id    uuid                not null,
  model        concord.filled_text not null,
  embedding    real[],
  created_at   concord.finite_time not null default now(),
  constraint memory_embeddings_pk primary key (memory_id, model),
  constraint memory_embeddings_memory_fk foreign key (workspace_id, memory_id)
    references concord.memory_records (workspace_id, memory_id),
  constraint memory_embeddings_embedding_ck check (cardinality(embedding) > 0)
);
create index memory_embeddings_model_ix on concord.memory_embeddings (workspace_id, model) where embedding is not null;
comment on column concord.memory_embeddings.embedding is 'Null: erased.';

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
  constraint memory_consents_pk primary key (memory_consent_id),
  constraint memory_consents_revoked_ck check ((revoked_at is null) = (revoked_by is null))
);
create unique index memory_consents_standing_uq on concord.memory_consents (workspace_id, subject_type, subject_id, memory_type, scope)
  where revoked_at is null;
create index memory_consents_subject_ix on concord.memory_consents (workspace_id, subject_type, subject_id);

create table concord.memory_reads (
  memory_read_id uuid                      not null,
  workspace_id   uuid                      not null,
  reader         concord.filled_text       not null,
  agent_run_id   uuid,
  query_kind     concord.memory_query_kind not null,
  memory_ids     uuid[]                    not null,
  trace_id       concord.filled_text       not null,
  read_at        concord.finite_time       not null default now(),
  constraint memory_reads_pk primary key (memory_read_id),
  constraint memory_reads_agent_run_fk foreign key (workspace_id, agent_run_id)
    references concord.agent_runs (workspace_id, agent_run_id)
);
create index memory_reads_workspace_ix on concord.memory_reads (workspace_id, read_at);
comment on table concord.memory_reads is 'Append-only: who got which memories, and how they were asked for; never what was asked.';

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
  constraint memory_holds_pk primary key (memory_hold_id),
  constraint memory_holds_released_ck check ((released_at is null) = (released_by is null))
);
create index memory_holds_subject_ix on concord.memory_holds (workspace_id, subject_type, subject_id) where released_at is null;

create table concord.memory_erasures (
  memory_erasure_id uuid                not null,
  workspace_id      uuid                not null,
  command_id        uuid                not null,
  subject_type      concord.filled_text not null,
  subject_id        concord.filled_text,
  subject_digest    concord.filled_text not null,
  requested_by      concord.filled_text not null,
  requested_at      concord.finite_time not null default now(),
  outcome           concord.memory_erasure_outcome,
  closed_at         concord.finite_time,
  certificate       concord.object_json,
  certificate_hash  concord.filled_text,
  constraint memory_erasures_pk primary key (memory_erasure_id),
  constraint memory_erasures_command_fk foreign key (workspace_id, command_id)
    references concord.commands (workspace_id, command_id),
  -- Whom it was about is known while it is open; afterwards only by someone who knows it already (the digest).
  constraint memory_erasures_closed_ck check ((outcome is null) = (closed_at is null) and (outcome is null) = (subject_id is not null)),
  constraint memory_erasures_certificate_ck check (
    (outcome is not distinct from 'erased') = (certificate is not null) and (certificate is null) = (certificate_hash is null))
);
create index memory_erasures_workspace_ix on concord.memory_erasures (workspace_id, requested_at);
create index memory_erasures_open_ix on concord.memory_erasures (command_id) where outcome is null;
comment on column concord.memory_erasures.certificate is 'What was erased: ids, digests and counts; never content.';

create function concord.refuse_rewrite() returns trigger
  language plpgsql set search_path = pg_catalog
as $refuse$
begin
  raise exception '%: % is written once', tg_table_name, tg_argv[0] using errcode = 'insufficient_privilege';
end
$refuse$;
create trigger memory_records_content_fixed before update of content on concord.memory_records
  for each row when (new.content is distinct from old.content and new.content <> '{}') execute function concord.refuse_rewrite('content');
create trigger memory_candidates_content_fixed before update of content on concord.memory_candidates
  for each row when (new.content is distinct from old.content and new.content <> '{}') execute function concord.refuse_rewrite('content');
create trigger agent_runs_memory_scope_fixed before update of memory_scope on concord.agent_runs
  for each row when (new.memory_scope is distinct from old.memory_scope) execute function concord.refuse_rewrite('memory_scope');

alter table concord.memory_records enable row level security, force row level security;
alter table concord.memory_candidates enable row level security, force row level security;
alter table concord.memory_derivations enable row level security, force row level security;
alter table concord.memory_embeddings enable row level security, force row level security;
alter table concord.memory_consents enable row level security, force row level security;
alter table concord.memory_reads enable row level security, force row level security;
alter table concord.memory_holds enable row level security, force row level security;
alter table concord.memory_erasures enable row level security, force row level security;
create policy memory_records_engine on concord.memory_records to concord_engine using (true) with check (true);
create policy memory_candidates_engine on concord.memory_candidates to concord_engine using (true) with check (true);
create policy memory_derivations_engine on concord.memory_derivations to concord_engine using (true) with check (true);
create policy memory_embeddings_engine on concord.memory_embeddings to concord_engine using (true) with check (true);
create policy memory_consents_engine on concord.memory_consents to concord_engine using (true) with check (true);
create policy memory_reads_engine on concord.memory_reads to concord_engine using (true) with check (true);
create policy memory_holds_engine on concord.memory_holds to concord_engine using (true) with check (true);
create policy memory_erasures_engine on concord.memory_erasures to concord_engine using (true) with check (true);
create policy memory_records_app on concord.memory_records to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid
    and coalesce(current_setting('concord.memory_subject', true), '') in ('', subject_type || ':' || subject_id)
    and (coalesce(current_setting('concord.memory_types', true), '') = ''
      or memory_type = any (string_to_array(current_setting('concord.memory_types', true), ','))))
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid
    and coalesce(current_setting('concord.memory_subject', true), '') in ('', subject_type || ':' || subject_id));
create policy memory_candidates_app on concord.memory_candidates to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid
    and coalesce(current_setting('concord.memory_subject', true), '') in ('', subject_type || ':' || subject_id))
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid
    and coalesce(current_setting('concord.memory_subject', true), '') in ('', subject_type || ':' || subject_id));
create policy memory_derivations_app on concord.memory_derivations to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy memory_embeddings_app on concord.memory_embeddings to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy memory_consents_app on concord.memory_consents to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy memory_reads_app on concord.memory_reads to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy memory_holds_app on concord.memory_holds to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy memory_erasures_app on concord.memory_erasures to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.memory_records, concord.memory_candidates, concord.memory_embeddings,
  concord.memory_consents, concord.memory_holds, concord.memory_erasures to concord_engine, concord_app;
grant select, insert on concord.memory_derivations, concord.memory_reads to concord_engine, concord_app;

-- down
drop trigger agent_runs_memory_scope_fixed on concord.agent_runs;
drop table concord.memory_erasures;
drop table concord.memory_holds;
drop table concord.memory_reads;
drop table concord.memory_consents;
drop table concord.memory_embeddings;
drop table concord.memory_derivations;
alter table concord.memory_records drop constraint memory_records_candidate_fk;
drop table concord.memory_candidates;
drop table concord.memory_records;
drop function concord.refuse_rewrite();
drop domain concord.memory_scope, concord.memory_type, concord.memory_record_status, concord.memory_candidate_status,
  concord.memory_sensitivity, concord.confidence, concord.memory_query_kind, concord.memory_erasure_outcome;
