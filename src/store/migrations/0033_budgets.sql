-- 0033 budgets: accounts of cost in a tree, and the entries that explain every balance.
-- Why: a cap that is compared after a call is passed by every call that runs at the same time. A call reserves its worst case before it begins, in one
--   conditional statement, and the check of the table refuses whatever a statement forgets. The limit of a child is carved out of that of its parent.
--   An entry is written once, in the statement that changes the balance. Its key makes a repeat after a crash change nothing.
-- excess_units is what calls cost above their reservations. It is outside of the check, because it has been spent already; nothing can be reserved against it.
-- The costs and limits of all tables get the range of amounts: up to 999,999,999.999999, with six decimals.
-- Indexes: budget_accounts_command_ix for the accounts of a command, budget_accounts_parent_ix for the children of an account.
-- Both tables are ours. Locks: swarm_runs, for as long as one pass over it takes. Reverse: drop both, widen the ranges.
alter domain concord.cost_units drop constraint cost_units_ck;
alter domain concord.cost_units add constraint cost_units_ck check (value >= 0 and value <= 999999999.999999 and value = round(value, 6));
alter domain concord.cost_limit drop constraint cost_limit_ck;
alter domain concord.cost_limit add constraint cost_limit_ck check (value > 0 and value <= 999999999.999999 and value = round(value, 6));
-- What a call cost above its reservation has no bound: it is what a provider says.
create domain concord.cost_excess as numeric constraint cost_excess_ck check (value >= 0 and value < 'Infinity' and value = round(value, 6));
create domain concord.cost_change as numeric constraint cost_change_ck check (
  value > '-Infinity' and value < 'Infinity' and value = round(value, 6));
create domain concord.budget_entry_kind as text constraint budget_entry_kind_ck check (value in (
  'opened', 'carved', 'reserved', 'settled', 'raised', 'closed', 'returned'));

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
  constraint budget_accounts_pk primary key (account_id, workspace_id),
  constraint budget_accounts_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint budget_accounts_parent_fk foreign key (parent_account_id, workspace_id)
    references concord.budget_accounts (account_id, workspace_id),
  constraint budget_accounts_self_ck check (parent_account_id <> account_id),
  constraint budget_accounts_limit_ck check (reserved_units + spent_units + carved_units <= limit_units),
  constraint budget_accounts_closed_ck check (closed_at is null or reserved_units + carved_units = 0)
) with (fillfactor = 70);
create index budget_accounts_command_ix on concord.budget_accounts (command_id);
create index budget_accounts_parent_ix on concord.budget_accounts (parent_account_id) where parent_account_id is not null;
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
  constraint budget_entries_pk primary key (account_id, workspace_id, kind, key),
  constraint budget_entries_account_fk foreign key (account_id, workspace_id) references concord.budget_accounts (account_id, workspace_id)
);
comment on table concord.budget_entries is 'Append-only: every change of an account, in the statement of the change. Their sums are its balances.';

alter table concord.budget_accounts enable row level security, force row level security;
alter table concord.budget_entries enable row level security, force row level security;
create policy budget_accounts_engine on concord.budget_accounts to concord_engine using (true) with check (true);
create policy budget_entries_engine on concord.budget_entries to concord_engine using (true) with check (true);
create policy budget_accounts_app on concord.budget_accounts to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy budget_entries_app on concord.budget_entries to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.budget_accounts to concord_engine, concord_app;
grant select, insert on concord.budget_entries to concord_engine, concord_app;
create trigger budget_entries_append_only before update or delete or truncate on concord.budget_entries
  for each statement execute function concord.refuse_change();
alter table concord.budget_entries enable always trigger budget_entries_append_only;

-- down
drop table concord.budget_entries;
drop table concord.budget_accounts;
drop domain concord.cost_change, concord.cost_excess, concord.budget_entry_kind;
alter domain concord.cost_units drop constraint cost_units_ck;
alter domain concord.cost_units add constraint cost_units_ck check (value >= 0 and value < 'Infinity');
alter domain concord.cost_limit drop constraint cost_limit_ck;
alter domain concord.cost_limit add constraint cost_limit_ck check (value > 0 and value < 'Infinity');
