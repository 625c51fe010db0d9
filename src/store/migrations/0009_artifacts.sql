-- 0009 artifacts: a thing that work produced, as a row that points at its content.
-- Why: results are looked up, published, replaced and traced long after the command that made them has ended; the content itself
--   lies in a blob store under its SHA-256, and only small texts stand in the row, as a data: URI.
-- Additions to the printed table: workspace_id; domain_effect_id (the effect whose outcome was recorded with the row);
--   content_type and size_bytes (how to hand it out without opening it); visibility; published_to; superseded_by (the next
--   version); retain_until and hold_reason (when its content may go, and why it may not).
-- `lineage` is JSON by contract: { command_id, effect_id?, agent_run_id?, swarm_run_id?, sources: [{ kind, id }] }. The path-ops
--   index answers "what was made from this" by containment; a b-tree over an edge table would be a second truth.
-- The database repeats what must never break: content has a checksum of the form sha256:…, a removed content is only in the
--   archive, a held row is not archived, nothing replaces itself.
-- Locks: none (new table). Reverse: drop it.
create domain concord.artifact_status as text constraint artifact_status_ck check (value in (
  'draft', 'ready', 'published', 'unpublished', 'superseded', 'cancelled', 'archived'));
create domain concord.artifact_visibility as text constraint artifact_visibility_ck check (value in ('private', 'workspace'));
create domain concord.artifact_location as text constraint artifact_location_ck check (
  value ~ '^(disk|s3|removed):[0-9a-f]{64}$' or (value like 'data:%' and octet_length(value) <= 16384));
create domain concord.content_checksum as text constraint content_checksum_ck check (value ~ '^sha256:[0-9a-f]{64}$');

create table concord.artifacts (
  artifact_id      uuid                        not null,
  command_id       uuid                        not null,
  artifact_type    concord.filled_text         not null,
  location         concord.artifact_location   not null,
  version          concord.count_from_one      not null default 1,
  status           concord.artifact_status     not null,
  metadata         concord.object_json         not null default '{}',
  lineage          concord.object_json         not null default '{}',
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
  visibility       concord.artifact_visibility not null default 'workspace',
  published_to     concord.filled_text,
  superseded_by    uuid,
  retain_until     concord.finite_time,
  hold_reason      concord.filled_text,
  constraint artifacts_pk primary key (artifact_id),
  constraint artifacts_workspace_uq unique (workspace_id, artifact_id),
  constraint artifacts_idempotency_key_uq unique (idempotency_key, workspace_id),
  constraint artifacts_superseded_by_uq unique (superseded_by, workspace_id),
  constraint artifacts_command_fk foreign key (workspace_id, command_id)
    references concord.commands (workspace_id, command_id),
  constraint artifacts_domain_effect_fk foreign key (workspace_id, domain_effect_id)
    references concord.domain_effects (workspace_id, domain_effect_id),
  constraint artifacts_agent_run_fk foreign key (workspace_id, agent_run_id)
    references concord.agent_runs (workspace_id, agent_run_id),
  constraint artifacts_swarm_run_fk foreign key (workspace_id, swarm_run_id)
    references concord.swarm_runs (workspace_id, swarm_run_id),
  constraint artifacts_superseded_by_fk foreign key (workspace_id, superseded_by)
    references concord.artifacts (workspace_id, artifact_id),
  constraint artifacts_superseded_by_ck check (superseded_by <> artifact_id),
  constraint artifacts_superseded_ck check (status <> 'superseded' or superseded_by is not null),
  constraint artifacts_published_to_ck check (status <> 'published' or published_to is not null),
  constraint artifacts_held_ck check (status <> 'archived' or hold_reason is null),
  constraint artifacts_removed_ck check (status = 'archived' or location not like 'removed:%')
) with (fillfactor = 80);
-- The list of a workspace, newest first; what retention has taken is listed only when it is asked for. Partial, so that no check of a
-- reference can mistake them for its target.
create index artifacts_list_ix on concord.artifacts (workspace_id, created_at desc, artifact_id desc) where status <> 'archived';
create index artifacts_archive_ix on concord.artifacts (workspace_id, created_at desc, artifact_id desc) where status = 'archived';
create index artifacts_command_ix on concord.artifacts (command_id);
create index artifacts_swarm_ix on concord.artifacts (swarm_run_id) where swarm_run_id is not null;
-- The sweep of blobs asks "does any row still need this content"; two workspaces may share one blob.
create index artifacts_location_ix on concord.artifacts (location) where location not like 'data:%';
create index artifacts_lineage_ix on concord.artifacts using gin (lineage jsonb_path_ops);
-- The retention sweep looks at rows with an end only, and an archived row is done with.
create index artifacts_retention_ix on concord.artifacts (retain_until) where retain_until is not null and status <> 'archived';
comment on column concord.artifacts.location is 'disk:<sha-256>, s3:<sha-256>, a data: URI of a small text, or removed:<sha-256> after retention.';
comment on column concord.artifacts.lineage is 'The command, effect and runs it came from, and its sources by kind and id.';
comment on column concord.artifacts.hold_reason is 'While set, retention does not touch the row.';

alter table concord.artifacts enable row level security, force row level security;
create policy artifacts_engine on concord.artifacts to concord_engine using (true) with check (true);
create policy artifacts_app on concord.artifacts to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.artifacts to concord_engine, concord_app;

-- down
drop table concord.artifacts;
drop domain concord.artifact_status, concord.artifact_visibility, concord.artifact_location, concord.content_checksum;
