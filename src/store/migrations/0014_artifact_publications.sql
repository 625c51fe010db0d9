-- 0014 artifact_publications: every place where an artifact is published, not the last one alone.
-- Why: one artifact goes to several places, each by its own command and its own approval, and each is taken back on its own.
--   `published_to` stays the newest of them. A list in the row, because a publication is written with the move of the row and read
--   with it, and a row has a handful.
-- `publications` is JSON by contract: [{ destination, command_id, domain_effect_id, published_at }], what stands now; what once
--   stood is in the events. Rows from before know their place alone.
-- Locks: the table, for adding the column and filling it in the published rows. Reverse: drop the column.
alter table concord.artifacts add column publications concord.list_json not null default '[]';
update concord.artifacts set publications = jsonb_build_array(jsonb_build_object(
  'destination', published_to, 'command_id', null, 'domain_effect_id', null, 'published_at', null))
where status = 'published';
comment on column concord.artifacts.publications is 'Where it is published now: destination, command, effect and time of each.';

-- down
alter table concord.artifacts drop column publications;
