-- 0013 connector_definitions: what a provider says about its own operations, as it was last seen and as a person approved it.
-- Why: a provider that describes itself (an MCP server) can change that description at any time; what was approved must
--   stand somewhere that the provider cannot reach, and every call is measured against it.
-- One row per operation and workspace. It is quarantined while seen_hash is not approved_hash.
-- Indexes: pk, which is also the list of a connector.
-- Locks: none (new table). Reverse: drop it.
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
  constraint connector_definitions_pk primary key (workspace_id, connector_name, operation),
  constraint connector_definitions_workspace_fk foreign key (workspace_id) references identity.workspaces (id),
  constraint connector_definitions_approved_ck check (
    num_nonnulls(approved_definition, approved_hash, approved_by, approved_at) in (0, 4))
);
comment on column concord.connector_definitions.seen_hash is 'sha256 of the canonical JSON of seen_definition.';
comment on column concord.connector_definitions.approved_by is 'The user who approved it.';

alter table concord.connector_definitions enable row level security, force row level security;
create policy connector_definitions_engine on concord.connector_definitions to concord_engine using (true) with check (true);
create policy connector_definitions_app on concord.connector_definitions to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.connector_definitions to concord_engine, concord_app;

-- down
drop table concord.connector_definitions;
