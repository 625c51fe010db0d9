-- 0021 agent_keys: a key can be an agent's, and only persons decide approvals.
-- Why: an agent acts for a person and must not decide in that person's name. The key says which agent it is and which tasks it may propose.
--   An approval keeps the key of its last vote and points to it together with `is_agent`, so a vote with the key of an agent breaks a
--   foreign key, whatever the code does. A voter is a person by the form of its name.
-- Additions to the printed tables: approvals.vote_key_id, vote_key_is_agent. api_keys is ours.
-- Indexes: api_keys_agent_uq is the target of that foreign key. Nothing looks approvals up by key, and no key is deleted.
-- Locks: api_keys is rewritten (one row per key); short exclusive locks on approvals, and one pass over it. Reverse: drop the columns.
alter table identity.api_keys
  add column agent text,
  add column tools text[],
  add column is_agent boolean not null generated always as (agent is not null) stored,
  add constraint api_keys_agent_ck check (
    agent <> '' and (agent is null) = (tools is null)
    and (agent is null or (cardinality(tools) > 0 and role <> 'admin' and not is_invitation))),
  add constraint api_keys_agent_uq unique (id, is_agent);
comment on column identity.api_keys.agent is 'Name of the agent that holds the key; null: the person holds it.';
comment on column identity.api_keys.tools is 'Tasks that the agent may propose.';

alter table concord.approvals
  add column vote_key_id uuid,
  add column vote_key_is_agent boolean not null default false,
  add constraint approvals_vote_key_ck check (not vote_key_is_agent),
  add constraint approvals_vote_key_fk foreign key (vote_key_id, vote_key_is_agent) references identity.api_keys (id, is_agent),
  add constraint approvals_voters_ck check (array_to_string(approved_by, ',') ~ '^(user:[^,]+(,|$))*$');
comment on column concord.approvals.vote_key_id is 'Key of the last vote; null for a token of the identity provider.';
alter domain concord.decider drop constraint decider_ck;
alter domain concord.decider add constraint decider_ck check (value like 'user:_%');

-- down
alter domain concord.decider drop constraint decider_ck;
alter domain concord.decider add constraint decider_ck check (value <> '' and value not like 'agent:%');
alter table concord.approvals drop constraint approvals_voters_ck, drop column vote_key_is_agent, drop column vote_key_id;
alter table identity.api_keys drop column is_agent, drop column tools, drop column agent;
