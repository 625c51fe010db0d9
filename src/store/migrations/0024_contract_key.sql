-- 0024 contract_key: the key of the contract next to the key of the caller.
-- Why: one column held either of them, so a caller's own key switched the contract's key off, and one invoice was paid three times. The caller's
--   key names the request, the contract's key names the thing done. Each is unique in its workspace on its own.
-- contract_key is null where the contract makes none, and after a command has ended with nothing done that stands: the thing can be asked for again.
-- Rows from before: it is not recorded which keys a template made. Every key without the prefix of a webhook, a schedule or an agent is
--   copied and also stays where it was, so both a repeated request and a second request for the same thing find their command. The keys of commands that
--   ended with nothing done that stands are not copied.
-- Index: partial, so a command whose contract makes no key has no entry. The insert of a command and every change of its key are decided by it; a
--   request whose key is taken finds the holder by it.
-- Locks: commands, for as long as the copy takes (about 3 s for 100,000 commands with a key). Reverse: a key goes back where none was sent.
alter table concord.commands add column contract_key concord.filled_text;
comment on column concord.commands.contract_key is 'Names the thing done, made by the template of the contract; unique per workspace. Null: none, or free again.';

-- The owner of the table may not be a member of the role that sees all rows.
alter table concord.commands no force row level security;
alter table concord.domain_effects no force row level security;
update concord.commands as c set contract_key = c.idempotency_key
where c.idempotency_key is not null and c.idempotency_key !~ '^(webhook|schedule|agent):'
  and (c.completed_at is null or c.status = 'succeeded' or exists (
    select from concord.domain_effects as e
    where e.command_id = c.command_id and e.compensates_effect_id is null and e.effect_type not in ('approval.request', 'user.request_input')
      and (e.status = 'executing' or (e.status = 'failed' and e.read_back ? 'command_id')
        or (e.status = 'succeeded' and e.reversibility is distinct from 'reversible' and not exists (
          select from concord.domain_effects as u where u.compensates_effect_id = e.domain_effect_id and u.status = 'succeeded')))));
alter table concord.domain_effects force row level security;
alter table concord.commands force row level security;

create unique index commands_contract_key_uq on concord.commands (contract_key, workspace_id) where contract_key is not null;
alter table concord.commands drop constraint commands_request_fingerprint_ck;
alter table concord.commands add constraint commands_request_fingerprint_ck
  check (coalesce(idempotency_key, contract_key) is null or request_fingerprint is not null);

-- down
alter table concord.commands drop constraint commands_request_fingerprint_ck;
alter table concord.commands add constraint commands_request_fingerprint_ck
  check (idempotency_key is null or request_fingerprint is not null);
alter table concord.commands no force row level security;
update concord.commands as c set idempotency_key = c.contract_key
where c.idempotency_key is null and c.contract_key is not null
  and not exists (select from concord.commands as o where o.idempotency_key = c.contract_key and o.workspace_id = c.workspace_id);
alter table concord.commands force row level security;
drop index concord.commands_contract_key_uq;
alter table concord.commands drop column contract_key;
